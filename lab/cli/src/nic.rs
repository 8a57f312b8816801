//! `convoy-lab nic`.

use convoy_cli::Failure;
use convoy_nic::NicConfig;

use crate::args::NicArgs;

pub(crate) fn run(args: &NicArgs) -> Result<(), Failure> {
    let config = NicConfig::load(&args.config).map_err(Failure::Problems)?;
    config.warnings.iter().for_each(convoy_config::log);
    pass(&config)
}

#[cfg(not(feature = "card"))]
fn pass(_: &NicConfig) -> Result<(), Failure> {
    let reason =
        "this program was built without the card; build it with --features card (docs/lab/devices.md)";
    Err(Failure::Failed(reason.to_owned()))
}

#[cfg(feature = "card")]
fn pass(config: &NicConfig) -> Result<(), Failure> {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use convoy_host::privileges::{self, Account};
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::low_level::pipe;

    let failed = |error: &dyn std::fmt::Display| Failure::Failed(error.to_string());
    let (stop, reported) = UnixStream::pair().map_err(|error| failed(&error))?;
    for signal in [SIGINT, SIGTERM] {
        let reported = reported.try_clone().map_err(|error| failed(&error))?;
        pipe::register(signal, reported).map_err(|error| failed(&error))?;
    }
    let (account, warning) = Account::find(None).map_err(|error| failed(&error))?;
    warning.into_iter().for_each(|warning| tracing::warn!("{warning}"));
    let mut nic = convoy_nic::NicInterface::open(config).map_err(|error| failed(&error))?;
    if let Err(error) = privileges::lock_memory() {
        tracing::warn!("{error}");
    }
    // The card's thread begins later, and inherits what is left.
    privileges::give_up(account.as_ref()).map_err(|error| failed(&error))?;
    for tunnel in nic.start(config).map_err(|error| failed(&error))? {
        tracing::warn!("the card does not support tunnel {tunnel}: software processes its packets");
    }
    tracing::info!("ready: {} over {}", config.device, config.interface);
    let ended = nic.run(stop.as_fd());
    tell(&nic.totals());
    ended.map_err(|error| failed(&error))
}

#[cfg(feature = "card")]
fn tell(totals: &convoy_nic::NicTotals) {
    let card = &totals.card;
    tracing::info!(
        "encrypted {}, decrypted {}, unchanged {} out and {} in, by software {}",
        card.sealed,
        card.opened,
        card.raw,
        card.passed,
        totals.by_software
    );
    let by_card = [
        ("wrong_icv", card.wrong_icv),
        ("malformed", card.malformed),
        ("refused", card.refused),
        ("overrun", card.overrun),
        ("lost", card.lost),
        ("wrong_ip_checksum", card.wrong_ip_checksum),
        ("line_errors", card.line_errors),
    ];
    let met = by_card.iter().filter(|(_, count)| *count > 0);
    met.for_each(|(reason, count)| tracing::info!("dropped by the card, {reason}: {count}"));
    totals.drops.iter().for_each(|(reason, count)| tracing::info!("dropped, {reason}: {count}"));
}
