//! The simulator as its users see it.

mod accelerators;
mod aggregation;
mod algorithms;
mod by_hand;
mod captures;
mod claims;
mod grip_inline;
mod ixp425;
mod laws;
mod loss;
mod platforms;
mod reference;
mod sa_cache;
mod support;
