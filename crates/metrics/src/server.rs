//! The HTTP server for Prometheus and for browsers, with limits on clients.
//!
//! Any host that reaches the address can connect, so no client may cost the gateway more than a few
//! kilobytes or keep other clients out for more than some seconds (`limits.rs`). One snapshot is
//! made at a time (`maker.rs`), and all who ask within a second get the same page of metrics.
//! Answers to `/status.json` differ by query: each connection holds one at most, of the rows that a
//! query may ask for, so that there are no more than connections (16). hyper parses; one thread
//! without privileges serves all connections.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use convoy_process::supervise::{self, Fault};
use convoy_report::events::Events;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::answer::Answers;
use super::browser::Document;
use super::limits::{ClientLimits, LIMITS};
use super::maker::{Maker, SnapshotSource};

/// Request line and headers together, in bytes; hyper accepts no smaller limit.
const REQUEST_BYTES: usize = 8192;
/// Pause after a connection could not be accepted, for example for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(200);
/// Interval between two warnings of that.
const SILENCE: Duration = Duration::from_secs(60);

/// What is served.
#[derive(Clone, Default)]
pub struct Contents {
    /// Whether there are series of each tunnel:
    /// [`Config::metrics_per_tunnel`](convoy_config::Config::metrics_per_tunnel).
    pub per_tunnel: Option<bool>,
    /// The gateway's events, if there is a page for browsers.
    pub page: Option<Events>,
}

/// Binds the address, which may require a privilege that the gateway gives up before it serves.
///
/// # Errors
/// What the system refused: the address is in use, or not this host's.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves what is made of `source`'s snapshots on a thread of its own, which has the privileges of
/// its caller; a panic is reported to `faults`.
///
/// # Errors
/// What the system refused: a thread, or a file descriptor for it.
pub fn serve(
    listener: TcpListener,
    source: SnapshotSource,
    contents: Contents,
    faults: &Sender<Fault>,
) -> io::Result<()> {
    start(listener, source, contents, LIMITS, faults)
}

fn start(
    listener: TcpListener,
    source: SnapshotSource,
    contents: Contents,
    limits: ClientLimits,
    faults: &Sender<Fault>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let listener = {
        let _context = runtime.enter();
        tokio::net::TcpListener::from_std(listener)?
    };
    let serve = move || {
        runtime.block_on(async {
            let (asked, requests) = mpsc::unbounded_channel();
            let document = contents.page.is_some().then(|| Arc::new(Document::new()));
            let maker = Maker::new(source, limits, contents.per_tunnel, contents.page);
            tokio::spawn(maker.run(requests));
            accept(listener, Answers::new(asked, document), limits).await;
        });
    };
    supervise::spawn("metrics", faults, serve).map(drop)
}

async fn accept(listener: tokio::net::TcpListener, answers: Answers, limits: ClientLimits) {
    let mut open: VecDeque<JoinHandle<()>> = VecDeque::new();
    let mut reported: Option<Instant> = None;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                open.retain(|connection| !connection.is_finished());
                if open.len() >= limits.connections {
                    open.pop_front().inspect(JoinHandle::abort);
                }
                let answers = answers.clone();
                open.push_back(tokio::spawn(async move {
                    // A client that is too slow, or disconnects early, gets no answer.
                    let _ = timeout(limits.connection, serve_one(stream, answers, limits)).await;
                }));
            }
            Err(error) => {
                if reported.is_none_or(|reported| reported.elapsed() > SILENCE) {
                    tracing::warn!("metrics: cannot accept a connection: {error}; trying again");
                    reported = Some(Instant::now());
                }
                // Its file descriptor may be the one that is lacking.
                open.pop_front().inspect(JoinHandle::abort);
                sleep(PAUSE).await;
            }
        }
    }
}

/// One request and its answer. Connections are not kept alive: a scrape every few seconds gains
/// nothing by that, and idle ones would take the places of others.
async fn serve_one(stream: TcpStream, answers: Answers, limits: ClientLimits) -> hyper::Result<()> {
    let service = service_fn(move |request| {
        let answers = answers.clone();
        async move { Ok::<_, Infallible>(answers.to(&request).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.request)
        .max_buf_size(REQUEST_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

#[cfg(test)]
mod tests;
