//! `[[stage]]` and `[[cores]]`.

use serde::{Deserialize, Serialize};

/// Where a stage stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StagePosition {
    /// Before the window.
    #[default]
    Before,
    /// After cryptography.
    After,
}

/// What each packet goes through by itself: packet I/O, a lookup. First come, first served. Either
/// its own servers, or a processor that multi-packets use as well, or cores, or a bus.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StageSpec {
    /// Its name, unique.
    pub name: String,
    /// Before or after cryptography.
    pub place: StagePosition,
    /// Packets that are served at once, where it has its own servers.
    #[serde(default = "super::one")]
    pub servers: usize,
    /// The processor that does it, in turn with its multi-packets, which must have no bus; or the
    /// cores.
    #[serde(default)]
    pub on: Option<String>,
    /// The bus over which the packet is moved; then its time is the bus's.
    #[serde(default)]
    pub bus: Option<String>,
    /// Time for each packet, in us.
    #[serde(default)]
    pub packet_us: f64,
    /// Time for each byte, in ns.
    #[serde(default)]
    pub byte_ns: f64,
    /// Only packets of more than so many bytes `b` go through it: what does not fit into one frame
    /// has to be cut, for example.
    #[serde(default)]
    pub above_bytes: u32,
    /// Whether it is there.
    #[serde(default = "yes")]
    pub enabled: bool,
}

impl Default for StageSpec {
    /// A stage without a name that takes no time, before the window.
    fn default() -> Self {
        Self {
            name: String::new(),
            place: StagePosition::Before,
            servers: 1,
            on: None,
            bus: None,
            packet_us: 0.0,
            byte_ns: 0.0,
            above_bytes: 0,
            enabled: true,
        }
    }
}

fn yes() -> bool {
    true
}

/// Cores of one kind that do stages and no multi-packets. Whatever waits longest at any of their
/// stages gets the next free one.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CoresSpec {
    /// Their name, unlike any processor's.
    pub name: String,
    /// How many there are.
    pub count: usize,
}
