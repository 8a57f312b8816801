//! The card as a network interface of the kernel, without a gateway: a bump in the wire (RFC 4301
//! section 3.3).
//!
//! - [`NicInterface`] is the interface and the card behind it. The kernel has addresses, routes,
//!   ARP and everything else; what it sends reaches the line through the card, and what comes from
//!   the line reaches it.
//! - `Bump` decides on each IP packet between the two by the policies of the configuration, like a
//!   gateway: an SA protects it, it passes unchanged, or it is dropped. ESP packets are prepared
//!   without encryption, and the card encrypts them as they leave; those that it has decrypted are
//!   checked and unpacked. Frames keep their Ethernet addresses.
//!
//! Needs the feature `card`; without it only the configuration can be read.

#[cfg(feature = "card")]
mod bump;
mod config;
#[cfg(feature = "card")]
mod interface;
#[cfg(feature = "card")]
mod sas;
#[cfg(all(test, feature = "card"))]
mod tests;

pub use config::NicConfig;
#[cfg(feature = "card")]
pub use interface::{NicError, NicInterface, NicTotals};
