//! What an operator should look at, as far as a snapshot has it.

use super::Snapshot;

impl Snapshot {
    /// Warnings in words, each a sentence without a full stop.
    pub fn warnings(&self) -> Vec<String> {
        let silent = |worker: &u16| format!("worker {worker} does not answer, and is not counted here");
        let mut warnings: Vec<String> = self.silent_workers.iter().map(silent).collect();
        if self.charon.as_ref().is_some_and(|charon| !charon.is_connected) {
            warnings.push("charon is not connected".to_owned());
        }
        for port in self.ports.iter().filter(|port| !port.missing.is_empty()) {
            warnings.push(format!("port {} waits for the {}", port.name, port.missing.join(", ")));
        }
        warnings
    }
}
