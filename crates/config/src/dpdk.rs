//! `[dpdk]`.

use convoy_settings::Checker;

use super::file::Dpdk;

const KEY: &str = "dpdk.arguments";

/// EAL's arguments; DPDK checks their meaning at start. Those after which it ends the process with
/// success are refused.
pub(super) fn dpdk(c: &mut Checker<'_>, file: &Dpdk) -> Option<Vec<String>> {
    let written = file.arguments.as_ref()?.get_ref();
    let arguments: Vec<String> = written.iter().map(|argument| argument.get_ref().clone()).collect();
    // Arguments behind `--` are not EAL's.
    for (at, argument) in arguments.iter().enumerate().take_while(|(_, argument)| *argument != "--") {
        if ends_the_process(argument, arguments.get(at + 1)) {
            let what = format!("DPDK prints a help text for {argument:?} and ends the gateway; remove it");
            c.add(&written[at].span(), KEY, what);
        }
    }
    Some(arguments)
}

/// Whether EAL, given this argument before the `next` one, prints a help text and calls exit(3)
/// with status 0.
fn ends_the_process(argument: &str, next: Option<&String>) -> bool {
    // Long options may be abbreviated, as getopt_long(3) allows.
    let is_cut = |whole: &str, least: &str, name: &str| name.starts_with(least) && whole.starts_with(name);
    match (argument.split_once('='), next) {
        (Some((name, value)), _) if name.starts_with("--") => {
            is_cut("--log-level", "--log", name) && value == "help"
        }
        (None, Some(next)) if is_cut("--log-level", "--log", argument) => next == "help",
        // One-letter options may be combined; `v` is the only other one without a value.
        _ if !argument.starts_with("--") => {
            argument.strip_prefix('-').is_some_and(|letters| letters.trim_start_matches('v').starts_with('h'))
        }
        _ => is_cut("--help", "--he", argument),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_for_which_dpdk_prints_help_and_exits_are_distinguished_from_others() {
        let ends = |argument: &str, next: &str| ends_the_process(argument, Some(&next.to_owned()));
        for argument in ["-h", "-vh", "-hv", "--help", "--he", "--log-level=help", "--log=help"] {
            assert!(ends(argument, "--no-pci"), "{argument}");
        }
        assert!(ends("--log-level", "help") && !ends("--log-level", "8") && !ends("--log-level=8", "help"));
        for argument in ["-v", "-dh", "-l", "--huge-dir", "--huge-dir=help", "h", "help", "-", "--no-huge"] {
            assert!(!ends(argument, "help"), "{argument}");
        }
        assert!(ends_the_process("-h", None) && !ends_the_process("--log-level", None));
    }
}
