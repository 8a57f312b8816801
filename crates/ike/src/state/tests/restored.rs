//! SAs that another gateway goes on with.

use super::*;

const SHARED: StateConfig = StateConfig {
    first_tunnel: 100,
    admitted: AdmittedAlgorithms::Strong,
    max_sas: 64,
    max_policies: 64,
    is_shared: true,
};

/// A gateway whose charon has negotiated a child.
fn leader() -> StateBench {
    let mut bench = StateBench::new(SHARED);
    bench.gateway.wall_ms = 1_000_000;
    bench.tunnel(7, 0x5555);
    bench.name(7, "site");
    bench
}

impl StateBench {
    /// The records of all SAs, those of inbound ones first.
    fn records(&self) -> Vec<Message> {
        let mut records: Vec<_> = self.gateway.records.values().cloned().collect();
        records.sort_by_key(|record| !decoded(record).sa.is_inbound);
        records
    }

    /// Another gateway, at this time, with what it takes over.
    fn successor(&self, wall_ms: u64) -> (StateBench, Vec<Result<SaNumber, RestoreError>>) {
        let mut bench =
            StateBench { state: CharonState::new(SHARED), gateway: Memory::default(), random: 77 };
        bench.gateway.wall_ms = wall_ms;
        let records = self.records();
        let taken: Vec<_> = records
            .iter()
            .map(|record| TakenSa { record, sent: 500, accepted: 300, iv_start: 70_000 })
            .collect();
        let restored = bench.state.restore(&taken, &mut bench.gateway);
        (bench, restored)
    }
}

fn decoded(record: &Message) -> SaRecord {
    SaRecord::decode(record).expect("a record")
}

#[test]
fn another_gateway_has_the_same_sas_policies_and_names_behind_what_was_used() {
    let first = leader();
    let (second, restored) = first.successor(1_010_000);
    assert!(restored.iter().all(Result::is_ok), "{restored:?}");
    assert_eq!(second.gateway.policies, first.gateway.policies);
    assert_eq!(second.gateway.names, first.gateway.names);
    for old in first.gateway.sas.values() {
        let new = &second.gateway.sas[&second.number(old.spi)];
        let ends = |sa: &SaConfig| (sa.direction, sa.local, sa.remote, sa.encap, sa.tunnel, sa.mode);
        assert_eq!(ends(new), ends(old));
        assert_eq!(new.keys.cipher_key(), old.keys.cipher_key());
        let start = if old.direction == SaDirection::Outbound { 500 } else { 300 };
        assert_eq!((new.sequence_start, new.sequence_reserved), (start, start));
        assert_eq!(new.lifetime.hard.time_ns, Some(80_000_000_000), "10 s have passed");
        assert_eq!(new.lifetime.soft.time_ns, Some(50_000_000_000));
    }
}

#[test]
fn a_third_gateway_takes_over_what_the_second_had() {
    let first = leader();
    let (mut second, _) = first.successor(1_010_000);
    let moved = |id: WireSaId| {
        let source = host("198.51.100.9:1024");
        UpdateSa { id, source, destination: id.destination, is_encapsulated: true, reqid: 0 }
    };
    let inbound = decoded(&first.records()[0]).sa.id;
    second.state.connect(2, &mut second.gateway);
    second.good(CharonRequest::UpdateSa(moved(inbound)));
    assert_eq!(second.gateway.shared, 1, "only what has changed is reported");
    let reported = decoded(&second.records()[0]);
    assert_eq!((reported.sa.id.source, reported.installed_ms), (host("198.51.100.9:1024"), 1_000_000));
    assert_eq!(reported.child, "net");
    assert_eq!(reported.policies.len(), WAYS.len());
    let again = decoded(&reported.encode());
    assert_eq!(again.session | 1 << 63, again.session, "it stays a former charon's");
    let (third, restored) = second.successor(1_020_000);
    assert_eq!((restored.len(), third.gateway.policies.len()), (1, 1));
    let sa = third.gateway.sas.values().next().expect("installed");
    assert_eq!(sa.lifetime.hard.time_ns, Some(70_000_000_000));
}

#[test]
fn what_changes_is_reported_and_what_does_not_is_not() {
    let mut bench = StateBench::new(SHARED);
    bench.tunnel(7, 0x5555);
    assert_eq!(bench.records().len(), 2);
    let reported = bench.gateway.shared;
    bench.good(CharonRequest::AddPolicy(policy(WirePolicyDirection::Out, PolicyClass::Regular, 7)));
    bench.good(CharonRequest::AddPolicy(policy(WirePolicyDirection::Out, PolicyClass::Trap, 9)));
    bench.good(CharonRequest::DelPolicy(policy(WirePolicyDirection::Out, PolicyClass::Regular, 7)));
    assert_eq!(bench.gateway.shared, reported, "a count and another tunnel's trap are in no record");
    bench.good(CharonRequest::DelPolicy(policy(WirePolicyDirection::Out, PolicyClass::Regular, 7)));
    let policies = |bench: &StateBench| decoded(&bench.records()[0]).policies.len();
    assert_eq!((bench.gateway.shared, policies(&bench)), (reported + 2, 2));
    bench.name(7, "site");
    assert_eq!(decoded(&bench.records()[1]).connection, "site");
    bench.good(CharonRequest::DelSa(id(0x5555, US, PEER)));
    assert_eq!(bench.records().len(), 1, "what is removed has no record");
}

#[test]
fn without_a_cluster_nothing_is_reported() {
    let mut bench = bench();
    bench.tunnel(7, 0x5555);
    bench.name(7, "site");
    assert_eq!(bench.gateway.shared, 0);
}

#[test]
fn what_has_ended_cannot_be_read_or_is_there_already_is_not_restored() {
    let first = leader();
    let (second, restored) = first.successor(1_090_000);
    assert_eq!(restored, [Err(RestoreError::Expired), Err(RestoreError::Expired)]);
    assert!(second.gateway.sas.is_empty() && second.gateway.policies.is_empty());
    let (mut second, _) = first.successor(1_089_000);
    let record = &first.records()[0];
    let garbage = TakenSa { record: b"{}", sent: 0, accepted: 0, iv_start: 0 };
    let taken = [TakenSa { record, ..garbage }, garbage];
    let restored = second.state.restore(&taken, &mut second.gateway);
    assert!(matches!(restored[0], Err(RestoreError::Refused(_))), "{restored:?}");
    assert!(matches!(restored[1], Err(RestoreError::Unreadable(_))), "{restored:?}");
}

#[test]
fn the_charon_of_the_new_leader_negotiates_its_own_and_the_old_ones_end_with_their_lifetimes() {
    let first = leader();
    // The same session: even a charon that outlived its gateway's terms has to tell all again.
    for session in [1, 2] {
        let (mut second, restored) = first.successor(1_010_000);
        second.state.connect(session, &mut second.gateway);
        let of = |bench: &StateBench| match bench.gateway.policies[0].action {
            Action::Protect(tunnel) => tunnel,
            other => panic!("{other:?} protects nothing"),
        };
        let old = of(&second);
        second.tunnel(7, 0x6666);
        assert_eq!((second.gateway.sas.len(), second.gateway.policies.len()), (4, 2));
        assert_ne!(of(&second), old, "the new SAs' policy comes first");
        for number in restored {
            let number = number.expect("restored");
            assert_eq!(second.state.expired(number, Expiry::Hard, &mut second.gateway), None);
        }
        assert_eq!((second.gateway.sas.len(), second.gateway.policies.len()), (2, 1));
        assert_ne!(of(&second), old);
    }
}

#[test]
fn old_sas_end_when_new_ones_carry_the_traffic_and_they_are_idle() {
    let (mut second, _) = leader().successor(1_010_000);
    second.state.connect(2, &mut second.gateway);
    let used = |packets, idle_s| SaUsage { packets, idle_s, ..SaUsage::default() };
    let retire = |bench: &mut StateBench, usage| {
        bench.gateway.usage = usage;
        bench.state.retire_succeeded(&mut bench.gateway)
    };
    assert_eq!(retire(&mut second, used(5, Some(10))), 0, "there are no others");
    second.tunnel(7, 0x6666);
    assert_eq!(retire(&mut second, used(0, None)), 0, "the new ones have not carried anything");
    assert_eq!(retire(&mut second, used(5, Some(9))), 0, "the peer may still use them");
    assert_eq!(retire(&mut second, used(5, Some(10))), 2);
    assert_eq!((second.gateway.sas.len(), second.gateway.policies.len()), (2, 1));
    assert_eq!(second.records().len(), 2, "both are written to the store");
    assert_eq!(retire(&mut second, used(5, Some(10))), 0);
}

#[test]
fn a_gateway_that_stands_by_has_no_policy_or_name_and_begins_again_later() {
    let first = leader();
    let (mut second, _) = first.successor(1_010_000);
    second.state.connect(2, &mut second.gateway);
    second.tunnel(7, 0x6666);
    second.state.abandon(&mut second.gateway);
    assert!(second.gateway.policies.is_empty() && second.gateway.names.is_empty());
    assert_eq!(second.gateway.sas.len(), 4, "who stands by removes them");
    assert_eq!(second.state.sa_count(), 0);
    second.gateway.sas.clear();
    let records = first.records();
    let taken: Vec<_> =
        records.iter().map(|record| TakenSa { record, sent: 0, accepted: 0, iv_start: 0 }).collect();
    let restored = second.state.restore(&taken, &mut second.gateway);
    assert!(restored.iter().all(Result::is_ok), "SPIs and tunnels are free again: {restored:?}");
    assert_eq!(second.gateway.policies.len(), 1);
}

#[test]
fn of_several_former_charons_the_last_ones_sas_come_first() {
    let first = leader();
    let (mut second, _) = first.successor(1_010_000);
    second.state.connect(2, &mut second.gateway);
    second.tunnel(7, 0x6666);
    let mut records: Vec<Message> =
        second.gateway.records.values().chain(&first.records()).cloned().collect();
    for _ in 0..2 {
        let mut third =
            StateBench { state: CharonState::new(SHARED), gateway: Memory::default(), random: 99 };
        third.gateway.wall_ms = 1_020_000;
        let taken: Vec<_> =
            records.iter().map(|record| TakenSa { record, sent: 0, accepted: 0, iv_start: 0 }).collect();
        third.state.restore(&taken, &mut third.gateway);
        let tunnel = third.gateway.sas[&third.number(0x6666)].tunnel;
        assert_eq!(third.gateway.policies.len(), 2);
        assert_eq!(third.gateway.policies[0].action, Action::Protect(tunnel));
        records.reverse();
    }
}
