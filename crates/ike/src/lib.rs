//! The bridge to strongSwan's charon, which does IKE and hands its SAs and policies to the gateway.
//!
//! [`protocol`] is what passes between charon's plugin (`charon/`) and the gateway, as types with `encode` and `decode`.

pub mod protocol;
