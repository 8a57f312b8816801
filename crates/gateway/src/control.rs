//! The control socket: a Unix socket, mode 0600, with a line of JSON as the request and one as the
//! answer.
//!
//! Only root and the user who started the gateway are served. A request has a size limit and a time
//! limit, so that no client can hold the gateway up; workers are asked through a channel and never
//! locked.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use convoy_process::supervise::{self, Fault};
use convoy_report::events::{EventPage, Events};
use convoy_report::snapshot::{NamesRequest, RunningName, Snapshot, TunnelSelection};
use serde::{Deserialize, Serialize};
use socket2::Type;
use zeroize::Zeroizing;

use crate::explain::{ExplainRequest, Explanation};
use crate::run::{Load, Order, ReloadReport, Reply, reload};
use crate::trace::{TraceReport, TraceRequest};

/// Version of the protocol; a client of another is refused.
pub const VERSION: u32 = 4;
/// The longest request, in bytes.
const REQUEST_BYTES: usize = 4096;
/// Clients that may wait to be served.
const BACKLOG: i32 = 16;
/// Clients that are served at the same time: one that is slow must not hold up the others.
const CLIENTS: usize = 4;
/// Time limit of a client's request, and of the gateway's answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Time limit of a snapshot, which workers take in steps between their packets.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(4);
/// Time limit of a reload: a new tunnel's algorithm may have to be measured on all engines.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(20);

/// The kinds of requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// Everything that `convoy show` displays.
    Snapshot,
    /// As `snapshot`, but of these tunnels alone, or of none.
    Tunnel(TunnelSelection),
    /// The names that a command line may go on with, which are far fewer bytes.
    Names(NamesRequest),
    /// Whether the gateway responds.
    Ping,
    /// Drain and end.
    Stop,
    /// Read the configuration again and switch to it.
    Reload,
    /// Lead no group of the cluster, or lead groups again.
    Drain(bool),
    /// The keys of all SAs as Wireshark's table `esp_sa`; for root only.
    Keys,
    /// Say what would become of a packet.
    Explain(ExplainRequest),
    /// Begin to trace packets.
    Trace(TraceRequest),
    /// The packets traced since the last such request.
    Traced,
    /// End the trace.
    EndTrace,
    /// The events behind the one of this number; 0 is before the first.
    Events {
        /// The last number that the client has seen.
        after: u64,
    },
}

impl Ask {
    /// How long a client waits for the answer.
    fn timeout(&self) -> Duration {
        match self {
            Self::Ping | Self::Stop | Self::Trace(_) | Self::Traced | Self::EndTrace => TIMEOUT * 2,
            Self::Events { .. } => TIMEOUT * 2,
            Self::Snapshot | Self::Tunnel(_) | Self::Names(_) => SNAPSHOT_TIMEOUT + TIMEOUT,
            Self::Drain(_) | Self::Explain(_) | Self::Keys => SNAPSHOT_TIMEOUT + TIMEOUT,
            Self::Reload => RELOAD_TIMEOUT + TIMEOUT,
        }
    }
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// [`VERSION`].
    pub version: u32,
    /// Its kind.
    pub ask: Ask,
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// To `snapshot` and `tunnel`.
    Snapshot(Box<Snapshot>),
    /// To `names`.
    Names(Vec<RunningName>),
    /// To `keys`: a line for each SA. It is wiped when dropped.
    Keys(Zeroizing<String>),
    /// To `explain`.
    Explained(Explanation),
    /// To `traced`.
    Traced(TraceReport),
    /// To `reload`; with [`ReloadReport::refused`] it was done only in part.
    Reloaded(ReloadReport),
    /// To `events`.
    Events(EventPage),
    /// Done.
    Good,
    /// Not done.
    Refused(String),
}

/// Parses a request. Never panics, whatever the bytes.
///
/// # Errors
/// What is wrong with it, for the client.
pub fn parse_request(line: &[u8]) -> Result<Request, String> {
    let request: Request =
        serde_json::from_slice(line).map_err(|error| format!("this is not a request of convoy: {error}"))?;
    if request.version != VERSION {
        return Err(format!(
            "protocol version {} is not supported; this gateway speaks version {VERSION}",
            request.version
        ));
    }
    Ok(request)
}

/// The gateway's end. The socket's file is removed when this is dropped, unless the permission to
/// remove it was given up: then the [helper](convoy_host::helper) removes it.
pub struct ControlServer {
    path: PathBuf,
    listener: Option<UnixListener>,
}

impl ControlServer {
    /// Listens at `path`; a file left there by a dead gateway is replaced. Clients wait until
    /// [`start`](Self::start).
    ///
    /// # Errors
    /// What the system refused, or that another gateway listens there.
    pub fn listen(path: &Path) -> io::Result<Self> {
        let socket = convoy_ike::local::listen(path, Type::STREAM, BACKLOG, None)?;
        Ok(Self { path: path.to_owned(), listener: Some(UnixListener::from(OwnedFd::from(socket))) })
    }

    /// Serves clients on threads of their own, a few at a time. `load` reads the
    /// configuration for a reload, `events` has what happened, and a thread that panics is
    /// reported to `faults`.
    ///
    /// # Errors
    /// That the system refused a thread.
    pub fn start(
        &mut self,
        load: Load,
        orders: Sender<Order>,
        events: Events,
        faults: &Sender<Fault>,
    ) -> io::Result<()> {
        let Some(listener) = self.listener.take() else { return Ok(()) };
        for number in 0..CLIENTS {
            let (listener, load) = (listener.try_clone()?, Arc::clone(&load));
            let (orders, events) = (orders.clone(), events.clone());
            supervise::spawn(&format!("control {number}"), faults, move || {
                for client in listener.incoming().flatten() {
                    // A client that disconnects early needs no answer.
                    supervise::survive("a client of the control socket", || {
                        drop(serve(client, &load, &orders, &events));
                    });
                }
            })?;
        }
        Ok(())
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn serve(client: UnixStream, load: &Load, orders: &Sender<Order>, events: &Events) -> io::Result<()> {
    if convoy_ike::local::trusted_peer(&client, None).is_none() {
        return Ok(());
    }
    client.set_write_timeout(Some(TIMEOUT))?;
    let line = read_request(&client)?;
    let answer = match parse_request(&line) {
        Err(reason) => Answer::Refused(reason),
        Ok(Request { ask: Ask::Keys, .. }) if !convoy_ike::local::is_root(&client) => {
            Answer::Refused("only root gets the keys".to_owned())
        }
        Ok(request) => answer(request.ask, load, orders, events),
    };
    if let Answer::Keys(keys) = &answer {
        // One buffer that is long enough, escapes included, and wiped.
        let mut line = Zeroizing::new(Vec::with_capacity(2 * keys.len() + 64));
        serde_json::to_writer(&mut *line, &answer)?;
        line.push(b'\n');
        return (&client).write_all(&line);
    }
    // A snapshot of many SAs is long: it is streamed rather than kept as text.
    let mut out = BufWriter::with_capacity(64 << 10, &client);
    serde_json::to_writer(&mut out, &answer)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Reads up to the end of the line, [`REQUEST_BYTES`] or [`TIMEOUT`], however slowly the client
/// writes.
fn read_request(client: &UnixStream) -> io::Result<Vec<u8>> {
    let until = Instant::now() + TIMEOUT;
    let mut line = vec![0; REQUEST_BYTES];
    let mut len = 0;
    while len < REQUEST_BYTES && !line[..len].contains(&b'\n') {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        client.set_read_timeout(Some(left))?;
        match (&mut &*client).read(&mut line[len..])? {
            0 => break,
            count => len += count,
        }
    }
    line.truncate(len);
    Ok(line)
}

fn answer(ask: Ask, load: &Load, orders: &Sender<Order>, events: &Events) -> Answer {
    match ask {
        Ask::Ping => Answer::Good,
        Ask::Events { after } => Answer::Events(events.after(after)),
        Ask::Reload => {
            let (reply, report) = channel();
            let reply = Box::new(move |report| drop(reply.send(report)));
            match reload(load, orders, events, reply).map(|()| report.recv_timeout(RELOAD_TIMEOUT)) {
                Ok(Ok(Ok(report))) => Answer::Reloaded(report),
                Ok(Ok(Err(reason))) => Answer::Refused(reason),
                Ok(Err(_)) => {
                    Answer::Refused("the gateway did not answer in time; its log says more".to_owned())
                }
                Err(reason) => Answer::Refused(reason),
            }
        }
        Ask::Stop => orders.send(Order::Stop).map_or_else(|_| gone(), |()| Answer::Good),
        Ask::Snapshot => show(orders, None, |snapshot| Answer::Snapshot(Box::new(snapshot))),
        Ask::Tunnel(selection) => {
            show(orders, Some(selection), |snapshot| Answer::Snapshot(Box::new(snapshot)))
        }
        Ask::Names(request) => show(orders, None, |snapshot| Answer::Names(snapshot.names(&request))),
        Ask::Drain(is_draining) => {
            let drain = |reply| Order::Drain(is_draining, reply);
            order(orders, TIMEOUT, drain, |done| done.map_or_else(Answer::Refused, |()| Answer::Good))
        }
        Ask::Keys => order(orders, SNAPSHOT_TIMEOUT, Order::Keys, |keys| {
            keys.map_or_else(Answer::Refused, Answer::Keys)
        }),
        Ask::Explain(request) => {
            let explain = |reply| Order::Explain(request, reply);
            order(orders, SNAPSHOT_TIMEOUT, explain, |reported| {
                reported.map_or_else(Answer::Refused, Answer::Explained)
            })
        }
        Ask::Trace(request) => {
            let begin = |reply| Order::BeginTrace(request, reply);
            order(orders, TIMEOUT, begin, |begun| begun.map_or_else(Answer::Refused, |()| Answer::Good))
        }
        Ask::Traced => order(orders, TIMEOUT, Order::TakeTraced, |taken| {
            taken.map_or_else(Answer::Refused, Answer::Traced)
        }),
        Ask::EndTrace => order(orders, TIMEOUT, Order::EndTrace, |()| Answer::Good),
    }
}

/// Has the gateway take a snapshot.
fn show(
    orders: &Sender<Order>,
    selection: Option<TunnelSelection>,
    answer: impl FnOnce(Snapshot) -> Answer,
) -> Answer {
    order(orders, SNAPSHOT_TIMEOUT, |reply| Order::Show(selection, reply), answer)
}

/// Sends the gateway an order that it replies to, and waits for that for a limited time.
fn order<T: Send + 'static>(
    orders: &Sender<Order>,
    timeout: Duration,
    order: impl FnOnce(Reply<T>) -> Order,
    answer: impl FnOnce(T) -> Answer,
) -> Answer {
    let (reply, replied) = channel();
    if orders.send(order(Box::new(move |value| drop(reply.send(value))))).is_err() {
        return gone();
    }
    match replied.recv_timeout(timeout) {
        Ok(value) => answer(value),
        Err(_) => Answer::Refused("the worker did not answer in time".to_owned()),
    }
}

fn gone() -> Answer {
    Answer::Refused("the gateway is stopping".to_owned())
}

/// Sends a request to a running gateway.
///
/// # Errors
/// That none listens there, or what it answered instead.
pub fn ask(path: &Path, ask: Ask) -> io::Result<Answer> {
    let client = UnixStream::connect(path)?;
    client.set_read_timeout(Some(ask.timeout()))?;
    let mut text = serde_json::to_vec(&Request { version: VERSION, ask })?;
    text.push(b'\n');
    (&client).write_all(&text)?;
    let mut line = String::new();
    BufReader::new(&client).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use convoy_config::{Config, ConfigErrors};

    use super::*;

    fn no_file() -> Load {
        Arc::new(|| Err(ConfigErrors::whole_file("site.toml", "unknown key")))
    }

    #[test]
    fn a_client_that_is_slow_does_not_hold_up_the_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("control.sock");
        let mut server = ControlServer::listen(&path).expect("listening");
        server.start(no_file(), channel().0, Events::default(), &channel().0).expect("threads");
        // The machine may stand still for as long as that now and then.
        let is_quick = (0..5).any(|_| {
            // They ask for nothing until the server gives them up.
            let slow: Vec<_> = (1..CLIENTS).map(|_| UnixStream::connect(&path).expect("connected")).collect();
            let began = Instant::now();
            assert_eq!(ask(&path, Ask::Ping).expect("an answer"), Answer::Good);
            let taken = began.elapsed();
            drop(slow);
            taken < TIMEOUT
        });
        assert!(is_quick, "it waited for another client");
    }

    #[test]
    fn a_reload_is_answered_with_what_came_of_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("control.sock");
        let mut refusing = ControlServer::listen(&path).expect("listening");
        refusing.start(no_file(), channel().0, Events::default(), &channel().0).expect("a thread");
        let reported = "the configuration is unchanged:\nsite.toml: error: unknown key".to_owned();
        assert_eq!(ask(&path, Ask::Reload).expect("an answer"), Answer::Refused(reported));
        let path = folder.path().join("other.sock");
        let (orders, received) = channel();
        let load: Load = Arc::new(|| Config::parse("test.toml", "").map(Box::new));
        let mut server = ControlServer::listen(&path).expect("listening");
        server.start(load, orders, Events::default(), &channel().0).expect("a thread");
        let report =
            ReloadReport { stayed: 2, came: 1, refused: vec!["why".to_owned()], ..Default::default() };
        let answer = report.clone();
        let gateway = std::thread::spawn(move || {
            let Ok(Order::Reload(_, reply)) = received.recv() else { panic!("a reload was asked for") };
            reply(Ok(answer));
        });
        assert_eq!(ask(&path, Ask::Reload).expect("an answer"), Answer::Reloaded(report));
        gateway.join().expect("no panic");
    }

    #[test]
    fn requests_are_read_and_others_refused_with_a_reason() {
        let good = br#"{"version":4,"ask":"snapshot"}"#;
        assert_eq!(parse_request(good), Ok(Request { version: VERSION, ask: Ask::Snapshot }));
        let other = parse_request(br#"{"version":9,"ask":"ping"}"#).expect_err("another version");
        assert_eq!(other, "protocol version 9 is not supported; this gateway speaks version 4");
        for bad in [&b""[..], b"{", b"\xff\xff", br#"{"version":4,"ask":"secrets"}"#, br#"{"version":2}"#] {
            assert!(parse_request(bad).expect_err("not a request").starts_with("this is not a request"));
        }
    }

    #[test]
    fn a_client_is_answered_and_the_socket_is_for_its_owner_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("control.sock");
        let ((orders, received), events) = (channel(), Events::default());
        let mut server = ControlServer::listen(&path).expect("listening");
        server.start(no_file(), orders, events.clone(), &channel().0).expect("a thread");
        let mode = std::fs::metadata(&path).expect("a socket").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(ask(&path, Ask::Ping).expect("an answer"), Answer::Good);
        events.warn("twice");
        events.warn("twice");
        let answer = ask(&path, Ask::Events { after: 1 }).expect("an answer");
        assert!(
            matches!(answer, Answer::Events(page) if page.events.len() == 1 && page.events[0].number == 2)
        );
        assert_eq!(ask(&path, Ask::Stop).expect("an answer"), Answer::Good);
        assert!(matches!(received.recv(), Ok(Order::Stop)));
        let worker = std::thread::spawn(move || {
            let Ok(Order::Show(None, reply)) = received.recv() else { panic!("a snapshot was asked for") };
            reply(Snapshot { decrypted: 7, ..Snapshot::default() });
        });
        let answer = ask(&path, Ask::Snapshot).expect("an answer");
        assert!(matches!(answer, Answer::Snapshot(snapshot) if snapshot.decrypted == 7));
        worker.join().expect("no panic");
        assert_eq!(
            ControlServer::listen(&path).err().map(|error| error.kind()),
            Some(io::ErrorKind::AddrInUse)
        );
        drop(server);
        assert!(!path.exists());
    }

    #[test]
    fn who_writes_a_byte_at_a_time_is_cut_off_in_the_end() {
        let (server, client) = UnixStream::pair().expect("a pair");
        let dripping = std::thread::spawn(move || {
            while (&client).write_all(b"x").is_ok() {
                std::thread::sleep(TIMEOUT / 20);
            }
        });
        let error = read_request(&server).expect_err("no line ever ends");
        assert!(matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{error}");
        drop(server);
        dripping.join().expect("no panic");
    }

    #[test]
    fn a_request_without_end_is_cut_off() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("control.sock");
        let mut server = ControlServer::listen(&path).expect("listening");
        server.start(no_file(), channel().0, Events::default(), &channel().0).expect("a thread");
        let client = UnixStream::connect(&path).expect("listening");
        // The server may hang up while this is still being written.
        let _ = (&client).write_all(&[b'x'; 100_000]);
        let mut line = String::new();
        let _ = BufReader::new(&client).read_line(&mut line);
        assert!(line.is_empty() || line.contains("not a request"), "{line}");
        assert_eq!(ask(&path, Ask::Ping).expect("still there"), Answer::Good);
    }
}
