//! What IP itself asks for: flows, fragments, the traffic class.

pub(crate) mod flow;
pub(crate) mod fragment;
pub(crate) mod reassembly;
pub(crate) mod tos;
