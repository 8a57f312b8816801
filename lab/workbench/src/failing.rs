//! An engine that fails on purpose.

use convoy_engine::{Engine, FaultPlan, Faulty, InjectedFault};

/// Multi-packets that an engine processes before [`make_fail`] lets it fail. A model may get only a
/// few per second where the processor's core is faster.
pub(crate) fn fails_after(is_model: bool) -> u32 {
    if is_model { 2 } else { 2_000 }
}

/// Makes the engine of this name disappear after some work, and return at the third probe.
///
/// # Errors
/// The names of the available engines, if there is none of this name.
pub(crate) fn make_fail(engines: &mut Vec<Box<dyn Engine>>, name: &str) -> Result<(), String> {
    let Some(at) = engines.iter().position(|engine| engine.description().name == name) else {
        let known: Vec<&str> = engines.iter().map(|engine| engine.description().name.as_str()).collect();
        return Err(known.join(", "));
    };
    let engine = engines.remove(at);
    let plan = FaultPlan {
        probes: Some(2),
        ..FaultPlan::once(InjectedFault::Vanish, fails_after(engine.description().is_model))
    };
    engines.insert(at, Box::new(Faulty::new(engine, plan)));
    Ok(())
}
