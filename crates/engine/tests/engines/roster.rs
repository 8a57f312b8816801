//! Every engine of this build, reference first.

use convoy_engine::{BusTiming, Engine, FaultPlan, Faulty, Model, ModelTiming, SharedBus, Software};

/// Small times, so that the suite is not kept waiting; two on one bus, one with prefetch.
fn models() -> [Box<dyn Engine>; 2] {
    let bus = SharedBus::new(BusTiming { t_cycle_ns: 0.1, ..BusTiming::PCI }).expect("a thread can be had");
    let timing = ModelTiming { t_init_ns: 100.0, t_block_ns: 0.5, ..ModelTiming::default() };
    let prefetching = ModelTiming { has_prefetch: true, ..timing };
    [Box::new(Model::new("model0", timing, bus.clone())), Box::new(Model::new("model1", prefetching, bus))]
}

pub(crate) fn every_engine() -> Vec<Box<dyn Engine>> {
    let mut engines: Vec<Box<dyn Engine>> = vec![Box::new(Software::new("software"))];
    engines.extend(models());
    engines.push(Box::new(Faulty::new(Box::new(Software::new("never-faulty")), FaultPlan::none())));
    engines
}
