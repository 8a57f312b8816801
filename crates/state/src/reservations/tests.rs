use convoy_config::Config;
use convoy_reservation::Used;
use data_encoding::HEXLOWER;
use proptest::prelude::*;

use super::super::reporter::SaProgress;
use super::*;

const SECOND: u64 = 1_000_000_000;
const FIRST: u64 = ReserveSize::STATE_FILE.first;
const KEY: &str = "ffeeddccbbaa99887766554433221100ffeeddcc";

fn config(proposal: &str, key: &str, spi: u32, remote: &str) -> Config {
    let text = format!(
        "[[tunnel]]\nname = \"site-b\"\nlocal = \"192.0.2.1\"\nremote = \"{remote}\"\nlocal_ts = [\"10.1.0.0/24\"]\n\
         remote_ts = [\"10.2.0.0/24\"]\nesp_proposal = \"{proposal}\"\n[tunnel.manual]\nspi_in = 0x1001\nspi_out = {spi}\n\
         key_in = \"{}\"\nkey_out = \"{key}\"\n",
        "ab".repeat(key.len() / 2)
    );
    Config::parse("test.toml", &text).expect("good")
}

fn usual() -> TunnelConfig {
    config("aes128gcm16", KEY, 0x1002, "192.0.2.2").tunnels.remove(0)
}

fn empty() -> Reservations {
    Reservations::new(Records { salt: [1; 32], marks: Vec::new() })
}

fn start(reservations: &mut Reservations, tunnel: &TunnelConfig, clock_ns: u64) -> Started {
    let started = reservations.start(tunnel, clock_ns, 0).expect("room").pop().expect("static keys");
    // The records are on the disk.
    reservations.written();
    started
}

/// A report, after which the records are on the disk: the last number that may be sent, if it is
/// higher now.
fn report(reservations: &mut Reservations, started: &Started, used: Used, now_ns: u64) -> Option<u64> {
    let progress = vec![SaProgress { id: started.id.expect("kept"), used }];
    reservations.report(&WorkerReport { worker: 0, progress, is_last: false }, now_ns);
    reservations.written().pop().map(|grant| grant.limits.send)
}

fn sent(sent: u64) -> Used {
    Used { sent, received: 0 }
}

fn end(reservations: &mut Reservations, started: &Started, used: Used) {
    let progress = vec![SaProgress { id: started.id.expect("kept"), used }];
    reservations.report(&WorkerReport { worker: 0, progress, is_last: true }, 0);
    reservations.written();
}

/// The state that a start finds after the process was killed.
fn after_a_kill(reservations: &Reservations) -> Reservations {
    Reservations::new(reservations.records().clone())
}

/// The IV of the first packet.
fn first_iv(started: &Started) -> u64 {
    started.start.iv_start.wrapping_add(started.start.used.sent + 1)
}

#[test]
fn numbers_start_behind_the_reserve_after_a_kill_and_behind_the_last_after_an_end() {
    let mut reservations = empty();
    let first = start(&mut reservations, &usual(), 5);
    let SaStart { used, limits, .. } = first.start;
    assert_eq!((used, limits.send, first_iv(&first)), (sent(0), FIRST, 5));
    assert_eq!(report(&mut reservations, &first, Used { sent: 10, received: 7 }, 0), None);
    let killed = start(&mut after_a_kill(&reservations), &usual(), 5);
    assert_eq!(killed.start.used, Used { sent: FIRST, received: 7 });
    end(&mut reservations, &first, Used { sent: 12, received: 9 });
    let ended = start(&mut after_a_kill(&reservations), &usual(), 5);
    assert_eq!(ended.start.used, Used { sent: 12, received: 9 });
    assert!(first_iv(&ended) > first.start.iv_start.wrapping_add(12), "no IV comes twice");
}

#[test]
fn half_used_reserve_grows_with_the_rate_within_bounds() {
    for (elapsed_ns, count) in [(100 * SECOND, FIRST), (2 * SECOND, FIRST), (SECOND / 1_000, FIRST * 2)] {
        let mut reservations = empty();
        let started = start(&mut reservations, &usual(), 0);
        let half = FIRST / 2;
        assert_eq!(report(&mut reservations, &started, sent(half - 1), elapsed_ns), None);
        assert_eq!(report(&mut reservations, &started, sent(half), elapsed_ns), Some(half + count));
        let used = start(&mut after_a_kill(&reservations), &usual(), 0).start.used;
        assert_eq!(used.sent, half + count);
    }
}

#[test]
fn write_that_failed_grants_nothing_until_it_succeeds() {
    let mut reservations = empty();
    let started = start(&mut reservations, &usual(), 0);
    let progress = vec![SaProgress { id: started.id.expect("kept"), used: sent(FIRST) }];
    reservations.report(&WorkerReport { worker: 3, progress, is_last: false }, SECOND);
    assert!(reservations.has_raises());
    reservations.failed();
    assert!(reservations.has_raises(), "it is to be written again");
    let [Grant { worker: 3, limits, .. }] = reservations.written()[..] else { panic!("one grant") };
    assert!(limits.send > FIRST && !reservations.has_raises() && reservations.written().is_empty());
}

#[test]
fn two_raises_before_a_write_grant_the_later_one() {
    let mut reservations = empty();
    let started = start(&mut reservations, &usual(), 0);
    for (number, now_ns) in [(FIRST / 2, SECOND), (FIRST, 2 * SECOND)] {
        let progress = vec![SaProgress { id: started.id.expect("kept"), used: sent(number) }];
        reservations.report(&WorkerReport { worker: 0, progress, is_last: false }, now_ns);
    }
    let [Grant { limits, .. }] = reservations.written()[..] else { panic!("one grant") };
    let on_disk = start(&mut after_a_kill(&reservations), &usual(), 0).start.used.sent;
    assert_eq!(limits.send, on_disk, "all that is written may be used");
    assert!(limits.send >= FIRST + FIRST / 2, "{limits:?}");
}

#[test]
fn numbers_of_32_bits_end_where_they_end() {
    let mut reservations = empty();
    let started = start(&mut reservations, &usual(), 0);
    let last = u64::from(u32::MAX);
    end(&mut reservations, &started, sent(last - 5));
    let started = start(&mut reservations, &usual(), 0);
    assert_eq!((started.start.used.sent, started.start.limits.send), (last - 5, last));
    assert_eq!(report(&mut reservations, &started, sent(last), 0), None);
    assert_eq!(start(&mut reservations, &usual(), 0).start.used.sent, last);
}

#[test]
fn superseded_start_gets_no_more_numbers_but_notes_what_it_received() {
    let mut reservations = empty();
    let old = start(&mut reservations, &usual(), 0);
    let new = start(&mut reservations, &usual(), 0);
    assert_eq!(new.start.used.sent, old.start.limits.send);
    assert_eq!(report(&mut reservations, &old, Used { sent: old.start.limits.send, received: 9 }, 1), None);
    end(&mut reservations, &old, sent(3));
    let third = start(&mut reservations, &usual(), 0);
    assert_eq!(third.start.used, Used { sent: new.start.limits.send, received: 9 });
}

#[test]
fn key_that_comes_back_under_another_spi_or_algorithm_repeats_no_iv() {
    let mut reservations = empty();
    let first = start(&mut reservations, &usual(), 1_000);
    let mut last_iv = first.start.iv_start + first.start.limits.send;
    for (proposal, spi) in [("aes128gcm16", 0x2002), ("aes128gcm8", 0x1002)] {
        let tunnel = &config(proposal, KEY, spi, "192.0.2.2").tunnels[0];
        let next = start(&mut reservations, tunnel, 1_000);
        assert_eq!(next.start.used.sent, 0, "another SA begins with the first number");
        assert!(first_iv(&next) > last_iv, "{next:?}");
        last_iv = next.start.iv_start + next.start.limits.send;
        // The SA that had the key before can neither go on nor set the key's IVs back.
        assert_eq!(report(&mut reservations, &first, sent(FIRST), 1), None);
        end(&mut reservations, &first, sent(1));
    }
    assert!(first_iv(&start(&mut after_a_kill(&reservations), &usual(), 1_000)) > last_iv);
}

#[test]
fn peer_that_has_moved_gets_the_numbers_behind_those_that_it_has() {
    let mut reservations = empty();
    let first = start(&mut reservations, &usual(), 0);
    let moved = start(&mut reservations, &config("aes128gcm16", KEY, 0x1002, "198.51.100.7").tunnels[0], 0);
    assert_eq!(moved.start.used.sent, first.start.limits.send);
}

#[test]
fn random_ivs_need_no_record_and_two_tunnels_with_one_key_are_refused() {
    let cbc = config("aes128-sha256", &"5a".repeat(48), 0x1002, "192.0.2.2");
    let mut reservations = empty();
    start(&mut reservations, &cbc.tunnels[0], 0);
    assert_eq!(reservations.records().marks.len(), 2);
    assert_eq!(reservations.shared_key(&cbc.tunnels), None);
    let other = TunnelConfig {
        name: "site-c".to_owned(),
        ..config("aes128gcm16", KEY, 0x3003, "192.0.2.3").tunnels.remove(0)
    };
    assert_eq!(reservations.shared_key(&[usual(), other]), Some(("site-b", "site-c")));
}

#[test]
fn full_file_refuses_a_key_that_is_not_in_it() {
    let mut reservations = empty();
    start(&mut reservations, &usual(), 0);
    let records = reservations.records().clone();
    let filler = (0..).map(|at: u64| (u128::from(at).to_be_bytes(), 1));
    let room = CAPACITY - records.marks.len();
    let mut full = Reservations::new(Records {
        marks: records.marks.into_iter().chain(filler.take(room)).collect(),
        ..records
    });
    assert_eq!(start(&mut full, &usual(), 0).start.used.sent, FIRST);
    let other = config("aes128gcm16", KEY, 0x9999, "192.0.2.2");
    assert!(matches!(full.start(&other.tunnels[0], 0, 0), Err(StateError::Full)));
    assert_eq!(full.records().marks.len(), CAPACITY);
}

/// The next version has to understand this version's file, so these values must never change. They
/// were computed with Python's `hmac`.
#[test]
fn fingerprint_is_what_it_has_always_been() {
    let mut reservations = empty();
    start(&mut reservations, &usual(), 0);
    let prints: Vec<String> =
        reservations.records().marks.iter().map(|(print, _)| HEXLOWER.encode(print.as_ref())).collect();
    assert_eq!(prints, FINGERPRINTS);
}

const FINGERPRINTS: [&str; 3] = [
    "f7952c65df19ba0397dee9da44eb76bc",
    "07b2b5b22c250bf43b25d75a02f760c0",
    "6868e9f48750e8a194fe7fa39f90285f",
];

/// An event in the life of a gateway.
#[derive(Clone, Debug)]
enum Step {
    Start { clock_ns: u64 },
    Send { packets: u64, after_ns: u64 },
    Kill,
    End,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0u64..3).prop_map(|clock_ns| Step::Start { clock_ns }),
        (1u64..400_000, 0..SECOND).prop_map(|(packets, after_ns)| Step::Send { packets, after_ns }),
        Just(Step::Kill),
        Just(Step::End),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_no_number_and_no_iv_comes_twice(steps in proptest::collection::vec(step(), 1..60)) {
        let (mut reservations, tunnel) = (empty(), usual());
        let (mut running, mut now_ns): (Option<(Started, u64, u64)>, u64) = (None, 0);
        let (mut last_number, mut last_iv) = (0, 0);
        for step in steps {
            match (step, &mut running) {
                (Step::Start { clock_ns }, _) => {
                    let started = start(&mut reservations, &tunnel, clock_ns);
                    let SaStart { used, limits, .. } = started.start;
                    prop_assert!(used.sent >= last_number);
                    prop_assert!(first_iv(&started) > last_iv || last_number == 0);
                    running = Some((started, used.sent, limits.send));
                }
                (Step::Send { packets, after_ns }, Some((started, number, reserved))) => {
                    now_ns += after_ns;
                    *number = (*number + packets).min(*reserved);
                    last_number = *number;
                    last_iv = started.start.iv_start.wrapping_add(*number);
                    if let Some(more) = report(&mut reservations, started, sent(*number), now_ns) {
                        *reserved = more;
                    }
                }
                (Step::Kill, _) => (reservations, running) = (after_a_kill(&reservations), None),
                (Step::End, Some((started, number, _))) => {
                    end(&mut reservations, started, sent(*number));
                    (reservations, running) = (after_a_kill(&reservations), None);
                }
                (_, None) => {}
            }
        }
    }
}
