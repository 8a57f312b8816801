//! The `cryptodev` engine: a crypto device of DPDK's, hardware or software; its settings are known
//! in every build, the devices only in one with DPDK.

#[cfg(feature = "dpdk")]
mod core;
#[cfg(feature = "dpdk")]
mod engine;
#[cfg(feature = "dpdk")]
mod found;
#[cfg(feature = "dpdk")]
mod job;
#[cfg(feature = "dpdk")]
mod keys;
mod settings;
#[cfg(feature = "dpdk")]
mod suite;
#[cfg(feature = "dpdk")]
mod trial;

#[cfg(feature = "dpdk")]
pub use engine::Cryptodev;
pub use settings::CryptodevSettings;

/// The arguments with which DPDK is started for these devices where nobody says any.
#[cfg(feature = "dpdk")]
pub fn dpdk_arguments(devices: &[&str]) -> Vec<String> {
    convoy_dpdk::default_arguments(devices.iter().copied())
}

/// Starts DPDK while the process has its privileges: with `arguments`, or with those that these
/// devices need. Without `arguments` and devices nothing is started.
///
/// # Errors
/// Why it does not start, and what to do.
#[cfg(feature = "dpdk")]
pub fn start_dpdk(arguments: Option<&[String]>, devices: &[&str]) -> Result<(), String> {
    if arguments.is_none() && convoy_dpdk::Eal::running().is_some() {
        return Ok(());
    }
    let arguments = match arguments {
        Some(arguments) => arguments.to_vec(),
        None if devices.is_empty() => return Ok(()),
        None => dpdk_arguments(devices),
    };
    convoy_dpdk::Eal::start(&arguments).map(|_| ()).map_err(|error| error.to_string())
}

/// Starts DPDK while the process has its privileges; it is not in this build.
///
/// # Errors
/// That it is not, if anything asks for it.
#[cfg(not(feature = "dpdk"))]
pub fn start_dpdk(arguments: Option<&[String]>, devices: &[&str]) -> Result<(), String> {
    match arguments {
        None if devices.is_empty() => Ok(()),
        _ => Err(settings::not_built_in()),
    }
}

/// Has DPDK's thread do what every thread is to do that had the process's privileges.
///
/// # Errors
/// In DPDK's words, if it cannot.
#[cfg(feature = "dpdk")]
pub fn in_thread_of_dpdk(call: impl FnOnce() + Send + 'static) -> Result<(), String> {
    convoy_dpdk::Eal::running().map_or(Ok(()), |eal| eal.in_its_thread(call))
}

/// Has DPDK's thread do something; there is none in this build.
///
/// # Errors
/// Never.
#[cfg(not(feature = "dpdk"))]
pub fn in_thread_of_dpdk(_: impl FnOnce() + Send + 'static) -> Result<(), String> {
    Ok(())
}
