//! The monitors of a gateway: those of its configuration, made and followed.

use std::collections::HashMap;
use std::sync::Arc;

use convoy_config::{Config, MonitorConfig};
use convoy_dataplane::monitor::{Means, Monitor, MonitorState, MonitorVerdict, Monitors, Probe};
use convoy_report::events::{Events, What};
use convoy_report::snapshot::MonitorRow;
use rand::Rng;

/// All monitors of a gateway, and how many workers send their probes.
#[derive(Clone, Default)]
pub(crate) struct AllMonitors {
    shared: Monitors,
    workers: u16,
}

impl AllMonitors {
    /// The monitors of a configuration; those that `before` has go on.
    pub(crate) fn of(config: &Config, before: &Self) -> Self {
        let known: HashMap<&str, &Arc<Monitor>> =
            before.shared.iter().map(|monitor| (monitor.probe().tunnel.as_str(), monitor)).collect();
        let of_one = |monitor: &MonitorConfig| {
            let probe = probe(config, monitor);
            let same = known.get(monitor.tunnel.as_str()).filter(|known| *known.probe() == probe);
            same.map_or_else(
                || Arc::new(Monitor::new(probe.clone(), rand::rng().next_u64())),
                |known| Arc::clone(known),
            )
        };
        Self { shared: Monitors::new(config.monitors.iter().map(of_one)), workers: config.workers }
    }

    /// All of them, for a worker that takes their answers.
    pub(crate) fn shared(&self) -> Monitors {
        self.shared.clone()
    }

    /// Those whose probes a worker may send: its share of those by ping, whose packets go to
    /// whichever worker has the SA, and all by echo, of which it sends those of its own SAs.
    pub(crate) fn of_worker(&self, worker: u16) -> Vec<Arc<Monitor>> {
        let workers = usize::from(self.workers.max(1));
        let sends = |(place, monitor): &(usize, &Arc<Monitor>)| {
            monitor.probe().means == Means::Echo || place % workers == usize::from(worker)
        };
        self.shared.iter().enumerate().filter(sends).map(|(_, monitor)| Arc::clone(monitor)).collect()
    }

    /// How all stand, in the order of the configuration.
    pub(crate) fn rows(&self, now_ns: u64) -> Vec<MonitorRow> {
        self.shared.iter().map(|monitor| row(monitor, now_ns)).collect()
    }
}

fn probe(config: &Config, monitor: &MonitorConfig) -> Probe {
    let MonitorConfig { tunnel, interface, means, interval, lost_after } = monitor;
    Probe {
        tunnel: tunnel.clone(),
        interface: config.interface_number(interface.as_deref()).unwrap_or(0),
        means: *means,
        interval_ns: interval.as_nanos() as u64,
        lost_after_ns: lost_after.as_nanos() as u64,
    }
}

fn row(monitor: &Monitor, now_ns: u64) -> MonitorRow {
    let Probe { tunnel, means, interval_ns, .. } = monitor.probe();
    let MonitorState { verdict, answered_ns, round_trip_ns, recent, unanswered } = monitor.state(now_ns);
    let (ping, source) = match means {
        Means::Ping { source, target } => (target.to_string(), source.to_string()),
        Means::Echo => (String::new(), String::new()),
    };
    MonitorRow {
        tunnel: tunnel.clone(),
        ping,
        source,
        interval_s: *interval_ns as f64 * 1e-9,
        state: match verdict {
            MonitorVerdict::Unknown => "unknown",
            MonitorVerdict::Answered => "answered",
            MonitorVerdict::Lost => "lost",
        }
        .to_owned(),
        answered_s: answered_ns.map(|at_ns| now_ns.saturating_sub(at_ns) as f64 * 1e-9),
        round_trip_s: round_trip_ns.map(|trip_ns| trip_ns as f64 * 1e-9),
        recent,
        unanswered,
    }
}

/// Reports that the probes of a tunnel are answered from now on, or no longer.
pub(crate) fn report(events: &Events, monitor: &Monitor, verdict: MonitorVerdict) {
    let Probe { tunnel, means, lost_after_ns, .. } = monitor.probe();
    let (who, probes) = match means {
        Means::Ping { source, target } => (target.to_string(), format!("pings from {source}")),
        Means::Echo => ("the peer".to_owned(), "ESP echoes".to_owned()),
    };
    let name = tunnel.clone();
    match verdict {
        MonitorVerdict::Answered => {
            let message = format!("tunnel {tunnel}: {who} answers {probes}");
            events.tell(What::ProbesAnswered { tunnel: name }, message);
        }
        MonitorVerdict::Lost => {
            let ms = lost_after_ns / 1_000_000;
            let message = format!(
                "tunnel {tunnel}: {who} has not answered {probes} for {ms} ms; the path or {who} is down"
            );
            events.tell(What::ProbesLost { tunnel: name }, message);
        }
        MonitorVerdict::Unknown => {}
    }
}

/// Whether the echoes through an interface are answered, as far as known: those of one of its
/// monitors, or it has none.
pub(crate) fn is_answered<'a>(
    monitors: impl Iterator<Item = &'a Monitor>,
    interface: u16,
    now_ns: u64,
) -> bool {
    let mut of_interface = monitors.filter(|monitor| follows(monitor) == Some(interface)).peekable();
    let is_lost = |monitor: &Monitor| monitor.state(now_ns).verdict == MonitorVerdict::Lost;
    of_interface.peek().is_none() || !of_interface.all(is_lost)
}

/// The interface whose link follows a monitor. Pings do not count: two gateways whose hosts are
/// pinged by each other, each without a link, would wait for each other for ever.
pub(crate) fn follows(monitor: &Monitor) -> Option<u16> {
    let Probe { means, interface, .. } = monitor.probe();
    (*means == Means::Echo && *interface != 0).then_some(*interface)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = include_str!("../../config/src/tests/monitored.toml");

    fn all(text: &str, before: &AllMonitors) -> AllMonitors {
        AllMonitors::of(&Config::parse("a.toml", text).expect("good"), before)
    }

    fn first(all: &AllMonitors) -> Arc<Monitor> {
        Arc::clone(all.shared.iter().next().expect("one"))
    }

    #[test]
    fn unchanged_monitors_go_on_after_a_reload() {
        let before = all(FILE, &AllMonitors::default());
        let same = all(FILE, &before);
        let changed = all(&FILE.replace("interval_ms = 100", "interval_ms = 200"), &before);
        assert!(Arc::ptr_eq(&first(&before), &first(&same)));
        assert!(!Arc::ptr_eq(&first(&before), &first(&changed)));
        let rows = changed.rows(0);
        assert_eq!((rows[0].tunnel.as_str(), rows[0].state.as_str()), ("site-b", "unknown"));
        assert_eq!((rows[0].ping.as_str(), rows[0].source.as_str()), ("10.2.0.1", "10.1.0.1"));
        assert!((rows[0].interval_s - 0.2).abs() < 1e-9 && rows[0].answered_s.is_none());
    }

    #[test]
    fn pings_are_sent_by_one_worker_and_echoes_by_that_of_the_sa() {
        let count = |text: &str| {
            let all = AllMonitors { workers: 3, ..all(text, &AllMonitors::default()) };
            [0, 1, 2].map(|worker| all.of_worker(worker).len())
        };
        assert_eq!(count(FILE), [1, 0, 0]);
        assert_eq!(count(&FILE.replace("ping = \"10.2.0.1\"", "echo = true")), [1, 1, 1]);
    }

    #[test]
    fn a_link_follows_echoes_and_not_pings() {
        let interface = "[[interface]]\nname = \"ipsec-b\"\n[[tunnel]]\ninterface = \"ipsec-b\"\n";
        let routed = FILE.replace("[[tunnel]]\n", interface);
        let echoed = routed.replace("ping = \"10.2.0.1\"", "echo = true");
        let lost = |text: &str| {
            let all = all(text, &AllMonitors::default());
            let monitor = first(&all);
            monitor.next(0);
            assert_eq!(monitor.look(u64::MAX), Some(MonitorVerdict::Lost));
            is_answered(std::iter::once(&*monitor), 1, u64::MAX)
        };
        assert!(lost(&routed) && !lost(&echoed) && lost(FILE));
    }
}
