//! A machine: its clock, and the processes of a member and its gateway.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use super::gateway::{Burst, Gateway};
use crate::member::{CallId, Member, Now};
use crate::memory::Seen;
use crate::orders::{MemberOrder, Report};
use crate::store::{StoreAnswer, StoreChange};

/// What comes to a member's process. Connections and links have numbers: what is of an earlier one
/// is not read.
#[derive(Debug)]
pub(super) enum ToAgent {
    Answer { connection: u64, call: CallId, answer: StoreAnswer },
    Changes { connection: u64, changes: Vec<StoreChange> },
    Timeout { connection: u64, call: CallId },
    Broken { connection: u64 },
    Report { link: u64, report: Report },
    Beat { link: u64, at_ns: u64 },
    GatewayEnded { link: u64 },
    Drain,
    Serve,
    End,
}

/// What comes to a gateway.
#[derive(Debug)]
pub(super) enum ToGateway {
    /// A member begins, and everything from before ends.
    Linked(u64),
    Order {
        link: u64,
        order: MemberOrder,
    },
    Packets(Rc<Vec<Burst>>),
    /// Sabotage: now it does what it has answered to.
    StopNow(String),
}

/// A process, which may be down or paused.
#[derive(Debug)]
pub(super) struct Process<M> {
    pub(super) is_up: bool,
    pub(super) paused_until_ns: u64,
    /// What has come while it was paused.
    pub(super) inbox: VecDeque<M>,
    /// The link to the other one that it reads.
    pub(super) link: Option<u64>,
    /// When the last message that is on its way by the link arrives.
    pub(super) arrives_ns: u64,
}

impl<M> Process<M> {
    fn new() -> Self {
        Self { is_up: true, paused_until_ns: 0, inbox: VecDeque::new(), link: None, arrives_ns: 0 }
    }

    pub(super) fn crash(&mut self) {
        *self = Self { is_up: false, ..Self::new() };
    }
}

/// A request that the member waits for.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) asked_ns: u64,
    /// The key that it would create.
    pub(super) creates: Option<String>,
}

/// A clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) rate_ppm: u64,
    pub(super) offset_ns: u64,
    pub(super) stood_ns: u64,
    pub(super) stands_since_ns: Option<u64>,
}

impl Clock {
    pub(super) fn at(&self, true_ns: u64) -> u64 {
        let gone_ns = self.stands_since_ns.unwrap_or(true_ns) - self.stood_ns;
        self.offset_ns + gone_ns * self.rate_ppm / 1_000_000
    }

    /// When it will show this time.
    pub(super) fn true_ns(&self, shown_ns: u64) -> u64 {
        (shown_ns.saturating_sub(self.offset_ns) * 1_000_000).div_ceil(self.rate_ppm) + self.stood_ns
    }
}

/// A machine.
pub(super) struct Host {
    pub(super) clock: Clock,
    /// How far its wall clock is ahead of the true time.
    pub(super) skew_ns: u64,
    /// What the member has noted on its disk.
    pub(super) seen: Seen,
    pub(super) cut_until_ns: u64,
    pub(super) agent: Process<ToAgent>,
    pub(super) member: Option<Member>,
    pub(super) is_drained: bool,
    pub(super) connection: u64,
    pub(super) open: BTreeMap<CallId, Open>,
    pub(super) wake_ns: Option<u64>,
    pub(super) gateway: Process<ToGateway>,
    pub(super) state: Gateway,
    /// Packets whose numbers were compared with the deadline before a pause.
    pub(super) torn: Vec<Burst>,
}

impl Host {
    pub(super) fn new(clock: Clock, skew_ns: u64, state: Gateway) -> Self {
        Self {
            clock,
            skew_ns,
            seen: Seen::default(),
            cut_until_ns: 0,
            agent: Process::new(),
            member: None,
            is_drained: false,
            connection: 0,
            open: BTreeMap::new(),
            wake_ns: None,
            gateway: Process::new(),
            state,
            torn: Vec::new(),
        }
    }

    /// What its clocks show.
    pub(super) fn now(&self, true_ns: u64) -> Now {
        Now { monotonic_ns: self.clock.at(true_ns), wall_ns: true_ns + self.skew_ns }
    }
}
