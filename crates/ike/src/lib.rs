//! The bridge to strongSwan's charon, which does IKE and hands its SAs and policies to the gateway.
//!
//! - [`Message`](protocol::Message), [`CharonRequest`](protocol::CharonRequest),
//!   [`CharonReply`](protocol::CharonReply) and [`SaEvent`](protocol::SaEvent) are what passes
//!   between charon's plugin (`charon/`) and the gateway, as types with `encode` and `decode`.
//! - [`CharonState`](state::CharonState) is what charon has installed. It executes requests on an
//!   [`SaBackend`](state::SaBackend), the gateway's workers. Pure.
//! - [`Server`](server::Server) listens for charon, passes requests to a
//!   [`Handler`](server::Handler), and has an [`Outlet`](server::Outlet) for events.
//! - [`local`] creates Unix sockets for root and the gateway's own user alone; the control socket
//!   is another one.
//!
//! A request's way: charon's plugin sends it over the Unix socket, the server decodes it on the
//! connection's thread, and the handler gives it to the state, which changes the workers' SAs and
//! policies and returns the reply. Events go the other way: an SA that is wanted, a limit reached,
//! a peer that has moved, and IKE messages that the ports received. When charon connects again
//! after a restart it knows nothing of what is installed: SAs and their policies live on until the
//! SAs' lifetimes end, the rest is removed.
//!
//! Knows nothing of IKE itself, packets, ciphers or workers.

pub mod local;
pub mod protocol;
pub mod server;
pub mod state;
