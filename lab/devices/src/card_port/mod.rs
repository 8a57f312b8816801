//! The card as the protected side's network interface; its settings exist in every build, the port
//! itself only in one with the card.

mod filter;
#[cfg(feature = "card")]
mod interface_line;
#[cfg(feature = "card")]
mod kernel_interface;
#[cfg(feature = "card")]
mod port;
mod settings;
mod signature;
#[cfg(all(test, feature = "card"))]
mod tests;

pub use convoy_card::filter::FilterTable;
pub use filter::FilterKeys;
#[cfg(feature = "card")]
pub use interface_line::InterfaceLine;
#[cfg(feature = "card")]
pub use kernel_interface::KernelInterface;
#[cfg(feature = "card")]
pub use port::{CardConfig, CardPort};
pub use settings::{CardSettings, InterruptSettings};
pub use signature::SignatureKeys;
