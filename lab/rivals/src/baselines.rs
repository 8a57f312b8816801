//! What gateways do without finishing times: the baselines. They know nothing of late engines.

use convoy_scheduler::{Heuristic, Offer, Pick, View};

use crate::immediate::head_to;

/// The engines that a baseline may choose for the head of the window, with their offers.
type Offers = Vec<(usize, Offer)>;

fn offers(view: &View<'_>) -> Offers {
    view.offers(0).collect()
}

/// Of these the one with room and the lowest key. On a tie accelerators precede the CPU, then
/// faster engines slower ones, then the order of the configuration decides: as under
/// `finishing-time`.
fn lowest(view: &View<'_>, among: &Offers, key: impl Fn(usize, Offer) -> u64) -> Option<Pick> {
    let open = among.iter().copied().filter(|(_, offer)| offer.has_room);
    let rank = |(engine, offer): &(usize, Offer)| {
        (key(*engine, *offer), view.engines[*engine].is_cpu, offer.processing, *engine)
    };
    open.min_by_key(rank).map(|(engine, _)| head_to(engine))
}

/// The lowest finishing time among the CPUs or among the accelerators; among all where there is
/// none of the kind.
fn of_kind(view: &View<'_>, is_cpu: bool) -> Option<Pick> {
    let mut among = offers(view);
    if among.iter().any(|(engine, _)| view.engines[*engine].is_cpu == is_cpu) {
        among.retain(|(engine, _)| view.engines[*engine].is_cpu == is_cpu);
    }
    lowest(view, &among, |engine, offer| view.finish(engine, offer))
}

/// The CPU alone; other engines only if no available CPU supports the algorithm.
pub(crate) struct CpuOnly;

impl Heuristic for CpuOnly {
    fn sees_all(&self) -> bool {
        true
    }

    fn choose(&mut self, view: &View<'_>) -> Option<Pick> {
        of_kind(view, true)
    }
}

/// The engines with room in turns.
#[derive(Default)]
pub(crate) struct RoundRobin {
    /// The engine whose turn it is.
    next: usize,
}

impl Heuristic for RoundRobin {
    fn sees_all(&self) -> bool {
        true
    }

    fn choose(&mut self, view: &View<'_>) -> Option<Pick> {
        let engines = view.engines.len();
        let turns = (self.next..self.next + engines).map(|engine| engine % engines);
        let mut open = turns.filter_map(|engine| Some((engine, view.offer(0, engine)?)));
        open.find(|(_, offer)| offer.has_room).map(|(engine, _)| head_to(engine))
    }

    fn assigned(&mut self, view: &View<'_>, pick: Pick) {
        self.next = (pick.engine + 1) % view.engines.len();
    }
}

/// Multi-packets of fewer bytes to the CPU, others to an accelerator, like DPDK's cryptodev
/// scheduler with two workers. If one kind is missing the other takes all.
pub(crate) struct PacketSize {
    pub(crate) threshold: u32,
}

impl PacketSize {
    /// DPDK's threshold, in bytes.
    pub(crate) const DEFAULT: Self = Self { threshold: 128 };
}

impl Heuristic for PacketSize {
    fn sees_all(&self) -> bool {
        true
    }

    fn choose(&mut self, view: &View<'_>) -> Option<Pick> {
        of_kind(view, view.groups[0].bytes < u64::from(self.threshold))
    }
}

/// The first capable accelerator in the order of the configuration, like the OpenBSD Cryptographic
/// Framework; the CPU only if there is none.
pub(crate) struct FirstCapable;

impl Heuristic for FirstCapable {
    fn sees_all(&self) -> bool {
        true
    }

    fn choose(&mut self, view: &View<'_>) -> Option<Pick> {
        let among = offers(view);
        let accelerator = among.iter().find(|(engine, _)| !view.engines[*engine].is_cpu);
        let first = accelerator.or(among.first())?;
        first.1.has_room.then(|| head_to(first.0))
    }
}

/// The lowest `w` among engines with room, whatever the multi-packet itself costs.
pub(crate) struct LeastLoaded;

impl Heuristic for LeastLoaded {
    fn sees_all(&self) -> bool {
        true
    }

    fn choose(&mut self, view: &View<'_>) -> Option<Pick> {
        lowest(view, &offers(view), |engine, _| view.engines[engine].wait)
    }
}
