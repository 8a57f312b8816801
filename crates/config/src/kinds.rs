//! The kinds of engine and port that a program has.

use std::fmt;

use convoy_engine::{ENGINES, Engine, EngineTable};
use convoy_port::{PORTS, PortDevice, PortTable};
use convoy_scheduler::{CostModel, HeuristicFactory};

/// A port's device as an engine, and its cost.
pub type PortEngine = (Box<dyn Engine>, CostModel);

/// The kinds of engine and port that a program has: it passes them in with the configuration.
pub struct Kinds {
    /// Of `[[engine]]`.
    pub engines: EngineTable,
    /// Of `[[port]]`.
    pub ports: PortTable,
    /// Makes the engine of a port, named after it, from the port's device.
    pub port_engine: fn(&str, PortDevice) -> PortEngine,
    /// The baselines and the rules from the literature that `policy` may name beside the
    /// scheduler's own policies. Empty in a gateway.
    pub rivals: &'static [HeuristicFactory],
}

impl fmt::Debug for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kinds")
            .field("engines", &self.engines.words())
            .field("ports", &self.ports.words())
            .finish_non_exhaustive()
    }
}

/// The kinds that `convoy` has.
pub static PRODUCT: Kinds = Kinds {
    engines: EngineTable {
        rows: ENGINES,
        example: "multibuffer",
        elsewhere: &["model", "card"],
        where_else: "a simulated engine, which only the laboratory has: install the package convoy-lab, and \
                     run this file by `convoy-lab run`",
    },
    ports: PortTable {
        rows: PORTS,
        example: "udp",
        elsewhere: &["card"],
        where_else: "a simulated port, which only the laboratory has: install the package convoy-lab, and run \
                     this file by `convoy-lab run`",
    },
    port_engine: |port, _| unreachable!("port {port} has a device, but no port of the product has one"),
    rivals: &[],
};
