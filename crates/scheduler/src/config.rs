//! The configuration of a scheduler.

use crate::heuristic::HeuristicFactory;
use crate::policy::SchedulingPolicy;
use crate::room::{DepthUnit, FullQueue};

/// The largest window, in packets.
pub const WINDOW_MAX: usize = 1024;
/// The most traffic classes.
pub const CLASSES: usize = 8;

/// The order in which classes are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassDiscipline {
    /// Class 0 first, always.
    Strict,
    /// Each class by its weight, in blocks (deficit round robin); a weight of 0 counts as 1.
    Weighted([u32; CLASSES]),
}

/// The configuration of a scheduler. Times are in ticks.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulerConfig {
    /// Which engine gets a multi-packet.
    pub policy: SchedulingPolicy,
    /// With [`FullQueue::Wait`]: an engine whose multi-packet in service is overdue by more than
    /// this many ticks gets nothing until it completes one, as long as another engine that is not
    /// late can do the work. This bounds how long an engine that hangs, or is slower than
    /// predicted, holds others up. With `None` it is waited for however late it is.
    pub late_margin: Option<u64>,
    /// Packets in the window, 1 to [`WINDOW_MAX`]; 1 switches bundling off.
    pub window: usize,
    /// How long the window may hold packets back to grow a multi-packet, from the arrival of its
    /// first. With 0 it holds none back while an engine is idle and [no more input is at
    /// hand](Input::Paused).
    pub max_wait: u64,
    /// Bytes in the window at which it is dispatched though it is not full; also the most bytes of
    /// a multi-packet, unless it is a single packet.
    pub byte_limit: u32,
    /// Classes in use, 1 to [`CLASSES`]; a packet of a class beyond the last belongs to the last.
    pub classes: usize,
    /// In which order they are served.
    pub discipline: ClassDiscipline,
    /// Bounds in packets between which the window adapts itself, if it does; it starts from
    /// `window`. See the rule in [the crate's page](crate#the-adaptive-window).
    pub adaptive: Option<(usize, usize)>,
    /// Whether cost models follow measurements.
    pub correct: bool,
    /// Whether to count the waits, packets and times of
    /// [`SchedulerSnapshot`](crate::SchedulerSnapshot); otherwise only an adaptive window counts
    /// what it needs. A simulator measures by itself, and counting twice would take a twentieth of
    /// its time.
    pub measure: bool,
    /// What only comparisons of policies change; a gateway has the defaults.
    pub research: Research,
}

/// What comparisons of policies vary. The defaults are what the small-packets paper says, or no
/// limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Research {
    /// A heuristic that takes the policy's place. It has `full_queue`, `credits` and `ageing` as
    /// the policy `sufferage` has them.
    pub heuristic: Option<HeuristicFactory>,
    /// What a policy does if the best engine's queue is full.
    pub full_queue: FullQueue,
    /// What [`EngineModel::depth`](crate::EngineModel::depth) counts.
    pub depth_unit: DepthUnit,
    /// With policy `sufferage` and with a heuristic that looks at the whole window: how many others
    /// may pass a multi-packet before it goes next; 0 for the order of arrival. `None` for twice
    /// as many as the window has packets.
    pub ageing: Option<usize>,
    /// The most multi-packets that an engine is given, under every policy, so that the rest stays
    /// in the window where its engine can still be chosen. An engine whose work ahead is shorter
    /// than what the slowest engine would need for the multi-packet may hold more, up to its depth.
    /// `None` for as many as the depth allows.
    pub credits: Option<usize>,
    /// With several classes: the most multi-packets of a class and those below it that an engine is
    /// given, so that packets of a higher class find no more of them ahead; the highest class has
    /// no such bound. The exemption is that of `credits`. `None` for as many as the depth allows.
    pub class_credits: Option<usize>,
    /// Bytes in the window at which it is full though it could hold more packets: the upper bound
    /// on its total number of bytes that the small-packets paper proposes (section IV-B.1). The
    /// packet that reaches it still enters; the next ones find no room. Unlike
    /// [`SchedulerConfig::byte_limit`] it does not divide a multi-packet. Bursts that pass the
    /// window as they came are not counted.
    pub window_bytes: u64,
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self {
            policy: SchedulingPolicy::FinishingTime,
            late_margin: None,
            window: 32,
            max_wait: 0,
            byte_limit: 65_536,
            classes: 1,
            discipline: ClassDiscipline::Strict,
            adaptive: None,
            correct: true,
            measure: true,
            research: Research::default(),
        }
    }
}

impl Default for Research {
    fn default() -> Self {
        Self {
            heuristic: None,
            full_queue: FullQueue::Wait,
            depth_unit: DepthUnit::MultiPackets,
            ageing: None,
            credits: None,
            class_credits: None,
            window_bytes: u64::MAX,
        }
    }
}

impl SchedulerConfig {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        let in_range = |window: usize| (1..=WINDOW_MAX).contains(&window);
        if !in_range(self.window) {
            return Err(ConfigError::Window(self.window));
        }
        if let Some((least, most)) = self.adaptive
            && (!in_range(least) || !in_range(most) || least > most)
        {
            return Err(ConfigError::Adaptive { least, most });
        }
        if !(1..=CLASSES).contains(&self.classes) {
            return Err(ConfigError::Classes(self.classes));
        }
        if self.research.credits == Some(0) || self.research.class_credits == Some(0) {
            return Err(ConfigError::Credits);
        }
        if self.byte_limit == 0 {
            return Err(ConfigError::ByteLimit);
        }
        if self.research.window_bytes == 0 {
            return Err(ConfigError::WindowBytes);
        }
        Ok(())
    }
}

/// Why a configuration is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The window is out of range.
    #[error("the window must be 1 to 1024 packets, not {0}")]
    Window(usize),
    /// The bounds of an adaptive window are out of range or in the wrong order.
    #[error(
        "the bounds of an adaptive window must be 1 to 1024 packets, the lower one first, not {least} and {most}"
    )]
    Adaptive {
        /// Lower bound.
        least: usize,
        /// Upper bound.
        most: usize,
    },
    /// Too many classes, or none.
    #[error("there must be 1 to 8 classes, not {0}")]
    Classes(usize),
    /// A multi-packet must hold at least a byte.
    #[error("the byte limit must be at least 1, not 0")]
    ByteLimit,
    /// An engine without credits would get no work.
    #[error("credits must be at least 1, not 0")]
    Credits,
    /// A window must hold at least a byte.
    #[error("the window must hold at least 1 byte, not 0")]
    WindowBytes,
    /// There is no engine.
    #[error("there is no engine; at least one is needed")]
    NoEngine,
    /// There are more than [`ENGINES`](crate::ENGINES).
    #[error("there can be at most 64 engines, not {0}")]
    Engines(usize),
}

/// What the caller knows of packets that are not in the window yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// More are at hand.
    More,
    /// None now; more may come.
    Paused,
    /// None will come.
    Ended,
}
