//! `convoy run`.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use convoy_gateway::config::Config;
use convoy_gateway::control::ControlServer;
use convoy_gateway::notify::{self, Progress};
use convoy_gateway::run::{self, Gateway, Load, Order};
use convoy_gateway::supervise;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::Failure;
use crate::args::RunArgs;
use crate::check::load;
use crate::summary::Summary;

pub(crate) fn run(args: &RunArgs) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(error.to_string());
    let config = load(&args.config)?;
    warn(&config);
    if config.ports.is_empty() {
        let what = "there is no [[port]]; a gateway needs one inside and one outside";
        return Err(Failure::Config(format!("{}: error: {what}", args.config.display())));
    }
    let (control, metrics) = (config.control.clone(), config.metrics);
    let (orders, received) = channel();
    // Before the gateway gives up the right to a port below 1024.
    let metrics = match metrics {
        Some(address) => Some(
            convoy_gateway::metrics::bind(address)
                .map_err(|error| Failure::Failed(format!("metrics on {address}: {error}")))?,
        ),
        None => None,
    };
    let summary = Summary::of(&args.config, &config);
    let mut gateway =
        Gateway::start(config, |text| tracing::warn!("{text}")).map_err(|error| failed(&error))?;
    let path = args.config.clone();
    let load: Load = Arc::new(move || Config::load(&path).map(Box::new).map_err(|errors| errors.to_string()));
    let _server = ControlServer::start(&control, Arc::clone(&load), orders.clone())
        .map_err(|error| Failure::Failed(format!("control socket {}: {error}", control.display())))?;
    if let Some(listener) = metrics {
        convoy_gateway::metrics::serve(listener, orders.clone())
            .map_err(|error| Failure::Failed(format!("metrics: {error}")))?;
    }
    listen_to_signals(load, orders).map_err(|error| Failure::Failed(format!("signals: {error}")))?;
    summary.log(&gateway.snapshot());
    tracing::info!("the MTU inside is {}", gateway.inner_mtu());
    tracing::info!("ready");
    tell_manager(Progress::Ready);
    gateway.work(&received).map_err(|error| failed(&error))?;
    tracing::info!("stopped");
    Ok(())
}

/// Logs what is hardly meant so.
fn warn(config: &Config) {
    config.warnings.iter().for_each(|warning| tracing::warn!("{}", warning.in_one_line()));
}

/// The gateway goes on if its service manager is deaf, which then ends it or not.
fn tell_manager(progress: Progress) {
    if let Err(error) = notify::tell(progress) {
        tracing::warn!("the service manager cannot be told ({progress:?}): {error}");
    }
}

/// SIGTERM and SIGINT drain and stop, SIGHUP reloads.
fn listen_to_signals(load: Load, orders: Sender<Order>) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    supervise::spawn("signals", orders.clone(), move || {
        for signal in signals.forever() {
            if signal == SIGHUP {
                // What comes of it is in the log.
                let _ = run::reload(&load, &orders, Box::new(drop));
                continue;
            }
            tell_manager(Progress::Stopping);
            if orders.send(Order::Stop).is_err() {
                break;
            }
        }
    })?;
    Ok(())
}
