//! The page for browsers: a document that never changes, and once a second the gateway's state as
//! JSON, of which the server filters, sorts and cuts the tunnels.

mod document;
mod drops;
mod engines;
mod interval;
mod query;
mod since;
mod status;
mod statuses;
mod tunnel;

pub(super) use document::{Document, protect};
pub(super) use query::Query;
pub(super) use status::GatewayStatus;
pub(super) use statuses::Statuses;
