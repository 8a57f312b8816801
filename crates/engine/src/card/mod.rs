//! The GRIP card as an engine; its settings exist in every build, the card itself only in one with
//! the feature.

#[cfg(feature = "card")]
mod clock;
#[cfg(feature = "card")]
mod core;
#[cfg(feature = "card")]
mod esp;
#[cfg(feature = "card")]
mod in_flight;
#[cfg(feature = "card")]
mod lookaside;
mod settings;

#[cfg(feature = "card")]
pub use in_flight::CardInFlight;
#[cfg(feature = "card")]
pub use lookaside::Card;
pub use settings::CardEngineSettings;
