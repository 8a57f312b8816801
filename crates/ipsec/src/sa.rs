//! What an SA is: its settings, algorithms, identity and lifetime.

pub(crate) mod algorithm;
pub(crate) mod config;
pub(crate) mod facts;
pub(crate) mod id;
pub(crate) mod lifetime;
pub(crate) mod proposal;
pub(crate) mod proposal_list;
pub(crate) mod validate;
