//! The helper's own side.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::pin::pin;

use convoy_config::{HostEnvironment, ThisMachine};
use convoy_kernel::route::RouteEvents;
use convoy_kernel::service::ServiceInterfaces;
use convoy_process::companion;
use futures_util::future::{Either, select};
use tokio::sync::mpsc;

use super::Duties;
use super::kept::{HelperState, KeepError};
use super::protocol::{HelperAnswer, HelperRequest, receive, send};
use crate::privileges;

/// Serves the gateway at the other end of standard input until it is gone.
///
/// # Errors
/// What the system refused.
pub fn serve(duties: Duties<'_>) -> io::Result<()> {
    let socket = companion::begin(c"convoy-helper")?;
    let interfaces = ServiceInterfaces::open(duties.addresses).map_err(io::Error::other)?;
    privileges::keep_routing().map_err(io::Error::other)?;
    if let Err(error) = convoy_config::open(duties.config) {
        tracing::warn!(
            "a reload will not be able to read {}: {error}; the helper process cannot read files of other \
             users, so give the file to the user who starts the gateway (chown)",
            duties.config.display()
        );
    }
    let requests = receive_all(socket.try_clone()?)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    privileges::confine_helper().map_err(io::Error::other)?;
    runtime.block_on(work(&socket, requests, duties, interfaces))
}

/// A request, and the files that came with it.
type ReceivedRequest = (HelperRequest, Vec<OwnedFd>);

/// Receives requests on a thread of its own, since receiving blocks.
fn receive_all(socket: UnixStream) -> io::Result<mpsc::Receiver<ReceivedRequest>> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::Builder::new().name("requests".to_owned()).spawn(move || {
        loop {
            match receive(&socket) {
                Ok(Some(request)) => {
                    if sender.blocking_send(request).is_err() {
                        break;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::error!("the helper cannot read a request of the gateway: {error}");
                    break;
                }
            }
        }
    })?;
    Ok(receiver)
}

/// The helper's next task.
enum HelperTask {
    Answer(ReceivedRequest),
    /// An interface or a routing rule changed.
    RestoreAll,
    /// A table of nftables changed.
    RestoreGuard,
    End,
}

async fn next(
    requests: &mut mpsc::Receiver<ReceivedRequest>,
    events: &mut RouteEvents,
    kept: &mut HelperState,
) -> HelperTask {
    let (interfaces, tables) = (pin!(events.next()), pin!(kept.tables_change()));
    match select(pin!(requests.recv()), select(interfaces, tables)).await {
        Either::Left((Some(request), _)) => HelperTask::Answer(request),
        Either::Right((Either::Left((Some(()), _)), _)) => HelperTask::RestoreAll,
        Either::Right((Either::Right(((), _)), _)) => HelperTask::RestoreGuard,
        Either::Left((None, _)) | Either::Right((Either::Left((None, _)), _)) => HelperTask::End,
    }
}

async fn work(
    socket: &UnixStream,
    mut requests: mpsc::Receiver<ReceivedRequest>,
    duties: Duties<'_>,
    interfaces: ServiceInterfaces,
) -> io::Result<()> {
    let (mut kept, mut events) = HelperState::new(interfaces, duties.addresses.to_vec())?;
    loop {
        let (request, files) = match next(&mut requests, &mut events, &mut kept).await {
            HelperTask::Answer(request) => request,
            HelperTask::RestoreAll => {
                kept.restore().await;
                continue;
            }
            HelperTask::RestoreGuard => {
                kept.restore_guard().await;
                continue;
            }
            HelperTask::End => {
                // The gateway is gone, and another one may lead.
                return kept.release_all().await.map_err(io::Error::other);
            }
        };
        let is_last = matches!(request, HelperRequest::Block | HelperRequest::Undo);
        let (answer, file) = answer(&mut kept, (request, files), duties).await;
        let files: Vec<BorrowedFd<'_>> = file.iter().map(File::as_fd).collect();
        send(socket, &answer, &files)?;
        if is_last {
            return Ok(());
        }
    }
}

async fn answer(
    kept: &mut HelperState,
    (request, files): ReceivedRequest,
    duties: Duties<'_>,
) -> (HelperAnswer, Option<File>) {
    let done = |result: Result<(), KeepError>| match result {
        Ok(()) => HelperAnswer::Done,
        Err(error) => HelperAnswer::Refused(error.to_string()),
    };
    let answer = match request {
        HelperRequest::Route(plan) => done(kept.route(*plan).await),
        HelperRequest::Guard { number, plan } => done(kept.guard(number, plan.map(|plan| *plan)).await),
        HelperRequest::GuardCounts => match kept.counts() {
            Ok(counts) => HelperAnswer::Dropped(counts),
            Err(error) => HelperAnswer::Refused(error.to_string()),
        },
        HelperRequest::HoldAddresses { addresses, lifetime_s, announce } => {
            done(kept.hold_addresses(&addresses, lifetime_s, announce).await)
        }
        HelperRequest::ReleaseAddresses { addresses } => done(kept.release_addresses(&addresses).await),
        HelperRequest::Devices(devices) => done(kept.know_devices(devices)),
        HelperRequest::Attach { name, has_link } => done(kept.attach(&name, &files, has_link).await),
        HelperRequest::Beat => HelperAnswer::Done,
        HelperRequest::ForwardChains { interface } => {
            HelperAnswer::ForwardChains(ThisMachine.chains_without(&interface))
        }
        HelperRequest::WithoutCarrier => HelperAnswer::WithoutCarrier(kept.without_carrier().await),
        HelperRequest::Configuration => match convoy_config::open(duties.config) {
            Ok(file) => return (HelperAnswer::Done, Some(file)),
            Err(error) => HelperAnswer::Refused(error.to_string()),
        },
        HelperRequest::Block | HelperRequest::Undo => {
            duties.sockets.iter().for_each(|path| remove_socket(path));
            if let Err(error) = kept.release_all().await {
                tracing::warn!("{error}");
            }
            done(if request == HelperRequest::Block { kept.block().await } else { kept.undo().await })
        }
    };
    (answer, None)
}

fn remove_socket(path: &Path) {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if !is_socket {
        return;
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            tracing::warn!("cannot remove {}: {error}", path.display());
        }
        _ => {}
    }
}
