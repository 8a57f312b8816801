//! What a worker's thread tells the operator: events of engines, SAs and paths, and dropped
//! packets.

use convoy_dataplane::pipeline::EngineEvent;
use convoy_dataplane::worker::WorkerEvent;
use convoy_ipsec::{DropCounters, Expiry, LifetimeEvent, PathChange, TunnelId};
use convoy_report::events::{EventSa, Events, What};
use convoy_report::snapshot;
use convoy_report::survey::{Survey, Surveyed};

use super::WorkerThread;

impl WorkerThread {
    /// Tells what happened since the last call.
    pub(super) fn tell_events(&mut self, events: &Events) {
        let worker = self.tables().worker();
        self.climbs.drain(..).for_each(|climb| events.dropped(&climb));
        for event in self.worker.take_events() {
            match event {
                WorkerEvent::Engine(event) => {
                    let message = event.to_string();
                    let what = match event {
                        EngineEvent::Quarantined { engine, reason } => {
                            What::EngineOut { engine, worker, reason }
                        }
                        EngineEvent::CameBack { engine } => What::EngineBack { engine, worker },
                    };
                    events.tell(what, message);
                }
                WorkerEvent::Lifetime(event) => self.tell_lifetime(events, &event),
                WorkerEvent::Moved(change) => self.tell_move(events, &change),
                WorkerEvent::PathMtu(PathChange { tunnel, peer, mtu }) => {
                    let tunnel = self.shown_name(tunnel);
                    let of = if tunnel.is_empty() { String::new() } else { format!(" (tunnel {tunnel})") };
                    let message = format!("the path MTU to {peer} is {mtu} bytes{of}");
                    events.tell(What::PathMtu { tunnel, peer: peer.to_string(), mtu }, message);
                }
            }
        }
    }

    fn tell_lifetime(&self, events: &Events, event: &LifetimeEvent) {
        let LifetimeEvent { name, expiry, tunnel, .. } = event;
        let sa = EventSa {
            tunnel: self.shown_name(*tunnel),
            spi: name.spi,
            direction: snapshot::direction(name.direction).to_owned(),
        };
        match expiry {
            Expiry::Soft => events.tell(What::SaExpiring(sa), format!("SA {name}: soft lifetime reached")),
            Expiry::Hard => {
                let message = format!("SA {name}: hard lifetime reached; it no longer carries packets");
                events.tell(What::SaExpired(sa), message);
            }
        }
    }

    /// The name of a tunnel; empty while it has none.
    pub(super) fn shown_name(&self, tunnel: TunnelId) -> String {
        self.name_of(tunnel).map(str::to_owned).unwrap_or_default()
    }

    /// Starts a survey of all counters if packets were dropped of which the operator should be
    /// warned.
    pub(super) fn watch_drops(&mut self) {
        let pipeline = self.worker.pipeline();
        let now_ns = pipeline.clock().now_ns();
        if self.survey.is_none() && self.drop_watch.is_due(now_ns, pipeline.ipsec().tables.drops().met()) {
            self.survey = Some(Survey::of_totals(pipeline.ipsec().tables.drops().clone()));
        }
    }

    /// Finds the dropped packets of which the operator is to be warned. The totals have been
    /// updated since `all` was counted, so that no drop of a tunnel is taken for one of none.
    pub(super) fn find_climbs(&mut self, all: &DropCounters) {
        let drops = self.ledger.drops(all);
        let now_ns = self.worker.pipeline().clock().now_ns();
        self.climbs.extend(self.drop_watch.look(now_ns, drops));
    }
}
