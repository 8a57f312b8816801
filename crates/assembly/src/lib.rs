//! From a configuration to pipelines.
//!
//! - [`assemble`] creates engines, SAs, policies and a
//!   [pipeline](convoy_dataplane::pipeline::Pipeline) for each worker.
//! - [`change`] is what a new configuration changes in a running one, and [`ranks`] are the places
//!   of its tunnels' policies.
//! - [`choice`] has the engines of a configuration that names none; [`engines`] is the overview of
//!   all kinds, with their costs.
//! - [`replay`] sends a capture through a pipeline.
//!
//! There is no gateway here: the laboratory uses this crate without one. It has no thread of its
//! own, and does not print.

pub mod assemble;
pub mod change;
pub mod choice;
pub mod engines;
pub mod ranks;
pub mod replay;
