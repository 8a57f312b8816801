//! Mapping heuristics from outside: how a policy that is not part of the gateway takes the place of
//! [`SchedulingPolicy`](crate::SchedulingPolicy), so that it can be compared with it in the same
//! window, with the same queues and costs.
//!
//! A heuristic sees the multi-packets that the window holds, in the order of their first packets,
//! and the estimated time of each on every engine, and names one of them and an engine. It has the
//! rights of the gateway's own policy: with [`FullQueue::Wait`] it may name an engine without room,
//! and is asked again after each arrival and completion, while the window grows; with
//! [`FullQueue::Skip`] it sees only engines with room. An engine without
//! [credits](crate::Research::credits) has no room. Packets of an SA keep their order
//! whatever it chooses, since a multi-packet has all of them. The overhead of the caller's core and
//! handovers are not part of what it sees, and late engines are left out unless it
//! [sees all](Heuristic::sees_all).

use std::fmt;

use crate::choice::Choice;
use crate::config::Input;
use crate::engine::QueueModel;
use crate::room::FullQueue;
use crate::scheduler::{Dispatch, Scheduler};
use crate::window::Group;

/// A rule that chooses a multi-packet of the window and an engine for it.
pub trait Heuristic: Send {
    /// The most multi-packets that it looks at, from the head of the window on; 1 if it assigns
    /// them in the order of the window.
    fn reach(&self) -> usize {
        1
    }

    /// Whether it is shown all available engines, also late ones and, whatever
    /// [`Research::full_queue`](crate::Research::full_queue) says, those without room.
    fn sees_all(&self) -> bool {
        false
    }

    /// The next multi-packet and its engine. It waits if that engine has no
    /// [room](Offer::has_room), as it does for `None`, and is asked again later.
    fn choose(&mut self, view: &View<'_>) -> Option<Pick>;

    /// Called when what it chose goes to its engine.
    fn assigned(&mut self, _view: &View<'_>, _pick: Pick) {}

    /// Called when an engine has completed a multi-packet.
    fn completed(&mut self, _done: &Done) {}
}

/// A heuristic by name, and how to make one in its initial state.
#[derive(Clone, Copy)]
pub struct HeuristicFactory {
    /// Its name.
    pub name: &'static str,
    /// Makes it.
    pub make: fn() -> Box<dyn Heuristic>,
}

impl PartialEq for HeuristicFactory {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for HeuristicFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A chosen multi-packet, by its index among those of the view, and its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Index in [`View::groups`].
    pub group: usize,
    /// Index in [`View::engines`].
    pub engine: usize,
}

/// What a heuristic sees.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The time, in ticks.
    pub now: u64,
    /// Multi-packets of the window, in the order of their first packets; at least one.
    pub groups: &'a [Candidate],
    /// All engines.
    pub engines: &'a [EngineState],
    offers: &'a [Option<Offer>],
}

impl<'a> View<'a> {
    /// A view of these groups and engines, with the offers of all engines for the first group, then
    /// those for the second, and so on.
    pub fn new(
        now: u64,
        groups: &'a [Candidate],
        engines: &'a [EngineState],
        offers: &'a [Option<Offer>],
    ) -> Self {
        debug_assert_eq!(offers.len(), groups.len() * engines.len());
        Self { now, groups, engines, offers }
    }

    /// What an engine offers for a multi-packet; `None` if it is unavailable, late, does not
    /// support the algorithm, or has no room and is not waited for.
    pub fn offer(&self, group: usize, engine: usize) -> Option<Offer> {
        self.offers[group * self.engines.len() + engine]
    }

    /// The engines that can process a multi-packet, and are waited for or have room, with their
    /// offers.
    pub fn offers(&self, group: usize) -> impl Iterator<Item = (usize, Offer)> + use<'a> {
        let engines = self.engines.len();
        let row = &self.offers[group * engines..(group + 1) * engines];
        row.iter().enumerate().filter_map(|(engine, offer)| offer.map(|offer| (engine, offer)))
    }

    /// The finishing time of a multi-packet on an engine (equation 1), in ticks from now.
    pub fn finish(&self, engine: usize, offer: Offer) -> u64 {
        self.engines[engine].wait.saturating_add(offer.processing)
    }
}

/// A multi-packet of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its packets.
    pub packets: u32,
    /// Its size in blocks of 16 bytes.
    pub blocks: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// The state of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineState {
    /// `w`: its estimated work ahead, in ticks.
    pub wait: u64,
    /// Multi-packets at the engine, including the one in service.
    pub queued: usize,
    /// Whether it is processor 0 of the model.
    pub is_cpu: bool,
}

/// What an engine offers for a multi-packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// `p`: its estimated time for it, in ticks.
    pub processing: u64,
    /// Whether its queue has room, and a credit for the multi-packet.
    pub has_room: bool,
}

/// A completed multi-packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The time, in ticks.
    pub now: u64,
    /// Its engine.
    pub engine: usize,
    /// When it was dispatched, in ticks.
    pub dispatched: u64,
    /// The estimate of its processing time when it was dispatched, in ticks.
    pub predicted: u64,
}

/// A heuristic with what the scheduler keeps for it.
pub(crate) struct HeuristicMapping {
    pub(crate) heuristic: Box<dyn Heuristic>,
    groups: Vec<Group>,
    candidates: Vec<Candidate>,
    engines: Vec<EngineState>,
    offers: Vec<Option<Offer>>,
}

impl HeuristicMapping {
    pub(crate) fn new(heuristic: Box<dyn Heuristic>) -> Self {
        let (groups, candidates, engines, offers) = Default::default();
        Self { heuristic, groups, candidates, engines, offers }
    }
}

impl<T, R> Scheduler<T, R> {
    /// Sets a heuristic that takes the policy's place, as
    /// [`Research::heuristic`](crate::Research::heuristic) does, but that needs no
    /// factory: it may own what it decides by. It sees nothing of what was dispatched before.
    pub fn set_heuristic(&mut self, heuristic: Box<dyn Heuristic>) {
        self.mapping = Some(HeuristicMapping::new(heuristic));
    }

    /// The multi-packet and the engine that the heuristic chooses in a class.
    #[inline(never)]
    pub(crate) fn dispatch_mapped(&mut self, now: u64, class: usize, only_idle: bool) -> Option<Dispatch<T>> {
        let mut mapping = self.mapping.take()?;
        let chosen = self.chosen_by(&mut mapping, now, class, only_idle);
        self.mapping = Some(mapping);
        let (group, choice) = chosen?;
        self.classes.spend(class, group.blocks);
        Some(self.send(now, &group, choice))
    }

    fn chosen_by(
        &mut self,
        mapping: &mut HeuristicMapping,
        now: u64,
        class: usize,
        only_idle: bool,
    ) -> Option<(Group, Choice)> {
        let is_due = self.window.group(class).is_some_and(|first| self.is_passed_enough(&first));
        let reach = if is_due { 1 } else { mapping.heuristic.reach() };
        self.describe(mapping, now, class, reach, only_idle)?;
        let HeuristicMapping { heuristic, groups, candidates, engines, offers } = mapping;
        let view = View::new(now, candidates, engines, offers);
        let pick = heuristic.choose(&view)?;
        let Pick { group, engine } = pick;
        let offer = view.offer(group, engine).filter(|offer| offer.has_room)?;
        heuristic.assigned(&view, pick);
        let wait = engines[engine].wait;
        let finish = wait.saturating_add(offer.processing);
        let choice = Choice { engine, wait, processing: offer.processing, finish };
        Some((groups[group], choice))
    }

    /// Describes the window and the engines to a heuristic; `None` if the window is empty, or if
    /// `only_idle` asks for an idle engine and there is none.
    fn describe(
        &mut self,
        mapping: &mut HeuristicMapping,
        now: u64,
        class: usize,
        reach: usize,
        only_idle: bool,
    ) -> Option<()> {
        mapping.groups.clear();
        mapping.candidates.clear();
        mapping.offers.clear();
        mapping.engines.clear();
        let state = |queue: &QueueModel<R>| EngineState {
            wait: queue.wait(now),
            queued: queue.len(),
            is_cpu: queue.if_cpu != 0,
        };
        mapping.engines.extend(self.engines.queues().map(state));
        let mut next = self.window.group(class);
        while let Some(group) = next.filter(|_| mapping.groups.len() < reach) {
            if !only_idle || self.has_idle(self.costs.capable(group.algorithm)) {
                self.describe_group(mapping, now, &group);
            }
            next = self.window.group_behind(&group);
        }
        (!mapping.groups.is_empty()).then_some(())
    }

    fn describe_group(&mut self, mapping: &mut HeuristicMapping, now: u64, group: &Group) {
        self.costs.price(group.algorithm, group.blocks);
        let search = self.search(now, Input::Ended, group);
        let available = self.engines.available.and(self.costs.capable(group.algorithm));
        let in_time = search.in_time();
        let (usable, waits) = if mapping.heuristic.sees_all() {
            (available, true)
        } else {
            let waits = search.full_queue == FullQueue::Wait && !in_time.is_empty();
            (in_time.or_if_empty(available), waits)
        };
        let offers = self.costs.prices().iter().enumerate();
        mapping.offers.extend(offers.map(|(engine, processing)| {
            let has_room = search.has_room(engine);
            let is_offered = usable.contains(engine) && (has_room || waits);
            is_offered.then_some(Offer { processing: *processing, has_room })
        }));
        let Group { packets, blocks, bytes, .. } = *group;
        mapping.candidates.push(Candidate { packets, blocks, bytes });
        mapping.groups.push(*group);
    }
}
