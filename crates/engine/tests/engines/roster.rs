//! Every engine of this build, reference first.

use convoy_engine::{Engine, Software};

pub(crate) fn every_engine() -> Vec<Box<dyn Engine>> {
    vec![Box::new(Software::new("software"))]
}
