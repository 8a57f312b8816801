//! What a gateway shows of itself, as plain data.
//!
//! - [`Snapshot`](snapshot::Snapshot) is the visible state of a gateway; `convoy show`, the metrics
//!   page and tests read it.
//! - [`Events`](events::Events) logs what happens and keeps it for `convoy show events`.
//! - [`Survey`](survey::Survey) walks over a worker's SAs, tunnels and policies in steps between
//!   its rounds, and reports what it finds.
//!
//! This crate has no thread and no socket, and does not print.

pub mod drop_words;
pub mod events;
pub mod snapshot;
pub mod survey;
