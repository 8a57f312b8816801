//! `software` as if it were another engine.

use super::*;

/// `software` under another description. A test implements [`EngineQueue`] for its `Q`, which
/// decides what becomes of a multi-packet.
pub(super) struct StandIn<Q> {
    pub(super) engine: Software,
    pub(super) description: EngineDescription,
    pub(super) queue: Q,
}

impl<Q> StandIn<Q> {
    /// One with the description that `describe` makes of that of `software`.
    pub(super) fn new(
        name: &str,
        queue: Q,
        describe: impl FnOnce(EngineDescription) -> EngineDescription,
    ) -> Self {
        let engine = Software::new(name);
        let description = describe(engine.description().clone());
        Self { engine, description, queue }
    }
}

impl<Q: Send> EngineControl for StandIn<Q> {
    fn description(&self) -> &EngineDescription {
        &self.description
    }

    fn install_key(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        self.engine.install_key(sa, keys)
    }

    fn remove_key(&mut self, sa: SaIndex) {
        self.engine.remove_key(sa);
    }
}
