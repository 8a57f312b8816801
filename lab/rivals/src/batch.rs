//! Batch-mode rules over the whole window (Maheswaran et al. 1999): each dispatch considers all
//! multi-packets that the window holds, with the engines' waiting times as they are then.

use convoy_scheduler::{Heuristic, Offer, Pick, View};

/// Which multi-packet of the window goes first, each to the engine where it finishes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchRule {
    /// The one that finishes first.
    MinMin,
    /// The one that finishes last.
    MaxMin,
}

/// A batch-mode rule. Where it may wait for room, it waits for the engine of the multi-packet that
/// goes first, and chooses again then.
pub(crate) struct Batch(pub(crate) BatchRule);

impl Heuristic for Batch {
    fn reach(&self) -> usize {
        usize::MAX
    }

    fn choose(&mut self, view: &View<'_>) -> Option<Pick> {
        let mut chosen: Option<(u64, Pick)> = None;
        for group in 0..view.groups.len() {
            let finish = |(engine, offer): (usize, Offer)| (view.finish(engine, offer), engine);
            let Some((finish, engine)) = view.offers(group).map(finish).min() else { continue };
            let urgency = match self.0 {
                BatchRule::MinMin => u64::MAX - finish,
                BatchRule::MaxMin => finish,
            };
            // On a tie the one nearer to the head goes first.
            if chosen.is_none_or(|(most, _)| urgency > most) {
                chosen = Some((urgency, Pick { group, engine }));
            }
        }
        chosen.map(|(_, pick)| pick)
    }
}
