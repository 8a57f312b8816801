//! What keeps charon's negotiations from an end, as the plugin reports it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use convoy_config::Config;
use convoy_ike::protocol::{IkeReport, ReportKind};
use convoy_report::events::{Events, What};
use convoy_report::snapshot::NegotiationRow;

use super::notifies;

/// Connections of charon's, at most: the names are the operator's.
const MOST: usize = 4096;
/// A refused certificate is why the peer is not authenticated, if that is so within this time.
const CERTIFICATE: Duration = Duration::from_secs(10);
/// How often a message is sent again before that is an event. With charon's defaults the second
/// repetition is some 11 s after the message.
const AGAIN: u16 = 2;

/// The last fault of each connection, until it has SAs; clones share them.
#[derive(Clone)]
pub(super) struct Negotiations(Arc<Mutex<NegotiationFaults>>);

struct NegotiationFaults {
    events: Events,
    /// The tunnels of the configuration with a peer's address, by that.
    tunnels: HashMap<IpAddr, String>,
    by_connection: HashMap<String, NegotiationFault>,
    /// Why a certificate was refused, by the peer.
    certificates: HashMap<IpAddr, (String, Instant)>,
}

struct NegotiationFault {
    number: u32,
    peer: IpAddr,
    reason: String,
    /// Whether the peer is silent, rather than that it or charon refused.
    is_silence: bool,
    /// Whether charon refused the peer, for which a certificate may be the reason.
    is_refusal: bool,
    is_reported: bool,
    since: Instant,
}

impl Negotiations {
    /// None; `events` receives faults.
    pub(super) fn new(config: &Config, events: Events) -> Self {
        let (by_connection, certificates) = (HashMap::new(), HashMap::new());
        Self(Arc::new(Mutex::new(NegotiationFaults {
            events,
            tunnels: by_peer(config),
            by_connection,
            certificates,
        })))
    }

    /// Takes another configuration.
    pub(super) fn configure(&self, config: &Config) {
        self.lock().tunnels = by_peer(config);
    }

    fn lock(&self) -> MutexGuard<'_, NegotiationFaults> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another charon has its own.
    pub(super) fn forget(&self) {
        let mut faults = self.lock();
        faults.by_connection.clear();
        faults.certificates.clear();
    }

    /// Takes a report. `tunnel` is what the connection's tunnel is called, if that is known.
    pub(super) fn report(&self, report: &IkeReport, tunnel: Option<&str>) {
        self.lock().report(report, tunnel);
    }

    /// A connection has SAs.
    pub(super) fn succeeded(&self, connection: &str, peer: IpAddr) {
        let mut faults = self.lock();
        faults.by_connection.remove(connection);
        faults.by_connection.retain(|_, fault| fault.peer != peer || !fault.is_silence);
        if let Some(tunnel) = faults.tunnels.get(&peer).cloned() {
            faults.by_connection.remove(&tunnel);
        }
        faults.certificates.remove(&peer);
    }

    /// The last fault of each connection.
    pub(super) fn rows(&self) -> Vec<NegotiationRow> {
        let faults = self.lock();
        let row = |(connection, fault): (&String, &NegotiationFault)| NegotiationRow {
            connection: connection.clone(),
            peer: fault.peer.to_string(),
            reason: fault.reason.clone(),
            age_s: fault.since.elapsed().as_secs_f64(),
        };
        let mut rows: Vec<NegotiationRow> = faults.by_connection.iter().map(row).collect();
        rows.sort_by(|one, other| one.connection.cmp(&other.connection));
        rows
    }
}

/// The tunnels of a configuration whose peer has an address and no static keys, by that.
fn by_peer(config: &Config) -> HashMap<IpAddr, String> {
    let charons = config.tunnels.iter().filter(|tunnel| !tunnel.has_static_keys());
    let with_peer = charons.filter(|tunnel| !tunnel.remote.is_unspecified());
    with_peer.map(|tunnel| (tunnel.remote, tunnel.name.clone())).collect()
}

impl NegotiationFaults {
    fn report(&mut self, report: &IkeReport, tunnel: Option<&str>) {
        let peer = report.peer.ip().to_canonical();
        // A responder does not know the connection at first. Strangers are in charon's log alone.
        let named = Some(&report.connection).filter(|connection| !connection.is_empty());
        let Some(connection) = named.or_else(|| self.tunnels.get(&peer)).cloned() else { return };
        let why = notifies::certificate(&report.kind);
        if let Some(known) = self.by_connection.get_mut(&connection).filter(|it| it.number > report.number) {
            // charon's threads may report why it refused a peer after the refusal itself.
            let is_why = known.is_refusal && known.since.elapsed() < CERTIFICATE;
            if let Some(why) = why.filter(|_| is_why) {
                known.reason.clone_from(&why);
                self.tell(&connection, peer, tunnel, &why);
            }
            return;
        }
        let known = self.by_connection.get(&connection);
        if let Some(why) = why {
            self.certificates.retain(|_, (_, since)| since.elapsed() < CERTIFICATE);
            self.certificates.insert(peer, (why, Instant::now()));
            return;
        }
        if report.kind == ReportKind::Answered {
            if known.is_some_and(|known| known.is_silence) {
                self.by_connection.remove(&connection);
            }
            return;
        }
        let refused = notifies::is_refusal_of_peer(&report.kind);
        let certificate = self.certificates.remove(&peer).filter(|_| refused);
        let certificate = certificate.filter(|(_, since)| since.elapsed() < CERTIFICATE);
        let reason = certificate.map_or_else(|| notifies::words(&report.kind), |(why, _)| why);
        let is_silence = matches!(report.kind, ReportKind::NoAnswer { .. } | ReportKind::GaveUp);
        let is_known = known.is_some_and(|known| {
            known.is_reported && (known.reason == reason || known.is_silence && is_silence)
        });
        let is_reported = is_known || !matches!(report.kind, ReportKind::NoAnswer { again } if again < AGAIN);
        if is_reported && !is_known {
            self.tell(&connection, peer, tunnel, &reason);
        }
        if self.by_connection.len() < MOST || known.is_some() {
            let since = Instant::now();
            let (number, is_refusal) = (report.number, refused);
            let fault = NegotiationFault { number, peer, reason, is_silence, is_refusal, is_reported, since };
            self.by_connection.insert(connection, fault);
        }
    }

    /// Reports a fault to the operator.
    fn tell(&self, connection: &str, peer: IpAddr, tunnel: Option<&str>, reason: &str) {
        let message = format!("charon's connection {connection} with {peer}: {reason}");
        let tunnel = tunnel.or_else(|| self.tunnels.get(&peer).map(String::as_str));
        let what = What::IkeFailed {
            tunnel: tunnel.unwrap_or(connection).to_owned(),
            connection: connection.to_owned(),
            peer: peer.to_string(),
            reason: reason.to_owned(),
        };
        self.events.tell(what, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A gateway with one tunnel of charon's, whose peer is 192.0.2.2.
    fn negotiations() -> (Negotiations, Events) {
        let text = "[gateway]\ncharon = \"/run/charon.sock\"\n\
            [[port]]\nname = \"inside\"\nkind = \"tun\"\ndevice = \"convoy0\"\naddress = [\"10.1.0.1/24\"]\n\
            [[port]]\nname = \"outside\"\nkind = \"udp\"\naddress = [\"192.0.2.1\"]\n\
            [[tunnel]]\nname = \"site-b\"\nremote = \"192.0.2.2\"\nremote_ts = [\"10.2.0.0/24\"]\n";
        let config = Config::parse("a.toml", text).expect("good");
        let events = Events::new(|_| ());
        (Negotiations::new(&config, events.clone()), events)
    }

    fn report(number: u32, connection: &str, peer: &str, kind: ReportKind) -> IkeReport {
        let peer = std::net::SocketAddr::new(peer.parse().expect("an address"), 500);
        IkeReport { number, kind, peer, connection: connection.to_owned() }
    }

    fn reasons(negotiations: &Negotiations) -> Vec<(String, String)> {
        negotiations.rows().into_iter().map(|row| (row.connection, row.reason)).collect()
    }

    #[test]
    fn fault_stays_until_its_connection_has_sas_and_older_reports_change_nothing() {
        let (negotiations, _) = negotiations();
        let refused = ReportKind::Received { exchange: 35, notify: 24 };
        negotiations.report(&report(7, "site", "192.0.2.9", refused), None);
        negotiations.report(&report(6, "site", "192.0.2.9", ReportKind::NoAnswer { again: 1 }), None);
        let [(connection, reason)] = &reasons(&negotiations)[..] else { panic!("one fault") };
        assert!(connection == "site" && reason.contains("AUTHENTICATION_FAILED"), "{reason}");
        negotiations.report(&report(8, "site", "192.0.2.9", ReportKind::Answered), None);
        assert_eq!(reasons(&negotiations).len(), 1, "it did answer");
        negotiations.succeeded("site", "192.0.2.9".parse().expect("an address"));
        assert_eq!(reasons(&negotiations), []);
    }

    #[test]
    fn silence_is_an_event_from_the_second_repetition_on_and_only_once() {
        let (negotiations, events) = negotiations();
        let count = || {
            let page = events.after(0);
            page.events.iter().filter(|event| matches!(event.what, What::IkeFailed { .. })).count()
        };
        for (number, again, expected) in [(1, 1, 0), (2, 2, 1), (3, 3, 1)] {
            negotiations.report(&report(number, "site", "192.0.2.9", ReportKind::NoAnswer { again }), None);
            assert_eq!((count(), reasons(&negotiations).len()), (expected, 1));
        }
        negotiations.report(&report(4, "site", "192.0.2.9", ReportKind::GaveUp), None);
        assert_eq!(count(), 1);
        negotiations.report(&report(5, "site", "192.0.2.9", ReportKind::Answered), None);
        assert_eq!(reasons(&negotiations), []);
    }

    #[test]
    fn unnamed_connection_has_the_name_of_the_tunnel_with_its_peer_and_strangers_have_none() {
        let (negotiations, _) = negotiations();
        let refused = ReportKind::Sent { exchange: 34, notify: 14 };
        negotiations.report(&report(1, "", "198.51.100.1", refused.clone()), None);
        assert_eq!(reasons(&negotiations), []);
        negotiations.report(&report(2, "", "192.0.2.2", refused), None);
        let [(connection, reason)] = &reasons(&negotiations)[..] else { panic!("one fault") };
        assert!(connection == "site-b" && reason.contains("IKE proposal"), "{reason}");
        negotiations.succeeded("tunnel", "192.0.2.2".parse().expect("an address"));
        assert_eq!(reasons(&negotiations), []);
    }

    #[test]
    fn refused_certificate_is_why_its_peer_was_not_authenticated() {
        let (negotiations, _) = negotiations();
        let expired = ReportKind::CertificateExpired { subject: "CN=b".to_owned() };
        negotiations.report(&report(1, "site", "192.0.2.9", expired), None);
        assert_eq!(reasons(&negotiations), [], "another one may do");
        negotiations
            .report(&report(2, "site", "192.0.2.9", ReportKind::Sent { exchange: 35, notify: 24 }), None);
        let [(_, reason)] = &reasons(&negotiations)[..] else { panic!("one fault") };
        assert_eq!(reason, "the peer's certificate has expired: CN=b");
    }

    #[test]
    fn refused_certificate_is_why_its_peer_was_not_authenticated_if_it_is_reported_later() {
        let (negotiations, events) = negotiations();
        let expired = |number| {
            let kind = ReportKind::CertificateExpired { subject: "CN=b".to_owned() };
            report(number, "site", "192.0.2.9", kind)
        };
        negotiations
            .report(&report(2, "site", "192.0.2.9", ReportKind::Sent { exchange: 35, notify: 24 }), None);
        negotiations.report(&expired(1), None);
        let [(_, reason)] = &reasons(&negotiations)[..] else { panic!("one fault") };
        assert_eq!(reason, "the peer's certificate has expired: CN=b");
        let last = events.after(0).events.pop().expect("an event");
        assert!(last.message.contains("has expired: CN=b"), "{}", last.message);
        // A fault of another kind has another reason.
        negotiations
            .report(&report(4, "site", "192.0.2.9", ReportKind::Received { exchange: 35, notify: 14 }), None);
        negotiations.report(&expired(3), None);
        let [(_, reason)] = &reasons(&negotiations)[..] else { panic!("one fault") };
        assert!(reason.contains("proposal"), "{reason}");
    }
}
