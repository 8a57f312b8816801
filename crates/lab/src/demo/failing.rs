//! An engine that fails half-way, to be shown what that costs.

use convoy_engine::{Engine, Fault, FaultPlan, Faulty};

/// Multi-packets that an engine does before [`make_fail`] lets it vanish. A model may get but a few
/// each second, where the processor's own core is the faster one.
pub(super) fn fails_after(is_model: bool) -> u32 {
    if is_model { 2 } else { 2_000 }
}

/// Makes the engine of this name vanish after it has done some work, and come back at the third
/// probe: to be shown what a failure costs.
///
/// # Errors
/// The names that there are, if there is none of this one.
pub(super) fn make_fail(engines: &mut Vec<Box<dyn Engine>>, name: &str) -> Result<(), String> {
    let Some(at) = engines.iter().position(|engine| engine.description().name == name) else {
        let known: Vec<&str> = engines.iter().map(|engine| engine.description().name.as_str()).collect();
        return Err(known.join(", "));
    };
    let engine = engines.remove(at);
    let plan = FaultPlan {
        probes: Some(2),
        ..FaultPlan::once(Fault::Vanish, fails_after(engine.description().is_model))
    };
    engines.insert(at, Box::new(Faulty::new(engine, plan)));
    Ok(())
}
