//! A command's line to the store: an agent of its own makes its calls.

use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};

use convoy_cluster::messages::{Start, StoreAccess, StoreCall};
use convoy_cluster::{Call, StoreEvent};

use super::ClusterError;
use super::program::{self, FRAMING};

/// A line to the store. The agent ends when this is dropped, and gives up its open calls.
pub(super) struct StoreLine {
    socket: UnixStream,
    agent: Child,
}

impl StoreLine {
    /// Starts an agent, which connects to the store; returns what the store reports, too.
    ///
    /// # Errors
    /// [`ClusterError`]; [`ClusterError::Store`] if an endpoint or a certificate cannot be used.
    pub(super) fn open(access: StoreAccess) -> Result<(Self, Receiver<StoreEvent<u64>>), ClusterError> {
        let (socket, agent) = program::start([], &Start::Store(Box::new(access)))?;
        let line = Self { socket, agent };
        let mut receiving = line.socket.try_clone().map_err(ClusterError::Agent)?;
        let started: Option<Result<(), String>> =
            FRAMING.receive(&mut receiving).map_err(ClusterError::Agent)?;
        let ended = || ClusterError::Agent(io::Error::new(ErrorKind::UnexpectedEof, "it has ended"));
        started.ok_or_else(ended)?.map_err(ClusterError::Store)?;
        let (sender, events) = channel();
        let reader = std::thread::Builder::new().name("store's events".to_owned());
        let read = reader.spawn(move || {
            while let Ok(Some(event)) = FRAMING.receive(&mut receiving) {
                if sender.send(event).is_err() {
                    break;
                }
            }
        });
        read.map_err(ClusterError::Agent)?;
        Ok((line, events))
    }

    /// Makes a call. If the agent has ended, its events end.
    pub(super) fn ask(&self, id: u64, call: Call) {
        let _ = FRAMING.send(&mut &self.socket, &StoreCall { id, call });
    }
}

impl Drop for StoreLine {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both);
        let _ = self.agent.wait();
    }
}
