//! Prometheus metrics on a configured address, made from the same
//! [`Snapshot`](crate::snapshot::Snapshot) as `convoy show`.

mod page;
mod server;
mod text;

pub use server::{bind, serve};
pub use text::{CONTENT_TYPE, write};
