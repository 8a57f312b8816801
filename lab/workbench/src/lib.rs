//! The laboratory: gateways in one process, whose packets are counted and compared one by one.
//!
//! Each part sets up gateways from a configuration ([`convoy_gateway::assemble`]), feeds them with
//! traffic, and returns its results as plain data; the caller prints them.
//!
//! - [`demo`] connects two gateways by a link in memory and compares every packet that arrives with
//!   what was sent. A [`demo::Platform`] is a set of engines, a [`demo::Rule`] a policy with its
//!   options, and a [`demo::Trial`] runs both under a load; [`demo::Bench`] alternates trials of
//!   several rules and returns a [`demo::Measurement`] of medians for each. `convoy-lab demo` and
//!   the benches of policies and accelerators are built on these; a [`demo::ModeComparison`] has
//!   the same traffic in tunnel mode and with IP-TFS.
//! - [`plan`] simulates what this machine's engines would achieve with some traffic: a
//!   [`plan::Trace`] is what a gateway would hand to its scheduler, a [`plan::Machine`] holds the
//!   measured costs of its engines, and [`plan::plan`] tries windows, engines and cards.
//!   [`plan::measure`] runs the same traffic through the gateway itself, for comparison.
//!
//! `benches/throughput` measures engines and the whole path against ipsec-mb on its own. Gateways
//! that are measured only by the packets that they forward, as third-party ones are, belong to
//! `convoy-measure`.
//!
//! Nothing here prints or parses arguments, and no product crate depends on it.

pub mod demo;
pub mod plan;
