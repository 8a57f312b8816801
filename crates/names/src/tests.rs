use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::asker::{self, FoundAddresses};
use super::*;

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn answer(name: &str, found: Result<&[&str], &str>) -> NameAnswer {
    let found = found.map(|texts| texts.iter().map(|text| address(text)).collect());
    NameAnswer { name: name.to_owned(), found: found.map_err(str::to_owned), asked_again: Instant::now() }
}

fn tunnels(peers: &[(&str, &str, &str)]) -> Vec<TunnelConfig> {
    let tunnel = |(at, (name, local, remote)): (usize, &(&str, &str, &str))| {
        let (spi_in, spi_out) = (0x1001 + at, 0x2001 + at);
        let key = |side: usize| format!("{:040x}", 0xabc0 + 16 * at + side);
        format!(
            "[[tunnel]]\nname = \"{name}\"\nlocal = \"{local}\"\nremote = \"{remote}\"\nlocal_ts = [\"10.1.0.0/24\"]\n\
             remote_ts = [\"10.{at}.0.0/16\"]\nesp_proposal = \"aes128gcm16\"\n[tunnel.manual]\nspi_in = {spi_in}\n\
             spi_out = {spi_out}\nkey_in = \"{}\"\nkey_out = \"{}\"\n",
            key(0),
            key(1)
        )
    };
    let text: String = peers.iter().enumerate().map(tunnel).collect();
    Config::parse("names.toml", &text).expect("good").tunnels
}

/// Names without a thread; what it would answer comes by the sender.
fn names(tunnels: &[TunnelConfig]) -> (Names, std::sync::mpsc::Sender<NameAnswer>) {
    let (wanted, receiver) = mpsc::unbounded_channel();
    std::mem::forget(receiver);
    let (sender, answers) = channel();
    let mut names = Names { thread: Some(NamesThread { wanted, answers }), ..Names::default() };
    names.follow(tunnels, &channel().0).expect("no thread is needed");
    (names, sender)
}

fn moved(names: &mut Names) -> Vec<(String, Option<String>, String)> {
    let moves = names.take_moves(&Events::default()).into_iter();
    moves.map(|it| (it.tunnel, it.old.map(|old| old.to_string()), it.new.to_string())).collect()
}

fn row<'a>(rows: &'a [NameRow], tunnel: &str) -> &'a NameRow {
    rows.iter().find(|row| row.tunnel == tunnel).expect("a row for each")
}

#[test]
fn a_tunnel_follows_its_peers_name_and_keeps_an_address_that_is_still_one_of_several() {
    let tunnels = tunnels(&[("b", "192.0.2.1", "b.example"), ("c", "2001:db8::1", "b.example")]);
    let (mut names, answers) = names(&tunnels);
    let both = ["192.0.2.2", "192.0.2.3", "2001:db8::2"];
    answers.send(answer("b.example", Ok(&both))).expect("it listens");
    let first = |tunnel: &str, to: &str| (tunnel.to_owned(), None, to.to_owned());
    assert_eq!(moved(&mut names), [first("b", "192.0.2.2"), first("c", "2001:db8::2")]);
    let turned = ["192.0.2.3", "192.0.2.2", "2001:db8::2"];
    answers.send(answer("b.example", Ok(&turned))).expect("it listens");
    assert_eq!(moved(&mut names), []);
    answers.send(answer("b.example", Ok(&["192.0.2.3", "2001:db8::2"]))).expect("it listens");
    assert_eq!(moved(&mut names), [("b".to_owned(), Some("192.0.2.2".to_owned()), "192.0.2.3".to_owned())]);
    assert_eq!(names.known()["b"], address("192.0.2.3"));
}

#[test]
fn a_name_that_does_not_resolve_concerns_its_own_tunnel_alone() {
    let tunnels = tunnels(&[
        ("b", "192.0.2.1", "b.example"),
        ("c", "192.0.2.1", "c.example"),
        ("d", "192.0.2.1", "d.example"),
        ("e", "192.0.2.1", "192.0.2.5"),
    ]);
    let (mut names, answers) = names(&tunnels);
    answers.send(answer("b.example", Ok(&["192.0.2.2"]))).expect("it listens");
    answers.send(answer("c.example", Err("there is no such name"))).expect("it listens");
    answers.send(answer("d.example", Ok(&["2001:db8::4"]))).expect("it listens");
    assert_eq!(moved(&mut names).len(), 1);
    let rows = names.rows();
    assert_eq!(rows.len(), 3, "one has no name");
    assert_eq!((row(&rows, "b").address.as_deref(), &*row(&rows, "b").problem), (Some("192.0.2.2"), ""));
    assert_eq!((&row(&rows, "c").address, &*row(&rows, "c").problem), (&None, "there is no such name"));
    assert_eq!(row(&rows, "d").problem, "it has no IPv4 address as `local` is one");
    answers.send(answer("b.example", Err("no server answers"))).expect("it listens");
    assert_eq!(moved(&mut names), []);
    let rows = names.rows();
    assert_eq!(row(&rows, "b").address.as_deref(), Some("192.0.2.2"), "the last known address stays");
    assert_eq!(row(&rows, "b").problem, "no server answers");
}

#[test]
fn what_is_known_outlives_a_reload_unless_the_tunnel_has_another_name() {
    let before = tunnels(&[("b", "192.0.2.1", "b.example"), ("c", "192.0.2.1", "c.example")]);
    let (mut names, answers) = names(&before);
    for name in ["b.example", "c.example"] {
        answers.send(answer(name, Ok(&["192.0.2.2"]))).expect("it listens");
    }
    assert_eq!(moved(&mut names).len(), 2);
    names
        .follow(&tunnels(&[("b", "192.0.2.1", "b.example"), ("c", "192.0.2.1", "d.example")]), &channel().0)
        .expect("its thread is there");
    assert_eq!(names.known().into_keys().collect::<Vec<_>>(), ["b"]);
    answers.send(answer("c.example", Ok(&["192.0.2.9"]))).expect("it listens");
    assert_eq!(moved(&mut names), [], "that name is gone");
}

/// Runs the asker in virtual time with a server that answers by `reply`, which gets a name and how
/// often it was asked; returns the questions with their times.
fn asked(
    sets: Vec<(u64, Vec<&'static str>)>,
    seconds: u64,
    reply: impl Fn(&str, usize) -> FoundAddresses + 'static,
) -> Vec<(u64, String)> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("one");
    let log = Rc::new(RefCell::new(Vec::new()));
    let reported = Rc::clone(&log);
    tokio::task::LocalSet::new().block_on(&runtime, async move {
        let began = tokio::time::Instant::now();
        let (wanted, receiver) = mpsc::unbounded_channel();
        let (sender, _answers) = channel();
        let reply = Rc::new(reply);
        let ask = move |name: String| {
            let (log, reply) = (Rc::clone(&reported), Rc::clone(&reply));
            async move {
                let times = log.borrow().iter().filter(|(_, other)| *other == name).count();
                log.borrow_mut().push((began.elapsed().as_secs(), name.clone()));
                reply(&name, times)
            }
        };
        tokio::task::spawn_local(asker::serve(receiver, sender, ask));
        for (second, names) in sets {
            tokio::time::sleep_until(began + Duration::from_secs(second)).await;
            let names = names.into_iter().map(str::to_owned).collect();
            wanted.send(names).expect("it listens");
        }
        tokio::time::sleep_until(began + Duration::from_secs(seconds)).await;
    });
    Rc::try_unwrap(log).expect("all tasks are gone").into_inner()
}

fn times(asked: &[(u64, String)], name: &str) -> Vec<u64> {
    asked.iter().filter(|(_, other)| other == name).map(|(second, _)| *second).collect()
}

#[test]
fn each_name_is_asked_for_when_its_answer_ends_and_with_back_off_while_there_is_none() {
    let holds = |seconds| Ok((vec![address("192.0.2.2")], Duration::from_secs(seconds)));
    let reply = move |name: &str, times: usize| match name {
        "short" => holds(20),
        "none" => holds(0),
        "ever" => holds(1_000_000),
        "late" if times == 3 => holds(1_000),
        _ => Err("there is no such name".to_owned()),
    };
    let names = vec!["short", "none", "ever", "late", "dead"];
    let asked = asked(vec![(0, names)], 320, reply);
    assert_eq!(times(&asked, "short"), (0..=16).map(|n| n * 20).take_while(|n| *n < 320).collect::<Vec<_>>());
    assert_eq!(times(&asked, "none").len(), 320, "once a second at most");
    assert_eq!(times(&asked, "ever"), [0, 300]);
    assert_eq!(times(&asked, "late"), [0, 1, 3, 7, 307, 308, 310, 314], "the back-off begins again");
    assert_eq!(times(&asked, "dead"), [0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303]);
}

#[test]
fn names_of_a_reload_are_asked_for_at_once_and_others_no_longer() {
    let reply = |_: &str, _: usize| Ok((vec![address("192.0.2.2")], Duration::from_secs(10)));
    let asked = asked(vec![(0, vec!["a", "b"]), (25, vec!["b", "c"])], 41, reply);
    assert_eq!(times(&asked, "a"), [0, 10, 20]);
    assert_eq!(times(&asked, "b"), [0, 10, 20, 30, 40]);
    assert_eq!(times(&asked, "c"), [25, 35]);
}

#[test]
fn an_address_that_cannot_be_the_peers_is_refused_and_the_last_one_stays() {
    let tunnels = tunnels(&[("b", "192.0.2.1", "b.example")]);
    let (mut names, answers) = names(&tunnels);
    answers.send(answer("b.example", Ok(&["127.0.0.1", "192.0.2.2"]))).expect("it listens");
    assert_eq!(moved(&mut names), [("b".to_owned(), None, "192.0.2.2".to_owned())]);
    for (wrong, why) in [
        ("0.0.0.0", "no address of another host"),
        ("127.0.0.1", "no address of another host"),
        ("224.0.0.5", "no address of another host"),
        ("255.255.255.255", "no address of another host"),
        ("192.0.2.1", "this gateway's own"),
        ("10.0.3.4", "in a network behind the tunnel"),
    ] {
        answers.send(answer("b.example", Ok(&[wrong]))).expect("it listens");
        assert_eq!(moved(&mut names), [], "{wrong}");
        let rows = names.rows();
        assert_eq!(row(&rows, "b").address.as_deref(), Some("192.0.2.2"));
        assert!(row(&rows, "b").problem.contains(why), "{}", row(&rows, "b").problem);
    }
}
