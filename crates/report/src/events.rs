//! What happened to a gateway, for `convoy show events`: whatever is reported here is logged and
//! kept by the same call.
//!
//! The last [`KEPT`] events are kept, with numbers by which a client asks for what is new.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use convoy_config::{self, ConfigErrors, Problem};
use convoy_dataplane::drop_watch::Climb;
use convoy_process::Notify;
use serde::{Deserialize, Serialize};

use crate::snapshot::direction;

/// Events that are kept.
pub const KEPT: usize = 1024;
/// Characters of a message that are kept: errors of a configuration may be long.
const MESSAGE: usize = 2000;
/// What messages about a reload begin with.
const RELOAD: &str = "reload: ";

/// How serious an event is, as in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventSeverity {
    /// Normal operation.
    Info,
    /// It needs an operator's attention.
    Warn,
    /// A failure.
    Error,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum What {
    /// The gateway is ready.
    Ready,
    /// A tunnel has got SAs.
    SaUp(SaNews),
    /// A tunnel has got other SAs in the place of those that it had.
    SaRekeyed(SaNews),
    /// A tunnel has lost its last SA to a peer, which this was.
    SaDown(SaNews),
    /// An SA has reached its soft lifetime.
    SaExpiring(EventSa),
    /// An SA has reached its hard lifetime, and carries nothing any more.
    SaExpired(EventSa),
    /// A peer has another address or port.
    PeerMoved {
        /// The tunnel's name.
        tunnel: String,
        /// Its previous address, and its port where ESP goes in UDP.
        old: String,
        /// Its new one.
        new: String,
    },
    /// Packets of a peer come from another address or port than that to which answers go on to be
    /// sent: it has static keys and does not roam.
    PeerElsewhere {
        /// The tunnel's name.
        tunnel: String,
        /// Where answers go.
        old: String,
        /// From where packets come.
        new: String,
    },
    /// A negotiation of charon's has failed, or has no answer.
    IkeFailed {
        /// The tunnel's name; the connection's if no tunnel of the configuration is known to be
        /// its.
        tunnel: String,
        /// The connection's name in swanctl.conf, or the tunnel's if it is not known yet.
        connection: String,
        /// The peer's address.
        peer: String,
        /// Why, and where to look.
        reason: String,
    },
    /// The probes of a tunnel's monitor are answered: for the first time, or again.
    ProbesAnswered {
        /// The tunnel's name.
        tunnel: String,
    },
    /// They were not answered for the time that the configuration allows.
    ProbesLost {
        /// The tunnel's name.
        tunnel: String,
    },
    /// The path to a peer carries less than assumed.
    PathMtu {
        /// The name of a tunnel that uses the path.
        tunnel: String,
        /// The peer's address.
        peer: String,
        /// What the path carries, in bytes.
        mtu: u16,
    },
    /// An engine was quarantined.
    EngineOut {
        /// The engine's name.
        engine: String,
        /// The worker that it serves.
        worker: u16,
        /// Why.
        reason: String,
    },
    /// An engine has come back.
    EngineBack {
        /// The engine's name.
        engine: String,
        /// The worker that it serves.
        worker: u16,
    },
    /// The configuration was read again.
    Reload {
        /// Tunnels that did not change.
        unchanged: usize,
        /// New tunnels.
        added: usize,
        /// Removed tunnels.
        removed: usize,
    },
    /// The configuration was to be read again, and stays as it was.
    ReloadRefused,
    /// Packets were dropped.
    Dropped {
        /// The tunnel's name; empty if they are of none.
        tunnel: String,
        /// `outbound` or `inbound`; empty if they are of no tunnel.
        direction: String,
        /// Why.
        reason: String,
        /// How many.
        packets: u64,
        /// In which time, in seconds.
        seconds: u64,
    },
    /// A port waits for its interface, or for one of its addresses.
    PortWaits {
        /// The port.
        port: String,
        /// What it waits for, such as `interface eth1` or `address 192.0.2.1`.
        missing: String,
    },
    /// It no longer waits for that.
    PortBack {
        /// The port.
        port: String,
        /// What it waited for.
        missing: String,
    },
    /// The gateway leads a group of its cluster from now on.
    Leads {
        /// The group.
        group: String,
        /// Its tunnels.
        tunnels: usize,
        /// Pairs of SAs, or SAs, that the store did not have.
        new: usize,
    },
    /// It leads the group no longer.
    StandsBy {
        /// The group.
        group: String,
    },
    /// The cluster shares another version of its configuration, which is read then.
    SharedConfig {
        /// Its number.
        version: u64,
        /// The member by which it was put.
        by: String,
    },
    /// The cluster's store cannot be reached.
    StoreLost {
        /// Why.
        reason: String,
    },
    /// It can be reached again.
    StoreBack,
    /// It is not the one that it was, or is behind: this gateway leads nothing by it.
    StoreDistrusted {
        /// What was found.
        reason: String,
    },
    /// Another message that needs an operator's attention.
    Warning,
}

/// An outbound SA, with the inbound one beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaNews {
    /// The tunnel's name.
    pub tunnel: String,
    /// charon's name of the CHILD_SA, as `connection/child`; empty with static keys.
    #[serde(default)]
    pub child: String,
    /// The peer's address, and its port where ESP goes in UDP.
    pub peer: String,
    /// The SPI of packets to the peer.
    pub spi_out: u32,
    /// The SPI of packets from the peer, if known.
    pub spi_in: Option<u32>,
    /// Its algorithms, in swanctl's words.
    pub algorithms: String,
}

/// An SA.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventSa {
    /// The tunnel's name; empty if unknown.
    pub tunnel: String,
    /// Its SPI.
    pub spi: u32,
    /// `outbound` or `inbound`.
    pub direction: String,
}

impl SaNews {
    /// The tunnel's name, and charon's beside it where that is another.
    fn named(&self) -> String {
        let Self { tunnel, child, .. } = self;
        if child.is_empty() || child == tunnel { tunnel.clone() } else { format!("{tunnel} ({child})") }
    }
}

impl fmt::Display for SaNews {
    /// Without the tunnel.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer {}, SPI out {:#010x}", self.peer, self.spi_out)?;
        if let Some(spi_in) = self.spi_in {
            write!(f, ", in {spi_in:#010x}")?;
        }
        write!(f, ", {}", self.algorithms)
    }
}

impl What {
    /// How serious it is.
    pub const fn severity(&self) -> EventSeverity {
        match self {
            Self::EngineOut { .. }
            | Self::PeerElsewhere { .. }
            | Self::IkeFailed { .. }
            | Self::ProbesLost { .. }
            | Self::SaExpired(_)
            | Self::Dropped { .. }
            | Self::StoreLost { .. }
            | Self::PortWaits { .. }
            | Self::Warning => EventSeverity::Warn,
            Self::ReloadRefused | Self::StoreDistrusted { .. } => EventSeverity::Error,
            _ => EventSeverity::Info,
        }
    }

    /// The tunnel that it is about, if it is about one.
    pub fn tunnel(&self) -> Option<&str> {
        let tunnel = match self {
            Self::SaUp(news) | Self::SaRekeyed(news) | Self::SaDown(news) => &news.tunnel,
            Self::SaExpiring(sa) | Self::SaExpired(sa) => &sa.tunnel,
            Self::PeerMoved { tunnel, .. }
            | Self::PeerElsewhere { tunnel, .. }
            | Self::IkeFailed { tunnel, .. }
            | Self::ProbesAnswered { tunnel }
            | Self::ProbesLost { tunnel }
            | Self::PathMtu { tunnel, .. }
            | Self::Dropped { tunnel, .. } => tunnel,
            _ => return None,
        };
        Some(tunnel).filter(|tunnel| !tunnel.is_empty()).map(String::as_str)
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its number: 1 is the first since the gateway's start.
    pub number: u64,
    /// When it was reported, in seconds since 1970.
    pub time_s: f64,
    /// How serious it is.
    pub severity: EventSeverity,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
    /// The log's words.
    pub message: String,
}

/// The events that a client asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EventPage {
    /// Events that are no longer kept, of those asked for.
    pub lost: u64,
    /// Those that are, the oldest first.
    pub events: Vec<Event>,
}

/// The events of one gateway; clones share them.
#[derive(Clone)]
pub struct Events {
    ring: Arc<Mutex<EventRing>>,
    /// Logs a warning.
    notify: Notify,
}

#[derive(Default)]
struct EventRing {
    events: VecDeque<Event>,
    /// How many there have been.
    count: u64,
}

impl Events {
    /// No events yet; `notify` logs warnings.
    pub fn new(notify: impl Fn(String) + Send + Sync + 'static) -> Self {
        Self { ring: Arc::default(), notify: Arc::new(notify) }
    }

    /// Logs and keeps an event.
    pub fn tell(&self, what: What, message: impl Into<String>) {
        let message = message.into();
        self.keep(what.clone(), &message);
        match what.severity() {
            EventSeverity::Info => tracing::info!("{message}"),
            EventSeverity::Warn => (self.notify)(message),
            EventSeverity::Error => tracing::error!("{message}"),
        }
    }

    /// A tunnel has got SAs.
    pub fn sa_up(&self, sa: SaNews) {
        let message = format!("tunnel {} is up: {sa}", sa.named());
        self.tell(What::SaUp(sa), message);
    }

    /// A tunnel has got other SAs in the place of those that it had.
    pub fn sa_rekeyed(&self, sa: SaNews) {
        let message = format!("tunnel {} was rekeyed: {sa}", sa.named());
        self.tell(What::SaRekeyed(sa), message);
    }

    /// A tunnel has lost its last SA to a peer.
    pub fn sa_down(&self, sa: SaNews) {
        let message = format!("tunnel {} is down: its last SA was removed, {sa}", sa.named());
        self.tell(What::SaDown(sa), message);
    }

    /// Logs and keeps a warning of any kind.
    pub fn warn(&self, message: impl Into<String>) {
        self.tell(What::Warning, message);
    }

    /// Logs and keeps a warning about a configuration that was read again.
    pub fn reload_warning(&self, problem: &Problem) {
        self.keep(What::Warning, &format!("{RELOAD}{}", problem.in_one_line()));
        convoy_config::log_for(RELOAD, problem);
    }

    /// A configuration that was read again has errors; each is a line of the log.
    pub fn reload_refused(&self, errors: &ConfigErrors) {
        let summary = format!("{RELOAD}the configuration is unchanged, because the new one has errors");
        let (reported, rest) = convoy_config::reported(&errors.0);
        let lines = reported.iter().map(|problem| problem.in_one_line());
        let lines: Vec<String> = std::iter::once(summary.clone()).chain(lines).chain(rest.clone()).collect();
        self.keep(What::ReloadRefused, &lines.join("\n"));
        tracing::error!("{summary}");
        reported.into_iter().for_each(|problem| convoy_config::log_for(RELOAD, problem));
        rest.into_iter().for_each(|rest| tracing::error!("{RELOAD}{rest}"));
    }

    /// What [`warn`](Self::warn) does, as a function.
    pub fn notify(&self) -> Notify {
        let events = self.clone();
        Arc::new(move |message| events.warn(message))
    }

    /// Logs and keeps a warning about dropped packets.
    pub fn dropped(&self, climb: &Climb) {
        let direction = climb.scope.direction.map_or("", direction);
        let what = What::Dropped {
            tunnel: climb.scope.tunnel.clone(),
            direction: direction.to_owned(),
            reason: climb.reason.name().to_owned(),
            packets: climb.packets,
            seconds: climb.over_ns / 1_000_000_000,
        };
        self.keep(what, &climb.message());
        climb.warn();
    }

    /// The kept events behind the one of this number.
    pub fn after(&self, number: u64) -> EventPage {
        let ring = self.lock();
        let oldest = ring.count - ring.events.len() as u64;
        let known = ring.events.iter().filter(|event| event.number > number);
        EventPage { lost: oldest.saturating_sub(number), events: known.cloned().collect() }
    }

    fn keep(&self, what: What, message: &str) {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let (severity, message) = (what.severity(), message.chars().take(MESSAGE).collect());
        let mut ring = self.lock();
        ring.count += 1;
        let (number, time_s) = (ring.count, since.map_or(0.0, |since| since.as_secs_f64()));
        if ring.events.len() == KEPT {
            ring.events.pop_front();
        }
        ring.events.push_back(Event { number, time_s, severity, what, message });
    }

    fn lock(&self) -> MutexGuard<'_, EventRing> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Events {
    /// Events whose warnings are logged as all others are.
    fn default() -> Self {
        Self::new(|message| tracing::warn!("{message}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_events_are_kept_and_a_client_that_was_away_is_reported_how_many_it_missed() {
        let events = Events::default();
        for at in 1..=KEPT as u64 + 10 {
            events.warn(format!("warning {at}"));
        }
        let numbers = |page: &EventPage| {
            let ends = page.events.first().zip(page.events.last());
            (page.lost, ends.map(|(first, last)| (first.number, last.number)))
        };
        let last = KEPT as u64 + 10;
        assert_eq!(numbers(&events.after(0)), (10, Some((11, last))));
        assert_eq!(numbers(&events.after(8)), (2, Some((11, last))));
        assert_eq!(numbers(&events.after(last - 1)), (0, Some((last, last))));
        assert_eq!(numbers(&events.after(last)), (0, None));
        assert_eq!(events.after(0).events[0].message, "warning 11");
    }

    #[test]
    fn an_event_is_one_object_with_its_kind_and_its_values() {
        let events = Events::default();
        let news = SaNews { tunnel: "site".to_owned(), spi_out: 7, ..SaNews::default() };
        events.tell(What::SaUp(news), "tunnel site is up");
        events.tell(What::ReloadRefused, "x".repeat(3 * MESSAGE));
        let mut page = events.after(0);
        // serde_json may read the last digit of a time differently.
        page.events.iter_mut().for_each(|event| event.time_s = 1.5);
        let value = serde_json::to_value(&page.events[0]).expect("JSON");
        assert_eq!((&value["event"], &value["tunnel"]), (&"sa-up".into(), &"site".into()));
        assert_eq!((&value["spi_out"], &value["severity"]), (&7.into(), &"info".into()));
        assert_eq!(page.events[1].message.len(), MESSAGE);
        let text = serde_json::to_string(&page).expect("JSON");
        assert_eq!(serde_json::from_str::<EventPage>(&text).expect("what was written"), page);
    }

    #[test]
    fn a_refused_configuration_is_one_event_with_a_line_for_each_error() {
        let events = Events::default();
        let errors =
            convoy_config::Config::parse("a.toml", "speed = 9\nnoise = 1\n").expect_err("unknown keys");
        events.reload_refused(&errors);
        let page = events.after(0);
        let [event] = &page.events[..] else { panic!("one event") };
        let lines: Vec<&str> = event.message.lines().collect();
        assert_eq!(lines[0], "reload: the configuration is unchanged, because the new one has errors");
        for (line, problem) in lines[1..].iter().zip(&errors.0) {
            assert_eq!(*line, problem.in_one_line());
        }
        assert_eq!(lines.len(), 1 + errors.0.len(), "no excerpts: {lines:?}");
        assert!(lines[1].starts_with("a.toml:1:1: speed: unknown table"), "{lines:?}");
    }

    #[test]
    fn a_warning_is_logged_by_anyone_who_starts_the_gateway() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&lines);
        let events = Events::new(move |line| log.lock().expect("one thread").push(line));
        events.notify()("from elsewhere".to_owned());
        let what = What::EngineOut { engine: "one".to_owned(), worker: 0, reason: "why".to_owned() };
        events.tell(what, "engine one");
        assert_eq!(*lines.lock().expect("one thread"), ["from elsewhere", "engine one"]);
        assert_eq!(events.after(0).events.len(), 2);
    }
}
