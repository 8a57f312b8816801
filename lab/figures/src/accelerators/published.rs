//! Published numbers of the three devices, and which of them the platforms are fitted to.

/// A published rate in Gbit/s, with the number of tunnels in thousands.
#[derive(Clone, Copy)]
pub(super) struct Point {
    pub(super) tunnels: u32,
    pub(super) gbps: f64,
    /// Whether the platform is fitted to it; other rates are predicted.
    pub(super) is_fitted: bool,
}

const fn fitted(tunnels: u32, gbps: f64) -> Point {
    Point { tunnels, gbps, is_fitted: true }
}

const fn held_out(tunnels: u32, gbps: f64) -> Point {
    Point { tunnels, gbps, is_fitted: false }
}

/// CX7, "XDP vs Flower performance analysis", and "Flower Hairpin under tunnel scaling" for 1,700
/// tunnels.
pub(super) const FLOWER: [Point; 8] = [
    fitted(1000, 184.3),
    held_out(1100, 153.8),
    fitted(1200, 127.4),
    held_out(1300, 110.4),
    held_out(1400, 99.1),
    fitted(1500, 88.8),
    held_out(1600, 80.4),
    held_out(1700, 78.7),
];

/// From the same table as [`FLOWER`].
pub(super) const XDP: [Point; 7] = [
    fitted(1000, 190.5),
    held_out(1100, 176.2),
    fitted(1200, 153.3),
    held_out(1300, 139.4),
    held_out(1400, 124.2),
    fitted(1500, 110.3),
    held_out(1600, 100.4),
];

/// Load of the host's cores with XDP at the highest rate in percent, by tunnels, read from the
/// diagram of "XDP Hairpin under tunnel scaling". The first value is fitted.
pub(super) const XDP_CPU: [(u32, f64); 7] =
    [(1000, 49.0), (1100, 44.0), (1200, 38.5), (1300, 36.5), (1400, 33.5), (1500, 31.0), (1600, 29.5)];

/// BF3, test 4.
pub(super) const BLUEFIELD: [Point; 4] =
    [fitted(500, 137.84), fitted(2000, 126.04), fitted(4000, 110.64), held_out(8000, 97.86)];

/// BF3, test 3: a single port, limited by something else.
pub(super) const BLUEFIELD_ONE_PORT: [Point; 4] =
    [held_out(500, 114.86), held_out(1000, 114.92), held_out(1500, 114.77), held_out(2000, 114.61)];

/// Cabiddu: a device in batches, in GB/s, and a synchronous caller, in MB/s.
pub(super) const QAT_BATCHED_GBS: f64 = 12.0;
pub(super) const QAT_SYNCHRONOUS_MBS: f64 = 62.5;
/// Cabiddu: utilisation of the device with the synchronous caller, in percent.
pub(super) const QAT_SYNCHRONOUS_BUSY: f64 = 4.0;
/// Biggers: a synchronous caller, and a core with VAES, in MB/s.
pub(super) const QAT_EMERALD_RAPIDS_MBS: f64 = 289.0;
pub(super) const CORE_MBS: f64 = 16171.0;
