use convoy_config::Config;
use data_encoding::HEXLOWER;
use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;
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

fn empty() -> Marks {
    Marks::new(Records { salt: [1; 32], marks: Vec::new() })
}

fn begin(marks: &mut Marks, tunnel: &TunnelConfig, clock_ns: u64) -> Beginning {
    marks.begin(tunnel, clock_ns, 0).expect("room").pop().expect("static keys")
}

fn progress(beginning: &Beginning, sent: u64, received: u64) -> Progress {
    Progress { kept: beginning.kept.expect("kept"), sent, received }
}

/// The state that a start finds after the process was killed.
fn after_a_kill(marks: &Marks) -> Marks {
    Marks::new(marks.records().clone())
}

#[test]
fn after_a_kill_numbers_go_on_behind_the_reserve_and_after_a_clean_end_behind_the_last() {
    let mut marks = empty();
    let first = begin(&mut marks, &usual(), 5);
    assert_eq!((first.sent, first.reserved, first.iv_start, first.received), (0, LEAST_SPAN, 5, 0));
    assert_eq!(marks.go_on(&progress(&first, 10, 7), 0), None);
    let killed = begin(&mut after_a_kill(&marks), &usual(), 5);
    assert_eq!((killed.sent, killed.received), (LEAST_SPAN, 7));
    marks.close(&progress(&first, 12, 9));
    let ended = begin(&mut after_a_kill(&marks), &usual(), 5);
    assert_eq!((ended.sent, ended.received, ended.iv_start), (12, 9, 5));
}

#[test]
fn a_reserve_that_is_half_used_grows_with_the_rate_within_bounds() {
    for (elapsed_ns, span) in
        [(100 * SECOND, LEAST_SPAN), (SECOND / 2, LEAST_SPAN / 2 * 8), (SECOND / 1_000, MOST_SPAN)]
    {
        let mut marks = empty();
        let beginning = begin(&mut marks, &usual(), 0);
        let half = LEAST_SPAN / 2;
        assert_eq!(marks.go_on(&progress(&beginning, half - 1, 0), elapsed_ns), None);
        assert_eq!(marks.go_on(&progress(&beginning, half, 0), elapsed_ns), Some(half + span));
        assert_eq!(begin(&mut after_a_kill(&marks), &usual(), 0).sent, half + span);
    }
}

#[test]
fn numbers_of_32_bits_end_where_they_end() {
    let mut marks = empty();
    let beginning = begin(&mut marks, &usual(), 0);
    let last = u64::from(u32::MAX);
    marks.close(&progress(&beginning, last - 5, 0));
    let beginning = begin(&mut marks, &usual(), 0);
    assert_eq!((beginning.sent, beginning.reserved), (last - 5, last));
    assert_eq!(marks.go_on(&progress(&beginning, last, 0), 0), None);
    assert_eq!(begin(&mut marks, &usual(), 0).sent, last);
}

#[test]
fn an_sa_that_was_begun_again_gets_no_more_numbers_under_its_old_beginning() {
    let mut marks = empty();
    let old = begin(&mut marks, &usual(), 0);
    let new = begin(&mut marks, &usual(), 0);
    assert_eq!(new.sent, old.reserved);
    assert_eq!(marks.go_on(&progress(&old, old.reserved, 0), 1), None);
    marks.close(&progress(&old, 3, 0));
    assert_eq!(begin(&mut marks, &usual(), 0).sent, new.reserved);
}

#[test]
fn a_key_that_comes_back_under_another_spi_or_algorithm_repeats_no_iv() {
    let mut marks = empty();
    let first = begin(&mut marks, &usual(), 1_000);
    for (proposal, spi) in [("aes128gcm16", 0x2002), ("aes128gcm8", 0x1002)] {
        let next = begin(&mut marks, &config(proposal, KEY, spi, "192.0.2.2").tunnels[0], 1_000);
        assert_eq!(next.sent, 0, "another SA begins with the first number");
        assert!(next.iv_start >= first.iv_start + first.reserved, "{next:?}");
    }
}

#[test]
fn a_peer_that_has_moved_gets_the_numbers_behind_those_that_it_has() {
    let mut marks = empty();
    let first = begin(&mut marks, &usual(), 0);
    let moved = begin(&mut marks, &config("aes128gcm16", KEY, 0x1002, "198.51.100.7").tunnels[0], 0);
    assert_eq!(moved.sent, first.reserved);
}

#[test]
fn random_ivs_need_no_mark_and_two_tunnels_with_one_key_are_refused() {
    let cbc = config("aes128-sha256", &"5a".repeat(48), 0x1002, "192.0.2.2");
    let mut marks = empty();
    begin(&mut marks, &cbc.tunnels[0], 0);
    assert_eq!(marks.records().marks.len(), 2);
    assert_eq!(marks.shared_key(&cbc.tunnels), None);
    let other = TunnelConfig {
        name: "site-c".to_owned(),
        ..config("aes128gcm16", KEY, 0x3003, "192.0.2.3").tunnels.remove(0)
    };
    assert_eq!(marks.shared_key(&[usual(), other]), Some(("site-b", "site-c")));
}

#[test]
fn a_full_file_refuses_a_key_that_is_not_in_it() {
    let mut marks = empty();
    begin(&mut marks, &usual(), 0);
    let records = marks.records().clone();
    let filler = (0..).map(|at: u64| (u128::from(at).to_be_bytes(), 1));
    let room = CAPACITY - records.marks.len();
    let mut full = Marks::new(Records {
        marks: records.marks.into_iter().chain(filler.take(room)).collect(),
        ..records
    });
    assert_eq!(begin(&mut full, &usual(), 0).sent, LEAST_SPAN);
    let other = config("aes128gcm16", KEY, 0x9999, "192.0.2.2");
    assert!(matches!(full.begin(&other.tunnels[0], 0, 0), Err(StateError::Full)));
    assert_eq!(full.records().marks.len(), CAPACITY);
}

/// The next version has to understand this version's file, so these values must never change. They
/// were computed with Python's `hmac`.
#[test]
fn a_fingerprint_is_what_it_has_always_been() {
    let mut marks = empty();
    begin(&mut marks, &usual(), 0);
    let prints: Vec<String> =
        marks.records().marks.iter().map(|(print, _)| HEXLOWER.encode(print.as_ref())).collect();
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
        let (mut marks, tunnel) = (empty(), usual());
        let (mut running, mut now_ns) = (None, 0);
        let (mut last_number, mut last_iv) = (0, 0);
        for step in steps {
            match (step, &mut running) {
                (Step::Start { clock_ns }, _) => {
                    let beginning = marks.begin(&tunnel, clock_ns, now_ns).expect("room").pop().expect("static keys");
                    prop_assert!(beginning.sent >= last_number);
                    prop_assert!(beginning.iv_start + beginning.sent >= last_iv);
                    running = Some((beginning, beginning.sent, beginning.reserved));
                }
                (Step::Send { packets, after_ns }, Some((beginning, sent, reserved))) => {
                    now_ns += after_ns;
                    *sent = (*sent + packets).min(*reserved);
                    (last_number, last_iv) = (*sent, beginning.iv_start + *sent);
                    if let Some(more) = marks.go_on(&progress(beginning, *sent, 0), now_ns) {
                        *reserved = more;
                    }
                }
                (Step::Kill, _) => (marks, running) = (after_a_kill(&marks), None),
                (Step::End, Some((beginning, sent, _))) => {
                    marks.close(&progress(beginning, *sent, 0));
                    (marks, running) = (after_a_kill(&marks), None);
                }
                (_, None) => {}
            }
        }
    }
}
