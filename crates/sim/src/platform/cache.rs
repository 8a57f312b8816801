//! `cache` of a `[[processor]]`.

use serde::{Deserialize, Serialize};

/// The most SAs that a device's cache may hold: the simulator keeps a list of them.
pub(super) const SAS_MAX: usize = 1 << 20;

/// The SAs that a device keeps by itself. A multi-packet of any other SA costs the device the time
/// to fetch it, and replaces the one that was used least recently (LRU). Before traffic begins the
/// cache holds the SAs with the lowest numbers: they are installed before they are used.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SaCacheSpec {
    /// How many it holds.
    pub sas: usize,
    /// What a miss costs the device, in us.
    pub miss_us: f64,
}
