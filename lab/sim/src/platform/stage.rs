//! `[[stage]]` and `[[cores]]`.

use serde::{Deserialize, Serialize};

/// Position of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StagePosition {
    /// Before the window.
    #[default]
    Before,
    /// After cryptography.
    After,
}

/// A step that each packet passes through alone, such as packet I/O or a lookup. Packets are served
/// in order of arrival by the stage's own servers, by a processor that also processes
/// multi-packets, by cores, or by a bus.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StageSpec {
    /// Its name, unique.
    pub name: String,
    /// Before or after cryptography.
    pub place: StagePosition,
    /// Number of the stage's own servers.
    #[serde(default = "super::one")]
    pub servers: usize,
    /// The processor or the cores that serve the stage. A processor alternates between the stage
    /// and its multi-packets, and must have no bus.
    #[serde(default)]
    pub on: Option<String>,
    /// The bus over which the packet is transferred; the service time is then that of the transfer.
    #[serde(default)]
    pub bus: Option<String>,
    /// Time for each packet, in us.
    #[serde(default)]
    pub packet_us: f64,
    /// Time for each byte, in ns.
    #[serde(default)]
    pub byte_ns: f64,
    /// Only packets longer than this many bytes `b` pass through the stage, for example those that
    /// must be fragmented; 0 stands for all packets.
    #[serde(default)]
    pub above_bytes: u32,
    /// Whether the stage is in use.
    #[serde(default = "yes")]
    pub enabled: bool,
}

impl Default for StageSpec {
    /// A stage before the window, without a name and with a service time of 0.
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

/// A group of identical cores that serve stages but no multi-packets. A core that becomes free
/// takes the packet that has waited longest at any of the group's stages.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CoresSpec {
    /// Name of the group; it must differ from the name of every processor.
    pub name: String,
    /// Number of cores.
    pub count: usize,
}
