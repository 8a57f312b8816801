//! `cache` of a `[[processor]]`.

use serde::{Deserialize, Serialize};

/// Largest capacity of a cache of SAs, since the simulator stores a list of its entries.
pub(super) const SAS_MAX: usize = 1 << 20;

/// A device's cache of SAs. A multi-packet of an SA that is not in the cache costs the device the
/// time to fetch it, and replaces the least recently used SA (LRU). At the start the cache holds
/// the SAs with the lowest numbers, because SAs are installed before they are used.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SaCacheSpec {
    /// Number of SAs that it holds.
    pub sas: usize,
    /// Time that a miss costs the device, in us.
    pub miss_us: f64,
}
