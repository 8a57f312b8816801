//! Whether every worker has SAs.

use convoy_settings::Checker;
use toml::Spanned;

use super::Config;

/// Warns of more workers than pairs of SAs: one without any only reads packets for the others
/// (`docs/results/cycles.md`, two workers).
pub(super) fn workers_have_sas(c: &mut Checker<'_>, workers: Option<&Spanned<u16>>, config: &Config) {
    let pairs: usize = config.tunnels.iter().map(|tunnel| tunnel.manual.len()).sum();
    // How many charon will install is not known.
    let is_known = config.charon.is_none() && pairs > 0;
    if let Some(workers) = workers.filter(|workers| is_known && pairs < usize::from(*workers.get_ref())) {
        let noun = if pairs == 1 { "pair" } else { "pairs" };
        let what = format!(
            "the tunnels have {pairs} {noun} of SAs, and a worker without SAs only passes packets on: two workers \
             with one pair carried 1.07 to 1.11 times what one did, and twice as much with two; set \
             workers = {pairs}, or `resources` in [tunnel.manual] at both ends"
        );
        c.warn(&workers.span(), "gateway.workers", what);
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    fn warnings(workers: u16, resources: u16) -> Vec<String> {
        let text = format!(
            "[gateway]\nworkers = {workers}\n[[tunnel]]\nname = \"a\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n\
             local_ts = [\"10.1.0.0/24\"]\nremote_ts = [\"10.2.0.0/24\"]\nesp_proposal = \"aes128gcm16\"\n\
             [tunnel.manual]\nspi_in = 0x1001\nspi_out = 0x1002\nkey_in = \"{}\"\nkey_out = \"{}\"\n\
             resources = {resources}\n",
            "11".repeat(20),
            "22".repeat(20),
        );
        let config = Config::parse("a.toml", &text).unwrap_or_else(|errors| panic!("{errors}"));
        let about_workers = config.warnings.into_iter().filter(|problem| problem.key == "gateway.workers");
        about_workers.map(|problem| problem.what).collect()
    }

    #[test]
    fn workers_without_sas_are_warned_of() {
        let [warning] = &warnings(2, 1)[..] else { panic!("no warning") };
        assert!(warning.starts_with("the tunnels have 1 pair of SAs"), "{warning}");
        assert!(warnings(3, 2)[0].contains("set workers = 2, or `resources`"));
        assert!(warnings(1, 1).is_empty() && warnings(2, 2).is_empty());
    }
}
