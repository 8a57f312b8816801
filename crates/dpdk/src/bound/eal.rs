//! EAL, DPDK's environment, of which a process has one.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString, c_void};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use convoy_packet::Region;
use nix::errno::Errno;

use super::device::{self, Device};
use super::ethernet::{self, EthernetConfig, EthernetDevice, EthernetInfo};
use super::ffi::*;
use crate::{DeviceInfo, DpdkError};

/// Region's bytes are a multiple of this, and a device reaches each page of it by the same address
/// as the processor.
const PAGE_BYTES: usize = 2 << 20;
/// What is kept of DPDK's last words, in bytes.
const WORDS_BYTES: usize = 2048;

static EAL: OnceLock<Result<Eal, DpdkError>> = OnceLock::new();

/// DPDK, started.
#[derive(Debug)]
pub struct Eal {
    arguments: String,
    /// Opened devices, which stay open: a device that others may use is not started twice.
    devices: Mutex<HashMap<String, &'static Device>>,
    /// Ethernet devices that have an owner.
    ethernets: Mutex<HashSet<String>>,
}

/// What DPDK said last, in one line; the system's words for `errno` if it said nothing.
pub(super) fn last_words(errno: i32) -> String {
    let mut words = vec![0_u8; WORDS_BYTES];
    // SAFETY: the room is the buffer's.
    let len = unsafe { convoy_dpdk_log(words.as_mut_ptr().cast(), words.len()) };
    let said = String::from_utf8_lossy(&words[..len]);
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines.as_slice() {
        [] => Errno::from_raw(errno).desc().to_owned(),
        lines => lines[lines.len().saturating_sub(3)..].join("; "),
    }
}

impl Eal {
    /// Starts DPDK with these arguments, or returns it where it runs with the same ones. Its
    /// threads and its main core's number are its own; the calling thread keeps the cores that it
    /// may run on.
    ///
    /// # Errors
    /// [`DpdkError::Start`], with what DPDK said; it cannot be tried again in this process then.
    /// [`DpdkError::Started`] where it runs with other arguments. [`DpdkError::Memory`] if it does
    /// not take the [`Region`].
    pub fn start(arguments: &[String]) -> Result<&'static Self, DpdkError> {
        let wanted = arguments.join(" ");
        let eal = EAL.get_or_init(|| Self::begin(arguments)).as_ref().map_err(DpdkError::clone)?;
        if eal.arguments == wanted {
            return Ok(eal);
        }
        Err(DpdkError::Started { running: eal.arguments.clone(), wanted })
    }

    /// DPDK where it was started.
    pub fn running() -> Option<&'static Self> {
        EAL.get().and_then(|eal| eal.as_ref().ok())
    }

    fn begin(arguments: &[String]) -> Result<Self, DpdkError> {
        let joined = arguments.join(" ");
        let words: Vec<String> = std::iter::once("convoy".to_owned()).chain(with_a_core(arguments)).collect();
        let failed = |reason| DpdkError::Start { arguments: joined.clone(), reason };
        // EAL binds the thread that starts it to a core, so that is a thread that ends with it.
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

    /// Its version, as DPDK says it: `DPDK 22.11.7`.
    pub fn version() -> String {
        // SAFETY: a string of the library's that is never changed.
        unsafe { CStr::from_ptr(convoy_dpdk_version()) }.to_string_lossy().into_owned()
    }

    /// Whether devices use the processor's own addresses, which convoy's packet memory needs for a
    /// device that reads it itself.
    pub fn uses_virtual_addresses(&self) -> bool {
        // SAFETY: EAL runs.
        unsafe { convoy_dpdk_iova_is_va() }
    }

    /// All crypto devices that DPDK has now.
    pub fn crypto_devices(&self) -> Vec<DeviceInfo> {
        device::all().map(|(_, device)| device).collect()
    }

    /// Has DPDK make or find a device: a vdev with its arguments
    /// (`crypto_aesni_mb0,max_nb_queue_pairs=4`), or one at a PCI address.
    ///
    /// # Errors
    /// [`DpdkError::Device`], with what DPDK said.
    pub fn probe(&self, device: &str) -> Result<(), DpdkError> {
        let _one_at_a_time = self.devices();
        probe(device)
    }

    fn devices(&self) -> MutexGuard<'_, HashMap<String, &'static Device>> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device of this name, started with all its queue pairs; made by [`probe`](Self::probe) if
    /// it is not there. It stays open while the process lives, and whoever asks for it again gets
    /// the same.
    ///
    /// `depth` is how many operations each queue pair holds, `sessions` how many sessions there can
    /// be.
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

    /// The Ethernet device of this name, started with so many queue pairs; made by
    /// [`probe`](Self::probe) if it is not there. It stays open, and its caller's, while the
    /// process lives.
    ///
    /// # Errors
    /// [`DpdkError::Device`] if there is none, with those that there are; [`DpdkError::Taken`] if
    /// somebody has it; [`DpdkError::Open`] if it cannot be as it should.
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

    /// Runs `call` in EAL's thread for interrupts and alarms, which has what the process had when
    /// EAL was started: privileges are given up there as well. Returns when it has run.
    ///
    /// # Errors
    /// In DPDK's words, if it cannot be asked.
    pub fn in_its_thread(&self, call: impl FnOnce() + Send + 'static) -> Result<(), String> {
        type Call = Box<dyn FnOnce() + Send>;
        extern "C" fn run(with: *mut c_void) {
            // SAFETY: `with` is the box of below, and an alarm comes once.
            let call = unsafe { Box::from_raw(with.cast::<Call>()) };
            // A panic must not go through C.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
        }
        let (done, is_done) = std::sync::mpsc::sync_channel(1);
        let call: Call = Box::new(move || {
            call();
            let _ = done.send(());
        });
        let with = Box::into_raw(Box::new(call));
        // SAFETY: `run` takes what `with` is.
        let error = unsafe { convoy_dpdk_in_interrupt_thread(run, with.cast()) };
        if error != 0 {
            // SAFETY: nobody took it.
            drop(unsafe { Box::from_raw(with) });
            return Err(last_words(error));
        }
        is_done.recv().map_err(|_| "EAL's thread ended".to_owned())
    }
}

fn probe(device: &str) -> Result<(), DpdkError> {
    let failed = |reason| DpdkError::Device { name: device.to_owned(), reason };
    let arguments = CString::new(device).map_err(|_| failed("a name has no zero byte".to_owned()))?;
    let _old = last_words(0);
    // SAFETY: EAL runs, as whoever calls this has it, and the string ends with a zero.
    match unsafe { convoy_dpdk_probe(arguments.as_ptr()) } {
        0 => Ok(()),
        error => Err(failed(last_words(error))),
    }
}

/// The arguments with a core for EAL's main thread, if they name none: the first that this process
/// may use.
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

/// `rte_eal_init`: DPDK's error, or 0.
fn start(arguments: &[String]) -> Result<i32, String> {
    let words: Result<Vec<CString>, _> = arguments.iter().map(|word| CString::new(word.as_str())).collect();
    let words = words.map_err(|_| "an argument has no zero byte".to_owned())?;
    // EAL keeps pointers to them, and moves them about in their array.
    let mut pointers: Vec<_> = words.into_iter().map(CString::into_raw).collect();
    let count = i32::try_from(pointers.len()).map_err(|_| "too many arguments".to_owned())?;
    pointers.push(std::ptr::null_mut());
    let pointers = pointers.leak();
    // SAFETY: so many strings with a zero at their ends, and a null pointer behind them; all live
    // on.
    Ok(unsafe { convoy_dpdk_start(count, pointers.as_mut_ptr()) })
}

fn register_packet_memory() -> Result<(), DpdkError> {
    let region = Region::of_process();
    let (base, len) = (region.base(), region.bytes());
    // SAFETY: the region is there while the process lives; DPDK notes its addresses and touches
    // none of it.
    match unsafe { convoy_dpdk_register(base.as_ptr().cast(), len, PAGE_BYTES) } {
        0 => Ok(()),
        error => Err(DpdkError::Memory(last_words(error))),
    }
}
