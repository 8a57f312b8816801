use super::*;
use proptest::prelude::*;

fn ts(text: &str) -> TrafficSelector {
    text.parse().expect(text)
}

fn flow(source: &str, destination: &str, protocol: u8, ports: Option<(u16, u16)>) -> FlowKey {
    FlowKey::new(source.parse().expect(source), destination.parse().expect(destination), protocol, ports)
}

#[test]
fn what_swanctl_writes_is_read_and_written_back() {
    for text in [
        "10.1.0.0/24",
        "0.0.0.0/0",
        "::/0",
        "10.1.0.0/24[tcp/80]",
        "10.1.0.0/24[udp]",
        "10.0.0.1-10.0.0.9",
        "2001:db8::/32[ipv6-icmp/133]",
        "10.0.0.0/8[icmp/8(0)]",
        "10.0.0.0/8[icmp/8-11]",
        "10.0.0.0/8[icmp/3(4)-11(0)]",
        "2001:db8::1-2001:db8::7[sctp/1024-65535]",
        "10.0.0.0/8[any/53]",
        "10.0.0.0/8[udp/opaque]",
        "10.0.0.0/8[200]",
    ] {
        assert_eq!(ts(text).to_string(), text);
    }
    assert_eq!(ts("10.1.0.7/24").to_string(), "10.1.0.0/24", "host bits are ignored");
    assert_eq!(ts("10.1.0.7").to_string(), "10.1.0.7/32");
    assert_eq!(ts(" 10.1.0.0/24 [TCP/%any] "), ts("10.1.0.0/24[tcp]"));
}

#[test]
fn an_icmp_type_by_itself_is_any_code_as_strongswan_reads_it() {
    let ports = |text: &str| ts(&format!("10.1.0.0/24[{text}]")).ports;
    assert_eq!(ports("icmp/8"), Ports::Range(0x800, 0x8ff));
    assert_eq!(ports("ipv6-icmp/128-129"), Ports::Range(0x8000, 0x81ff));
    assert_eq!(ports("icmp/8(0)"), Ports::Range(0x800, 0x800));
    assert_eq!(ports("icmp/3(4)"), Ports::Range(0x304, 0x304));
    assert_eq!((ports("icmp/2048"), ports("icmp/0")), (Ports::Range(0x800, 0x800), Ports::Range(0, 0xff)));
    assert_eq!(ports("1/8"), ports("icmp/8"));
    assert_eq!(ports("udp/8"), Ports::Range(8, 8), "of other protocols it is a port");
    let selector = Selector { local: ts("10.1.0.0/24[icmp/8]"), remote: ts("10.2.0.0/24[icmp/8]") };
    let echo = |kind_and_code| flow("10.1.0.7", "10.2.0.1", 1, Some((kind_and_code, kind_and_code)));
    assert!(selector.matches_outbound(&echo(0x800)) && selector.matches_outbound(&echo(0x801)));
    assert!(!selector.matches_outbound(&echo(0x008)) && !selector.matches_outbound(&echo(0)));
}

#[test]
fn what_is_wrong_is_named() {
    let error = |text: &str| text.parse::<TrafficSelector>().expect_err(text).to_string();
    assert!(error("10.1.0/24").contains("`10.1.0` is not"));
    assert!(error("10.1.0.0/33").contains("prefix length of 0 to 32"));
    assert!(error("10.1.0.0/").contains("prefix length"));
    assert!(error("10.0.0.9-10.0.0.1").contains("lower first"));
    assert!(error("10.0.0.9-::1").contains("one family"));
    assert!(error("10.1.0.0/24[tcpp/80]").contains("`tcpp`: expected a protocol"));
    assert!(error("10.1.0.0/24[tcp/80-70]").contains("`80-70`: expected a port"));
    assert!(error("10.1.0.0/24[tcp/8(0)]").contains("expected a port"));
    assert!(error("10.1.0.0/24[icmp/8/0]").contains("`8/0`: expected a port"));
    assert!(error("10.1.0.0/24[icmp/256(0)]").contains("for ICMP a type such as `8`, or `type(code)`"));
    assert!(error("10.1.0.0/24[icmp/11-8]").contains("`11-8`"));
    assert!(error("10.1.0.0/24[tcp/80").contains("address[protocol/port]"));
}

#[test]
fn both_directions_match_and_others_do_not() {
    let selector = Selector { local: ts("10.1.0.0/24[tcp]"), remote: ts("10.2.0.0/24[tcp/80]") };
    let out = flow("10.1.0.7", "10.2.0.1", 6, Some((40_000, 80)));
    assert!(selector.matches_outbound(&out));
    assert!(selector.matches_inbound(&out.reversed()));
    assert!(!selector.matches_inbound(&out));
    assert!(!selector.matches_outbound(&flow("10.1.1.7", "10.2.0.1", 6, Some((40_000, 80)))));
    assert!(!selector.matches_outbound(&flow("10.1.0.7", "10.2.0.1", 17, Some((40_000, 80)))));
    assert!(!selector.matches_outbound(&flow("10.1.0.7", "10.2.0.1", 6, Some((80, 40_000)))));
}

#[test]
fn a_fragment_matches_any_and_opaque_but_no_port() {
    let fragment = flow("10.1.0.7", "10.2.0.1", 17, None);
    let whole = flow("10.1.0.7", "10.2.0.1", 17, Some((0, 0)));
    let with =
        |ports| Selector { local: ts("10.1.0.0/24"), remote: ts(&format!("10.2.0.0/24[udp/{ports}]")) };
    assert!(with("any").matches_outbound(&fragment) && with("any").matches_outbound(&whole));
    assert!(with("opaque").matches_outbound(&fragment) && !with("opaque").matches_outbound(&whole));
    assert!(!with("0-65535").matches_outbound(&fragment) && with("0-65535").matches_outbound(&whole));
}

#[test]
fn families_never_match_each_other() {
    let all = Selector { local: ts("0.0.0.0/0"), remote: ts("0.0.0.0/0") };
    assert!(!all.matches_outbound(&flow("::1", "::2", 6, Some((1, 2)))));
}

proptest! {
    #[test]
    fn a_prefix_holds_exactly_the_addresses_that_share_its_bits(base: u32, bits in 0u8..=32, other: u32) {
        let range = AddressRange::prefix(number_address(false, base.into()), bits).expect("within 32");
        let shared = (base ^ other).leading_zeros() >= u32::from(bits);
        prop_assert_eq!(range.contains(number_address(false, other.into())), shared);
        prop_assert_eq!(range.to_string().parse::<AddressRange>().expect("own text"), range);
    }

    #[test]
    fn every_range_prints_as_what_parses_back(a: u128, b: u128) {
        let range = AddressRange::new(number_address(true, a.min(b)), number_address(true, a.max(b)));
        let range = range.expect("in order");
        prop_assert_eq!(range.to_string().parse::<AddressRange>().expect("own text"), range);
    }

    #[test]
    fn every_range_is_its_prefixes_end_to_end(is_v6: bool, a: u128, b: u128, bits in 0u32..129) {
        let mask = u128::MAX.checked_shr(if is_v6 { bits } else { bits.max(96) }).unwrap_or(0);
        let number = |bits: u128| number_address(is_v6, bits & mask);
        let range = AddressRange::new(number((a & mask).min(b & mask)), number((a & mask).max(b & mask)));
        let range = range.expect("in order");
        let parts = range.prefixes().map(|(first, bits)| AddressRange::prefix(first, bits).expect("a prefix"));
        let parts: Vec<_> = parts.collect();
        prop_assert_eq!((parts[0].first, parts[parts.len() - 1].last), (range.first, range.last));
        prop_assert!(parts.windows(2).all(|two| two[0].last + 1 == two[1].first));
        let width = if is_v6 { 128 } else { 32 };
        prop_assert!(parts.len() <= 2 * width);
        if let Some(prefix) = range.as_prefix() {
            prop_assert_eq!(range.prefixes().collect::<Vec<_>>(), [prefix]);
        }
    }

    #[test]
    fn every_range_of_icmp_prints_as_what_parses_back(a: u16, b: u16) {
        let mut selector = ts("10.0.0.0/8[icmp]");
        selector.ports = Ports::Range(a.min(b), a.max(b));
        prop_assert_eq!(ts(&selector.to_string()), selector);
    }

    #[test]
    fn parsing_never_panics(text in "[0-9a-f.:/\\-\\[\\]()a-z%]{0,40}") {
        let _ = text.parse::<TrafficSelector>();
    }
}

proptest! {
    #[test]
    fn a_pair_that_matches_a_flow_can_match(
        (local, remote) in (0_usize..6, 0_usize..6),
        (protocol, known) in (0_u8..20, any::<bool>()),
        (from, to) in (any::<u16>(), any::<u16>()),
        is_v6 in any::<bool>(),
    ) {
        const SIDES: [&str; 6] =
            ["0.0.0.0/0", "0.0.0.0/0[tcp]", "0.0.0.0/0[udp/opaque]", "0.0.0.0/0[udp/0-65535]", "::/0", "::/0[udp/opaque]"];
        let pair = Selector { local: ts(SIDES[local]), remote: ts(SIDES[remote]) };
        let (source, destination) = if is_v6 { ("fd00::1", "fd00::2") } else { ("10.0.0.1", "10.0.0.2") };
        let flow = flow(source, destination, protocol, known.then_some((from, to)));
        prop_assert!(pair.can_match() || !pair.matches_outbound(&flow), "{pair}");
    }
}
