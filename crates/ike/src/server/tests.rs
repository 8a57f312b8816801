//! The server against well-behaved and misbehaving clients.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use super::links::QUEUE_EVENTS;
use super::socket::Connection;
use super::*;
use crate::protocol::{
    Hello, MESSAGE_BYTES, ReplyStatus, Role, SaProtocolId, VERSION, Welcome, WireSelector,
};

#[derive(Debug, PartialEq)]
enum Heard {
    Connected(u64),
    Request(CharonRequest),
    Datagram(Datagram),
}

struct Gateway(Mutex<Sender<Heard>>);

impl Gateway {
    fn hear(&self, heard: Heard) {
        // The test may have ended.
        let _ = self.0.lock().expect("no panic").send(heard);
    }
}

impl Handler for Gateway {
    fn connected(&self, session: u64, _: &str) {
        self.hear(Heard::Connected(session));
    }

    fn request(&self, request: CharonRequest) -> CharonReply {
        assert_ne!(request, CharonRequest::FlushPolicies, "provoked by a test");
        self.hear(Heard::Request(request));
        CharonReply::DONE
    }

    fn transmit(&self, datagram: Datagram) {
        self.hear(Heard::Datagram(datagram));
    }

    fn listener_failed(&self) {
        panic!("the server accepts no connection any more");
    }
}

struct ServerBench {
    server: Server,
    heard: Receiver<Heard>,
    config: ServerConfig,
    _folder: tempfile::TempDir,
}

fn bench() -> ServerBench {
    let folder = tempfile::tempdir().expect("a folder");
    let config = ServerConfig::new(&folder.path().join("charon.sock"), 77);
    let (sender, heard) = channel();
    let server = Server::start(config.clone(), Arc::new(Gateway(Mutex::new(sender)))).expect("listening");
    ServerBench { server, heard, config, _folder: folder }
}

impl ServerBench {
    fn open(&self) -> Connection {
        let connection = Connection::open(&self.config.path).expect("listening");
        let timeout = Duration::from_secs(20);
        connection.set_timeouts(Some(timeout), timeout).expect("set");
        connection
    }

    fn hello(&self, role: Role, session: u64) -> (Connection, Welcome) {
        let connection = self.open();
        let hello = Hello { role, session, charon: "5.9.8".to_owned() };
        connection.send(&hello.encode()).expect("sent");
        let mut buffer = [0; MESSAGE_BYTES + 1];
        let welcome =
            Welcome::decode(connection.receive(&mut buffer).expect("an answer")).expect("a welcome");
        (connection, welcome)
    }

    fn charon(&self, session: u64) -> [Connection; 3] {
        [Role::Control, Role::Events, Role::Ike].map(|role| {
            let (connection, welcome) = self.hello(role, session);
            assert_eq!((welcome.status, welcome.generation), (ReplyStatus::Ok, 77), "{}", welcome.text);
            connection
        })
    }
}

fn is_hung_up(connection: &Connection) -> bool {
    let mut buffer = [0; MESSAGE_BYTES + 1];
    loop {
        match connection.receive(&mut buffer) {
            Ok(_) => {}
            Err(error) => {
                return matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset);
            }
        }
    }
}

fn datagram(len: usize) -> Datagram {
    let host = |text: &str| text.parse().expect("a host");
    Datagram { source: host("192.0.2.1:500"), destination: host("[2001:db8::1]:500"), payload: vec![7; len] }
}

fn expire(spi: u32) -> SaEvent {
    let destination = "192.0.2.1:4500".parse().expect("a host");
    SaEvent::Expire { spi, protocol: SaProtocolId::Esp, destination, is_hard: false }
}

fn acquire() -> SaEvent {
    let one = WireSelector::of_packet([192, 0, 2, 1].into(), 17, 53);
    SaEvent::Acquire { reqid: 1, resource: None, source: one, destination: one }
}

#[test]
fn charon_asks_hears_and_sends() {
    let bench = bench();
    let [control, events, ike] = bench.charon(5);
    assert_eq!(bench.heard.recv().expect("reported"), Heard::Connected(5));
    let mut buffer = [0; MESSAGE_BYTES + 1];

    control.send(&CharonRequest::FlushSas.encode(9)).expect("sent");
    assert_eq!(bench.heard.recv().expect("asked"), Heard::Request(CharonRequest::FlushSas));
    let reply = control.receive(&mut buffer).expect("a reply");
    assert_eq!(CharonReply::decode(reply), Ok((9, CharonReply::DONE)));

    let outlet = bench.server.outlet();
    assert!(outlet.is_connected());
    assert!(outlet.event(acquire()));
    assert!(outlet.event(expire(3)));
    assert_eq!(SaEvent::decode(events.receive(&mut buffer).expect("an event")), Ok(acquire()));
    assert_eq!(SaEvent::decode(events.receive(&mut buffer).expect("an event")), Ok(expire(3)));

    ike.send(&datagram(1200).encode()).expect("sent");
    assert_eq!(bench.heard.recv().expect("sent on"), Heard::Datagram(datagram(1200)));
    assert!(outlet.datagram(&datagram(300)));
    assert_eq!(Datagram::decode(ike.receive(&mut buffer).expect("a datagram")), Ok(datagram(300)));
}

#[test]
fn a_second_charon_is_refused_by_name_until_the_first_has_gone() {
    let bench = bench();
    let first = bench.charon(5);
    let (refused, welcome) = bench.hello(Role::Control, 6);
    assert_eq!(welcome.status, ReplyStatus::Failed);
    assert_eq!(welcome.text, format!("another charon is connected: process {}", std::process::id()));
    assert!(is_hung_up(&refused));
    let (_, ike) = bench.hello(Role::Ike, 6);
    assert_eq!(ike.status, ReplyStatus::Failed);

    let again = bench.charon(5);
    assert!(first.iter().all(is_hung_up), "the same charon has connected again");
    let [control, events, ike] = again;
    drop(control);
    assert!(is_hung_up(&events) && is_hung_up(&ike), "one is not without the others");
    bench.charon(6);
}

#[test]
fn a_gateway_that_stands_by_hangs_up_refuses_and_is_another_one_later() {
    let bench = bench();
    let charon = bench.charon(1);
    let outlet = bench.server.outlet();
    assert!(outlet.event(expire(1)));
    outlet.stand_by();
    assert!(charon.iter().all(is_hung_up));
    let (connection, welcome) = bench.hello(Role::Control, 1);
    assert_eq!(welcome.status, ReplyStatus::StandsBy);
    assert!(welcome.text.contains("stands by") && is_hung_up(&connection));
    outlet.lead();
    let (_connection, welcome) = bench.hello(Role::Control, 1);
    assert_eq!((welcome.status, welcome.generation), (ReplyStatus::Ok, 78));
    assert_eq!(outlet.waiting(), 0, "what waited was another term's");
}

#[test]
fn what_expired_is_reported_when_charon_is_back_but_not_to_another_one() {
    let bench = bench();
    let outlet = bench.server.outlet();
    let [control, events, ike] = bench.charon(5);
    drop(control);
    assert!(is_hung_up(&events) && is_hung_up(&ike));
    assert!(outlet.event(expire(1)));
    assert!(!outlet.event(acquire()));
    assert!(!outlet.datagram(&datagram(1)));
    assert_eq!(outlet.losses(), LossCounters { acquires: 1, datagrams: 1 });
    let [control, events, _ike] = bench.charon(5);
    let mut buffer = [0; MESSAGE_BYTES + 1];
    assert_eq!(SaEvent::decode(events.receive(&mut buffer).expect("an event")), Ok(expire(1)));

    drop(control);
    assert!(is_hung_up(&events));
    assert!(outlet.event(expire(2)));
    let [_control, events, _ike] = bench.charon(6);
    assert!(outlet.event(expire(3)));
    assert_eq!(SaEvent::decode(events.receive(&mut buffer).expect("an event")), Ok(expire(3)));
}

#[test]
fn an_event_that_finds_the_queue_full_is_refused_and_finds_room_later() {
    let bench = bench();
    let outlet = bench.server.outlet();
    let [control, events, ike] = bench.charon(5);
    drop(control);
    assert!(is_hung_up(&events) && is_hung_up(&ike));
    let taken = (0..).take_while(|spi| outlet.event(expire(*spi))).count();
    assert_eq!((taken, outlet.waiting(), outlet.losses().acquires), (QUEUE_EVENTS, QUEUE_EVENTS, 0));
    let [_control, events, _ike] = bench.charon(5);
    let mut buffer = [0; MESSAGE_BYTES + 1];
    assert_eq!(SaEvent::decode(events.receive(&mut buffer).expect("an event")), Ok(expire(0)));
    assert_eq!(SaEvent::decode(events.receive(&mut buffer).expect("an event")), Ok(expire(1)));
    assert!(outlet.event(expire(taken as u32)));
}

#[test]
fn charon_that_reads_nothing_delays_no_one_else() {
    let bench = bench();
    let [_control, _events, _ike] = bench.charon(5);
    let outlet = bench.server.outlet();
    let lost = (0..2000).filter(|_| !outlet.datagram(&datagram(1400))).count();
    assert!(lost > 0);
    (0..5000).for_each(|spi| assert!(outlet.event(expire(spi))));
    assert_eq!(outlet.losses().datagrams, lost as u64);
}

#[test]
fn a_request_that_panics_ends_its_charons_connections_and_takes_no_place_of_others() {
    let bench = bench();
    for _ in 0..20 {
        let [control, events, ike] = bench.charon(5);
        control.send(&CharonRequest::FlushPolicies.encode(1)).expect("sent");
        assert!([control, events, ike].iter().all(is_hung_up));
    }
    let [control, _events, _ike] = bench.charon(6);
    control.send(&CharonRequest::FlushSas.encode(2)).expect("sent");
    let mut buffer = [0; MESSAGE_BYTES + 1];
    let reply = control.receive(&mut buffer).expect("a reply");
    assert_eq!(CharonReply::decode(reply), Ok((2, CharonReply::DONE)));
}

#[test]
fn clients_that_are_no_charon_are_hung_up_on() {
    let bench = bench();
    let stranger = bench.open();
    stranger.send(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
    assert!(is_hung_up(&stranger));
    let mut other = Hello { role: Role::Control, session: 1, charon: String::new() }.encode();
    other[12] = 9;
    let newer = bench.open();
    newer.send(&other).expect("sent");
    let mut buffer = [0; MESSAGE_BYTES + 1];
    let welcome = Welcome::decode(newer.receive(&mut buffer).expect("an answer")).expect("a welcome");
    assert_eq!(
        welcome.text,
        format!("protocol version 9 is not supported; this side speaks version {VERSION}")
    );
    let [control, _events, ike] = bench.charon(5);
    control.send(&[0; 5000]).expect("sent");
    assert!(is_hung_up(&control) && is_hung_up(&ike));
}

#[test]
fn the_socket_is_its_owners_and_goes_with_the_server() {
    let ServerBench { server, config, _folder, .. } = bench();
    let permissions = std::fs::metadata(&config.path).expect("a socket").permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&permissions) & 0o777, 0o600);
    let (sender, _heard) = channel();
    let second = Server::start(config.clone(), Arc::new(Gateway(Mutex::new(sender)))).err().expect("refused");
    assert_eq!(second.kind(), io::ErrorKind::AddrInUse);
    drop(server);
    assert!(!config.path.exists());
}
