//! The devices that DPDK finds on this machine, for `convoy engines`.

use convoy_dpdk::{DeviceInfo, Eal, default_arguments};
use convoy_ipsec::Transform;

use super::settings::CryptodevSettings;
use super::{engine, suite};
use crate::backend::{FoundDevice, FoundEngine, MissingEngine};

/// Software devices of this build, which are created to be listed.
const SOFTWARE: [&str; 5] =
    ["crypto_aesni_mb0", "crypto_aesni_gcm0", "crypto_chacha20_poly1305", "crypto_openssl0", "crypto_null0"];
const LEFT_OUT: &str = "algorithms that the device lacks, or lacks in ESP's lengths";

/// The running DPDK, or DPDK started to probe everything, PCI included.
fn eal() -> Result<&'static Eal, MissingEngine> {
    if let Some(eal) = Eal::running() {
        return Ok(eal);
    }
    let mut arguments = default_arguments([]);
    arguments.retain(|argument| argument != "--no-pci");
    Eal::start(&arguments).map_err(|error| MissingEngine {
        reason: error.to_string(),
        remedy: "a [dpdk] table with arguments says how to start it (docs/reference/engines.md)".to_owned(),
    })
}

/// DPDK's version; also known on a machine on which it does not start.
pub(super) fn version() -> Option<String> {
    Some(Eal::version())
}

pub(super) fn find() -> Result<FoundEngine, MissingEngine> {
    let eal = eal()?;
    let usual = CryptodevSettings::default();
    let (_, transforms) = engine::open_device(&usual).map_err(|reason| MissingEngine {
        reason,
        remedy: "choose another DPDK device (device = ... in [[engine]])".to_owned(),
    })?;
    for device in SOFTWARE {
        // A device without a driver in this build is not listed.
        let _ = eal.probe(device);
    }
    let is_all = transforms == crate::transforms();
    Ok(FoundEngine {
        version: format!("{}, {}", Eal::version(), usual.device),
        left_out: (!is_all).then_some(LEFT_OUT),
        devices: eal.crypto_devices().iter().map(reported).collect(),
        transforms,
    })
}

fn reported(device: &DeviceInfo) -> FoundDevice {
    let (transforms, lacks): (Vec<Transform>, _) = suite::claimed(device);
    let why_not = transforms.is_empty().then(|| engine::does_nothing(&device.name, &lacks));
    FoundDevice {
        name: device.name.clone(),
        summary: format!(
            "driver {}, queue pairs: {}, {}",
            device.driver, device.max_queue_pairs, device.features
        ),
        transforms,
        why_not,
    }
}
