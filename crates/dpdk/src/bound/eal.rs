//! EAL, DPDK's environment abstraction layer, which is started once per process.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString, c_void};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use convoy_packet::Region;
use nix::errno::Errno;

use super::device::{self, Device};
use super::ethernet::{self, EthernetConfig, EthernetDevice, EthernetInfo};
use super::ffi::*;
use crate::{DeviceInfo, DpdkError};

/// Size of the pages in which the region is registered; its size is a multiple of this. Devices use
/// the processor's virtual address of each page.
const PAGE_BYTES: usize = 2 << 20;
/// Bytes kept of DPDK's log.
const WORDS_BYTES: usize = 2048;

static EAL: OnceLock<Result<Eal, DpdkError>> = OnceLock::new();

/// DPDK, once it is started.
#[derive(Debug)]
pub struct Eal {
    arguments: String,
    /// Opened devices by name. They stay open: starting a device again would disturb its other
    /// users.
    devices: Mutex<HashMap<String, &'static Device>>,
    /// Names of Ethernet devices that were opened.
    ethernets: Mutex<HashSet<String>>,
}

/// DPDK's last log messages in one line, or the system's text for `errno` if it logged nothing.
/// Clears the log.
pub(super) fn last_words(errno: i32) -> String {
    let mut words = vec![0_u8; WORDS_BYTES];
    // SAFETY: the length is that of the buffer.
    let len = unsafe { convoy_dpdk_log(words.as_mut_ptr().cast(), words.len()) };
    let said = String::from_utf8_lossy(&words[..len]);
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines.as_slice() {
        [] => Errno::from_raw(errno).desc().to_owned(),
        lines => lines[lines.len().saturating_sub(3)..].join("; "),
    }
}

impl Eal {
    /// Starts DPDK with these arguments, or returns it if it runs with the same ones. Cores in
    /// `arguments` apply to DPDK's threads; the calling thread keeps its CPU affinity.
    ///
    /// # Errors
    /// [`DpdkError::Start`] with DPDK's log, after which no further start is possible in this
    /// process; [`DpdkError::Started`] if it runs with other arguments; [`DpdkError::Memory`] if it
    /// refuses the [`Region`].
    pub fn start(arguments: &[String]) -> Result<&'static Self, DpdkError> {
        let wanted = arguments.join(" ");
        let eal = EAL.get_or_init(|| Self::begin(arguments)).as_ref().map_err(DpdkError::clone)?;
        if eal.arguments == wanted {
            return Ok(eal);
        }
        Err(DpdkError::Started { running: eal.arguments.clone(), wanted })
    }

    /// DPDK, if it was started.
    pub fn running() -> Option<&'static Self> {
        EAL.get().and_then(|eal| eal.as_ref().ok())
    }

    fn begin(arguments: &[String]) -> Result<Self, DpdkError> {
        let joined = arguments.join(" ");
        let words: Vec<String> = std::iter::once("convoy".to_owned()).chain(with_a_core(arguments)).collect();
        let failed = |reason| DpdkError::Start { arguments: joined.clone(), reason };
        // EAL pins the thread that starts it to a core, so start it on a temporary thread.
        let outcome = std::thread::spawn(move || start(&words)).join();
        match outcome {
            Ok(Ok(0)) => {}
            Ok(Ok(error)) => return Err(failed(last_words(error))),
            Ok(Err(reason)) => return Err(failed(reason)),
            Err(_) => return Err(failed("it panicked".to_owned())),
        }
        register_packet_memory()?;
        Ok(Self { arguments: joined, devices: Mutex::default(), ethernets: Mutex::default() })
    }

    /// DPDK's version, for example `DPDK 22.11.7`.
    pub fn version() -> String {
        // SAFETY: the library returns a constant string.
        unsafe { CStr::from_ptr(convoy_dpdk_version()) }.to_string_lossy().into_owned()
    }

    /// Whether devices use virtual addresses (IOVA as VA), as hardware must to access convoy's
    /// packet memory.
    pub fn uses_virtual_addresses(&self) -> bool {
        // SAFETY: EAL runs.
        unsafe { convoy_dpdk_iova_is_va() }
    }

    /// All crypto devices that DPDK has now.
    pub fn crypto_devices(&self) -> Vec<DeviceInfo> {
        device::all().map(|(_, device)| device).collect()
    }

    /// Makes DPDK create a virtual device from its arguments
    /// (`crypto_aesni_mb0,max_nb_queue_pairs=4`), or attach a device by its PCI address.
    ///
    /// # Errors
    /// [`DpdkError::Device`] with DPDK's log.
    pub fn probe(&self, device: &str) -> Result<(), DpdkError> {
        let _one_at_a_time = self.devices();
        probe(device)
    }

    fn devices(&self) -> MutexGuard<'_, HashMap<String, &'static Device>> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the device of this name with all its queue pairs started. If there is none, it is
    /// made by [`probe`](Self::probe). The device stays open while the process lives; later calls
    /// return the same one.
    ///
    /// `depth` is the number of operations that each queue pair holds, `sessions` the largest
    /// number of sessions.
    ///
    /// # Errors
    /// [`DpdkError::Device`] if there is none, [`DpdkError::Open`] if it does not start.
    pub fn device(
        &'static self,
        name: &str,
        depth: u32,
        sessions: u32,
    ) -> Result<&'static Device, DpdkError> {
        let bare = name.split(',').next().unwrap_or(name);
        let mut devices = self.devices();
        if let Some(device) = devices.get(bare) {
            return Ok(device);
        }
        if device::find(bare).is_none() {
            probe(name)?;
        }
        let device: &'static Device = Box::leak(Box::new(Device::open(self, bare, depth, sessions)?));
        devices.insert(bare.to_owned(), device);
        Ok(device)
    }

    /// All Ethernet devices that DPDK has now.
    pub fn ethernet_devices(&self) -> Vec<EthernetInfo> {
        ethernet::all()
    }

    /// Opens the Ethernet device of this name with the configured queue pairs. If there is none, it
    /// is made by [`probe`](Self::probe). The device stays open, and belongs to the caller, while
    /// the process lives.
    ///
    /// # Errors
    /// [`DpdkError::Device`] with a list of the devices if there is none of this name;
    /// [`DpdkError::Taken`] if it was opened before; [`DpdkError::Open`] if it cannot be
    /// configured.
    pub fn ethernet(&self, name: &str, config: &EthernetConfig) -> Result<EthernetDevice, DpdkError> {
        let bare = name.split(',').next().unwrap_or(name);
        let mut taken = self.ethernets.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.contains(bare) {
            return Err(DpdkError::Taken { name: bare.to_owned() });
        }
        if !ethernet::exists(bare) {
            self.probe(name).map_err(|error| match error {
                DpdkError::Device { name, reason } => {
                    DpdkError::Device { name, reason: format!("{reason}; {}", ethernet::listed()) }
                }
                error => error,
            })?;
        }
        let device = EthernetDevice::open(self, bare, config)?;
        taken.insert(bare.to_owned());
        Ok(device)
    }

    /// Runs `call` on EAL's thread for interrupts and alarms, and returns when it has run. That
    /// thread has the privileges that the process had when EAL was started, so they have to be
    /// dropped there as well.
    ///
    /// # Errors
    /// DPDK's error if the call cannot be scheduled.
    pub fn in_its_thread(&self, call: impl FnOnce() + Send + 'static) -> Result<(), String> {
        type Call = Box<dyn FnOnce() + Send>;
        extern "C" fn run(with: *mut c_void) {
            // SAFETY: `with` is the box made below, and an alarm fires once.
            let call = unsafe { Box::from_raw(with.cast::<Call>()) };
            // A panic must not unwind through C code.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
        }
        let (done, is_done) = std::sync::mpsc::sync_channel(1);
        let call: Call = Box::new(move || {
            call();
            let _ = done.send(());
        });
        let with = Box::into_raw(Box::new(call));
        // SAFETY: `run` expects the box in `with`.
        let error = unsafe { convoy_dpdk_in_interrupt_thread(run, with.cast()) };
        if error != 0 {
            // SAFETY: the alarm was not set, so the box was not taken.
            drop(unsafe { Box::from_raw(with) });
            return Err(last_words(error));
        }
        is_done.recv().map_err(|_| "EAL's thread ended".to_owned())
    }
}

fn probe(device: &str) -> Result<(), DpdkError> {
    let failed = |reason| DpdkError::Device { name: device.to_owned(), reason };
    let arguments =
        CString::new(device).map_err(|_| failed("a name cannot contain a zero byte".to_owned()))?;
    let _old = last_words(0);
    // SAFETY: EAL runs, since all callers have an `Eal`; the string ends with a zero.
    match unsafe { convoy_dpdk_probe(arguments.as_ptr()) } {
        0 => Ok(()),
        error => Err(failed(last_words(error))),
    }
}

/// Adds a core for EAL's main thread if the arguments name none: the first that this process may
/// use.
fn with_a_core(arguments: &[String]) -> Vec<String> {
    let names_one = |argument: &String| {
        argument.starts_with("-l") || argument.starts_with("-c") || argument.starts_with("--lcores")
    };
    let mut arguments = arguments.to_vec();
    if !arguments.iter().any(names_one) {
        let allowed = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).ok();
        let is_allowed = |core: &usize| allowed.is_none_or(|cores| cores.is_set(*core).unwrap_or(false));
        let core = (0..nix::sched::CpuSet::count()).find(is_allowed).unwrap_or(0);
        arguments.extend(["--lcores".to_owned(), format!("0@{core}")]);
    }
    arguments
}

/// Calls `rte_eal_init`; returns DPDK's error, or 0.
fn start(arguments: &[String]) -> Result<i32, String> {
    let words: Result<Vec<CString>, _> = arguments.iter().map(|word| CString::new(word.as_str())).collect();
    let words = words.map_err(|_| "an argument cannot contain a zero byte".to_owned())?;
    // EAL keeps pointers to the strings, and reorders the array.
    let mut pointers: Vec<_> = words.into_iter().map(CString::into_raw).collect();
    let count = i32::try_from(pointers.len()).map_err(|_| "too many arguments".to_owned())?;
    pointers.push(std::ptr::null_mut());
    let pointers = pointers.leak();
    // SAFETY: the array holds `count` strings that end with a zero, and a null pointer behind them;
    // all are leaked, so they stay valid.
    Ok(unsafe { convoy_dpdk_start(count, pointers.as_mut_ptr()) })
}

fn register_packet_memory() -> Result<(), DpdkError> {
    let region = Region::of_process();
    let (base, len) = (region.base(), region.bytes());
    // SAFETY: the region lives as long as the process; DPDK only records its addresses.
    match unsafe { convoy_dpdk_register(base.as_ptr().cast(), len, PAGE_BYTES) } {
        0 => Ok(()),
        error => Err(DpdkError::Memory(last_words(error))),
    }
}
