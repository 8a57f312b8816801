use super::*;
use proptest::prelude::*;

const HEADER: Ipv4Header = Ipv4Header {
    traffic_class: 0xb9,
    total_length: 24,
    identification: 0x1234,
    dont_fragment: true,
    time_to_live: 63,
    protocol: crate::protocol::UDP,
    source: Ipv4Addr::new(192, 0, 2, 1),
    destination: Ipv4Addr::new(198, 51, 100, 2),
};

fn packet() -> Vec<u8> {
    let mut packet = vec![9; 24];
    HEADER.write(&mut packet);
    packet
}

/// A packet of `header` (its first byte says how long it is) and no payload.
fn with_options(options: &[u8]) -> Vec<u8> {
    let mut packet = packet();
    packet.truncate(20);
    packet.extend(options);
    packet[0] = 0x40 | (packet.len() / 4) as u8;
    packet[3] = packet.len() as u8;
    packet
}

#[test]
fn what_is_written_is_read_back() {
    let packet = packet();
    let view = Ipv4::parse(&packet).expect("whole");
    assert_eq!((view.header_len(), view.traffic_class()), (20, 0xb9));
    assert_eq!((view.total_length(), view.identification()), (24, 0x1234));
    assert_eq!((view.dont_fragment(), view.fragment()), (true, None));
    assert_eq!((view.time_to_live(), view.protocol()), (63, 17));
    assert_eq!((view.source(), view.destination()), (HEADER.source, HEADER.destination));
    assert!(view.is_checksum_valid());
    assert_eq!(view.payload(), [9; 4]);
}

#[test]
fn bytes_behind_the_total_length_are_not_the_packets() {
    let padded = [packet(), vec![0; 22]].concat();
    assert_eq!(Ipv4::parse(&padded).expect("whole").as_bytes(), packet());
}

#[test]
fn lengths_and_version_are_checked() {
    let error = |change: fn(&mut Vec<u8>)| {
        let mut packet = packet();
        change(&mut packet);
        Ipv4::parse(&packet).err()
    };
    let length = |header, says, least| Some(HeaderError::Length { header, says, least, most: 24 });
    assert_eq!(error(|packet| packet[0] = 0x65), Some(HeaderError::Version { header: NAME, found: 6 }));
    assert_eq!(error(|packet| packet[0] = 0x44), length("IPv4 header", 16, 20));
    assert_eq!(error(|packet| packet[0] = 0x47), length("IPv4 header", 28, 20));
    assert_eq!(error(|packet| packet[3] = 25), length(NAME, 25, 20));
    assert_eq!(error(|packet| packet[3] = 19), length(NAME, 19, 20));
    assert_eq!(
        error(|packet| packet.truncate(19)),
        Some(HeaderError::TooShort { header: NAME, need: 20, have: 19 })
    );
}

#[test]
fn a_quoted_packet_may_end_behind_its_header() {
    let quoted = &packet()[..20];
    assert!(Ipv4::parse(quoted).is_err());
    let view = Ipv4::parse_quoted(quoted).expect("a header");
    assert_eq!((view.total_length(), view.payload()), (24, &[][..]));
    assert!(Ipv4::parse_quoted(&with_options(&[1; 4])[..20]).is_err());
}

#[test]
fn fragments_are_distinguished_from_whole_packets() {
    let fields = |word: u16| {
        let mut packet = packet();
        put_u16(&mut packet, 6, word);
        let view = Ipv4::parse(&packet).expect("whole");
        (view.fragment(), view.dont_fragment())
    };
    let fragment = |offset, more| Some(Fragment { identification: 0x1234, offset, more });
    assert_eq!(fields(0x2000), (fragment(0, true), false));
    assert_eq!(fields(0x00b9), (fragment(1_480, false), false));
    assert_eq!(fields(0x4000), (None, true));
    let mut packet = packet();
    let set = Fragment { identification: 7, offset: 65_528, more: true };
    set_fragment(&mut packet, set);
    assert_eq!(Ipv4::parse(&packet).expect("whole").fragment(), Some(set));
}

fn options(packet: &[u8]) -> Result<Vec<Ipv4Option>, HeaderError> {
    let header = &packet[..header_len(packet)];
    let (mut options, mut at) = (Vec::new(), HEADER_BYTES);
    while let Some(option) = Ipv4Option::parse(header, at)? {
        assert!(option.at >= at && option.end <= header.len());
        at = option.end;
        options.push(option);
    }
    Ok(options)
}

#[test]
fn options_are_walked_to_their_end() {
    // No-operation, record route, router alert (copied), end of options, and bytes behind it that
    // do not count.
    let options = options(&with_options(&[1, 7, 3, 4, 0x94, 4, 0, 0, 0, 7, 3, 4])).expect("whole");
    let places: Vec<_> = options.iter().map(|option| (option.kind, option.at, option.end)).collect();
    assert_eq!(places, [(7, 21, 24), (0x94, 24, 28)]);
    assert_eq!((options[0].is_copied(), options[1].is_copied()), (false, true));
}

#[test]
fn an_option_longer_than_the_header_or_without_length_is_an_error() {
    for bytes in [[7, 9, 4, 0], [7, 1, 4, 0], [1, 1, 1, 7]] {
        assert!(options(&with_options(&bytes)).is_err(), "{bytes:?}");
    }
    assert_eq!(options(&with_options(&[1; 4])), Ok(vec![]));
}

#[test]
fn setters_change_their_field() {
    let mut packet = packet();
    set_total_length(&mut packet, 22);
    fill_checksum(&mut packet);
    set_traffic_class(&mut packet, 3);
    set_time_to_live(&mut packet, 1);
    let view = Ipv4::parse(&packet).expect("whole");
    assert!(view.is_checksum_valid());
    assert_eq!((view.total_length(), view.traffic_class(), view.time_to_live()), (22, 3, 1));
}

proptest! {
    #[test]
    fn any_bytes_give_a_view_inside_them_or_an_error(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), first in 0x40u8..0x50, fits: bool) {
        if let Some(byte) = bytes.first_mut() { *byte = first; }
        let len = bytes.len();
        if fits && len > 3 { put_u16(&mut bytes, 2, len as u16); }
        if let Ok(view) = Ipv4::parse(&bytes) {
            let _ = (view.source(), view.destination(), view.fragment(), view.is_checksum_valid());
            let _ = options(&bytes);
            prop_assert_eq!(view.header_len() + view.payload().len(), usize::from(view.total_length()));
        }
    }

    #[test]
    fn a_setter_gives_the_checksum_that_computing_again_gives(class: u8, hops: u8) {
        let mut packet = packet();
        set_traffic_class(&mut packet, class);
        set_time_to_live(&mut packet, hops);
        let mut again = packet.clone();
        Ipv4Header { traffic_class: class, time_to_live: hops, ..HEADER }.write(&mut again);
        prop_assert_eq!(packet, again);
    }
}
