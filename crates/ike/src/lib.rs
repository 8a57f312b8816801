//! The bridge to strongSwan's charon, which does IKE and hands its SAs and policies to the gateway.
//!
//! [`protocol`] is what passes between charon's plugin (`charon/`) and the gateway, as types with
//! `encode` and `decode`. [`state`] is what charon has installed, and what the gateway is to do
//! about it. [`server`] listens for charon and carries messages both ways. [`local`] makes the Unix
//! sockets that it and the gateway's control socket listen on.

pub mod local;
pub mod protocol;
pub mod server;
pub mod state;
