//! The HTTP server for Prometheus: one page, and limits on clients.
//!
//! Anybody who reaches the address can connect, so no client may cost the gateway more than a few
//! kilobytes or keep other clients out for more than some seconds. One snapshot is made at a time,
//! and all who ask within a second get the same page. hyper parses; one thread without privileges
//! serves all connections.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::page::{Page, Pages, Reading};
use super::text;
use crate::run::Order;
use crate::snapshot::Snapshot;
use crate::supervise::{self, Fault};

/// The page's path.
const PATH: &str = "/metrics";
/// Request line and headers together, in bytes; hyper accepts no smaller limit.
const REQUEST_BYTES: usize = 8192;
/// Time limit of the gateway's answer.
const TIMEOUT: Duration = Duration::from_secs(4);
/// Pause after a connection could not be accepted, for example for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(200);
/// Interval between two warnings of that.
const SILENCE: Duration = Duration::from_secs(60);

/// The limits of clients, and of what they get.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Connections at once; the oldest gives way to a new one, so that idle ones keep no client
    /// out.
    connections: usize,
    /// For request line and headers.
    request: Duration,
    /// For a whole connection, so that a client which does not read its answer is cut off too.
    connection: Duration,
    /// For how long a page is served after it was made.
    fresh: Duration,
    /// Whether a page has series of each tunnel.
    per_tunnel: Option<bool>,
}

const LIMITS: Limits = Limits {
    connections: 16,
    request: Duration::from_secs(5),
    connection: Duration::from_secs(15),
    fresh: Duration::from_secs(1),
    per_tunnel: None,
};

/// The requester of a page; it receives `None` if the gateway gives no snapshot.
type Asker = oneshot::Sender<Option<Arc<Page>>>;

/// Binds the address, which may require a privilege that the gateway gives up before it serves.
///
/// # Errors
/// What the system refused: the address is in use, or not this host's.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves metrics on a thread of its own, which has the privileges of its caller; `per_tunnel` is
/// [`Config::metrics_per_tunnel`](convoy_config::Config::metrics_per_tunnel), and a panic is
/// reported to `faults`.
///
/// # Errors
/// What the system refused: a thread, or a file descriptor for it.
pub fn serve(
    listener: TcpListener,
    orders: Sender<Order>,
    per_tunnel: Option<bool>,
    faults: &Sender<Fault>,
) -> io::Result<()> {
    start(listener, orders, Limits { per_tunnel, ..LIMITS }, faults)
}

fn start(
    listener: TcpListener,
    orders: Sender<Order>,
    limits: Limits,
    faults: &Sender<Fault>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let listener = {
        let _context = runtime.enter();
        tokio::net::TcpListener::from_std(listener)?
    };
    let serve = move || runtime.block_on(accept(listener, orders, limits));
    supervise::spawn("metrics", faults, serve).map(drop)
}

async fn accept(listener: tokio::net::TcpListener, orders: Sender<Order>, limits: Limits) {
    let (asked, askers) = mpsc::unbounded_channel();
    tokio::spawn(make_pages(askers, orders, limits));
    let mut open: VecDeque<JoinHandle<()>> = VecDeque::new();
    let mut reported: Option<Instant> = None;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                open.retain(|connection| !connection.is_finished());
                if open.len() >= limits.connections {
                    open.pop_front().inspect(JoinHandle::abort);
                }
                let asked = asked.clone();
                open.push_back(tokio::spawn(async move {
                    // A client that is too slow, or disconnects early, gets no answer.
                    let _ = timeout(limits.connection, serve_one(stream, asked, limits)).await;
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

/// Makes pages for requesters, one at a time. A page is finished even if its requesters have
/// disconnected, so that connections which come and go cannot start it again and again.
async fn make_pages(mut askers: mpsc::UnboundedReceiver<Asker>, orders: Sender<Order>, limits: Limits) {
    let mut pages = Pages::default();
    let mut made: Option<(Instant, Option<Arc<Page>>)> = None;
    while let Some(asker) = askers.recv().await {
        if made.as_ref().is_none_or(|(at, _)| at.elapsed() >= limits.fresh) {
            // The old page is not kept while the new one is made.
            drop(made.take());
            let snapshot = snapshot(&orders).await;
            let write = |snapshot| Page::written(|out| text::write(out, snapshot, limits.per_tunnel));
            let page = snapshot.map(write);
            made = Some((Instant::now(), page.map(|page| pages.add(page))));
        }
        // The client may be gone by then.
        let _ = asker.send(made.as_ref().and_then(|(_, page)| page.clone()));
    }
}

/// One request and its answer. Connections are not kept alive: a scrape every few seconds gains
/// nothing by that, and idle ones would take the places of others.
async fn serve_one(
    stream: TcpStream,
    asked: mpsc::UnboundedSender<Asker>,
    limits: Limits,
) -> hyper::Result<()> {
    let service = service_fn(move |request| {
        let asked = asked.clone();
        async move { Ok::<_, Infallible>(answer(&request, &asked).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.request)
        .max_buf_size(REQUEST_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

async fn answer(request: &Request<Incoming>, asked: &mpsc::UnboundedSender<Asker>) -> Response<Reading> {
    if request.uri().path() != PATH {
        return plain(StatusCode::NOT_FOUND, "not found; the metrics are at /metrics\n");
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are allowed here\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    let (reply, page) = oneshot::channel();
    // Without a maker of pages the reply is dropped at once.
    let _ = asked.send(reply);
    match page.await {
        Ok(Some(page)) => {
            let mut response = Response::new(Reading::from(page));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(text::CONTENT_TYPE));
            response
        }
        Ok(None) | Err(_) => {
            plain(StatusCode::SERVICE_UNAVAILABLE, "the gateway does not answer, or is stopping\n")
        }
    }
}

fn plain(status: StatusCode, words: &'static str) -> Response<Reading> {
    let mut response = Response::new(Reading::from(Arc::new(Page::from(words))));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

async fn snapshot(orders: &Sender<Order>) -> Option<Snapshot> {
    let (reply, snapshot) = oneshot::channel();
    // The wait may be over by then.
    orders.send(Order::Show(Box::new(move |snapshot| drop(reply.send(snapshot))))).ok()?;
    timeout(TIMEOUT, snapshot).await.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    use super::*;

    const QUICK: Limits = Limits {
        connections: 4,
        request: Duration::from_millis(300),
        connection: Duration::from_millis(900),
        fresh: Duration::ZERO,
        per_tunnel: None,
    };
    /// Far longer than any limit above; a test that waits so long has failed.
    const SLACK: Duration = Duration::from_secs(20);

    /// A server, and a gateway behind it that answers every request for a snapshot, of `ports`
    /// ports.
    fn server(limits: Limits, ports: usize) -> SocketAddr {
        counting_server(limits, ports).0
    }

    /// A server with such a gateway, and how often a snapshot was asked for.
    fn counting_server(limits: Limits, ports: usize) -> (SocketAddr, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let listener = bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let address = listener.local_addr().expect("bound");
        let (orders, received) = channel();
        std::thread::spawn(move || {
            for order in received {
                let Order::Show(reply) = order else { panic!("only snapshots are asked for") };
                counted.fetch_add(1, Ordering::Relaxed);
                let row = crate::snapshot::PortRow { name: "p".repeat(200), ..Default::default() };
                reply(Snapshot { ports: vec![row; ports], ..Snapshot::default() });
            }
        });
        start(listener, orders, limits, &channel().0).expect("a server");
        (address, count)
    }

    fn connect(address: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(SLACK)).expect("allowed");
        stream.set_write_timeout(Some(SLACK)).expect("allowed");
        stream
    }

    /// What comes until the server closes; an error after that is as good.
    fn rest(mut stream: &TcpStream) -> String {
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = connect(address);
        stream.write_all(format!("{request}\r\nHost: gateway\r\n\r\n").as_bytes()).expect("sent");
        rest(&stream)
    }

    #[test]
    fn the_page_is_served_by_get_and_head_and_there_is_no_other() {
        let address = server(LIMITS, 1);
        let page = ask(address, "GET /metrics HTTP/1.1");
        assert!(page.starts_with("HTTP/1.1 200 OK") && page.ends_with("# EOF\n"), "{page}");
        assert!(page.contains("content-type: application/openmetrics-text; version=1.0.0"), "{page}");
        let head = ask(address, "HEAD /metrics HTTP/1.1");
        assert!(head.starts_with("HTTP/1.1 200 OK") && head.ends_with("\r\n\r\n"), "{head}");
        for path in ["/", "/metrics/", "/etc/passwd", "/metricsx"] {
            let page = ask(address, &format!("GET {path} HTTP/1.1"));
            assert!(page.starts_with("HTTP/1.1 404") && page.contains("/metrics"), "{path}: {page}");
        }
        let page = ask(address, "POST /metrics HTTP/1.1");
        assert!(page.starts_with("HTTP/1.1 405") && page.contains("allow: GET, HEAD"), "{page}");
    }

    #[test]
    fn a_request_without_end_is_refused_after_a_few_kilobytes() {
        let address = server(LIMITS, 1);
        let mut stream = connect(address);
        let chunk = [b'a'; 64 << 10];
        stream.write_all(b"GET /").expect("sent");
        let sent = (0..1024).take_while(|_| stream.write_all(&chunk).is_ok()).count() * chunk.len();
        // The sockets' buffers take some of it.
        assert!(sent < 16 << 20, "{sent} bytes of a request line were taken");
        let page = ask(address, &format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(9000)));
        assert!(page.is_empty() || page.starts_with("HTTP/1.1 431"), "{page}");
        assert!(ask(address, "GET /metrics HTTP/1.1").ends_with("# EOF\n"));
    }

    #[test]
    fn who_writes_a_byte_at_a_time_is_cut_off() {
        let address = server(QUICK, 1);
        let mut stream = connect(address);
        let began = Instant::now();
        while stream.write_all(b"x").is_ok() && began.elapsed() < SLACK {
            std::thread::sleep(QUICK.request / 10);
        }
        assert!(began.elapsed() < SLACK, "the connection is still open");
    }

    #[test]
    fn who_does_not_read_the_answer_is_cut_off() {
        // On a busy machine the snapshot alone may take a second.
        let limits = Limits { request: SLACK, connection: Duration::from_secs(6), ..QUICK };
        let address = server(limits, 40_000);
        let mut stream = connect(address);
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: gateway\r\n\r\n").expect("sent");
        std::thread::sleep(limits.connection * 2);
        let page = rest(&stream);
        assert!(page.starts_with("HTTP/1.1 200") && !page.ends_with("# EOF\n"), "{} bytes came", page.len());
    }

    #[test]
    fn idle_connections_leave_room_for_others() {
        let address = server(LIMITS, 1);
        let idle: Vec<TcpStream> = (0..LIMITS.connections * 3).map(|_| connect(address)).collect();
        let began = Instant::now();
        assert!(ask(address, "GET /metrics HTTP/1.1").ends_with("# EOF\n"));
        assert!(began.elapsed() < LIMITS.request, "it waited until the others were cut off");
        assert!(idle.iter().all(|stream| rest(stream).is_empty()));
    }

    #[test]
    fn scrapers_that_come_together_share_one_snapshot() {
        let limits = Limits { fresh: SLACK * 10, ..LIMITS };
        let (address, snapshots) = counting_server(limits, 1_000);
        let pages: Vec<String> = std::thread::scope(|scope| {
            let ask = |_| scope.spawn(move || ask(address, "GET /metrics HTTP/1.1"));
            let asked: Vec<_> = (0..limits.connections).map(ask).collect();
            asked.into_iter().map(|page| page.join().expect("no panic")).collect()
        });
        assert!(pages.iter().all(|page| page.ends_with("# EOF\n")), "each has got the whole page");
        assert_eq!(snapshots.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_page_that_is_no_longer_fresh_is_made_again() {
        let (address, snapshots) = counting_server(Limits { fresh: Duration::ZERO, ..LIMITS }, 1);
        for _ in 0..2 {
            assert!(ask(address, "GET /metrics HTTP/1.1").ends_with("# EOF\n"));
        }
        assert_eq!(snapshots.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_gateway_that_is_gone_is_reported() {
        let listener = bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let address = listener.local_addr().expect("bound");
        start(listener, channel().0, LIMITS, &channel().0).expect("a server");
        assert!(ask(address, "GET /metrics HTTP/1.1").starts_with("HTTP/1.1 503"));
    }
}
