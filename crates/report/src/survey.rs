//! A worker's state, reported in steps between its rounds, so that no packet waits while all of it
//! is read: with 10,000 tunnels that would take tens of milliseconds.
//!
//! Each step visits no more than [`STEP`] SAs, tunnels or policies and copies what it finds. The
//! requester turns that into texts and sums on its own thread (`gather.rs`).

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::mpsc::Sender;

use convoy_dataplane::ledger::Ledger;
use convoy_ipsec::{DropCounters, PolicyPlace, PolicyView, SaCursor, SaView, Tables};

use crate::snapshot::{PolicyNote, SaNote, Snapshot, TunnelRow, TunnelSelection};

/// SAs, tunnels or policies visited by one step, at most.
pub const STEP: usize = 64;
/// How often the walk over the policies restarts if the gateway's own change meanwhile. After that
/// it goes on with what it finds, so that it ends however often they change. Each of charon's has
/// its own place, whatever happens to others.
const AGAIN: u32 = 3;

/// The findings of one step.
pub enum SurveyPart {
    /// Some SAs.
    Sas(Vec<SaNote>),
    /// Some tunnels' totals.
    Tunnels(Vec<TunnelRow>),
    /// Some policies, in their order.
    Policies(Vec<PolicyNote>),
    /// The policies reported so far are outdated; they are reported again from the first.
    PoliciesAnew,
    /// Everything not reported by SA, tunnel or policy. It comes last.
    Rest(Box<Snapshot>),
}

/// Receives the parts, each with the worker's number.
pub type PartListener = Sender<(u16, SurveyPart)>;

/// What is visited next.
enum SurveyStage {
    Sas(SaCursor),
    /// Packets without an SA, by the index of their tunnel.
    WithoutSa(usize),
    /// Totals of tunnels, behind the one of this name.
    Tunnels(Option<String>),
    Policies {
        /// The last one reported.
        last: Option<PolicyPlace>,
        /// The policies' count of changes when the first was reported.
        changes: u64,
        again: u32,
    },
    Rest,
    Done,
}

/// A walk over a worker's SAs, which updates its totals by tunnel. With a listener, it continues
/// over everything in a snapshot.
pub struct Survey {
    stage: SurveyStage,
    listener: Option<PartListener>,
    /// What is reported of SAs, tunnels and policies, if not all.
    selection: Option<TunnelSelection>,
    /// The tunnels of the selected SAs, whose names may be others.
    selected: BTreeSet<String>,
    /// The worker's dropped packets before the first step.
    drops_before: DropCounters,
}

/// A survey's requirements of the thread that it runs on.
pub trait Surveyed {
    /// The worker's SAs, policies and counters.
    fn tables(&self) -> &Tables;
    /// Its totals by tunnel.
    fn ledger(&self) -> &Ledger;
    /// Adds the counts of removed SAs to the totals.
    fn close_departed(&mut self);
    /// Adds an SA's current counts to the totals.
    fn note(&mut self, view: &SaView);
    /// Adds to the totals what tunnels without an SA have lost, from index `first` on; returns
    /// whether there are more.
    fn note_without_sa(&mut self, first: usize, most: usize) -> bool;
    /// What is reported of an SA.
    fn describe(&self, view: SaView) -> SaNote;
    /// What is reported of a policy.
    fn describe_policy(&self, view: PolicyView) -> PolicyNote;
    /// The time of the worker's clock.
    fn now_ns(&self) -> u64;
    /// Everything not reported by SA, tunnel or policy.
    fn rest(&self) -> Snapshot;
}

impl Survey {
    /// A survey for a snapshot, of these tunnels alone if there is a selection.
    pub fn reported_to(listener: PartListener, selection: Option<TunnelSelection>) -> Self {
        let mut survey = Self::of_totals(DropCounters::default());
        if selection.as_ref().is_some_and(TunnelSelection::is_of_none) {
            survey.stage = SurveyStage::Rest;
        }
        Self { listener: Some(listener), selection, ..survey }
    }

    /// A survey for the totals by tunnel alone, of a worker with this many drops.
    pub fn of_totals(drops_before: DropCounters) -> Self {
        let stage = SurveyStage::Sas(SaCursor::default());
        Self { stage, listener: None, selection: None, selected: BTreeSet::new(), drops_before }
    }

    /// The worker's dropped packets before the first step: later ones may be missing in the totals
    /// of their tunnel.
    pub fn drops_before(&self) -> &DropCounters {
        &self.drops_before
    }

    /// Whether a snapshot is made of it.
    pub fn is_reported(&self) -> bool {
        self.listener.is_some()
    }

    /// Visits up to [`STEP`] more; `false` when nothing is left, or the listener is gone.
    pub fn step(&mut self, thread: &mut impl Surveyed) -> bool {
        // Before its index is visited: another SA may have it by now.
        thread.close_departed();
        self.stage = match std::mem::replace(&mut self.stage, SurveyStage::Done) {
            SurveyStage::Sas(cursor) => self.sas(thread, cursor),
            SurveyStage::WithoutSa(first) => {
                if thread.note_without_sa(first, STEP) {
                    SurveyStage::WithoutSa(first + STEP)
                } else if self.is_reported() {
                    SurveyStage::Tunnels(None)
                } else {
                    SurveyStage::Done
                }
            }
            SurveyStage::Tunnels(last) => self.tunnels(thread, last),
            SurveyStage::Policies { last, changes, again } => self.policies(thread, last, changes, again),
            SurveyStage::Rest => {
                self.tell(thread, SurveyPart::Rest(Box::new(thread.rest())));
                SurveyStage::Done
            }
            SurveyStage::Done => SurveyStage::Done,
        };
        !matches!(self.stage, SurveyStage::Done)
    }

    /// Reports a part; returns whether it was received.
    fn tell(&self, thread: &impl Surveyed, part: SurveyPart) -> bool {
        self.listener.as_ref().is_some_and(|to| to.send((thread.tables().worker(), part)).is_ok())
    }

    fn sas(&mut self, thread: &mut impl Surveyed, cursor: SaCursor) -> SurveyStage {
        let mut views = Vec::with_capacity(STEP);
        let next = thread.tables().walk_sas(cursor, STEP as u32, &mut |view| views.push(view));
        views.iter().for_each(|view| thread.note(view));
        if self.is_reported() {
            // One that is being removed may have its successor's SPI already.
            let shown = views.into_iter().filter(|view| !view.is_withdrawn);
            let notes = shown.map(|view| thread.describe(view));
            let notes = notes.filter(|note| self.selection.as_ref().is_none_or(|wanted| wanted.has_sa(note)));
            let notes: Vec<SaNote> = notes.collect();
            if self.selection.is_some() {
                self.selected.extend(notes.iter().map(|note| note.tunnel.clone()));
            }
            if !self.tell(thread, SurveyPart::Sas(notes)) {
                return SurveyStage::Done;
            }
        }
        next.map_or(SurveyStage::WithoutSa(0), SurveyStage::Sas)
    }

    fn tunnels(&self, thread: &impl Surveyed, last: Option<String>) -> SurveyStage {
        let behind = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let (mut rows, last) =
            Snapshot::tunnel_rows(thread.ledger().totals_behind(behind).take(STEP), thread.now_ns());
        if let Some(wanted) = &self.selection {
            rows.retain(|row| wanted.has(&row.tunnel) || self.selected.contains(&row.tunnel));
        }
        let first = SurveyStage::Policies { last: None, changes: thread.tables().policy_changes(), again: 0 };
        match (last, self.tell(thread, SurveyPart::Tunnels(rows))) {
            (_, false) => SurveyStage::Done,
            (None, true) => first,
            (Some(last), true) => SurveyStage::Tunnels(Some(last)),
        }
    }

    fn policies(
        &self,
        thread: &impl Surveyed,
        last: Option<PolicyPlace>,
        changes: u64,
        again: u32,
    ) -> SurveyStage {
        let tables = thread.tables();
        let now = tables.policy_changes();
        if now != changes && last.is_some() && again < AGAIN {
            let is_heard = self.tell(thread, SurveyPart::PoliciesAnew);
            let first = SurveyStage::Policies { last: None, changes: now, again: again + 1 };
            return if is_heard { first } else { SurveyStage::Done };
        }
        let (places, views): (Vec<_>, Vec<PolicyView>) = tables.policies_behind(last).take(STEP).unzip();
        let is_end = views.len() < STEP;
        let notes = views.into_iter().map(|view| thread.describe_policy(view));
        let notes = notes.filter(|note| self.selection.as_ref().is_none_or(|wanted| wanted.has_policy(note)));
        let notes = notes.collect();
        if !self.tell(thread, SurveyPart::Policies(notes)) {
            SurveyStage::Done
        } else if is_end {
            SurveyStage::Rest
        } else {
            SurveyStage::Policies { last: places.last().copied(), changes: now, again }
        }
    }
}
