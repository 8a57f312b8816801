//! Each rule by itself, against the simulation's store.

use super::*;
use crate::fingerprint::SaFingerprint;
use crate::memory::StoreFault;
use crate::orders::{GroupEvent, StoredSa};
use crate::simulation::etcd::Etcd;
use convoy_reservation::{Reservation, ReserveSize, Used};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
const SPAN: ReserveSize = ReserveSize { first: 100, least: 100, most: 1000, time_ns: 200 * MS };
const SA: SaFingerprint = SaFingerprint(7);
/// The wall clock when the other one shows 0.
const WALL_NS: u64 = 1_700_000_000 * S;

/// A member with its store, which answers at once what is not kept back.
struct Bench {
    member: Member,
    etcd: Etcd,
    now_ns: u64,
    keys: Keys,
    orders: Vec<MemberOrder>,
    is_kept_back: fn(&Call) -> bool,
    kept_back: Vec<(CallId, Call)>,
    /// How much of the store's history the member was notified of.
    reported: usize,
    is_ended: bool,
    /// Whether the gateway is heard from before each input.
    is_alive: bool,
}

fn config(replay: Replay) -> MemberConfig {
    MemberConfig {
        cluster: "c".into(),
        name: "a".into(),
        priority: 100,
        ttl_s: 3,
        groups: vec![GroupConfig { name: "g".into(), replay }],
        rebalance_ns: None,
        outbound: SPAN,
        inbound: SPAN,
        seen: Seen::default(),
    }
}

fn nothing(_: &Call) -> bool {
    false
}

/// A transaction that creates the leader's key.
fn creates(call: &Call) -> bool {
    matches!(call, Call::Transact { guard: Some(guard), .. } if guard.modified == 0)
}

/// A transaction that writes SAs.
fn writes(call: &Call) -> bool {
    matches!(call, Call::Transact { puts, .. } if puts.iter().any(|(key, ..)| key.contains("/groups/")))
}

impl Bench {
    fn new(replay: Replay) -> Self {
        Self {
            member: Member::new(config(replay)),
            etcd: Etcd::new(1_000_000),
            now_ns: S,
            keys: Keys::new("c"),
            orders: Vec::new(),
            is_kept_back: nothing,
            kept_back: Vec::new(),
            reported: 0,
            is_ended: false,
            is_alive: true,
        }
    }

    /// A member that leads its group.
    fn leading(replay: Replay) -> Self {
        let mut bench = Self::new(replay);
        bench.put_sa();
        bench.input(MemberInput::Tick);
        bench
    }

    /// An SA that another leader has left in the store.
    fn put_sa(&mut self) {
        let marks = Reservation { send_until: 500, accept_until: 900, received: 800, iv_start: 40 };
        let (record, marks_key) = (self.keys.record("g", SA), self.keys.reservation("g", SA));
        self.put(vec![(record, vec![1, 2, 3], None), (marks_key, marks.encode().to_vec(), None)]);
    }

    fn put(&mut self, puts: Vec<(String, Vec<u8>, Option<i64>)>) {
        let call = Call::Transact { guard: None, deletes: Vec::new(), puts, read: None };
        self.etcd.execute(call, self.now_ns);
    }

    /// An input and what follows from it, the reports of watches last.
    fn input(&mut self, input: MemberInput) {
        let beat = self.is_alive.then_some(MemberInput::Beat { at_ns: self.now_ns });
        let mut inputs: Vec<MemberInput> = [Some(input), beat].into_iter().flatten().collect();
        while let Some(input) = inputs.pop().or_else(|| self.news()) {
            let mut outputs = Vec::new();
            let now = Now { monotonic_ns: self.now_ns, wall_ns: WALL_NS + self.now_ns };
            self.member.handle(now, input, &mut outputs);
            for output in outputs {
                match output {
                    Output::Ask { call, request } if (self.is_kept_back)(&request) => {
                        self.kept_back.push((call, request));
                    }
                    Output::Ask { call, request } => {
                        let answer = self.etcd.execute(request, self.now_ns);
                        inputs.insert(0, MemberInput::Answered { call, answer, locked: 0 });
                    }
                    Output::Order(order) => self.orders.push(order),
                    Output::Ended => self.is_ended = true,
                }
            }
        }
    }

    fn news(&mut self) -> Option<MemberInput> {
        let news: Vec<StoreChange> =
            self.etcd.history[self.reported..].iter().map(|(_, change)| change.clone()).collect();
        self.reported = self.etcd.history.len();
        (!news.is_empty()).then_some(MemberInput::Changed(news))
    }

    /// Executes the oldest request that was kept back, and answers it.
    fn answer(&mut self) {
        let (call, request) = self.kept_back.remove(0);
        let answer = self.etcd.execute(request, self.now_ns);
        self.input(MemberInput::Answered { call, answer, locked: 0 });
    }

    fn wait(&mut self, ns: u64) {
        let until_ns = self.now_ns + ns;
        while let Some(wake_ns) = self.member.wake_ns().filter(|wake_ns| *wake_ns <= until_ns) {
            self.now_ns = wake_ns;
            self.input(MemberInput::Tick);
        }
        self.now_ns = until_ns;
    }

    fn term(&self) -> u64 {
        self.etcd.get("/convoy/c/leaders/g").map_or(0, |entry| entry.created)
    }

    fn report(&mut self, event: GroupEvent) {
        let report = Report { group: "g".into(), term: self.term(), event };
        self.input(MemberInput::Reported(report));
    }

    fn reserved(&self, sa: SaFingerprint) -> Option<Reservation> {
        Reservation::decode(&self.etcd.get(&self.keys.reservation("g", sa))?.value)
    }

    fn led(&self) -> Option<(u64, &[StoredSa])> {
        self.orders.iter().rev().find_map(|order| match order {
            MemberOrder::Lead { term, sas, .. } => Some((*term, &sas[..])),
            _ => None,
        })
    }

    fn granted(&self, id: SaFingerprint) -> Option<(u64, u64)> {
        self.orders.iter().rev().find_map(|order| match order {
            MemberOrder::Granted { sa, limits, .. } if *sa == id => Some((limits.send, limits.accept)),
            _ => None,
        })
    }

    fn deadline_ns(&self) -> Option<u64> {
        self.orders.iter().rev().find_map(|order| match order {
            MemberOrder::Until { deadline_ns } => Some(*deadline_ns),
            _ => None,
        })
    }

    fn is_stepping_down(&self) -> bool {
        self.orders.contains(&MemberOrder::StepDown { group: "g".into() })
    }
}

#[test]
fn the_deadline_counts_from_the_request_and_leaves_a_tenth() {
    let mut bench = Bench::new(Replay::Strict);
    bench.is_kept_back = |call| matches!(call, Call::Grant { .. });
    bench.input(MemberInput::Tick);
    bench.now_ns += 700 * MS;
    bench.answer();
    assert_eq!(bench.deadline_ns(), Some(S + 2700 * MS));
}

#[test]
fn the_lease_is_kept_alive_at_each_third_and_without_an_answer_the_deadline_stays() {
    let mut bench = Bench::leading(Replay::Strict);
    bench.wait(S);
    assert_eq!(bench.deadline_ns(), Some(2 * S + 2700 * MS));
    bench.is_kept_back = |call| matches!(call, Call::KeepAlive { .. });
    bench.wait(2 * S);
    assert_eq!(bench.kept_back.len(), 2);
    assert_eq!(bench.deadline_ns(), Some(2 * S + 2700 * MS));
    bench.answer();
    assert_eq!(bench.deadline_ns(), Some(3 * S + 2700 * MS));
}

#[test]
fn a_lease_that_is_gone_ends_all_terms() {
    let mut bench = Bench::leading(Replay::Strict);
    bench.etcd.expire(bench.now_ns + 10 * S);
    bench.wait(2 * S);
    assert!(bench.is_stepping_down());
    // The group is free, and the member leads it in another term, by another lease.
    assert_eq!(bench.led().map(|(term, _)| term), Some(bench.term()));
}

#[test]
fn a_member_of_the_second_rank_waits_50_ms() {
    let mut bench = Bench::new(Replay::Strict);
    let other = Registration { priority: 200, is_draining: false, lease: 1 };
    bench.put(vec![(bench.keys.member("b"), other.encode(), None)]);
    bench.input(MemberInput::Tick);
    bench.wait(49 * MS);
    assert_eq!(bench.term(), 0);
    bench.wait(MS);
    assert_ne!(bench.term(), 0);
}

#[test]
fn a_draining_member_has_no_rank() {
    let mut bench = Bench::new(Replay::Strict);
    let other = Registration { priority: 200, is_draining: true, lease: 1 };
    bench.put(vec![(bench.keys.member("b"), other.encode(), None)]);
    bench.input(MemberInput::Tick);
    assert_ne!(bench.term(), 0);
}

#[test]
fn new_leader_begins_above_reservations_and_sends_when_they_are_raised() {
    let mut bench = Bench::new(Replay::Strict);
    bench.put_sa();
    bench.is_kept_back = writes;
    bench.input(MemberInput::Tick);
    let iv_start = WALL_NS + S - 501;
    let taken =
        StoredSa { sa: SA, record: vec![1, 2, 3].into(), used: Used { sent: 500, received: 900 }, iv_start };
    assert_eq!(bench.led(), Some((bench.term(), &[taken][..])));
    assert_eq!(bench.granted(SA), None);
    bench.answer();
    assert_eq!(bench.granted(SA), Some((600, 1000)));
    assert_eq!(
        bench.reserved(SA),
        Some(Reservation { send_until: 600, accept_until: 1000, received: 900, iv_start })
    );
}

#[test]
fn a_new_leader_without_strictness_begins_above_what_was_received() {
    let bench = Bench::leading(Replay::Checkpoint);
    assert_eq!(bench.led().map(|(_, sas)| sas[0].used.received), Some(800));
    assert_eq!(bench.granted(SA), Some((600, u64::MAX)));
    // A strict leader that comes next accepts nothing by this SA.
    assert_eq!(bench.reserved(SA).map(|reserved| reserved.accept_until), Some(u64::MAX));
}

#[test]
fn an_sa_of_another_version_is_counted_and_left_alone() {
    let mut bench = Bench::new(Replay::Strict);
    let (record, marks) = (bench.keys.record("g", SA), bench.keys.reservation("g", SA));
    bench.put(vec![(record, vec![1], None), (marks, vec![1], None)]);
    bench.input(MemberInput::Tick);
    let is_counted = |order: &MemberOrder| matches!(order, MemberOrder::Lead { sas, unreadable, .. } if sas.is_empty() && *unreadable == [SA]);
    assert!(bench.orders.iter().any(is_counted));
    assert!(bench.etcd.get(&bench.keys.record("g", SA)).is_some());
}

#[test]
fn a_key_whose_creation_has_no_answer_is_read_before_the_group_is_led() {
    let mut bench = Bench::new(Replay::Strict);
    bench.put_sa();
    bench.is_kept_back = creates;
    bench.input(MemberInput::Tick);
    let (_, request) = bench.kept_back.remove(0);
    bench.etcd.execute(request, bench.now_ns);
    bench.input(MemberInput::Lost);
    assert_eq!(bench.led(), None);
    bench.wait(RETRY_NS);
    assert_eq!(bench.led().map(|(term, sas)| (term, sas.len())), Some((bench.term(), 1)));
}

#[test]
fn a_key_that_is_created_late_is_led_with_its_term() {
    let mut bench = Bench::new(Replay::Strict);
    bench.is_kept_back = creates;
    bench.input(MemberInput::Tick);
    bench.input(MemberInput::Lost);
    bench.wait(RETRY_NS);
    // The second request finds what the first one has done meanwhile.
    assert_eq!(bench.kept_back.len(), 2);
    let (_, first) = bench.kept_back.remove(0);
    bench.etcd.execute(first, bench.now_ns);
    bench.answer();
    assert_eq!(bench.led().map(|(term, _)| term), Some(bench.term()));
}

#[test]
fn a_failed_guard_ends_the_term() {
    let mut bench = Bench::leading(Replay::Strict);
    bench.etcd.tamper("/convoy/c/leaders/g");
    let term = bench.led().expect("a leader").0;
    bench.input(MemberInput::Reported(Report {
        group: "g".into(),
        term,
        event: GroupEvent::Remove { sa: SA },
    }));
    assert!(bench.is_stepping_down());
    assert!(bench.reserved(SA).is_some());
}

#[test]
fn a_watch_that_shows_no_leader_ends_the_term() {
    let mut bench = Bench::leading(Replay::Strict);
    let change = StoreChange::Delete { key: bench.keys.leader("g"), revision: 1000 };
    bench.input(MemberInput::Changed(vec![change]));
    assert!(bench.is_stepping_down());
}

#[test]
fn a_write_from_before_a_lost_connection_is_shut_out() {
    let mut bench = Bench::leading(Replay::Strict);
    bench.is_kept_back = writes;
    bench.report(GroupEvent::Progress { sa: SA, used: Used { sent: 550, received: 900 } });
    bench.is_kept_back = nothing;
    bench.input(MemberInput::Lost);
    bench.wait(RETRY_NS);
    bench.report(GroupEvent::Progress { sa: SA, used: Used { sent: 1600, received: 900 } });
    let reserved = bench.reserved(SA);
    assert_eq!(reserved.map(|reserved| (reserved.send_until, reserved.accept_until)), bench.granted(SA));
    let (_, late) = bench.kept_back.remove(0);
    bench.etcd.execute(late, bench.now_ns);
    assert_eq!(bench.reserved(SA), reserved);
    assert!(!bench.is_stepping_down());
}

#[test]
fn number_above_the_limit_raises_it() {
    let mut bench = Bench::leading(Replay::Strict);
    bench.wait(10 * S);
    bench.report(GroupEvent::Progress { sa: SA, used: Used { sent: 500, received: 5000 } });
    assert_eq!(bench.granted(SA), Some((600, 5100)));
}

#[test]
fn what_is_refused_is_asked_for_again() {
    let mut bench = Bench::leading(Replay::Strict);
    bench.etcd.no_room_until_ns = bench.now_ns + 50 * MS;
    bench.report(GroupEvent::Progress { sa: SA, used: Used { sent: 550, received: 900 } });
    assert_eq!(bench.granted(SA), Some((600, 1000)));
    bench.wait(RETRY_NS);
    assert_eq!(bench.granted(SA).map(|(sent_until, _)| sent_until), Some(750));
}

#[test]
fn one_transaction_of_at_most_128_operations_is_open() {
    let mut bench = Bench::leading(Replay::Strict);
    bench.is_kept_back = writes;
    for sa in 0..200 {
        let reservation = Reservation { send_until: 100, accept_until: 100, ..Reservation::default() };
        bench.report(GroupEvent::Put {
            sa: SaFingerprint(1000 + sa),
            record: vec![0; 10].into(),
            reservation,
        });
    }
    let mut counts = Vec::new();
    while let [(_, Call::Transact { puts, .. })] = &bench.kept_back[..] {
        counts.push(puts.len());
        bench.answer();
    }
    assert_eq!(counts, [2, 128, 128, 128, 14]);
    assert_eq!(
        bench.reserved(SaFingerprint(1199)),
        Some(Reservation { send_until: 100, accept_until: 100, ..Reservation::default() })
    );
}

#[test]
fn an_sa_that_is_removed_leaves_the_store() {
    let mut bench = Bench::leading(Replay::Strict);
    bench.report(GroupEvent::Remove { sa: SA });
    assert_eq!(bench.reserved(SA), None);
    assert!(bench.etcd.get(&bench.keys.record("g", SA)).is_none());
}

#[test]
fn drain_writes_exact_numbers_of_a_stopped_gateway_and_removes_the_key() {
    let mut bench = Bench::leading(Replay::Strict);
    bench.input(MemberInput::Drain);
    assert!(bench.is_stepping_down());
    assert_ne!(bench.term(), 0);
    bench.report(GroupEvent::Stopped { sas: vec![(SA, Used { sent: 510, received: 905 })] });
    let reserved = bench.reserved(SA).expect("a reservation");
    assert_eq!((reserved.send_until, reserved.accept_until, reserved.received), (510, 905, 905));
    assert_eq!(bench.term(), 0);
    bench.wait(10 * S);
    assert_eq!(bench.term(), 0);
    assert!(!bench.is_ended);
}

#[test]
fn a_report_of_an_earlier_term_is_ignored() {
    let mut bench = Bench::leading(Replay::Strict);
    let term = bench.term();
    bench.etcd.expire(bench.now_ns + 10 * S);
    bench.wait(2 * S);
    assert_ne!(bench.term(), term);
    bench.input(MemberInput::Drain);
    let event = GroupEvent::Stopped { sas: vec![(SA, Used { sent: 1, received: 1 })] };
    bench.input(MemberInput::Reported(Report { group: "g".into(), term, event }));
    assert_ne!(bench.term(), 0);
    assert!(bench.reserved(SA).is_some_and(|reserved| reserved.send_until > 500));
}

#[test]
fn a_member_that_ends_hands_over_and_revokes_its_lease() {
    let mut bench = Bench::leading(Replay::Strict);
    bench.input(MemberInput::End);
    assert!(!bench.is_ended);
    bench.report(GroupEvent::Stopped { sas: vec![(SA, Used { sent: 510, received: 905 })] });
    assert!(bench.is_ended);
    assert!(bench.etcd.get(&bench.keys.member("a")).is_none());
}

#[test]
fn the_end_of_the_gateway_revokes_the_lease_at_once() {
    let mut bench = Bench::leading(Replay::Strict);
    bench.input(MemberInput::GatewayEnded);
    assert!(bench.is_ended);
    assert_eq!(bench.term(), 0);
    assert_eq!(bench.reserved(SA).map(|reserved| reserved.send_until), Some(600));
}

#[test]
fn a_gateway_that_hangs_loses_its_lease_at_the_deadline_and_gets_another_when_it_works_again() {
    let mut bench = Bench::leading(Replay::Strict);
    let term = bench.term();
    bench.is_alive = false;
    // Hung after its last beat at 1 s: renewed at 2 s, as that is a third of the lease ago.
    bench.wait(S);
    assert_eq!(bench.deadline_ns(), Some(2 * S + 2700 * MS));
    bench.wait(2699 * MS);
    assert_eq!((bench.term(), bench.is_stepping_down()), (term, false), "it may still send");
    assert!(!bench.member.status().is_alive);
    bench.wait(2 * MS);
    assert_eq!((bench.term(), bench.is_stepping_down()), (0, true), "another one may lead");
    bench.wait(10 * S);
    assert_eq!(bench.term(), 0);
    bench.is_alive = true;
    bench.input(MemberInput::Tick);
    assert!(bench.term() > term);
}

#[test]
fn a_gateway_that_stalls_for_less_than_the_lease_keeps_it() {
    let mut bench = Bench::leading(Replay::Strict);
    let term = bench.term();
    bench.is_alive = false;
    bench.wait(3500 * MS);
    bench.is_alive = true;
    bench.input(MemberInput::Tick);
    bench.wait(10 * S);
    assert_eq!((bench.term(), bench.is_stepping_down()), (term, false));
}

#[test]
fn without_a_heartbeat_nothing_is_led() {
    let mut bench = Bench::new(Replay::Strict);
    bench.is_alive = false;
    bench.input(MemberInput::Tick);
    bench.wait(10 * S);
    assert_eq!((bench.term(), bench.deadline_ns()), (0, None));
}

#[test]
fn a_store_that_goes_back_ends_all_terms_and_is_not_led_by_again() {
    let mut bench = Bench::new(Replay::Strict);
    bench.put_sa();
    let before = bench.etcd.clone();
    bench.input(MemberInput::Tick);
    let (revision, term) = (bench.etcd.revision, bench.term());
    assert!(revision > before.revision && term > 0);
    bench.etcd = before;
    bench.reported = bench.etcd.history.len();
    bench.input(MemberInput::Lost);
    bench.wait(60 * S);
    let fault = bench.member.status().store_fault.expect("noticed");
    assert!(matches!(fault, StoreFault::WentBack { from, .. } if from == revision), "{fault}");
    assert!(bench.is_stepping_down());
    assert_eq!(bench.term(), 0);
    assert_eq!(bench.reserved(SA).map(|reserved| reserved.send_until), Some(500), "nothing was written");
    // The next member of this gateway knows it, too.
    let seen = bench.member.seen();
    bench.member = Member::new(MemberConfig { seen, ..config(Replay::Strict) });
    bench.input(MemberInput::Tick);
    bench.wait(60 * S);
    assert_eq!((bench.term(), bench.member.status().store_fault), (0, Some(fault)));
}

#[test]
fn a_member_that_starts_at_a_store_behind_what_it_had_seen_does_not_lead() {
    for seen in [Seen { revision: 1000, ..Seen::default() }, Seen { store: Some(8), ..Seen::default() }] {
        let mut bench = Bench::new(Replay::Strict);
        bench.member = Member::new(MemberConfig { seen, ..config(Replay::Strict) });
        bench.input(MemberInput::Connected { store: 7 });
        bench.wait(10 * S);
        assert_eq!(bench.term(), 0, "{seen:?}");
        assert!(bench.member.status().store_fault.is_some());
        bench.input(MemberInput::End);
        bench.wait(S);
        assert!(bench.is_ended, "it ends when it is to");
    }
}

#[test]
fn an_answer_that_was_overtaken_is_no_store_that_goes_back() {
    let mut bench = Bench::new(Replay::Strict);
    bench.is_kept_back =
        |call| matches!(call, Call::Transact { read: Some(prefix), .. } if prefix.ends_with("members/"));
    bench.input(MemberInput::Tick);
    let (call, request) = bench.kept_back.remove(0);
    let answer = bench.etcd.execute(request, bench.now_ns);
    bench.is_kept_back = nothing;
    bench.put_sa();
    bench.wait(S);
    bench.input(MemberInput::Answered { call, answer, locked: 0 });
    bench.wait(S);
    assert_eq!(bench.member.status().store_fault, None);
    assert_ne!(bench.term(), 0);
}

#[test]
fn a_group_that_is_sealed_by_a_key_that_the_member_lacks_is_left_to_others() {
    let mut bench = Bench::new(Replay::Strict);
    bench.put_sa();
    bench.is_kept_back = creates;
    bench.input(MemberInput::Tick);
    let (call, request) = bench.kept_back.remove(0);
    let answer = bench.etcd.execute(request, bench.now_ns);
    bench.input(MemberInput::Answered { call, answer, locked: 1 });
    assert_eq!((bench.led(), bench.term()), (None, 0), "the key is removed again");
    assert_eq!(bench.member.status().groups[0].locked, 1);
    assert_eq!(bench.reserved(SA).map(|reserved| reserved.send_until), Some(500));
    bench.wait(9 * S);
    assert!(bench.kept_back.is_empty(), "another member may be quicker");
    bench.wait(2 * S);
    bench.answer();
    assert_ne!(bench.term(), 0, "the operator has put it right");
    assert_eq!(bench.member.status().groups[0].locked, 0);
}

#[test]
fn record_or_reservation_alone_is_not_begun_with() {
    for parts in 0..2 {
        let mut bench = Bench::new(Replay::Strict);
        bench.put_sa();
        let key = if parts == 0 { bench.keys.record("g", SA) } else { bench.keys.reservation("g", SA) };
        bench.etcd.tamper(&key);
        bench.input(MemberInput::Tick);
        let is_named = |order: &MemberOrder| matches!(order, MemberOrder::Lead { sas, unreadable, .. } if sas.is_empty() && *unreadable == [SA]);
        assert!(bench.orders.iter().any(is_named));
    }
}
