//! The helper: a process beside the gateway that keeps the few privileges which a running gateway
//! still needs.
//!
//! The gateway starts it before it has threads, gives up all privileges itself, and asks it through
//! a socket pair to set routes and the guard, to open its configuration for a reload, and to clean
//! up when it stops. The helper does nothing else, for one interface, one routing table, one
//! nftables table and one file. If the gateway disappears without a request, it leaves the guard
//! and the blackhole routes in place.

mod kept;
mod protocol;
mod server;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use convoy_config::OnStop;
use convoy_kernel::service::ServiceAddress;
use convoy_kernel::{GuardCounts, GuardPlan, RoutePlan};
use convoy_port::{TunDevice, TunFiles};
use convoy_process::companion::Program;
use convoy_process::supervise::{self, Fault};

use protocol::{HelperAnswer, HelperRequest, receive_answer, send};
pub use server::serve;

/// Time limit of the helper: the kernel needs some 10 us a route.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Interval between two questions whether the helper works.
const BEAT: Duration = Duration::from_secs(1);
/// Interval between two looks whether it has ended.
const LOOK: Duration = Duration::from_millis(100);

/// Why the helper did not do as requested.
#[derive(Debug, thiserror::Error)]
pub enum HelperError {
    /// It could not be started.
    #[error("cannot start the helper process: {0}")]
    Start(io::Error),
    /// It is gone, or does not respond.
    #[error("the helper process does not answer: {0}")]
    Gone(#[from] io::Error),
    /// It refused, with the reason.
    #[error("{0}")]
    Refused(String),
}

struct HelperLine {
    /// `None` once a request was not answered: a late answer would be taken for the next one's.
    socket: Option<UnixStream>,
    child: Child,
}

fn unexpected(answer: &HelperAnswer) -> HelperError {
    HelperError::Refused(format!("the helper process gave an unexpected answer: {answer:?}"))
}

/// The gateway's end. Any thread may ask; requests are answered one after the other. Dropped
/// without [`end`](Self::end), it leaves the blackhole routes.
pub struct Helper {
    line: Mutex<HelperLine>,
    /// Whether a request was not answered within [`TIMEOUT`].
    is_silent: AtomicBool,
}

impl Helper {
    /// Starts the helper: this program again, with `arguments`, and its end of the socket pair as
    /// standard input.
    ///
    /// # Errors
    /// [`HelperError::Start`].
    pub fn start<'a>(arguments: impl IntoIterator<Item = &'a std::ffi::OsStr>) -> Result<Self, HelperError> {
        let (ours, child) = Program::own().start(arguments).map_err(HelperError::Start)?;
        ours.set_read_timeout(Some(TIMEOUT)).map_err(HelperError::Start)?;
        ours.set_write_timeout(Some(TIMEOUT)).map_err(HelperError::Start)?;
        Ok(Self {
            line: Mutex::new(HelperLine { socket: Some(ours), child }),
            is_silent: AtomicBool::new(false),
        })
    }

    /// Sets the kernel's routes to a plan, and keeps them so.
    ///
    /// # Errors
    /// [`HelperError::Refused`] has the kernel's reason.
    pub fn route(&self, plan: RoutePlan) -> Result<(), HelperError> {
        self.ask(&HelperRequest::Route(Box::new(plan))).map(drop)
    }

    /// Sets the nftables table that guards the tunnels' networks to a plan, and keeps it so;
    /// without a plan, removes it. `number` is the routing table's, which is in the table's name.
    ///
    /// # Errors
    /// [`HelperError::Refused`] has the kernel's reason.
    pub fn guard(&self, number: u32, plan: Option<GuardPlan>) -> Result<(), HelperError> {
        self.ask(&HelperRequest::Guard { number, plan: plan.map(Box::new) }).map(drop)
    }

    /// The guard's counters of dropped packets.
    ///
    /// # Errors
    /// [`HelperError::Refused`] has the kernel's reason.
    pub fn guard_counts(&self) -> Result<GuardCounts, HelperError> {
        match self.ask(&HelperRequest::GuardCounts)?.0 {
            HelperAnswer::Dropped(counts) => Ok(counts),
            answer => Err(unexpected(&answer)),
        }
    }

    /// What drops packets that the kernel forwards from and to an interface, with what to do.
    ///
    /// # Errors
    /// [`HelperError::Gone`].
    pub fn forward_chains(&self, interface: &str) -> Result<Vec<String>, HelperError> {
        match self.ask(&HelperRequest::ForwardChains { interface: interface.to_owned() })?.0 {
            HelperAnswer::ForwardChains(chains) => Ok(chains),
            answer => Err(unexpected(&answer)),
        }
    }

    /// The interfaces of service addresses that have no carrier.
    ///
    /// # Errors
    /// [`HelperError::Gone`].
    pub fn without_carrier(&self) -> Result<Vec<String>, HelperError> {
        match self.ask(&HelperRequest::WithoutCarrier)?.0 {
            HelperAnswer::WithoutCarrier(interfaces) => Ok(interfaces),
            answer => Err(unexpected(&answer)),
        }
    }

    /// Gives this host these service addresses, or renews them, for this long, and announces them.
    ///
    /// # Errors
    /// [`HelperError::Refused`] has the kernel's reason.
    pub fn hold_addresses(
        &self,
        addresses: &[ServiceAddress],
        lifetime: Duration,
        announce: bool,
    ) -> Result<(), HelperError> {
        let (addresses, lifetime_s) = (addresses.to_vec(), lifetime.as_secs() as u32);
        self.ask(&HelperRequest::HoldAddresses { addresses, lifetime_s, announce }).map(drop)
    }

    /// Takes these service addresses from this host.
    ///
    /// # Errors
    /// [`HelperError::Refused`] has the kernel's reason.
    pub fn release_addresses(&self, addresses: &[ServiceAddress]) -> Result<(), HelperError> {
        self.ask(&HelperRequest::ReleaseAddresses { addresses: addresses.to_vec() }).map(drop)
    }

    /// Names the TUN interfaces of the gateway's ports, the only ones that it
    /// [attaches](Self::attach).
    ///
    /// # Errors
    /// [`HelperError::Refused`] if it has heard of some before.
    pub fn devices(&self, devices: Vec<TunDevice>) -> Result<(), HelperError> {
        self.ask(&HelperRequest::Devices(devices)).map(drop)
    }

    /// Creates a TUN interface again that was deleted, with or without a carrier.
    ///
    /// # Errors
    /// [`HelperError::Refused`] has the kernel's reason.
    pub fn attach(&self, tun: &TunFiles, has_link: bool) -> Result<(), HelperError> {
        let files: Vec<BorrowedFd<'_>> = tun.files.iter().map(|file| file.as_fd()).collect();
        self.ask_with(&HelperRequest::Attach { name: tun.device.name.clone(), has_link }, &files).map(drop)
    }

    /// Whether the helper answers.
    pub fn is_alive(&self) -> bool {
        self.ask(&HelperRequest::Beat).is_ok()
    }

    /// The configuration, opened for reading.
    ///
    /// # Errors
    /// [`HelperError::Refused`] if it cannot be opened.
    pub fn configuration(&self) -> Result<std::fs::File, HelperError> {
        let (_, mut files) = self.ask(&HelperRequest::Configuration)?;
        let missing = || HelperError::Refused("the helper process sent no file".to_owned());
        files.pop().map(std::fs::File::from).ok_or_else(missing)
    }

    /// Removes the sockets' files, keeps or removes the routes as `on_stop` says, and ends the
    /// helper.
    ///
    /// # Errors
    /// What could not be removed.
    pub fn end(&self, on_stop: OnStop) -> Result<(), HelperError> {
        let ended = self.ask(match on_stop {
            OnStop::Block => &HelperRequest::Block,
            OnStop::Open => &HelperRequest::Undo,
        });
        let mut line = self.line();
        line.socket = None;
        // One that does not respond may never end.
        if !matches!(ended, Err(HelperError::Gone(_))) {
            line.child.wait()?;
        }
        ended.map(drop)
    }

    /// How the helper has ended, which it does by itself only by a fault. Never blocks: while a
    /// request is in progress it is unknown.
    fn has_ended(&self) -> Option<ExitStatus> {
        self.line.try_lock().ok()?.child.try_wait().ok().flatten()
    }

    /// What is wrong with it: it has ended, or it did not answer a request in time, since it is
    /// stopped or hangs. Requests are in vain from then on.
    fn fault(&self) -> Option<Fault> {
        let silent = || self.is_silent.load(Ordering::Relaxed).then_some(Fault::HelperSilent);
        self.has_ended().map(Fault::HelperEnded).or_else(silent)
    }

    /// Watches the helper on a thread of its own, and reports when it has ended or does not answer;
    /// it is asked from time to time, as nothing else may be asked of it.
    ///
    /// # Errors
    /// The system's, if it cannot create a thread.
    pub fn watch(helper: &Arc<Self>, faults: &Sender<Fault>) -> io::Result<()> {
        let (helper, reported) = (Arc::downgrade(helper), faults.clone());
        let watch = move || {
            let mut asked = Instant::now();
            while let Some(helper) = helper.upgrade() {
                if let Some(fault) = helper.fault() {
                    let _ = reported.send(fault);
                    return;
                }
                if asked.elapsed() >= BEAT {
                    helper.is_alive();
                    asked = Instant::now();
                }
                drop(helper);
                std::thread::sleep(LOOK);
            }
        };
        supervise::spawn("helper's watch", faults, watch).map(drop)
    }

    fn line(&self) -> MutexGuard<'_, HelperLine> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, request: &HelperRequest) -> Result<(HelperAnswer, Vec<OwnedFd>), HelperError> {
        self.ask_with(request, &[])
    }

    fn ask_with(
        &self,
        request: &HelperRequest,
        files: &[BorrowedFd<'_>],
    ) -> Result<(HelperAnswer, Vec<OwnedFd>), HelperError> {
        let mut line = self.line();
        let socket = line.socket.as_ref().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?;
        let answer = send(socket, request, files).and_then(|()| receive_answer(socket));
        if let Err(error) = &answer {
            let is_late = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
            self.is_silent.fetch_or(is_late, Ordering::Relaxed);
            line.socket = None;
        }
        match answer? {
            (HelperAnswer::Refused(reason), _) => Err(HelperError::Refused(reason)),
            answer => Ok(answer),
        }
    }
}

/// The helper's parameters, fixed at its start.
#[derive(Clone, Copy, Debug)]
pub struct Duties<'a> {
    /// The configuration.
    pub config: &'a Path,
    /// Files of sockets, removed when the gateway stops.
    pub sockets: &'a [std::path::PathBuf],
    /// Addresses that the gateway has while it leads its cluster.
    pub addresses: &'a [ServiceAddress],
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn helper_that_has_ended_is_reported() {
        // This program lists its tests and ends.
        let helper = Arc::new(Helper::start([OsStr::new("--list")]).expect("this program is there"));
        let (faults, reported) = channel();
        Helper::watch(&helper, &faults).expect("a thread");
        assert!(matches!(reported.recv_timeout(TIMEOUT), Ok(Fault::HelperEnded(status)) if status.success()));
        assert!(matches!(helper.configuration(), Err(HelperError::Gone(_))));
        helper.end(OnStop::Open).expect_err("there is no helper to remove anything");
    }
}
