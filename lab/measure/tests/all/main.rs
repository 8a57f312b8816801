//! The tester over links and gateways that are known.

mod gateways;
mod known_link;
