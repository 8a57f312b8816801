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
pub use lookaside::LookasideCard;
pub use settings::CardEngineSettings;

/// The engine of a port of kind `card`, which is the port's own card, and its cost.
///
/// # Panics
/// If the device is not of such a port.
#[cfg(feature = "card")]
pub(crate) fn of_port(port: &str, device: convoy_port::PortDevice) -> convoy_config::PortEngine {
    let control = device.downcast::<convoy_card::nic::NicControl>().expect("only the card has a device");
    let (t_init, t_block) = CardInFlight::cost_ns();
    (Box::new(CardInFlight::new(port, *control)), convoy_scheduler::CostModel { t_init, t_block })
}

/// As without the feature no port has a device, there is no engine.
#[cfg(not(feature = "card"))]
pub(crate) fn of_port(port: &str, _: convoy_port::PortDevice) -> convoy_config::PortEngine {
    unreachable!("port {port} has a device in a build without the card")
}
