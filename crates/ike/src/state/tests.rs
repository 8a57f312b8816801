//! charon's session with the gateway, over a backend that only records.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;

use convoy_ipsec::{
    Action, AdmittedAlgorithms, Expiry, IptfsConfig, Mode, Policy, PolicyDirection as IpsecDirection,
    PolicyPlace, SaConfig, SaIndex, UdpEncap,
};

mod restored;

use proptest::prelude::*;

use super::*;
use crate::protocol::{
    AddSa, Dscp, EncapMode, IptfsOptions, Lifetimes, Message, SaEvent, SaProtocolId, SaRecord, UpdateSa,
    WireSaId, WireSaKeys, WireSelector,
};

/// The number of an SA, given how many were installed before it.
fn number(installed: u32) -> SaNumber {
    SaNumber { owner: 0, index: SaIndex(installed), generation: installed }
}

#[derive(Default)]
struct Memory {
    wall_ms: u64,
    /// The latest record of each SA.
    records: HashMap<SaNumber, Message>,
    /// How many were reported.
    shared: usize,
    sas: HashMap<SaNumber, SaConfig>,
    installed: u32,
    placed: BTreeMap<PolicyPlace, Policy>,
    /// The same policies without their places.
    policies: Vec<Policy>,
    names: HashMap<TunnelId, ChildName>,
    reported: u32,
    steps: usize,
    usage: SaUsage,
    refuses: bool,
    /// Of each SA that was installed, in order.
    resources: Vec<Option<u32>>,
    own_sas: Vec<(TunnelId, bool)>,
    warned: Vec<String>,
    news: Vec<String>,
}

impl SaBackend for Memory {
    fn warn_of_mode(&mut self, child: &ChildName, configured: EncapMode, mode: EncapMode) {
        self.warned.push(format!("{child}: {mode}, not {configured}"));
    }

    fn tell(&mut self, news: ChildNews) {
        let what = match news.what {
            ChildChange::Up(sa) => format!("up {:x} {:x?} {}", sa.spi_out, sa.spi_in, sa.peer),
            ChildChange::Rekeyed(sa) => format!("rekeyed {:x} {:x?}", sa.spi_out, sa.spi_in),
            ChildChange::Down(sa) => format!("down {:x}", sa.spi_out),
            ChildChange::Moved { old, new } => format!("{old} to {new}"),
        };
        self.news.push(format!("{}: {what}", news.child));
    }

    fn install(&mut self, sa: SaConfig, resource: Option<u32>) -> Result<SaNumber, Refusal> {
        if self.refuses {
            return Err(Refusal("no".to_owned()));
        }
        self.installed += 1;
        let number = number(self.installed);
        self.resources.push(resource);
        self.sas.insert(number, sa);
        Ok(number)
    }

    fn remove(&mut self, sa: SaNumber) {
        self.sas.remove(&sa).expect("only what was installed is removed");
        self.records.remove(&sa);
    }

    fn change_policies(&mut self, update: PolicyUpdate) {
        self.reported += 1;
        self.steps += update.steps.len();
        self.own_sas.extend(&update.own_sas);
        for PolicyStep { change, .. } in update.steps {
            if let Some(place) = change.gone {
                self.placed.remove(&place).expect("only what came goes");
            }
            if let Some((rank, policy)) = change.came {
                let place = PolicyPlace { priority: policy.priority, rank };
                assert_eq!(self.placed.insert(place, policy), None, "no two have the same place");
            }
        }
        for (tunnel, name) in update.names {
            match name {
                Some(name) => self.names.insert(tunnel, name),
                None => self.names.remove(&tunnel),
            };
        }
        self.policies = self.placed.values().cloned().collect();
    }

    fn move_sa(&mut self, sa: SaNumber, ends: NegotiatedEnds) -> Result<(), Refusal> {
        let config = self.sas.get_mut(&sa).expect("only what was installed is moved");
        if self.refuses {
            return Err(Refusal("no".to_owned()));
        }
        (config.local, config.remote, config.encap) = (ends.local, ends.remote, ends.encap);
        Ok(())
    }

    fn usage(&mut self, _: SaNumber) -> Option<SaUsage> {
        Some(self.usage)
    }

    fn wall_ms(&mut self) -> u64 {
        self.wall_ms
    }

    fn share(&mut self, sa: SaNumber, record: Message) {
        assert!(self.sas.contains_key(&sa), "it is installed");
        self.records.insert(sa, record);
        self.shared += 1;
    }
}

struct StateBench {
    state: CharonState,
    gateway: Memory,
    random: u32,
}

const US: &str = "192.0.2.1:4500";
const PEER: &str = "192.0.2.2:4500";

fn host(text: &str) -> SocketAddr {
    text.parse().expect("a host")
}

fn id(spi: u32, source: &str, destination: &str) -> WireSaId {
    WireSaId { spi, protocol: SaProtocolId::Esp, source: host(source), destination: host(destination) }
}

fn sa(id: WireSaId, reqid: u32, is_inbound: bool) -> AddSa {
    AddSa {
        id,
        reqid,
        mode: EncapMode::Tunnel,
        is_inbound,
        is_reserved: is_inbound,
        is_encapsulated: true,
        esn: false,
        copy_df: true,
        copy_ecn: true,
        dscp: Dscp::Out,
        replay_window: 32,
        tfc_bytes: 0,
        ipcomp: 0,
        cpi: 0,
        resource: None,
        lifetimes: Lifetimes { soft_s: 60, hard_s: 90, ..Lifetimes::default() },
        keys: WireSaKeys {
            encryption: 20,
            integrity: 1024,
            encryption_key: vec![1; 20],
            integrity_key: Vec::new(),
        },
        iptfs: None,
    }
}

fn selector(text: &str, bits: u32) -> WireSelector {
    let first: std::net::Ipv4Addr = text.parse().expect("an address");
    let last = std::net::Ipv4Addr::from_bits(first.to_bits() | u32::MAX.checked_shr(bits).unwrap_or(0));
    WireSelector { first: first.into(), last: last.into(), protocol: 0, first_port: 0, last_port: u16::MAX }
}

fn policy(direction: WirePolicyDirection, class: PolicyClass, reqid: u32) -> PolicySpec {
    let (here, there) = (selector("10.1.0.0", 24), selector("10.2.0.0", 24));
    let (source, destination) = match direction {
        WirePolicyDirection::Out => (here, there),
        WirePolicyDirection::In | WirePolicyDirection::Forward => (there, here),
    };
    let id = PolicyRef { direction, if_id: 0, source, destination };
    PolicySpec {
        id,
        kind: PolicyKind::Protect,
        class,
        mode: EncapMode::Tunnel,
        is_per_resource: false,
        reqid,
        manual_priority: 0,
    }
}

const WAYS: [WirePolicyDirection; 3] =
    [WirePolicyDirection::In, WirePolicyDirection::Forward, WirePolicyDirection::Out];

impl StateBench {
    fn new(config: StateConfig) -> Self {
        let mut bench = Self { state: CharonState::new(config), gateway: Memory::default(), random: 0 };
        bench.state.connect(1, &mut bench.gateway);
        bench
    }

    fn ask(&mut self, request: CharonRequest) -> CharonReply {
        let next = &mut self.random;
        let mut random = |bytes: &mut [u8]| {
            *next += 1;
            bytes.copy_from_slice(&next.to_le_bytes());
        };
        self.state.handle(request, &mut self.gateway, &mut random)
    }

    fn good(&mut self, request: CharonRequest) -> ReplyBody {
        match self.ask(request) {
            CharonReply::Good(body) => body,
            CharonReply::Refused { reason, .. } => panic!("refused: {reason}"),
        }
    }

    fn refused(&mut self, request: CharonRequest) -> (ReplyStatus, String) {
        match self.ask(request) {
            CharonReply::Good(_) => panic!("should have been refused"),
            CharonReply::Refused { status, reason } => (status, reason),
        }
    }

    fn spi(&mut self) -> u32 {
        let (protocol, source, destination) = (SaProtocolId::Esp, host(PEER), host(US));
        match self.good(CharonRequest::GetSpi { protocol, source, destination }) {
            ReplyBody::Spi(spi) => spi,
            other => panic!("{other:?} is no SPI"),
        }
    }

    fn add(&mut self, sa: AddSa) -> ReplyBody {
        self.good(CharonRequest::AddSa(Box::new(sa)))
    }

    /// Installs SAs in both directions and their policies, and returns the inbound SPI.
    fn tunnel(&mut self, reqid: u32, peer_spi: u32) -> u32 {
        let spi = self.spi();
        for direction in WAYS {
            self.good(CharonRequest::AddPolicy(policy(direction, PolicyClass::Regular, reqid)));
        }
        self.add(sa(id(spi, PEER, US), reqid, true));
        self.add(sa(id(peer_spi, US, PEER), reqid, false));
        spi
    }

    fn number(&self, spi: u32) -> SaNumber {
        *self.gateway.sas.iter().find(|(_, sa)| sa.spi == spi).expect("installed").0
    }
}

fn bench() -> StateBench {
    StateBench::new(StateConfig { first_tunnel: 100, ..StateConfig::default() })
}

#[test]
fn a_child_becomes_two_sas_of_one_tunnel_and_one_policy() {
    let mut bench = bench();
    let spi = bench.tunnel(7, 0x5555);
    let inbound = &bench.gateway.sas[&bench.number(spi)];
    assert_eq!(
        (inbound.local.to_string(), inbound.remote.to_string()),
        ("192.0.2.1".into(), "192.0.2.2".into())
    );
    assert_eq!(inbound.encap, Some(UdpEncap { local_port: 4500, remote_port: 4500 }));
    assert_eq!(inbound.lifetime.soft.time_ns, Some(60_000_000_000));
    assert_eq!((inbound.tunnel, inbound.mode), (TunnelId(100), Mode::Tunnel));
    let outbound = &bench.gateway.sas[&bench.number(0x5555)];
    assert_eq!(outbound.direction, SaDirection::Outbound);
    assert_eq!(outbound.tunnel, TunnelId(100));
    assert_eq!(bench.gateway.policies.len(), 1, "in, out and forward are one");
    let policy = &bench.gateway.policies[0];
    assert_eq!(policy.selector.to_string(), "10.1.0.0/24 === 10.2.0.0/24");
    assert_eq!((policy.action, policy.direction), (Action::Protect(TunnelId(100)), IpsecDirection::Both));
}

#[test]
fn policies_are_counted_through_a_rekeying_and_the_backend_hears_only_of_changes() {
    let mut bench = bench();
    let old = bench.tunnel(7, 0x5555);
    let reported = bench.gateway.reported;
    let new = bench.tunnel(7, 0x6666);
    for direction in WAYS {
        bench.good(CharonRequest::DelPolicy(policy(direction, PolicyClass::Regular, 7)));
    }
    bench.good(CharonRequest::DelSa(id(old, PEER, US)));
    bench.good(CharonRequest::DelSa(id(0x5555, US, PEER)));
    assert_eq!(bench.gateway.reported, reported, "what protects the traffic is the same");
    assert_eq!(bench.gateway.policies.len(), 1);
    assert_eq!(bench.gateway.sas[&bench.number(new)].tunnel, TunnelId(100));
    for direction in WAYS {
        bench.good(CharonRequest::DelPolicy(policy(direction, PolicyClass::Regular, 7)));
    }
    assert!(bench.gateway.policies.is_empty());
    let gone = CharonRequest::DelPolicy(policy(WirePolicyDirection::Out, PolicyClass::Regular, 7));
    assert_eq!(bench.refused(gone).0, ReplyStatus::NotFound);
}

impl StateBench {
    fn name(&mut self, reqid: u32, connection: &str) {
        let (connection, child) = (connection.to_owned(), "net".to_owned());
        self.good(CharonRequest::Name { reqid, mode: EncapMode::Tunnel, connection, child });
    }

    fn news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.gateway.news)
    }
}

#[test]
fn a_tunnel_that_comes_up_is_rekeyed_moves_and_goes_down_is_reported_once_each() {
    let mut bench = bench();
    let spi = bench.tunnel(7, 0x5555);
    assert_eq!(bench.news(), [""; 0], "it has no name yet");
    bench.name(7, "site");
    bench.name(7, "site");
    assert_eq!(bench.news(), [format!("site/net: up 5555 Some({spi:x}) {PEER}")]);
    // As a responder has it: the name comes before the outbound SA.
    let newer = bench.spi();
    bench.add(sa(id(newer, PEER, US), 7, true));
    bench.name(7, "site");
    bench.add(sa(id(0x6666, US, PEER), 7, false));
    assert_eq!(bench.news(), [format!("site/net: rekeyed 6666 Some({newer:x})")]);
    bench.good(CharonRequest::DelSa(id(0x5555, US, PEER)));
    bench.good(CharonRequest::DelSa(id(spi, PEER, US)));
    assert_eq!(bench.news(), [""; 0], "it has another SA");
    let elsewhere = "198.51.100.9:61234";
    let moved = |id: WireSaId, source: &str, destination: &str| {
        let (source, destination) = (host(source), host(destination));
        CharonRequest::UpdateSa(UpdateSa { id, source, destination, is_encapsulated: true, reqid: 0 })
    };
    bench.good(moved(id(newer, PEER, US), elsewhere, US));
    bench.good(moved(id(0x6666, US, PEER), US, elsewhere));
    assert_eq!(bench.news(), [format!("site/net: {PEER} to {elsewhere}")]);
    bench.good(CharonRequest::DelSa(id(0x6666, US, elsewhere)));
    bench.good(CharonRequest::DelSa(id(newer, elsewhere, US)));
    assert_eq!(bench.news(), ["site/net: down 6666"]);
}

#[test]
fn a_traps_tunnel_is_reported_by_its_whole_name_and_each_resource_by_itself() {
    let mut bench = bench();
    bench.good(CharonRequest::AddPolicy(policy(WirePolicyDirection::Out, PolicyClass::Trap, 7)));
    bench.name(7, "");
    bench.add(sa(id(0x5555, US, PEER), 7, false));
    assert_eq!(bench.news(), [""; 0], "the connection is not known");
    bench.name(7, "site");
    assert_eq!(bench.news(), [format!("site/net: up 5555 None {PEER}")]);
    bench.add(AddSa { resource: Some(1), ..sa(id(0x6666, US, PEER), 7, false) });
    assert_eq!(bench.news(), [format!("site/net: up 6666 None {PEER}")], "another worker has its first");
    bench.good(CharonRequest::DelSa(id(0x5555, US, PEER)));
    assert_eq!(bench.news(), ["site/net: down 5555"]);
}

#[test]
fn what_a_former_charon_left_does_not_go_down_where_the_next_one_has_it() {
    let mut bench = bench();
    bench.tunnel(7, 0x5555);
    bench.name(7, "site");
    bench.tunnel(8, 0x5556);
    bench.name(8, "other");
    bench.state.connect(2, &mut bench.gateway);
    bench.tunnel(1, 0x6666);
    bench.name(1, "site");
    bench.news();
    bench.good(CharonRequest::DelSa(id(0x5555, US, PEER)));
    assert_eq!(bench.news(), [""; 0]);
    bench.good(CharonRequest::DelSa(id(0x5556, US, PEER)));
    assert_eq!(bench.news(), ["other/net: down 5556"]);
}

#[test]
fn spis_are_freed_by_deletion_whether_they_became_an_sa_or_not() {
    let mut bench = bench();
    let spi = bench.spi();
    bench.good(CharonRequest::DelSa(id(spi, PEER, US)));
    assert_eq!(bench.refused(CharonRequest::DelSa(id(spi, PEER, US))).0, ReplyStatus::NotFound);
    bench.add(sa(id(spi, PEER, US), 1, true));
    let again = bench.refused(CharonRequest::AddSa(Box::new(sa(id(spi, PEER, US), 1, true))));
    assert!(again.1.contains("is already installed"), "{}", again.1);
    let elsewhere =
        bench.refused(CharonRequest::AddSa(Box::new(sa(id(spi, PEER, "192.0.2.9:4500"), 1, true))));
    assert!(elsewhere.1.contains("belongs to another SA"), "{}", elsewhere.1);
}

#[test]
fn an_sa_in_aggfrag_mode_has_charons_settings() {
    let mut bench = bench();
    let options = IptfsOptions {
        drop_time_us: 9,
        reorder_window: 1_000,
        init_delay_us: 5,
        max_queue_size: 7,
        packet_size: 1_300,
        dont_frag: true,
    };
    let outbound = sa(id(0x2001, US, PEER), 1, false);
    bench.add(AddSa { mode: EncapMode::Aggfrag, iptfs: Some(options), ..outbound });
    let installed = &bench.gateway.sas[&bench.number(0x2001)];
    assert_eq!(installed.mode, Mode::Iptfs);
    let expected = IptfsConfig {
        drop_time_ns: 9_000,
        reorder_window: 256,
        init_delay_ns: 5_000,
        max_queue_size: 7,
        pkt_size: 1_300,
        dont_frag: true,
        packet_rate: 0,
    };
    assert_eq!(installed.iptfs, expected);
}

#[test]
fn what_the_gateway_cannot_do_is_refused_with_its_reason() {
    let mut bench = bench();
    let plain = || sa(id(9, US, PEER), 1, false);
    let weak =
        WireSaKeys { encryption: 3, integrity: 2, encryption_key: vec![1; 24], integrity_key: vec![1; 20] };
    for (sa, reason) in [
        (AddSa { ipcomp: 2, cpi: 4, ..plain() }, "IPComp"),
        (AddSa { mode: EncapMode::Beet, ..plain() }, "BEET"),
        (AddSa { dscp: Dscp::Both, ..plain() }, "DSCP"),
        (AddSa { keys: weak, ..plain() }, "is weak"),
    ] {
        let (status, text) = bench.refused(CharonRequest::AddSa(Box::new(sa)));
        assert_eq!(status, ReplyStatus::Failed);
        assert!(text.contains(reason), "{text}");
    }
    bench.gateway.refuses = true;
    bench.refused(CharonRequest::AddSa(Box::new(plain())));
    assert!(bench.gateway.sas.is_empty());
    bench.gateway.refuses = false;
    bench.add(plain());
}

#[test]
fn limits_hold() {
    let mut bench = StateBench::new(StateConfig { max_sas: 1, max_policies: 1, ..StateConfig::default() });
    bench.add(sa(id(1, US, PEER), 1, false));
    bench.refused(CharonRequest::AddSa(Box::new(sa(id(2, US, PEER), 1, false))));
    bench.good(CharonRequest::AddPolicy(policy(WirePolicyDirection::Out, PolicyClass::Trap, 1)));
    bench.refused(CharonRequest::AddPolicy(policy(WirePolicyDirection::In, PolicyClass::Trap, 1)));
}

#[test]
fn traps_come_after_regular_policies_and_ask_for_an_sa_once_a_second() {
    let mut bench = bench();
    for direction in WAYS {
        bench.good(CharonRequest::AddPolicy(policy(direction, PolicyClass::Trap, 3)));
    }
    let tunnel = TunnelId(100);
    let packet =
        || (WireSelector::of_packet(host(US).ip(), 17, 1), WireSelector::of_packet(host(PEER).ip(), 17, 2));
    let acquire =
        |bench: &mut StateBench, now_ns| bench.state.acquire(tunnel, None, now_ns, packet().0, packet().1);
    let event = acquire(&mut bench, 5).expect("an event");
    assert!(matches!(event, SaEvent::Acquire { reqid: 3, .. }));
    assert_eq!(acquire(&mut bench, 1_000_000_004), None);
    assert!(acquire(&mut bench, 1_000_000_005).is_some());
    bench.tunnel(3, 0x5555);
    assert_eq!(acquire(&mut bench, 9_000_000_000), None, "there is an SA");
    let priorities: Vec<u32> = bench.gateway.policies.iter().map(|policy| policy.priority).collect();
    assert_eq!(priorities.len(), 2);
    assert!(priorities[0] < priorities[1]);
}

#[test]
fn each_resource_gets_an_sa_of_its_own_once_there_is_one_of_all() {
    const SECOND: u64 = 1_000_000_000;
    let mut bench = bench();
    let wanting = |direction, class| PolicySpec { is_per_resource: true, ..policy(direction, class, 3) };
    bench.good(CharonRequest::AddPolicy(policy(WirePolicyDirection::Out, PolicyClass::Trap, 3)));
    let tunnel = TunnelId(100);
    let end = |at: &str| WireSelector::of_packet(host(at).ip(), 17, 1);
    let acquire = |bench: &mut StateBench, resource, now_ns| {
        bench.state.acquire(tunnel, Some(resource), now_ns, end(US), end(PEER))
    };
    assert_eq!(acquire(&mut bench, 1, 0), None, "there is no SA at all");
    bench.tunnel(3, 0x5555);
    assert_eq!(acquire(&mut bench, 1, SECOND), None, "charon wants one SA for all");
    assert_eq!(bench.gateway.own_sas, []);
    bench.good(CharonRequest::AddPolicy(wanting(WirePolicyDirection::Out, PolicyClass::Regular)));
    assert_eq!(bench.gateway.own_sas, [(tunnel, true)]);
    let asked = acquire(&mut bench, 1, 2 * SECOND);
    assert!(matches!(asked, Some(SaEvent::Acquire { reqid: 3, resource: Some(1), .. })));
    assert_eq!(acquire(&mut bench, 1, 31 * SECOND), None, "charon was asked half a minute ago");
    assert!(acquire(&mut bench, 2, 31 * SECOND).is_some(), "another resource");
    assert!(acquire(&mut bench, 1, 32 * SECOND).is_some(), "nothing came of it");
    bench.add(AddSa { resource: Some(1), ..sa(id(0x6666, US, PEER), 3, false) });
    assert_eq!(bench.gateway.resources.last(), Some(&Some(1)));
    assert_eq!(acquire(&mut bench, 1, 99 * SECOND), None, "it is there");
    bench.good(CharonRequest::DelPolicy(wanting(WirePolicyDirection::Out, PolicyClass::Regular)));
    assert_eq!(bench.gateway.own_sas, [(tunnel, true), (tunnel, false)]);
}

#[test]
fn bypasses_come_first_narrow_selectors_before_wide_ones_and_drops_last() {
    let mut bench = bench();
    let out = |class| policy(WirePolicyDirection::Out, class, 1);
    let narrow = PolicyRef { source: selector("10.1.0.9", 32), ..out(PolicyClass::Regular).id };
    bench.good(CharonRequest::AddPolicy(PolicySpec { kind: PolicyKind::Drop, ..out(PolicyClass::Fallback) }));
    bench.good(CharonRequest::AddPolicy(out(PolicyClass::Regular)));
    bench.good(CharonRequest::AddPolicy(PolicySpec { id: narrow, ..out(PolicyClass::Regular) }));
    bench.good(CharonRequest::AddPolicy(PolicySpec { kind: PolicyKind::Pass, ..out(PolicyClass::Pass) }));
    bench.good(CharonRequest::AddPolicy(PolicySpec { manual_priority: 50, ..out(PolicyClass::Fallback) }));
    let actions: Vec<_> = bench.gateway.policies.iter().map(|policy| policy.action).collect();
    let protect = Action::Protect(TunnelId(100));
    assert_eq!(actions, [protect, Action::Bypass, protect, protect, Action::Discard]);
    assert_eq!(bench.gateway.policies[0].priority, 50);
    assert_eq!(bench.gateway.policies[1].direction, IpsecDirection::Outbound);
    assert_eq!(bench.gateway.policies[2].selector.local.to_string(), "10.1.0.9/32");
}

#[test]
fn an_sa_that_expires_is_reported_and_gone_when_it_is_hard() {
    let mut bench = bench();
    let spi = bench.tunnel(7, 0x5555);
    let index = bench.number(spi);
    let soft = bench.state.expired(index, Expiry::Soft, &mut bench.gateway);
    let expire =
        |is_hard| Some(SaEvent::Expire { spi, protocol: SaProtocolId::Esp, destination: host(US), is_hard });
    assert_eq!(soft, expire(false));
    assert_eq!(bench.state.expired(index, Expiry::Hard, &mut bench.gateway), expire(true));
    assert_eq!(bench.refused(CharonRequest::DelSa(id(spi, PEER, US))).0, ReplyStatus::NotFound);
    assert_eq!(bench.state.expired(index, Expiry::Hard, &mut bench.gateway), None);
    assert_eq!(bench.state.expired(number(999), Expiry::Soft, &mut bench.gateway), None, "a manual one");
}

#[test]
fn a_peer_that_moves_is_reported_and_the_sa_follows_charons_answer() {
    let mut bench = bench();
    let spi = bench.tunnel(7, 0x5555);
    let elsewhere = host("198.51.100.7:31000");
    let event = bench.state.mapped(bench.number(spi), elsewhere);
    let destination = host(US);
    assert_eq!(
        event,
        Some(SaEvent::Mapping { spi, protocol: SaProtocolId::Esp, destination, source: elsewhere })
    );
    let update = UpdateSa {
        id: id(0x5555, US, PEER),
        source: host(US),
        destination: elsewhere,
        is_encapsulated: true,
        reqid: 0,
    };
    bench.good(CharonRequest::UpdateSa(update));
    let outbound = &bench.gateway.sas[&bench.number(0x5555)];
    assert_eq!(outbound.remote, elsewhere.ip());
    assert_eq!(outbound.encap, Some(UdpEncap { local_port: 4500, remote_port: 31000 }));
    assert_eq!(
        bench.refused(CharonRequest::UpdateSa(update)).0,
        ReplyStatus::NotFound,
        "it is elsewhere now"
    );
    bench.good(CharonRequest::DelSa(id(0x5555, US, "198.51.100.7:31000")));
    bench.gateway.refuses = true;
    let inbound = UpdateSa { id: id(spi, PEER, US), source: elsewhere, destination: host(US), ..update };
    assert_eq!(bench.refused(CharonRequest::UpdateSa(inbound)).0, ReplyStatus::NotSupported);
}

#[test]
fn a_peer_whose_address_is_its_selector_moves_with_another_reqid() {
    let mut bench =
        StateBench::new(StateConfig { is_shared: true, first_tunnel: 100, ..StateConfig::default() });
    let spi = bench.tunnel(7, 0x5555);
    let elsewhere = host("198.51.100.7:4500");
    let inbound = UpdateSa {
        id: id(spi, PEER, US),
        source: elsewhere,
        destination: host(US),
        is_encapsulated: true,
        reqid: 8,
    };
    let outbound = UpdateSa { id: id(0x5555, US, PEER), source: host(US), destination: elsewhere, ..inbound };
    let why = "while other SAs or policies have it";
    let (status, said) = bench.refused(CharonRequest::UpdateSa(inbound));
    assert!(status == ReplyStatus::NotSupported && said.contains(why), "{said}");
    for direction in WAYS {
        bench.good(CharonRequest::DelPolicy(policy(direction, PolicyClass::Regular, 7)));
    }
    // Of another child with the same selectors.
    let other = "203.0.113.9:4500";
    bench.add(sa(id(0x6666, US, other), 7, false));
    assert!(bench.refused(CharonRequest::UpdateSa(inbound)).1.contains(why));
    bench.good(CharonRequest::DelSa(id(0x6666, US, other)));

    bench.good(CharonRequest::UpdateSa(inbound));
    bench.good(CharonRequest::UpdateSa(outbound));
    for direction in WAYS {
        bench.good(CharonRequest::AddPolicy(policy(direction, PolicyClass::Regular, 8)));
    }
    let tunnel = bench.gateway.sas[&bench.number(0x5555)].tunnel;
    assert!(!bench.gateway.policies.is_empty());
    let serves = |policy: &Policy| policy.action == Action::Protect(tunnel);
    assert!(bench.gateway.policies.iter().all(serves), "{:?}", bench.gateway.policies);
    let record = &bench.gateway.records[&bench.number(0x5555)];
    assert_eq!(SaRecord::decode(record).expect("a record").sa.reqid, 8);
    bench.good(CharonRequest::DelSa(id(spi, "198.51.100.7:4500", US)));
    bench.good(CharonRequest::DelSa(id(0x5555, US, "198.51.100.7:4500")));
}

#[test]
fn counters_and_idle_times_reach_charon() {
    let mut bench = bench();
    let spi = bench.tunnel(7, 0x5555);
    bench.gateway.usage = SaUsage { bytes: 100, packets: 2, idle_s: Some(4) };
    let sa_use = ReplyBody::SaUse { bytes: 100, packets: 2, idle_s: Some(4) };
    assert_eq!(bench.good(CharonRequest::QuerySa(id(spi, PEER, US))), sa_use);
    let spec = policy(WirePolicyDirection::Forward, PolicyClass::Regular, 7);
    assert_eq!(bench.good(CharonRequest::QueryPolicy(spec.id)), ReplyBody::PolicyUse { idle_s: Some(4) });
    let other = PolicyRef { source: selector("10.9.0.0", 24), ..spec.id };
    assert_eq!(bench.refused(CharonRequest::QueryPolicy(other)).0, ReplyStatus::NotFound);
    assert_eq!(bench.refused(CharonRequest::QuerySa(id(1, PEER, US))).0, ReplyStatus::NotFound);
}

#[test]
fn a_new_charons_tunnel_supersedes_the_old_one_which_serves_until_it_ends() {
    let mut bench = bench();
    let old_spi = bench.tunnel(1, 0x5555);
    bench.good(CharonRequest::AddPolicy(policy(WirePolicyDirection::Out, PolicyClass::Trap, 1)));
    bench.state.connect(2, &mut bench.gateway);
    assert_eq!(bench.gateway.sas.len(), 2, "living SAs stay");
    assert_eq!(bench.gateway.policies.len(), 1, "the old trap is gone");

    for direction in WAYS {
        bench.good(CharonRequest::AddPolicy(policy(direction, PolicyClass::Regular, 1)));
    }
    let actions = |bench: &StateBench| bench.gateway.policies.iter().map(|p| p.action).collect::<Vec<_>>();
    let (old, new) = (Action::Protect(TunnelId(100)), Action::Protect(TunnelId(101)));
    assert_eq!(actions(&bench), [old, new], "the new one has no SA yet");
    let spi = bench.spi();
    bench.add(sa(id(spi, PEER, US), 1, true));
    bench.add(sa(id(0x6666, US, PEER), 1, false));
    assert_eq!(actions(&bench), [new, old]);

    let old_index = bench.number(old_spi);
    assert_eq!(bench.state.expired(old_index, Expiry::Hard, &mut bench.gateway), None, "it is unknown");
    let old_index = bench.number(0x5555);
    bench.state.expired(old_index, Expiry::Hard, &mut bench.gateway);
    assert_eq!(actions(&bench), [new], "the old policy goes with its last SA");
}

#[test]
fn policies_of_an_interface_are_kept_apart_by_its_number() {
    let mut bench = bench();
    bench.state = CharonState::new(StateConfig::default()).with_interfaces(HashMap::from([(42, 1), (43, 2)]));
    let on = |way, reqid, if_id| {
        let spec = policy(way, PolicyClass::Regular, reqid);
        CharonRequest::AddPolicy(PolicySpec { id: PolicyRef { if_id, ..spec.id }, ..spec })
    };
    for (reqid, if_id) in [(1, 42), (2, 43)] {
        for way in WAYS {
            bench.good(on(way, reqid, if_id));
        }
    }
    let interfaces: Vec<u16> = bench.gateway.policies.iter().map(|policy| policy.interface).collect();
    assert_eq!(interfaces, [1, 2], "the same selectors twice");
    let (status, reason) = bench.refused(on(WirePolicyDirection::Out, 3, 44));
    assert_eq!(status, ReplyStatus::Failed);
    assert!(reason.contains("no [[interface]] of the gateway has if_id = 44"), "{reason}");
    let (_, reason) = bench.refused(on(WirePolicyDirection::In, 1, 43));
    assert!(reason.contains("if_id_in and if_id_out"), "{reason}");
}

fn name(reqid: u32, mode: EncapMode) -> CharonRequest {
    CharonRequest::Name { reqid, mode, connection: "site-b".into(), child: "net".into() }
}

#[test]
fn a_mode_that_the_peer_did_not_agree_to_is_reported() {
    let mut bench = bench();
    bench.tunnel(7, 0x5555);
    bench.good(name(7, EncapMode::Tunnel));
    assert!(bench.gateway.warned.is_empty());
    bench.good(name(7, EncapMode::Aggfrag));
    assert_eq!(bench.gateway.warned, ["site-b/net: tunnel, not iptfs"]);
    bench.good(CharonRequest::AddPolicy(policy(WirePolicyDirection::Out, PolicyClass::Trap, 8)));
    bench.good(name(8, EncapMode::Aggfrag));
    assert_eq!(bench.gateway.warned.len(), 1, "a trap has no SA yet");
}

#[test]
fn names_are_kept_by_tunnel_and_shown_in_policies() {
    let mut bench = bench();
    let name = |reqid| name(reqid, EncapMode::Tunnel);
    assert_eq!(bench.refused(name(7)).0, ReplyStatus::NotFound);
    bench.tunnel(7, 0x5555);
    assert_eq!(bench.gateway.policies[0].name, "reqid 7");
    bench.good(name(7));
    assert_eq!(bench.gateway.policies[0].name, "site-b/net");
    assert_eq!(bench.state.name(TunnelId(100)).expect("named").to_string(), "site-b/net");
    assert_eq!(bench.state.reqid(TunnelId(100)), Some(7));
    let names =
        |bench: &StateBench| bench.gateway.names.values().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(&bench), ["site-b/net"]);
    bench.good(CharonRequest::FlushPolicies);
    assert_eq!(names(&bench), ["site-b/net"], "its SAs still have it");
    bench.good(CharonRequest::FlushSas);
    assert!(names(&bench).is_empty());
}

#[test]
fn flushing_leaves_nothing() {
    let mut bench = bench();
    bench.tunnel(7, 0x5555);
    bench.good(CharonRequest::FlushSas);
    assert_eq!((bench.gateway.sas.len(), bench.state.sa_count()), (0, 0));
    assert_eq!(bench.gateway.policies.len(), 1);
    bench.good(CharonRequest::FlushPolicies);
    assert!(bench.gateway.policies.is_empty());
    assert_eq!(bench.state.name(TunnelId(100)), None);
}

/// The gateway's expected policies, ordered by priority. Among equal priorities, those with an
/// outbound SA come first, then those of the newest charon, then the oldest policy. Of policies
/// that are identical for the gateway, the first one.
fn expected(state: &CharonState) -> Vec<Policy> {
    let mut all = state.policies.listed_entries();
    let has_way_out = |policy: &Policy| match policy.action {
        Action::Protect(id) => state.tunnels.get(id).is_some_and(|tunnel| !tunnel.outbound_sas.is_empty()),
        Action::Bypass | Action::Discard => true,
    };
    for (.., policy) in &mut all {
        if let Action::Protect(id) = policy.action
            && let Some(name) = state.name(id).filter(|name| !name.child.is_empty())
        {
            policy.name = name.to_string();
        }
    }
    all.sort_by_key(|(of, order, policy)| {
        (policy.priority, !has_way_out(policy), *of != state.session, *order)
    });
    let mut seen = HashSet::new();
    all.into_iter().map(|(.., policy)| policy).filter(|policy| seen.insert(policy.clone())).collect()
}

/// One of a few policies, so that duplicates are frequent.
fn any_policy() -> impl Strategy<Value = PolicySpec> {
    let kinds = prop_oneof![
        4 => Just(PolicyKind::Protect), 1 => Just(PolicyKind::Pass), 1 => Just(PolicyKind::Drop)
    ];
    let classes = prop_oneof![Just(PolicyClass::Regular), Just(PolicyClass::Trap)];
    let manual = prop_oneof![3 => Just(0u32), 1 => Just(7)];
    (0usize..3, kinds, classes, 0u32..4, 0u8..2, manual).prop_map(|(way, kind, class, reqid, net, manual)| {
        let mut spec = policy(WAYS[way], class, reqid);
        let there = selector(&format!("10.2.{net}.0"), 24);
        match WAYS[way] {
            WirePolicyDirection::Out => spec.id.destination = there,
            WirePolicyDirection::In | WirePolicyDirection::Forward => spec.id.source = there,
        }
        PolicySpec { kind, manual_priority: manual, ..spec }
    })
}

proptest! {
    #[test]
    fn what_changes_one_by_one_is_what_all_would_be_in_their_order(
        steps in proptest::collection::vec((0u8..12, any_policy(), 0u32..6), 1..60),
    ) {
        let mut bench = bench();
        for (what, spec, spi) in steps {
            let outbound = id(0x9000 + spi, US, PEER);
            let request = match what {
                0..=4 => CharonRequest::AddPolicy(spec),
                5 | 6 => CharonRequest::DelPolicy(spec),
                7 => CharonRequest::AddSa(Box::new(sa(outbound, spec.reqid, false))),
                8 => CharonRequest::DelSa(outbound),
                9 => {
                    let (mode, child) = (EncapMode::Tunnel, format!("n{spi}"));
                    CharonRequest::Name { reqid: spec.reqid, mode, connection: "c".into(), child }
                },
                10 => CharonRequest::FlushPolicies,
                _ => {
                    bench.state.connect(u64::from(spi) + 1, &mut bench.gateway);
                    continue;
                }
            };
            bench.ask(request);
            prop_assert_eq!(&bench.gateway.policies, &expected(&bench.state));
        }
    }
}

#[test]
fn one_tunnel_more_changes_as_much_among_thousands_as_alone() {
    let mut bench = bench();
    let steps: Vec<usize> = (1..3_000u32)
        .map(|reqid| {
            let before = bench.gateway.steps;
            bench.good(CharonRequest::AddSa(Box::new(sa(id(0x10_0000 + reqid, US, PEER), reqid, false))));
            for way in WAYS {
                bench.good(CharonRequest::AddPolicy(policy(way, PolicyClass::Regular, reqid)));
            }
            let (mode, child) = (EncapMode::Tunnel, format!("net{reqid}"));
            bench.good(CharonRequest::Name { reqid, mode, connection: "hub".into(), child });
            bench.gateway.steps - before
        })
        .collect();
    assert!(steps.iter().all(|steps| *steps == 2), "the policy that comes, and its name");
}
