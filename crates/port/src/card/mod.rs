//! The card as the protected side's network interface; its settings exist in every build, the port
//! itself only in one with the card.

#[cfg(feature = "card")]
mod card_port;
mod filter;
#[cfg(feature = "card")]
mod interface_line;
#[cfg(feature = "card")]
mod kernel_interface;
mod settings;
mod signature;
#[cfg(all(test, feature = "card"))]
mod tests;

#[cfg(feature = "card")]
pub use card_port::{CardConfig, CardPort};
pub use convoy_card::filter::FilterTable;
pub use filter::FilterKeys;
#[cfg(feature = "card")]
pub use interface_line::InterfaceLine;
#[cfg(feature = "card")]
pub use kernel_interface::KernelInterface;
pub use settings::{CardSettings, InterruptSettings};
pub use signature::SignatureKeys;
