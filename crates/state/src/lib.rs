//! State that outlives the gateway: the reservations of SAs with static keys, in the state file.
//!
//! Static keys are the same after a restart, so their sequence numbers and nonces must not start
//! again (`convoy_reservation` says why, and has the rules). The keeper's thread reserves numbers
//! in the file some time before they are needed.
//!
//! The path of a number: a worker sees that a reserve is half used and reports it (`reporter.rs`),
//! the keeper (`keeper.rs`) has the ledger raise the reservation (`reservations.rs`), writes the
//! file (`file.rs`), and then permits the worker's SA the numbers.

mod file;
mod keeper;
mod reporter;
mod reservations;
#[cfg(any(test, feature = "testing"))]
mod simulated;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use convoy_config::{Config, TunnelConfig};
use rand::Rng;

pub use reporter::{Note, NumberedPairs, Numbers, Pair, Reporter, WorkerReport, extend, report, spent};
pub use reporter::{SaProgress, StartId, Started};
pub use reservations::Grant;
#[cfg(any(test, feature = "testing"))]
pub use simulated::{SimulatedDisk, SimulatedState};

use convoy_process::supervise::{self, Fault};
use convoy_process::{Notify, wall_ns};
use file::{Records, StateFile};
use keeper::{StateStore, keep, lock};
use reservations::Reservations;

/// 2026-01-01: an earlier wall clock was never set. In ns since 1970.
const EARLIEST_NS: u64 = 1_767_225_600_000_000_000;

/// Why the state file cannot be used, or why there must be one.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// There is none.
    #[error("state file {0} does not exist")]
    Absent(PathBuf),
    /// The system refused an operation.
    #[error(
        "state file {path} cannot be {done}: {source}; it keeps the sequence numbers of static keys over \
         restarts: set `state` in [gateway] to a file that can be written, or to \"\" for no state file"
    )]
    Cannot {
        /// The file.
        path: PathBuf,
        /// The operation.
        done: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// Another process has it open.
    #[error(
        "state file {0} is in use by another gateway; set `state` in [gateway] of one of them to another file"
    )]
    Taken(PathBuf),
    /// Neither of its copies is valid.
    #[error(
        "state file {0} is damaged, so it is not known which sequence numbers and nonces were used: give all tunnels with static keys \
         new keys at both ends, then remove the file"
    )]
    Damaged(PathBuf),
    /// Another version of convoy wrote it.
    #[error(
        "state file {path} has format {version}, but this version of convoy reads format {known}; run the \
         version that wrote it, or give \
         all tunnels with static keys new keys at both ends and remove the file"
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its format.
        version: u32,
        /// Ours.
        known: u32,
    },
    /// Every key that was ever in use keeps its records.
    #[error(
        "the state file has no room for more keys; give all tunnels with static keys new keys at both ends, then remove the file"
    )]
    Full,
    /// Two tunnels would use the same numbers.
    #[error("tunnels {0:?} and {1:?} have the same key_out; give one of them another key")]
    SharedKey(String, String),
    /// It is not open, and can no longer be opened.
    #[error(
        "the first tunnels with static keys need a restart, because the state file {0} is only opened at the start"
    )]
    Late(PathBuf),
    /// Without a state file only the clock keeps nonces apart.
    #[error(
        "tunnel {0:?} has static keys for a counter cipher and no state file, so only the wall clock keeps its \
         nonces apart over restarts, but the clock was never set; set the clock, or set `state` in [gateway] to a file"
    )]
    Clock(String),
}

/// How the SAs of tunnels with static keys start.
#[derive(Clone, Debug)]
pub enum Starts {
    /// All with the first number, and IVs from the wall clock.
    Unlimited,
    /// By the tunnel's name, one for each of its resources; a tunnel that is not contained must not
    /// be installed.
    Kept(HashMap<String, Vec<Started>>),
}

impl Starts {
    /// The starts of a tunnel's resources, if it may start.
    pub fn of(&self, tunnel: &TunnelConfig) -> Option<Vec<Started>> {
        match self {
            Self::Unlimited => Some(vec![Started::unlimited(wall_ns()); tunnel.manual.len()]),
            Self::Kept(known) => known.get(&tunnel.name).cloned(),
        }
    }
}

/// A gateway's state file and its keeper.
pub struct State {
    store: Arc<Mutex<StateStore>>,
    notes: Sender<Note>,
    received: Option<Receiver<Note>>,
    keeper: Option<JoinHandle<()>>,
}

impl State {
    /// Opens or creates the file of a configuration with static keys; `None` if it is to do
    /// without. `notify` receives what that means.
    ///
    /// # Errors
    /// [`StateError`], which says what to do.
    pub fn open(config: &Config, notify: &Notify) -> Result<Option<Self>, StateError> {
        // In a cluster, the store has the numbers.
        if !config.has_static_keys() || config.cluster.is_some() {
            return Ok(None);
        }
        let why = match &config.state {
            None => "state = \"\"".to_owned(),
            Some(state) => match open_or_make(&state.path) {
                Ok(store) => return Ok(Some(Self::new(store))),
                // A default place may be missing, as in a container.
                Err(StateError::Cannot { done: "created", source, .. }) if state.is_default => {
                    format!("{} cannot be created: {source}", state.path.display())
                }
                Err(error) => return Err(error),
            },
        };
        needs_clock(&config.tunnels, wall_ns())?;
        notify_of_absence(&why, notify);
        Ok(None)
    }

    /// For a running gateway without a state file: checks whether it may switch to this
    /// configuration. It can open none, as it has given up the permission to write files.
    /// `is_known` says whether the consequence was reported at the start.
    ///
    /// # Errors
    /// [`StateError::Late`] for the first static keys, if there is to be a file;
    /// [`StateError::Clock`].
    pub fn do_without(config: &Config, is_known: bool, notify: &Notify) -> Result<(), StateError> {
        if !config.has_static_keys() {
            return Ok(());
        }
        needs_clock(&config.tunnels, wall_ns())?;
        match &config.state {
            _ if is_known => Ok(()),
            Some(state) => Err(StateError::Late(state.path.clone())),
            None => {
                notify_of_absence("state = \"\"", notify);
                Ok(())
            }
        }
    }

    fn new(store: StateStore) -> Self {
        let (notes, received) = channel();
        let store = Arc::new(Mutex::new(store));
        Self { store, notes, received: Some(received), keeper: None }
    }

    /// Starts the SAs of those tunnels that have static keys, and returns when their reservations
    /// are on the disk. `all` are all tunnels of the new configuration.
    ///
    /// # Errors
    /// [`StateError`]; then no number may be used.
    pub fn start<'a>(
        &self,
        tunnels: impl IntoIterator<Item = &'a TunnelConfig>,
        all: &[TunnelConfig],
    ) -> Result<Starts, StateError> {
        self.start_at(tunnels, all, wall_ns())
    }

    /// What [`start`](Self::start) does, with the wall clock at `clock_ns`, in ns since 1970.
    ///
    /// # Errors
    /// As `start`.
    pub fn start_at<'a>(
        &self,
        tunnels: impl IntoIterator<Item = &'a TunnelConfig>,
        all: &[TunnelConfig],
        clock_ns: u64,
    ) -> Result<Starts, StateError> {
        let mut store = lock(&self.store);
        if let Some((one, other)) = store.reservations.shared_key(all) {
            return Err(StateError::SharedKey(one.to_owned(), other.to_owned()));
        }
        let now_ns = store.now_ns();
        let mut noted = HashMap::new();
        for tunnel in tunnels {
            noted.insert(tunnel.name.clone(), store.reservations.start(tunnel, clock_ns, now_ns)?);
        }
        let path = PathBuf::from(&store.name);
        store.write_through().map_err(|source| StateError::Cannot { path, done: "written", source })?;
        store.reservations.written();
        Ok(Starts::Kept(noted))
    }

    /// Records the last numbers of SAs, before they start again.
    pub fn note(&self, report: &WorkerReport) {
        lock(&self.store).reservations.note_received(report);
    }

    /// A worker's channel to the keeper.
    pub fn reporter(&self) -> Reporter {
        Reporter::new(self.notes.clone())
    }

    /// Starts the keeper, whose fault is reported to `faults`; `grant` lets a worker's SA go on.
    ///
    /// # Errors
    /// The system's, if it cannot create a thread.
    pub fn keep(
        &mut self,
        grant: impl Fn(Grant) + Send + 'static,
        notify: Notify,
        faults: &Sender<Fault>,
    ) -> io::Result<()> {
        let Some(received) = self.received.take() else { return Ok(()) };
        let store = Arc::clone(&self.store);
        let keep = move || keep(&store, &received, grant, &notify);
        self.keeper = Some(supervise::spawn("state", faults, keep)?);
        Ok(())
    }

    /// Has the keeper write the last reports of the workers, which have ended, and end.
    pub fn end(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            // If it had panicked, the numbers in the file would be higher than necessary.
            let _ = self.notes.send(Note::End);
            let _ = keeper.join();
        }
    }
}

fn notify_of_absence(why: &str, notify: &Notify) {
    notify(format!(
        "there is no state file ({why}): after a restart the sequence numbers of static keys begin at 1, so the \
         peer drops packets as replayed until both ends have new keys; nonces depend on the wall clock, which \
         must not be set back; and recorded packets can be replayed"
    ));
}

fn open_or_make(path: &Path) -> Result<StateStore, StateError> {
    let name = path.display().to_string();
    let (file, records) = match StateFile::open(path) {
        Ok(found) => found,
        Err(StateError::Absent(_)) => {
            let mut salt = [0; 32];
            rand::rng().fill_bytes(&mut salt);
            let records = Records { salt, marks: Vec::new() };
            let made = StateFile::create(path, &records)?;
            tracing::info!(
                "{name}: new state file; if these keys were used before, replace them now at both ends"
            );
            (made, records)
        }
        Err(error) => return Err(error),
    };
    Ok(StateStore::new(Reservations::new(records), file, name))
}

/// Refuses tunnels that are to start [without limits](Starts::Unlimited) if nothing keeps their
/// nonces apart.
///
/// # Errors
/// [`StateError::Clock`] if the wall clock was never set and a tunnel has a counter cipher.
pub fn clock_keeps_nonces(tunnels: &[TunnelConfig]) -> Result<(), StateError> {
    needs_clock(tunnels, wall_ns())
}

/// Refuses a counter cipher if nothing keeps its nonces apart.
fn needs_clock(tunnels: &[TunnelConfig], clock_ns: u64) -> Result<(), StateError> {
    let counts =
        |tunnel: &&TunnelConfig| tunnel.manual.iter().any(|manual| !manual.keys_out.salt().is_empty());
    match tunnels.iter().find(counts) {
        Some(tunnel) if clock_ns < EARLIEST_NS => Err(StateError::Clock(tunnel.name.clone())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
