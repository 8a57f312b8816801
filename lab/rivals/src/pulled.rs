//! Late binding, as in PANIC (Lin et al., OSDI 2020): packets stay in one queue until an engine has
//! a credit for them.

use convoy_scheduler::{Heuristic, Pick, View};

use crate::immediate::head_to;

/// Multi-packets that an engine may hold: one in service, and one so that it never waits for the
/// next.
const CREDITS: usize = 2;

/// The head of the queue goes to the engine with the most credits, and waits if none has any. No
/// model of the engines is needed.
pub(crate) struct LateBinding;

impl Heuristic for LateBinding {
    fn choose(&mut self, view: &View<'_>) -> Option<Pick> {
        let queued = |engine: usize| view.engines[engine].queued;
        let with_credit = view.offers(0).filter(|(engine, _)| queued(*engine) < CREDITS);
        with_credit.min_by_key(|(engine, _)| queued(*engine)).map(|(engine, _)| head_to(engine))
    }
}
