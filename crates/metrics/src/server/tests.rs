//! Clients of all kinds, and what they get.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

use convoy_report::snapshot::Snapshot;

use super::super::maker::SnapshotReply;
use super::*;

const QUICK: ClientLimits = ClientLimits {
    connections: 4,
    request: Duration::from_millis(300),
    connection: Duration::from_millis(900),
    fresh: Duration::ZERO,
    fresh_status: Duration::ZERO,
};
/// Far longer than any limit above; a test that waits so long has failed.
const SLACK: Duration = Duration::from_secs(20);

/// A server, and a gateway behind it that answers every request for a snapshot, of `ports`
/// ports.
fn server(limits: ClientLimits, ports: usize) -> SocketAddr {
    counting_server(limits, ports).0
}

/// A server with such a gateway, and how often a snapshot was asked for.
fn counting_server(limits: ClientLimits, ports: usize) -> (SocketAddr, Arc<AtomicUsize>) {
    serving(Contents::default(), limits, ports)
}

/// A server of certain contents with such a gateway.
fn serving(contents: Contents, limits: ClientLimits, ports: usize) -> (SocketAddr, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let listener = bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let address = listener.local_addr().expect("bound");
    let (asks, received) = channel::<SnapshotReply>();
    std::thread::spawn(move || {
        for reply in received {
            counted.fetch_add(1, Ordering::Relaxed);
            let row = convoy_report::snapshot::PortRow { name: "p".repeat(200), ..Default::default() };
            reply(Snapshot { ports: vec![row; ports], ..Snapshot::default() });
        }
    });
    let source = Box::new(move |reply| asks.send(reply).is_ok());
    start(listener, source, contents, limits, &channel().0).expect("a server");
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
    let host = if request.contains("Host: ") { "" } else { "\r\nHost: gateway" };
    stream.write_all(format!("{request}{host}\r\n\r\n").as_bytes()).expect("sent");
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
    let limits = ClientLimits { request: SLACK, connection: Duration::from_secs(6), ..QUICK };
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
    let limits = ClientLimits { fresh: SLACK * 10, ..LIMITS };
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
    let (address, snapshots) = counting_server(ClientLimits { fresh: Duration::ZERO, ..LIMITS }, 1);
    for _ in 0..2 {
        assert!(ask(address, "GET /metrics HTTP/1.1").ends_with("# EOF\n"));
    }
    assert_eq!(snapshots.load(Ordering::Relaxed), 2);
}

#[test]
fn a_gateway_that_is_gone_is_reported() {
    let listener = bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let address = listener.local_addr().expect("bound");
    start(listener, Box::new(|_| false), Contents::default(), LIMITS, &channel().0).expect("a server");
    assert!(ask(address, "GET /metrics HTTP/1.1").starts_with("HTTP/1.1 503"));
}

/// The address of a server that has the page, and how often a snapshot was asked for.
fn with_page(limits: ClientLimits) -> (SocketAddr, Arc<AtomicUsize>) {
    serving(Contents { page: Some(Events::default()), ..Contents::default() }, limits, 1)
}

#[test]
fn the_page_is_served_with_its_policy_where_it_is_on() {
    let (address, snapshots) = with_page(LIMITS);
    let page = ask(address, "GET / HTTP/1.1\r\nHost: 127.0.0.1:9464");
    assert!(page.starts_with("HTTP/1.1 200 OK") && page.ends_with("</html>\n"), "{page}");
    assert!(page.contains("content-type: text/html; charset=utf-8"), "{page}");
    assert!(page.contains("content-security-policy: default-src 'none'; style-src 'sha256-"), "{page}");
    assert_eq!(snapshots.load(Ordering::Relaxed), 0, "the document needs no snapshot");
    let status = ask(address, "GET /status.json?rows=10 HTTP/1.1\r\nHost: [::1]:9464");
    assert!(status.starts_with("HTTP/1.1 200 OK") && status.ends_with("\"cluster\":null}"), "{status}");
    assert!(status.contains("content-type: application/json\r\n"), "{status}");
    assert!(status.contains("x-content-type-options: nosniff"), "{status}");
}

#[test]
fn the_page_refuses_bad_queries_other_methods_and_other_names() {
    let (address, snapshots) = with_page(LIMITS);
    let bad = ask(address, "GET /status.json?page=-1 HTTP/1.1\r\nHost: localhost");
    assert!(bad.starts_with("HTTP/1.1 400") && bad.contains("must be a number from 1 to"), "{bad}");
    for path in ["/", "/status.json"] {
        let posted = ask(address, &format!("POST {path} HTTP/1.1\r\nHost: localhost"));
        assert!(posted.starts_with("HTTP/1.1 405") && posted.contains("allow: GET, HEAD"), "{posted}");
        let rebound = ask(address, &format!("GET {path} HTTP/1.1\r\nHost: rebound.example"));
        assert!(
            rebound.starts_with("HTTP/1.1 403") && rebound.contains("x-frame-options: DENY"),
            "{rebound}"
        );
    }
    assert_eq!(snapshots.load(Ordering::Relaxed), 0);
    let unknown = ask(address, "GET /favicon.ico HTTP/1.1\r\nHost: localhost");
    assert!(unknown.starts_with("HTTP/1.1 404") && unknown.contains("the page is at /"), "{unknown}");
}

#[test]
fn metrics_are_the_same_with_and_without_the_page() {
    let without = server(LIMITS, 1);
    let (with, _) = with_page(LIMITS);
    // Of any name, as before.
    let scrape = |address| {
        let text = ask(address, "GET /metrics HTTP/1.1\r\nHost: gateway.example");
        text.lines().filter(|line| !line.starts_with("date: ")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(scrape(with), scrape(without));
}

#[test]
fn browsers_that_ask_together_share_one_snapshot() {
    let limits = ClientLimits { fresh_status: SLACK * 10, ..LIMITS };
    let (address, snapshots) = with_page(limits);
    for query in ["", "?filter=a", "?page=2&rows=5"] {
        let status = ask(address, &format!("GET /status.json{query} HTTP/1.1\r\nHost: localhost"));
        assert!(status.starts_with("HTTP/1.1 200"), "{status}");
    }
    assert_eq!(snapshots.load(Ordering::Relaxed), 1);
}
