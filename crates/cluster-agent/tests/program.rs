//! The program as a command starts it, without etcd; `tests/cluster-config.sh` has the rest.

use std::io::Write;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use convoy_cluster::messages::{LIMIT, Start, StoreAccess, StoreCall};
use convoy_cluster::{Call, StoreAnswer, StoreEvent};
use convoy_process::framing::Framing;

const FRAMING: Framing = Framing { limit: LIMIT };
const PATIENCE: Duration = Duration::from_secs(60);

fn start() -> (UnixStream, Child) {
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    ours.set_read_timeout(Some(PATIENCE)).expect("allowed");
    let mut command = Command::new(env!("CARGO_BIN_EXE_convoy-cluster-agent"));
    command.args(["--log-format", "json"]).stdin(OwnedFd::from(theirs)).stderr(Stdio::piped());
    (ours, command.spawn().expect("the program starts"))
}

fn for_store(endpoints: Vec<String>) -> (UnixStream, Child, Result<(), String>) {
    let (mut socket, agent) = start();
    let access = StoreAccess { endpoints, tls: None, request_timeout_ms: 2_000 };
    FRAMING.send(&mut socket, &Start::Store(Box::new(access))).expect("sent");
    let started = FRAMING.receive(&mut socket).expect("an answer").expect("the first one");
    (socket, agent, started)
}

/// Closes the line and waits for the program's end.
fn end(socket: UnixStream, agent: Child) -> Output {
    drop(socket);
    agent.wait_with_output().expect("it ends")
}

#[test]
fn endpoint_that_cannot_be_used_is_reported_to_the_command_alone() {
    let (socket, agent, started) = for_store(vec!["ftp://127.0.0.1".to_owned()]);
    let refused = "endpoint ftp://127.0.0.1: a URL with http or https is needed";
    assert_eq!(started, Err(refused.to_owned()));
    let ended = end(socket, agent);
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
}

#[test]
fn call_without_a_store_is_refused_and_agent_ends_with_its_command() {
    // A port that was free a moment ago.
    let address = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a port");
    let (mut socket, agent, started) = for_store(vec![format!("http://{address}")]);
    assert_eq!(started, Ok(()));
    let call = Call::Transact { guard: None, deletes: Vec::new(), puts: Vec::new(), read: None };
    FRAMING.send(&mut socket, &StoreCall { id: 7, call }).expect("sent");
    let refused = loop {
        match FRAMING.receive(&mut socket).expect("an event").expect("the agent goes on") {
            StoreEvent::Lost { .. } => {}
            event => break event,
        }
    };
    let reason = "no endpoint is connected".to_owned();
    assert_eq!(refused, StoreEvent::Answered(7, StoreAnswer::Refused { reason }));
    let ended = end(socket, agent);
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
}

#[test]
fn wrong_first_message_ends_the_agent_with_a_line_of_json() {
    let (mut socket, agent) = start();
    socket.write_all(b"\x07\0\0\0\"drain\"").expect("sent");
    let ended = end(socket, agent);
    let stderr = String::from_utf8(ended.stderr).expect("text");
    assert_eq!(ended.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(r#""level":"ERROR","message":"the cluster's agent: "#), "{stderr}");
}
