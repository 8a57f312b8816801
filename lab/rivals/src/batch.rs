//! Batch-mode rules over the whole window (Maheswaran et al. 1999): each dispatch considers all
//! multi-packets that the window holds, with the engines' waiting times as they are then.

use convoy_scheduler::{Heuristic, Offer, Pick, View};

/// Which multi-packet of the window goes first, each to the engine with room where it finishes
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchRule {
    /// The one that finishes first.
    MinMin,
    /// The one that finishes last.
    MaxMin,
    /// The one that would suffer most if it got the second best engine.
    Sufferage,
}

/// A batch-mode rule. Only engines with room count, since an assignment is final.
pub(crate) struct Batch(pub(crate) BatchRule);

impl Heuristic for Batch {
    fn reach(&self) -> usize {
        usize::MAX
    }

    fn choose(&mut self, view: &View<'_>) -> Option<Pick> {
        let mut chosen: Option<(u64, Pick)> = None;
        for group in 0..view.groups.len() {
            let Some((engine, finish, second)) = best_two(view, group) else { continue };
            let urgency = match self.0 {
                BatchRule::MinMin => u64::MAX - finish,
                BatchRule::MaxMin => finish,
                BatchRule::Sufferage => second - finish,
            };
            // On a tie the one nearer to the head goes first.
            if chosen.is_none_or(|(most, _)| urgency > most) {
                chosen = Some((urgency, Pick { group, engine }));
            }
        }
        chosen.map(|(_, pick)| pick)
    }
}

/// The engine with room where a multi-packet finishes first, that time, and the second best one;
/// the same time twice if there is only one engine.
fn best_two(view: &View<'_>, group: usize) -> Option<(usize, u64, u64)> {
    let finish = |(engine, offer): (usize, Offer)| (view.finish(engine, offer), engine);
    let (best, engine) = view.open(group).map(finish).min()?;
    let others = view.open(group).filter(|(other, _)| *other != engine);
    let second = others.map(|other| finish(other).0).min();
    Some((engine, best, second.unwrap_or(best)))
}
