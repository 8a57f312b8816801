//! The helper's own side.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::pin::pin;

use convoy_port::RoutePlan;
use convoy_port::route::{RouteError, RouteKeeper, keep_routes};
use futures_util::future::{Either, select};
use nix::sys::signal::{SigSet, Signal};
use tokio::sync::mpsc;

use super::Duties;
use super::protocol::{Answer, Request, receive_request, send_answer};
use crate::{config, privileges};

/// What a service manager or a terminal sends to all: the gateway decides when this ends.
const NOT_FOR_US: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// Serves the gateway at the other end of standard input until it is gone.
///
/// # Errors
/// What the system refused.
pub fn serve(duties: Duties<'_>) -> io::Result<()> {
    NOT_FOR_US.into_iter().collect::<SigSet>().thread_block()?;
    // Distinct in the list of processes.
    nix::sys::prctl::set_name(c"convoy-helper")?;
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    privileges::keep_routing().map_err(io::Error::other)?;
    if let Err(error) = config::open(duties.config) {
        tracing::warn!(
            "a reload will not be able to read {}: {error}; the helper process keeps no right to read files of \
             other users, so give it to the user who starts the gateway (chown)",
            duties.config.display()
        );
    }
    let requests = receive_all(socket.try_clone()?)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    privileges::confine_helper().map_err(io::Error::other)?;
    runtime.block_on(work(&socket, requests, duties))
}

/// Receives requests on a thread of its own, as that waits.
fn receive_all(socket: UnixStream) -> io::Result<mpsc::Receiver<Request>> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::Builder::new().name("requests".to_owned()).spawn(move || {
        loop {
            match receive_request(&socket) {
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

async fn work(
    socket: &UnixStream,
    mut requests: mpsc::Receiver<Request>,
    duties: Duties<'_>,
) -> io::Result<()> {
    let (mut keeper, mut events) = keep_routes()?;
    loop {
        let next = match select(pin!(requests.recv()), pin!(events.next())).await {
            Either::Left((request, _)) => request.map(Some),
            Either::Right((event, _)) => event.map(|()| None),
        };
        let request = match next {
            Some(Some(request)) => request,
            Some(None) => {
                restore(&mut keeper).await;
                continue;
            }
            None => return Ok(()),
        };
        let is_last = matches!(request, Request::Block | Request::Undo);
        let (answer, file) = match request {
            Request::Route(plan) => (route(&mut keeper, *plan).await, None),
            Request::Configuration => match config::open(duties.config) {
                Ok(file) => (Answer::Done, Some(file)),
                Err(error) => (Answer::Refused(error.to_string()), None),
            },
            Request::Block => (end(keeper.block().await, duties), None),
            Request::Undo => (end(keeper.undo().await, duties), None),
        };
        send_answer(socket, &answer, file.as_ref().map(File::as_fd))?;
        if is_last {
            return Ok(());
        }
    }
}

async fn restore(keeper: &mut RouteKeeper) {
    match keeper.restore().await {
        Ok(0) => {}
        Ok(changes) => {
            tracing::warn!("an interface or rule changed; {changes} routes and rules were restored")
        }
        Err(error) => tracing::warn!("routes into the tunnels: {error}"),
    }
}

/// Follows a plan. The interface and the numbers are those of the first, which came before the gateway read any packet.
async fn route(keeper: &mut RouteKeeper, plan: RoutePlan) -> Answer {
    if let Some(first) = keeper.plan()
        && (&first.device, first.routing) != (&plan.device, plan.routing)
    {
        return Answer::Refused(
            "the interface, table, priority and mark of routes are fixed at the start".to_owned(),
        );
    }
    match keeper.set(plan).await {
        Ok(()) => Answer::Done,
        Err(error) => Answer::Refused(error.to_string()),
    }
}

/// The gateway stops: its sockets' files go, and this has become of its routes.
fn end(routes: Result<(), RouteError>, duties: Duties<'_>) -> Answer {
    duties.sockets.iter().for_each(|path| remove_socket(path));
    match routes {
        Ok(()) => Answer::Done,
        Err(error) => Answer::Refused(error.to_string()),
    }
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
