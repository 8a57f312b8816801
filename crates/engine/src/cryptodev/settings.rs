//! The `cryptodev` engine in the configuration.

use convoy_settings::{Checker, tables};

use crate::Placement;
use crate::backend::{EngineBackend, EngineStart, FoundEngine, MissingEngine};
use crate::interface::{AutoSelect, EngineTraits};

/// Operations that a queue pair holds, by default.
const DESCRIPTORS: u32 = 512;
/// SAs that a device holds, by default.
const SAS: u32 = 1024;
/// A device that works on every processor supported by Intel's library, or else on every one.
const USUAL_DEVICE: &str = if cfg!(target_arch = "x86_64") { "crypto_aesni_mb0" } else { "crypto_openssl0" };

/// The argument of DPDK's scheduler device to keep operations in order.
const ORDERING: &str = "ordering=enable";
/// DPDK's scheduler returns an operation as soon as it is done, and takes it out of a worker's
/// queue only later: by then it has another packet, whose session it replaces with that of another
/// device. `crypto_openssl` works when polled, so that most are early.
const WHY_NOT_ORDERED: &str = "remove ordering=enable: the gateway restores the order of packets itself, and \
    with this option DPDK's scheduler returns operations that one of its devices still processes, which \
    corrupts later packets";

tables! {
    /// Its own keys.
    pub CryptodevKeys {
        device: String => ", which is a DPDK crypto device",
        core: usize => ", which can run on its own thread",
        descriptors: u32 => ", which is a DPDK crypto device",
        sas: u32 => ", which is a DPDK crypto device",
    }
}

/// The settings of a `cryptodev` engine.
#[derive(Clone, Debug, PartialEq)]
pub struct CryptodevSettings {
    /// DPDK's name of the device, with its arguments if DPDK is to create it (`crypto_aesni_mb0`),
    /// or a PCI address.
    pub device: String,
    /// The core of a thread of its own; `None` is the worker's own thread.
    pub core: Option<usize>,
    /// Operations that each queue pair holds.
    pub descriptors: u32,
    /// SAs for which the device has room.
    pub sas: u32,
}

impl Default for CryptodevSettings {
    fn default() -> Self {
        Self { device: USUAL_DEVICE.to_owned(), core: None, descriptors: DESCRIPTORS, sas: SAS }
    }
}

impl CryptodevSettings {
    /// Settings for this device.
    pub fn of(device: &str) -> Self {
        Self { device: device.to_owned(), ..Self::default() }
    }

    /// Whether the device works on the core that polls it: DPDK's software devices are named after
    /// their drivers, and one of them has cores of its own.
    fn is_software(&self) -> bool {
        self.device.starts_with("crypto_") && !self.device.contains("mode=multi-core")
    }
}

impl EngineBackend for CryptodevSettings {
    type Keys = CryptodevKeys;

    const WORD: &'static str = "cryptodev";

    const TRAITS: EngineTraits = EngineTraits {
        summary: "DPDK crypto devices: QAT and other hardware, and software devices on every machine",
        is_model: false,
        auto_select: AutoSelect::Never,
        system_calls: &[],
    };

    fn check(keys: &CryptodevKeys, c: &mut Checker<'_>) -> Self {
        let usual = Self::default();
        let device = keys.device.as_ref().map_or(usual.device, |device| device.get_ref().clone());
        if let Some(text) = &keys.device {
            if text.get_ref().is_empty() {
                let what =
                    "name a device, \"crypto_aesni_mb0\" or \"0000:1a:01.0\"; `convoy engines` lists them";
                c.add(&text.span(), "engine.device", what);
            } else if text.get_ref().contains(ORDERING) {
                c.add(&text.span(), "engine.device", WHY_NOT_ORDERED);
            }
        }
        let descriptors =
            c.in_range(keys.descriptors.as_ref(), "engine.descriptors", DESCRIPTORS, 64..=16_384);
        let sas = c.in_range(keys.sas.as_ref(), "engine.sas", SAS, 1..=1 << 20);
        Self { device, core: c.core(keys.core.as_ref(), "engine.core"), descriptors, sas }
    }

    fn dpdk_device(&self) -> Option<&str> {
        Some(&self.device)
    }

    fn placement(&self) -> Placement {
        if self.core.is_none() && self.is_software() { Placement::Inline } else { Placement::Lookaside }
    }

    fn is_shareable(&self) -> bool {
        // Each worker has a queue pair of its own.
        true
    }

    fn find() -> Result<FoundEngine, MissingEngine> {
        find()
    }

    fn version() -> Option<String> {
        version()
    }

    fn open(&self, name: &str) -> Result<EngineStart, String> {
        open(self, name)
    }
}

/// Why there is none in this build, and what to do.
#[cfg_attr(feature = "dpdk", expect(dead_code, reason = "it is built in"))]
pub(super) fn not_built_in() -> String {
    "this program was built without DPDK; build it with --features dpdk and DPDK 22.11 or later \
     (docs/reference/engines.md)"
        .to_owned()
}

#[cfg(feature = "dpdk")]
use super::{
    engine::open,
    found::{find, version},
};

#[cfg(not(feature = "dpdk"))]
fn find() -> Result<FoundEngine, MissingEngine> {
    let remedy = "install DPDK 22.11 or later (Debian: apt-get install libdpdk-dev), and build convoy with make \
        or with --features dpdk";
    Err(MissingEngine { reason: "not built in".to_owned(), remedy: remedy.to_owned() })
}

#[cfg(not(feature = "dpdk"))]
fn version() -> Option<String> {
    None
}

#[cfg(not(feature = "dpdk"))]
fn open(_: &CryptodevSettings, _: &str) -> Result<EngineStart, String> {
    Err(not_built_in())
}
