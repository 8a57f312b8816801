use clap::CommandFactory;
use convoy_report::snapshot::NameKind;

use super::*;
use crate::args::Cli;

/// What the gateway would answer, by the kind of names.
fn gateway(request: NamesRequest) -> Vec<RunningName> {
    let all: &[&str] = match request.kind {
        NameKind::Tunnels => &["roam", "roam/net", "site-2", "site-3"],
        NameKind::Peers => &["192.0.2.2", "192.0.2.7", "2001:db8::3"],
        NameKind::Interfaces => &["ipsec1"],
    };
    let asked = all.iter().filter(|name| name.starts_with(&request.prefix));
    asked.map(|name| RunningName { name: (*name).to_owned(), help: String::new() }).collect()
}

/// The values for a line, of which the last word is unfinished; nothing for a file.
fn values_by(
    line: &str,
    ask: impl FnOnce(&Path, NamesRequest) -> Option<Vec<RunningName>>,
) -> Option<Vec<String>> {
    let mut program = Cli::command();
    program.build();
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let found = candidates(&program, &words, ask)?;
    Some(found.into_iter().map(|candidate| candidate.value).collect())
}

fn values(line: &str) -> Vec<String> {
    values_by(line, |_, request| Some(gateway(request))).expect("no file")
}

#[test]
fn commands_and_possible_values_are_completed() {
    assert_eq!(values("re"), ["reload", "replay"]);
    assert_eq!(values("cluster "), ["wait", "put", "get", "history", "rollback", "help"]);
    assert_eq!(values("show s"), ["sa", "scheduler", "stats"]);
    assert_eq!(values("replay --direction "), ["out", "in"]);
    assert_eq!(values("run --log-format=j"), ["--log-format=json"]);
    assert!(!values("").contains(&"helper".to_owned()), "a hidden command");
}

#[test]
fn options_are_completed_once_and_not_behind_two_dashes() {
    assert_eq!(values("top --"), ["--control", "--interval", "--help"]);
    assert_eq!(values("top --interval 2 --"), ["--control", "--help"]);
    assert_eq!(values("top "), ["--control", "--interval", "--help"]);
    assert_eq!(values("top --no"), [""; 0]);
    assert_eq!(values("show -- --t"), [""; 0]);
}

#[test]
fn tunnels_are_completed_where_a_command_takes_one() {
    assert_eq!(values("show tunnel "), ["roam", "roam/net", "site-2", "site-3"]);
    assert_eq!(values("show --wide tunnel site"), ["site-2", "site-3"]);
    assert_eq!(values("show sa --tunnel=r"), ["--tunnel=roam", "--tunnel=roam/net"]);
    assert_eq!(values("trace --count 5 --tunnel site-3"), ["site-3"]);
    assert_eq!(values("show --watch tunnel s"), ["sa", "scheduler", "stats"], "tunnel is --watch's value");
    assert_eq!(values("show --watch --tunnel s"), ["site-2", "site-3"]);
    assert_eq!(
        values("show policy "),
        ["--tunnel", "--peer", "--control", "--wide", "--watch", "--json", "--wireshark", "--help"]
    );
}

#[test]
fn peers_and_interfaces_are_completed() {
    assert_eq!(values("show sa --peer 192"), ["192.0.2.2", "192.0.2.7"]);
    assert_eq!(values("show sa --peer 2001:"), ["2001:db8::3"]);
    assert_eq!(values("explain --interface "), ["ipsec1"]);
}

#[test]
fn files_are_left_to_the_shell() {
    for line in
        ["check -c ", "check --config=/etc/", "cluster put ", "cluster -c a put /", "top --control /run"]
    {
        assert_eq!(values_by(line, |_, _| None), None, "{line}");
    }
}

#[test]
fn gateway_is_asked_at_the_control_socket_of_the_line() {
    let asked = |line: &str| {
        let mut socket = None;
        let found = values_by(line, |path, _| {
            socket = Some(path.to_owned());
            None
        });
        assert_eq!(found, Some(Vec::new()), "a gateway that does not answer");
        socket
    };
    assert_eq!(asked("show tunnel "), Some(PathBuf::from("/run/convoy/control.sock")));
    assert_eq!(asked("show --control /run/b.sock tunnel "), Some(PathBuf::from("/run/b.sock")));
    assert_eq!(asked("trace --control=c.sock --tunnel "), Some(PathBuf::from("c.sock")));
}

#[test]
fn gateway_that_hangs_is_given_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("control.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("listening");
    let asked = NamesRequest { kind: NameKind::Peers, prefix: String::new() };
    assert_eq!(names(&socket, asked.clone()), None);
    assert_eq!(names(&folder.path().join("none.sock"), asked), None);
}
