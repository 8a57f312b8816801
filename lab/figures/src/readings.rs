//! The readings of the paper: what it leaves open, and the values with which a section's own
//! figures are possible.

use std::fmt::{self, Display};

use convoy_scheduler::{DepthUnit, FullQueue};
use convoy_sim::{FITTED_TRACE_LOCALITY, Platform, Report};

/// What bounds the work that the processors hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Limit {
    /// A queue of this depth at each processor.
    Queues(usize, DepthUnit),
    /// The packets that all processors hold together.
    Pool(usize),
}

/// The transfers of a multi-packet to and from an accelerator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Transfers {
    /// Two, in and out.
    Two,
    /// One.
    One,
    /// One, whose time is part of the processing time that the scheduler expects.
    OnePredicted,
}

/// When a packet's latency begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum LatencyFrom {
    /// When its multi-packet is scheduled, as section IV-B.1 defines it.
    Scheduling,
    /// When it enters the window, on which the explanation of figure 7 rests. In this platform a
    /// packet enters the window when it arrives.
    Window,
}

impl LatencyFrom {
    /// The average latency in ms.
    pub(super) fn of(self, report: &Report) -> f64 {
        match self {
            Self::Scheduling => report.latency_ms,
            Self::Window => report.sojourn_ms,
        }
    }
}

/// Values of the open parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Open {
    pub(super) limit: Limit,
    /// What happens to a multi-packet if the queue of its best processor is full.
    pub(super) full_queue: FullQueue,
    pub(super) transfers: Transfers,
    pub(super) latency: LatencyFrom,
    /// `t_init` of the accelerator, in us.
    pub(super) t_init_us: f64,
    /// Locality of the trace.
    pub(super) locality: f64,
}

impl Open {
    /// The values of the platform's file.
    pub(super) fn of(platform: &Platform) -> Self {
        let scheduler = &platform.scheduler;
        let depth = platform.processors.first().map_or(10, |processor| processor.depth);
        Self {
            limit: Limit::Queues(depth, scheduler.depth_unit.parse().unwrap_or_default()),
            full_queue: scheduler.full_queue.parse().unwrap_or_default(),
            transfers: Transfers::Two,
            latency: LatencyFrom::Scheduling,
            t_init_us: platform.reference.t_init_us,
            locality: FITTED_TRACE_LOCALITY,
        }
    }
}

impl Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queues(depth, unit) => write!(f, "queues of {depth} {unit}"),
            Self::Pool(packets) => write!(f, "a pool of {packets} packets"),
        }
    }
}

impl Display for Transfers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Two => "two transfers",
            Self::One => "one transfer",
            Self::OnePredicted => "one expected transfer",
        })
    }
}

impl Display for LatencyFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scheduling => "latency from scheduling",
            Self::Window => "latency from the window",
        })
    }
}

/// The values as text for reports.
impl Display for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, full_queue, transfers, latency, t_init_us, locality } = self;
        write!(
            f,
            "{limit}, full_queue {full_queue}, {transfers}, {latency}, t_init {t_init_us} us, locality of the trace {locality}"
        )
    }
}

/// A way to read the paper, under which a claim is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reading {
    /// The platform's file: queues of multi-packets, and each multi-packet in and out.
    Queues,
    /// A pool of packets and one transfer: section IV-B.2.
    Pool,
    /// A pool of packets and one transfer, with latency from the window: section IV-B.1.
    PoolFromWindow,
    /// Queues of bytes, as in the processors' local memory.
    LocalMemory,
}

/// Packets of the pool, and `t_init` with it in us: the values that show most claims.
const POOL: usize = 72;
const POOL_T_INIT_US: f64 = 1.0;
/// Bytes of a processor's local memory, and `t_init` with it in us.
const LOCAL_MEMORY: usize = 16_000;
const LOCAL_MEMORY_T_INIT_US: f64 = 5.0;

impl Reading {
    /// All readings.
    pub(super) const ALL: [Self; 4] = [Self::Queues, Self::Pool, Self::PoolFromWindow, Self::LocalMemory];

    /// Its name in tables.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Queues => "queues",
            Self::Pool => "pool",
            Self::PoolFromWindow => "pool from the window",
            Self::LocalMemory => "local memory",
        }
    }

    /// Its values of the open parameters.
    pub(super) fn open(self, platform: &Platform) -> Open {
        let queues = Open::of(platform);
        let pool =
            Open { limit: Limit::Pool(POOL), transfers: Transfers::One, t_init_us: POOL_T_INIT_US, ..queues };
        match self {
            Self::Queues => queues,
            Self::Pool => pool,
            Self::PoolFromWindow => Open { latency: LatencyFrom::Window, ..pool },
            Self::LocalMemory => Open {
                limit: Limit::Queues(LOCAL_MEMORY, DepthUnit::Bytes),
                transfers: Transfers::OnePredicted,
                t_init_us: LOCAL_MEMORY_T_INIT_US,
                ..queues
            },
        }
    }
}
