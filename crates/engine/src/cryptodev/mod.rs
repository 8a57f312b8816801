//! The `cryptodev` engine: a crypto device of DPDK's, hardware or software; its settings exist in
//! every build, the devices only in one with DPDK.

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

/// DPDK's default arguments for these devices.
#[cfg(feature = "dpdk")]
pub fn dpdk_arguments(devices: &[&str]) -> Vec<String> {
    convoy_dpdk::default_arguments(devices.iter().copied())
}

/// Starts DPDK while the process has its privileges: with `arguments`, or with those that these
/// devices need. Without both nothing is started.
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
/// That it is not, if anything requires it.
#[cfg(not(feature = "dpdk"))]
pub fn start_dpdk(arguments: Option<&[String]>, devices: &[&str]) -> Result<(), String> {
    match arguments {
        None if devices.is_empty() => Ok(()),
        _ => Err(settings::not_built_in()),
    }
}

/// Runs on DPDK's thread what every thread must run that had the process's privileges.
///
/// # Errors
/// In DPDK's words, if it cannot.
#[cfg(feature = "dpdk")]
pub fn in_thread_of_dpdk(call: impl FnOnce() + Send + 'static) -> Result<(), String> {
    convoy_dpdk::Eal::running().map_or(Ok(()), |eal| eal.in_its_thread(call))
}

/// Runs something on DPDK's thread; there is none in this build.
///
/// # Errors
/// Never.
#[cfg(not(feature = "dpdk"))]
pub fn in_thread_of_dpdk(_: impl FnOnce() + Send + 'static) -> Result<(), String> {
    Ok(())
}
