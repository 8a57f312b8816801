//! The finishing time, where others may pass a multi-packet that waits for its engine.

use convoy_scheduler::{Heuristic, Pick, View};

/// The first multi-packet of the window whose engine has room, at the engine with its lowest
/// finishing time. As published, the first one of the window alone is considered, and what waits
/// for room holds up all others (small-packets paper, section III-B).
pub(crate) struct Overtake;

impl Heuristic for Overtake {
    fn reach(&self) -> usize {
        usize::MAX
    }

    fn choose(&mut self, view: &View<'_>) -> Option<Pick> {
        (0..view.groups.len()).find_map(|group| {
            // On a tie accelerators precede the CPU, then faster engines slower ones, as under
            // `finishing-time`.
            let best = view.offers(group).min_by_key(|(engine, offer)| {
                (view.finish(*engine, *offer), view.engines[*engine].is_cpu, offer.processing)
            });
            let (engine, _) = best.filter(|(_, offer)| offer.has_room)?;
            Some(Pick { group, engine })
        })
    }
}
