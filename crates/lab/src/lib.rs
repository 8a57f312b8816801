//! The laboratory: gateways in one process, whose packets are counted and compared one by one.
//!
//! Each part puts gateways together from a configuration ([`convoy_gateway::assemble`]), gives them
//! traffic of its own, and says what came of it as plain data; who calls prints.
//!
//! - [`demo`] joins two gateways by a link in memory, and holds every packet that arrives against
//!   what was sent. A [`demo::Platform`] is a set of engines, a [`demo::Rule`] a policy with its
//!   waiting, a [`demo::Trial`] both with a load for some time; [`demo::Bench`] runs many of them
//!   in turns, and the medians are its [`demo::Measurement`]s. `convoy demo` shows them, and the
//!   benches of policies and accelerators are made of them.
//! - [`plan`] asks the simulator what this machine's engines would do: a [`plan::Trace`] is what a
//!   gateway would hand to its scheduler, a [`plan::Machine`] what its engines were measured to
//!   cost, and [`plan::plan`] tries windows, engines and cards. [`plan::measure`] has the gateway
//!   itself do the same work.
//! - [`replay`] sends a capture through one pipeline.
//!
//! `benches/throughput` measures engines and the whole path beside ipsec-mb alone. Gateways
//! measured by their packets alone, as those of others are, belong to `convoy-measure`.
//!
//! Nothing here prints or parses arguments, and no product crate depends on it.

pub mod demo;
pub mod plan;
pub mod replay;
