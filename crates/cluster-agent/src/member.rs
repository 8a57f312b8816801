//! A member of the cluster, with its gateway at one end and the store at the other.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use convoy_cluster::messages::{Begin, FromAgent, ToAgent};
use convoy_cluster::seal::{ClusterKey, SealError};
use convoy_cluster::{
    Call, CallId, ClusterStatus, GroupConfig, KeyValue, Keys, Member, MemberConfig, MemberInput, MemberOrder,
    Now, Output, Replay, Seen, StoreAnswer, StoreEvent,
};
use convoy_process::{monotonic_ns, wall_ns};
use convoy_reservation::ReserveSize;
use zeroize::Zeroize;

use crate::etcd::{Store, StoreConfig};
use crate::serve::{FRAMING, receive};

/// The longest time between two looks at the clock.
const LONGEST: Duration = Duration::from_secs(1);

/// The shortest time between two reports of the status, in ns.
const STATUS_NS: u64 = 200_000_000;

/// The shortest time between two notes of what the member has seen, in ns.
const NOTE_NS: u64 = 1_000_000_000;

/// What happens to an agent.
enum AgentEvent {
    Gateway(ToAgent),
    /// The gateway's end of the line is closed: its process has ended.
    GatewayEnded,
    Store(StoreEvent<AskedFor>),
}

/// Serves a gateway until it or the member ends.
///
/// # Errors
/// What the system refused, or why the store or the key cannot be used.
pub(crate) fn serve(begin: Begin, socket: UnixStream) -> io::Result<()> {
    let (happenings, received) = channel();
    read_line(socket.try_clone()?, happenings.clone())?;
    MemberAgent::new(begin, socket, happenings)?.work(&received)
}

/// Reads the gateway's messages on a thread of its own, since reading blocks.
fn read_line(mut socket: UnixStream, happenings: Sender<AgentEvent>) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("line".to_owned());
    thread.spawn(move || {
        loop {
            let happening = match receive(&mut socket) {
                Ok(Some(message)) => AgentEvent::Gateway(message),
                Ok(None) => AgentEvent::GatewayEnded,
                Err(error) => {
                    tracing::error!("the agent cannot read a message of the gateway: {error}");
                    AgentEvent::GatewayEnded
                }
            };
            let is_last = matches!(happening, AgentEvent::GatewayEnded);
            if happenings.send(happening).is_err() || is_last {
                return;
            }
        }
    })?;
    Ok(())
}

/// Who has asked the store for something.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AskedFor {
    Member(CallId),
    /// The agent, for the configuration.
    Config,
    /// The agent, for its changes.
    ConfigWatch,
}

pub(crate) struct MemberAgent {
    member: Member,
    pub(crate) store: Store<AskedFor>,
    pub(crate) key: ClusterKey,
    /// The beginning of the keys whose values are sealed.
    sealed: String,
    /// The key of the configuration that the cluster shares, if the gateway wants it; the version
    /// that it has, and when it is read next.
    pub(crate) config: Option<String>,
    pub(crate) config_version: u64,
    pub(crate) config_due_ns: Option<u64>,
    pub(crate) socket: UnixStream,
    outputs: Vec<Output>,
    /// The status that the gateway knows, and when it is compared again.
    reported: Option<ClusterStatus>,
    tell_ns: u64,
    /// What the gateway has noted of what the member has seen, and when it is noted again.
    noted: Seen,
    note_ns: u64,
}

impl MemberAgent {
    fn new(begin: Begin, socket: UnixStream, happenings: Sender<AgentEvent>) -> io::Result<Self> {
        let key = ClusterKey::parse(&begin.secret).map_err(io::Error::other)?;
        let (events, reported) = channel();
        let tls = begin.tls.map(Into::into);
        // Two requests that are not answered may fail within a lease.
        let request_timeout = Duration::from_millis((u64::from(begin.lease_s) * 500).max(500));
        let config = StoreConfig { endpoints: begin.endpoints, tls, request_timeout };
        let store = Store::start(config, events).map_err(io::Error::other)?;
        std::thread::Builder::new().name("store's events".to_owned()).spawn(move || {
            for event in reported {
                if happenings.send(AgentEvent::Store(event)).is_err() {
                    return;
                }
            }
        })?;
        let replay = if begin.is_strict { Replay::Strict } else { Replay::Checkpoint };
        let keys = Keys::new(&begin.cluster);
        let (sealed, config) = (keys.groups(), begin.wants_config.then(|| keys.config()));
        let member = Member::new(MemberConfig {
            cluster: begin.cluster,
            name: begin.member,
            priority: begin.priority,
            ttl_s: begin.lease_s,
            groups: begin.groups.into_iter().map(|name| GroupConfig { name, replay }).collect(),
            rebalance_ns: begin.rebalance_ns,
            outbound: ReserveSize::OUTBOUND,
            inbound: ReserveSize { time_ns: begin.inbound_reserve_ns, ..ReserveSize::INBOUND },
            seen: begin.seen,
        });
        let (config_version, config_due_ns) = (0, None);
        Ok(Self {
            member,
            store,
            key,
            sealed,
            config,
            config_version,
            config_due_ns,
            socket,
            outputs: Vec::new(),
            reported: None,
            tell_ns: 0,
            noted: begin.seen,
            note_ns: 0,
        })
    }

    fn work(mut self, received: &Receiver<AgentEvent>) -> io::Result<()> {
        let mut input = Some(MemberInput::Tick);
        loop {
            if let Some(input) = input.take() {
                let now = Now { monotonic_ns: monotonic_ns(), wall_ns: wall_ns() };
                self.member.handle(now, input, &mut self.outputs);
            }
            if self.execute()? {
                return FRAMING.send(&mut self.socket, &FromAgent::Ended).or(Ok(()));
            }
            self.note_seen();
            self.tell_status();
            self.read_config();
            let wake_ns = self.member.wake_ns().into_iter().chain(self.config_due_ns).min();
            let wake_ns = wake_ns.map(|at_ns| at_ns.saturating_sub(monotonic_ns()));
            let wait = wake_ns.map_or(LONGEST, |ns| Duration::from_nanos(ns).min(LONGEST));
            input = match received.recv_timeout(wait) {
                Ok(happening) => self.take(happening)?,
                Err(RecvTimeoutError::Timeout) => Some(MemberInput::Tick),
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
        }
    }

    /// What something means for the member.
    fn take(&mut self, happening: AgentEvent) -> io::Result<Option<MemberInput>> {
        Ok(Some(match happening {
            AgentEvent::Gateway(ToAgent::Report(report)) => MemberInput::Reported(report),
            AgentEvent::Gateway(ToAgent::Beat { at_ns }) => MemberInput::Beat { at_ns },
            AgentEvent::Gateway(ToAgent::Drain) => MemberInput::Drain,
            AgentEvent::Gateway(ToAgent::Serve) => MemberInput::Serve,
            AgentEvent::Gateway(ToAgent::End) => MemberInput::End,
            AgentEvent::GatewayEnded => MemberInput::GatewayEnded,
            AgentEvent::Store(StoreEvent::Answered(AskedFor::Member(call), answer)) => {
                let (answer, locked) = self.opened(answer);
                MemberInput::Answered { call, answer, locked }
            }
            AgentEvent::Store(StoreEvent::Answered(asked, answer)) => {
                self.config_answered(asked, answer);
                return Ok(None);
            }
            AgentEvent::Store(StoreEvent::Changed(changes)) => {
                self.config_changed(&changes);
                MemberInput::Changed(changes)
            }
            AgentEvent::Store(StoreEvent::Connected { store, version }) => {
                self.config_due_ns = self.config.is_some().then_some(0);
                FRAMING.send(&mut self.socket, &FromAgent::Store(Ok(version)))?;
                MemberInput::Connected { store }
            }
            AgentEvent::Store(StoreEvent::Lost { reason }) => {
                let reported = FRAMING.send(&mut self.socket, &FromAgent::Store(Err(reason)));
                // A gateway that has ended is reported by the line's reader.
                let _ = reported;
                MemberInput::Lost
            }
        }))
    }

    /// Has the gateway note what the member has seen of the store: now and then, and before a term.
    fn note_seen(&mut self) {
        let (seen, now_ns) = (self.member.seen(), monotonic_ns());
        if seen == self.noted || now_ns < self.note_ns && seen.fault == self.noted.fault {
            return;
        }
        self.send_seen(seen);
        self.note_ns = now_ns + NOTE_NS;
    }

    fn send_seen(&mut self, seen: Seen) {
        // If the gateway has ended, the reader of the line says so.
        let _ = FRAMING.send(&mut self.socket, &FromAgent::Seen(seen));
        self.noted = seen;
    }

    /// Tells the gateway what the cluster looks like, if that has changed.
    fn tell_status(&mut self) {
        let now_ns = monotonic_ns();
        if now_ns < self.tell_ns {
            return;
        }
        self.tell_ns = now_ns + STATUS_NS;
        let status = self.member.status();
        if self.reported.as_ref() != Some(&status) {
            let message = FromAgent::Status(Box::new(status.clone()));
            // If the gateway has ended, the reader of the line says so.
            let _ = FRAMING.send(&mut self.socket, &message);
            self.reported = Some(status);
        }
    }

    /// Does what the member wants; returns whether it has ended.
    fn execute(&mut self) -> io::Result<bool> {
        let mut has_ended = false;
        for output in std::mem::take(&mut self.outputs) {
            match output {
                Output::Ask { call, request } => {
                    let request = self.sealed(request);
                    self.store.ask(AskedFor::Member(call), request);
                }
                // If the gateway has ended, the reader of the line says so.
                Output::Order(order) => {
                    if matches!(order, MemberOrder::Lead { .. }) {
                        self.send_seen(self.member.seen());
                    }
                    let _ = FRAMING.send(&mut self.socket, &FromAgent::Order(order));
                }
                Output::Ended => has_ended = true,
            }
        }
        Ok(has_ended)
    }

    /// The request with everything sealed that is secret.
    fn sealed(&self, request: Call) -> Call {
        let Call::Transact { guard, deletes, mut puts, read } = request else { return request };
        for (key, value, _) in puts.iter_mut().filter(|(key, ..)| key.starts_with(&self.sealed)) {
            let sealed = self.key.seal(key, value);
            value.zeroize();
            *value = sealed;
        }
        Call::Transact { guard, deletes, puts, read }
    }

    /// The answer with everything opened, and how many values are sealed by a key that this member
    /// lacks. What cannot be opened is empty, which the member counts as unreadable.
    fn opened(&self, answer: StoreAnswer) -> (StoreAnswer, usize) {
        let StoreAnswer::Transacted { is_done, revision, read } = answer else { return (answer, 0) };
        let mut locked = 0;
        let open = |mut pair: KeyValue| {
            if pair.key.starts_with(&self.sealed) {
                pair.value = match self.key.open(&pair.key, &pair.value) {
                    Ok(value) => value.to_vec(),
                    Err(error) => {
                        locked += usize::from(matches!(error, SealError::UnknownKey(_)));
                        tracing::error!("cluster: {}: {error}", pair.key);
                        Vec::new()
                    }
                };
            }
            pair
        };
        let read = read.into_iter().map(open).collect();
        (StoreAnswer::Transacted { is_done, revision, read }, locked)
    }
}
