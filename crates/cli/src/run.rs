//! `convoy run`.

use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};

use convoy_gateway::config::Config;
use convoy_gateway::control::ControlServer;
use convoy_gateway::notify::{self, Progress};
use convoy_gateway::run::{Gateway, Order};
use convoy_gateway::supervise;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::Failure;
use crate::args::RunArgs;
use crate::check::load;

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
    let mut gateway =
        Gateway::start(config, |text| tracing::warn!("{text}")).map_err(|error| failed(&error))?;
    let _server = ControlServer::start(&control, orders.clone())
        .map_err(|error| Failure::Failed(format!("control socket {}: {error}", control.display())))?;
    if let Some(listener) = metrics {
        convoy_gateway::metrics::serve(listener, orders.clone())
            .map_err(|error| Failure::Failed(format!("metrics: {error}")))?;
    }
    listen_to_signals(args.config.clone(), orders)
        .map_err(|error| Failure::Failed(format!("signals: {error}")))?;
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
fn listen_to_signals(path: PathBuf, orders: Sender<Order>) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    supervise::spawn("signals", orders.clone(), move || {
        for signal in signals.forever() {
            let order = match signal {
                SIGHUP => match Config::load(&path) {
                    Ok(config) => {
                        warn(&config);
                        Order::Reload(Box::new(config))
                    }
                    Err(errors) => {
                        tracing::error!("reload: the configuration stays as it was:\n{errors}");
                        continue;
                    }
                },
                _ => {
                    tell_manager(Progress::Stopping);
                    Order::Stop
                }
            };
            if orders.send(order).is_err() {
                break;
            }
        }
    })?;
    Ok(())
}
