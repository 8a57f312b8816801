//! The sliding window and the finishing-time scheduler.
//!
//! A packet's path: [`Scheduler::push`] puts an [`Item`] into the window, [`Scheduler::dispatch`]
//! takes the packets of one SA out of it as a multi-packet and names the engine with the lowest
//! finishing time (a [`Dispatch`]), [`Scheduler::complete`] reports that the engine is done with
//! it. [`OrderedRelease`] then releases packets in the order of their SA. A burst that gains
//! nothing by sorting stays whole: [`Scheduler::admission`] decides that, and its dispatch is a
//! [`TrainDispatch`]. The rules are those of *Scheduling Small Packets in IPSec Multi-accelerator
//! Based Systems* (Taddeo, Ferrante, Piuri), section III; what a packet is, the scheduler never
//! sees.
//!
//! Pure: no clock and no thread. Time is in ticks of the caller's choice (1 ns in the gateway, 1 ps
//! in the simulator) and never goes back.
//!
//! ```
//! use convoy_scheduler::{CostModel, EngineModel, Input, Item, Scheduler, SchedulerConfig};
//!
//! let engine = |name: &str, is_cpu, t_init, t_block| EngineModel {
//!     name: name.to_owned(),
//!     is_cpu,
//!     depth: 10,
//!     costs: vec![Some(CostModel { t_init, t_block })],
//! };
//! let engines = vec![engine("cpu", true, 100.0, 9.0), engine("card", false, 300.0, 1.0)];
//! let config = SchedulerConfig { window: 3, ..SchedulerConfig::default() };
//! let mut scheduler = Scheduler::new(config, engines).expect("a good configuration");
//!
//! for (sa, name) in [(7, "a"), (8, "b"), (7, "c")] {
//!     let item = Item { sa, algorithm: 0, class: 0, blocks: 20, bytes: 320, payload: name };
//!     scheduler.push(0, item).expect("the window has room");
//! }
//! // The window is full: the two packets of SA 7 go together, to the card, since 300 + 40 < 100 + 360.
//! let dispatch = scheduler.dispatch(0, Input::More).expect("a full window");
//! assert_eq!((dispatch.engine, &dispatch.items), (1, &vec!["a", "c"]));
//! assert_eq!((dispatch.predicted_wait, dispatch.predicted_processing), (0, 340));
//!
//! scheduler.complete(340, dispatch.engine, dispatch.ticket, Some(340));
//! scheduler.recycle(dispatch.items); // The buffer comes back: steady state allocates nothing.
//! // No input at hand and an idle engine: "b" need not wait for a full window.
//! assert!(scheduler.dispatch(340, Input::Paused).is_some());
//! ```
//!
//! # Choices that the rules leave open
//! - **Order and classes.** A multi-packet holds all packets of its SA, of whatever class, since
//!   they leave in the order in which they got their sequence numbers: a packet of a lower class
//!   rides with its SA.
//! - **Classes and the window.** The window's size is over all classes; part of it is kept for
//!   each, see [`Scheduler::push`].
//! - **An SA that no available engine can serve** stops the window when its packet is the
//!   reference, as a full queue does. The owner keeps such an SA out, or has an engine that can do
//!   everything.
//! - **Other SAs behind a group that waits** for room stay behind it. No class ever passes a higher
//!   one.
//! - **An engine that is late** is not waited for: see [`SchedulerConfig::late_margin`].
//!
//! # Worker overhead
//!
//! Processor 0 of the paper does nothing but encrypt. A gateway's core also receives, prepares and
//! sends each packet, and whatever an engine on that core does delays all of that: between two
//! multi-packets such an engine always looks idle, although its core is the bottleneck. So its
//! finishing time may include, beside `w` and `p`, the core's overhead for the packets at hand: the
//! overhead per packet ([`Scheduler::set_worker_overhead`]) times the packets in the window and
//! those before it ([`Scheduler::set_before_window`]). It counts
//! - only for engines whose [`EngineModel::is_cpu`] is set, and not under a [`Heuristic`];
//! - for all of these packets while [more input is at hand](Input::More), and
//!   [otherwise](Input::Paused) without those of the multi-packet itself: a packet that is alone
//!   keeps no packet waiting;
//! - while more input is at hand, for no less than the overhead until the core can give other
//!   engines more work ([`Scheduler::set_overhead_ahead`]): with less, these run idle while the
//!   core is busy. Otherwise the core soon has nothing to do, and packets would only wait
//!   elsewhere;
//! - not if the engine chosen with it has no room: while the caller waits for room its core has
//!   nothing else to do. So nothing waits that would not wait without it.
//!
//! The `w` of a [`Dispatch`] excludes it, since the engine starts at once.
//!
//! # The handover
//!
//! Giving packets to an engine elsewhere takes the caller's core some time as well: copies of the
//! input, a queue both ways, cache lines written by another core. Its
//! [stated cost](Scheduler::set_handover) counts
//! - as part of the finishing time of an engine elsewhere;
//! - and while [more input is at hand](Input::More), engines elsewhere are left out if the handover
//!   would cost the core at least half of what an engine of its own with room takes for the
//!   packets: everything waits for the core, which would gain nothing.
//!
//! The `w` and `p` of a [`Dispatch`] exclude it. An unstated cost is 0.
//!
//! # The policy `sufferage`
//!
//! [`SchedulingPolicy::Sufferage`] considers all multi-packets of a full window, and not only the
//! first one (a batch-mode heuristic of Maheswaran et al., 1999):
//! - The multi-packet goes next whose second lowest finishing time exceeds its lowest by most (its
//!   *sufferage*), to the engine with its lowest. On a tie the one nearer to the head goes first.
//! - If that engine has no room, nothing goes: the window grows, and the choice is made again at
//!   each arrival and completion. [`FullQueue::Skip`] leaves engines without room out instead.
//! - A multi-packet that as many others have passed as [`Research::ageing`] says goes next,
//!   as policy `finishing-time` would send it. Only the first one can be that: it was passed by at
//!   least as many as any other.
//! - While the window has room, which an idle engine or [`SchedulerConfig::max_wait`] may dispatch,
//!   the first one goes next as well: it has waited longest, and nothing is short.
//! - Late engines, the worker's overhead and handovers count as under `finishing-time`.
//!
//! With one engine, or with `ageing = 0`, this is `finishing-time`. A decision looks at every size
//! of multi-packet on every engine, which takes longer than the first one alone.
//!
//! The rules that these two policies are compared with, the baselines among them, are outside this
//! crate, which calls them as a [`Heuristic`].
//!
//! # The change of SA
//!
//! An engine that has all keys at hand takes a *train*: a burst as it came, whatever its SAs
//! ([`Scheduler::admission`]). It is started once, so that it costs `t_init + t_block * n + t_key *
//! c` with `c` changes of SA ([`Scheduler::set_t_key`]). Where a change costs more than a separate
//! multi-packet, the window sorts packets by SA instead.
//!
//! On a processor's core a line over blocks misses short packets by a factor of two, and a packet
//! alone on vector lanes by three: a [`TrainModel`] has terms for each packet and for the longest.
//! A packet alone is then left to an engine without lanes.
//!
//! # The adaptive window
//!
//! Bundling saves the engine `t_init` for every packet of a multi-packet but the first. It costs a
//! packet the time it stood in the window while its engine was idle; while the engine is busy the
//! packet would have waited anyway. Every 64 multi-packets the two sums are compared: the window
//! doubles if more was saved, halves if more was lost, and stays if they are equal.

mod adaptive;
mod choice;
mod classes;
mod config;
mod cost;
mod engine;
mod engine_mask;
mod forecast;
mod handover;
mod heuristic;
mod histogram;
mod order;
mod policy;
mod records;
mod room;
mod scheduler;
mod settings;
mod snapshot;
mod sufferage;
mod train;
mod window;

pub use config::{CLASSES, ClassDiscipline, ConfigError, Input, Research, SchedulerConfig, WINDOW_MAX};
pub use cost::{CostModel, EngineModel, Handover, TrainModel};
pub use engine_mask::ENGINES;
pub use forecast::Forecast;
pub use heuristic::{Candidate, Done, EngineState, Heuristic, HeuristicFactory, Offer, Pick, View};
pub use histogram::Histogram;
pub use order::OrderedRelease;
pub use policy::{PolicyError, SchedulingPolicy};
pub use room::{DepthUnit, FullQueue, NameError};
pub use scheduler::{Completed, Dispatch, Scheduler};
pub use snapshot::{EngineSnapshot, SchedulerSnapshot};
pub use train::{Admission, Burst, Outstanding, Parts, TrainDispatch, TrainPart};
pub use window::Item;
