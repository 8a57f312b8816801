//! Every message survives encoding and decoding. Decoding never panics, and accepts only what
//! encoding produces.

use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;

use super::*;

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![any::<[u8; 4]>().prop_map(IpAddr::from), any::<[u8; 16]>().prop_map(IpAddr::from)]
}

fn host() -> impl Strategy<Value = SocketAddr> {
    (address(), any::<u16>()).prop_map(SocketAddr::from)
}

fn protocol() -> impl Strategy<Value = SaProtocolId> {
    prop_oneof![Just(SaProtocolId::Esp), Just(SaProtocolId::Ah)]
}

fn sa_id() -> impl Strategy<Value = WireSaId> {
    (any::<u32>(), protocol(), host(), host()).prop_map(|(spi, protocol, source, destination)| WireSaId {
        spi,
        protocol,
        source,
        destination,
    })
}

fn mode() -> impl Strategy<Value = EncapMode> {
    prop_oneof![
        Just(EncapMode::Transport),
        Just(EncapMode::Tunnel),
        Just(EncapMode::Beet),
        Just(EncapMode::Aggfrag)
    ]
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..=KEY_BYTES)
}

fn keys() -> impl Strategy<Value = WireSaKeys> {
    (any::<u16>(), any::<u16>(), key(), key()).prop_map(
        |(encryption, integrity, encryption_key, integrity_key)| WireSaKeys {
            encryption,
            integrity,
            encryption_key,
            integrity_key,
        },
    )
}

fn lifetimes() -> impl Strategy<Value = Lifetimes> {
    any::<[u64; 6]>().prop_map(|[soft_s, hard_s, soft_bytes, hard_bytes, soft_packets, hard_packets]| {
        Lifetimes { soft_s, hard_s, soft_bytes, hard_bytes, soft_packets, hard_packets }
    })
}

fn dscp() -> impl Strategy<Value = Dscp> {
    prop_oneof![Just(Dscp::Out), Just(Dscp::In), Just(Dscp::Both), Just(Dscp::Neither)]
}

fn iptfs() -> impl Strategy<Value = IptfsOptions> {
    (any::<[u32; 5]>(), any::<bool>()).prop_map(|(numbers, dont_frag)| {
        let [drop_time_us, reorder_window, init_delay_us, max_queue_size, packet_size] = numbers;
        IptfsOptions { drop_time_us, reorder_window, init_delay_us, max_queue_size, packet_size, dont_frag }
    })
}

fn resource() -> impl Strategy<Value = Option<u32>> {
    proptest::option::of(0..u32::MAX)
}

fn add_sa() -> impl Strategy<Value = AddSa> {
    let numbers = (any::<u32>(), any::<u32>(), any::<u32>(), any::<u16>(), any::<u16>(), resource());
    (sa_id(), mode(), any::<[bool; 6]>(), dscp(), numbers, lifetimes(), keys(), iptfs()).prop_map(
        |(id, mode, flags, dscp, numbers, lifetimes, keys, iptfs)| {
            let (reqid, replay_window, tfc_bytes, ipcomp, cpi, resource) = numbers;
            let [is_inbound, is_reserved, is_encapsulated, esn, copy_df, copy_ecn] = flags;
            AddSa {
                id,
                reqid,
                mode,
                is_inbound,
                is_reserved,
                is_encapsulated,
                esn,
                copy_df,
                copy_ecn,
                dscp,
                replay_window,
                tfc_bytes,
                ipcomp,
                cpi,
                resource,
                lifetimes,
                keys,
                iptfs: (mode == EncapMode::Aggfrag).then_some(iptfs),
            }
        },
    )
}

fn selector() -> impl Strategy<Value = WireSelector> {
    let ends = prop_oneof![
        any::<[[u8; 4]; 2]>().prop_map(|ends| ends.map(IpAddr::from)),
        any::<[[u8; 16]; 2]>().prop_map(|ends| ends.map(IpAddr::from)),
    ];
    (ends, any::<u8>(), any::<u16>(), any::<u16>()).prop_map(
        |([first, last], protocol, first_port, last_port)| WireSelector {
            first,
            last,
            protocol,
            first_port,
            last_port,
        },
    )
}

fn policy_ref() -> impl Strategy<Value = PolicyRef> {
    let direction = prop_oneof![
        Just(WirePolicyDirection::In),
        Just(WirePolicyDirection::Out),
        Just(WirePolicyDirection::Forward)
    ];
    (direction, any::<u32>(), selector(), selector()).prop_map(|(direction, if_id, source, destination)| {
        PolicyRef { direction, if_id, source, destination }
    })
}

fn policy() -> impl Strategy<Value = PolicySpec> {
    let kind = prop_oneof![Just(PolicyKind::Protect), Just(PolicyKind::Pass), Just(PolicyKind::Drop)];
    let class = prop_oneof![
        Just(PolicyClass::Pass),
        Just(PolicyClass::Regular),
        Just(PolicyClass::Trap),
        Just(PolicyClass::Fallback)
    ];
    (policy_ref(), kind, class, mode(), any::<bool>(), any::<u32>(), any::<u32>()).prop_map(
        |(id, kind, class, mode, is_per_resource, reqid, manual_priority)| PolicySpec {
            id,
            kind,
            class,
            mode,
            is_per_resource,
            reqid,
            manual_priority,
        },
    )
}

fn request() -> impl Strategy<Value = CharonRequest> {
    let get_spi = (protocol(), host(), host())
        .prop_map(|(protocol, source, destination)| CharonRequest::GetSpi { protocol, source, destination });
    let update = (sa_id(), host(), host(), any::<bool>(), any::<u32>()).prop_map(
        |(id, source, destination, is_encapsulated, reqid)| {
            CharonRequest::UpdateSa(UpdateSa { id, source, destination, is_encapsulated, reqid })
        },
    );
    let name = (any::<u32>(), mode(), "\\PC{0,30}", "\\PC{0,30}")
        .prop_map(|(reqid, mode, connection, child)| CharonRequest::Name { reqid, mode, connection, child });
    let kind = prop_oneof![
        Just(ReportKind::Answered),
        (any::<u8>(), any::<u16>()).prop_map(|(exchange, notify)| ReportKind::Received { exchange, notify }),
        (any::<u8>(), any::<u16>()).prop_map(|(exchange, notify)| ReportKind::Sent { exchange, notify }),
        any::<u16>().prop_map(|again| ReportKind::NoAnswer { again }),
        Just(ReportKind::GaveUp),
        Just(ReportKind::NoAddress),
        "\\PC{0,30}".prop_map(|subject| ReportKind::CertificateExpired { subject }),
        "\\PC{0,30}".prop_map(|subject| ReportKind::CertificateRevoked { subject }),
        "\\PC{0,30}".prop_map(|subject| ReportKind::CertificateUntrusted { subject }),
    ];
    let report = (any::<u32>(), kind, host(), "\\PC{0,30}").prop_map(|(number, kind, peer, connection)| {
        CharonRequest::IkeReport(IkeReport { number, kind, peer, connection })
    });
    let numbers = any::<[u16; KEY_EXCHANGES]>();
    let peer = (any::<u32>(), "\\PC{0,30}", "\\PC{0,30}", numbers).prop_map(
        |(reqid, identity, virtual_ips, key_exchanges)| CharonRequest::Peer {
            reqid,
            peer: IkePeer { identity, virtual_ips, key_exchanges },
        },
    );
    let virtual_ip = (any::<IpAddr>(), any::<bool>())
        .prop_map(|(address, is_held)| CharonRequest::VirtualIp { address, is_held });
    prop_oneof![
        report,
        peer,
        virtual_ip,
        get_spi,
        add_sa().prop_map(|sa| CharonRequest::AddSa(Box::new(sa))),
        update,
        sa_id().prop_map(CharonRequest::QuerySa),
        sa_id().prop_map(CharonRequest::DelSa),
        Just(CharonRequest::FlushSas),
        policy().prop_map(CharonRequest::AddPolicy),
        policy_ref().prop_map(CharonRequest::QueryPolicy),
        policy().prop_map(CharonRequest::DelPolicy),
        Just(CharonRequest::FlushPolicies),
        name,
    ]
}

/// Seconds as on the wire, where one value means "never".
fn idle() -> impl Strategy<Value = Option<u32>> {
    proptest::option::of(0..u32::MAX)
}

/// A reply, and a kind of request that it can answer.
fn reply() -> impl Strategy<Value = (u16, CharonReply)> {
    use super::request::{ADD_SA, GET_SPI, QUERY_POLICY, QUERY_SA};
    let status = prop_oneof![
        Just(ReplyStatus::Failed),
        Just(ReplyStatus::NotFound),
        Just(ReplyStatus::NotSupported),
        Just(ReplyStatus::StandsBy)
    ];
    prop_oneof![
        Just((ADD_SA, CharonReply::DONE)),
        any::<u32>().prop_map(|spi| (GET_SPI, CharonReply::Good(ReplyBody::Spi(spi)))),
        (any::<u64>(), any::<u64>(), idle()).prop_map(|(bytes, packets, idle_s)| {
            (QUERY_SA, CharonReply::Good(ReplyBody::SaUse { bytes, packets, idle_s }))
        }),
        idle().prop_map(|idle_s| (QUERY_POLICY, CharonReply::Good(ReplyBody::PolicyUse { idle_s }))),
        (status, "\\PC{0,60}").prop_map(|(status, reason)| (ADD_SA, CharonReply::refused(status, reason))),
    ]
}

fn event() -> impl Strategy<Value = SaEvent> {
    prop_oneof![
        (any::<u32>(), protocol(), host(), any::<bool>()).prop_map(
            |(spi, protocol, destination, is_hard)| SaEvent::Expire { spi, protocol, destination, is_hard }
        ),
        (any::<u32>(), resource(), selector(), selector()).prop_map(
            |(reqid, resource, source, destination)| SaEvent::Acquire {
                reqid,
                resource,
                source,
                destination
            }
        ),
        (any::<u32>(), protocol(), host(), host()).prop_map(|(spi, protocol, destination, source)| {
            SaEvent::Mapping { spi, protocol, destination, source }
        }),
    ]
}

fn record() -> impl Strategy<Value = SaRecord> {
    let policies = proptest::collection::vec((any::<u64>(), policy()), 0..20);
    (any::<u64>(), any::<u64>(), add_sa(), "\\PC{0,30}", "\\PC{0,30}", policies).prop_map(
        |(session, installed_ms, sa, connection, child, policies)| SaRecord {
            session,
            installed_ms,
            sa,
            connection,
            child,
            policies,
        },
    )
}

proptest! {
    #[test]
    fn records_come_back_as_they_were_and_no_part_of_one_is_read(record in record(), cut in any::<usize>()) {
        let bytes = record.encode();
        prop_assert!(SaRecord::is_one(&bytes));
        prop_assert_eq!(SaRecord::decode(&bytes), Ok(record));
        prop_assert!(SaRecord::decode(&bytes[..cut % bytes.len()]).is_err());
    }

    #[test]
    fn a_record_of_any_bytes_is_read_as_it_would_be_written(mut bytes in proptest::collection::vec(any::<u8>(), 8..1200)) {
        bytes[..8].copy_from_slice(&[160, 0, 0, 0, 0, 0, 0, 0]);
        if let Ok(record) = SaRecord::decode(&bytes) {
            prop_assert_eq!(&record.encode()[..], &bytes[..]);
        }
    }

    #[test]
    fn requests_come_back_as_they_were(request in request(), id in any::<u32>()) {
        prop_assert_eq!(CharonRequest::decode(&request.encode(id)), Ok((id, request)));
    }

    #[test]
    fn replies_come_back_as_they_were((kind, reply) in reply(), id in any::<u32>()) {
        prop_assert_eq!(CharonReply::decode(&reply.encode(kind, id)), Ok((id, reply)));
    }

    #[test]
    fn events_come_back_as_they_were(event in event()) {
        prop_assert_eq!(SaEvent::decode(&event.encode()), Ok(event));
    }

    #[test]
    fn datagrams_come_back_as_they_were(
        source in host(),
        destination in host(),
        payload in proptest::collection::vec(any::<u8>(), 0..2000),
    ) {
        let datagram = Datagram { source, destination, payload };
        prop_assert_eq!(Datagram::decode(&datagram.encode()), Ok(datagram));
    }

    #[test]
    fn a_message_that_is_cut_short_is_no_message(request in request(), cut in any::<prop::sample::Index>()) {
        let bytes = request.encode(1);
        prop_assert!(CharonRequest::decode(&bytes[..cut.index(bytes.len())]).is_err());
    }

    #[test]
    fn any_bytes_are_refused_or_are_what_encoding_makes(
        kind in 0u16..160,
        rest in proptest::collection::vec(0u8..6, 0..300),
    ) {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend([0, 0, 0, 0, 0, 0]);
        bytes.extend(rest);
        if let Ok((id, request)) = CharonRequest::decode(&bytes) {
            prop_assert_eq!(&request.encode(id)[..], &bytes[..]);
        }
        if let Ok((id, reply)) = CharonReply::decode(&bytes) {
            prop_assert_eq!(&reply.encode(kind & !0x80, id)[..], &bytes[..]);
        }
        if let Ok(event) = SaEvent::decode(&bytes) {
            prop_assert_eq!(&event.encode()[..], &bytes[..]);
        }
    }
}

#[test]
fn hellos_of_another_version_and_strangers_are_distinguished() {
    let hello = Hello { role: Role::Events, session: 7, charon: "5.9.8".to_owned() };
    let mut bytes = hello.encode();
    assert_eq!(Hello::decode(&bytes), Ok(hello));
    bytes[12] = 9;
    assert_eq!(Hello::decode(&bytes), Err(DecodeError::Version(9)));
    bytes[8] = b'X';
    assert_eq!(Hello::decode(&bytes), Err(DecodeError::Field("magic")));
    let welcome = Welcome {
        status: ReplyStatus::Failed,
        generation: u64::MAX,
        ike_port: 500,
        natt_port: 4500,
        text: "another charon is connected".to_owned(),
    };
    assert_eq!(Welcome::decode(&welcome.encode()), Ok(welcome));
}

#[test]
fn a_long_reason_is_cut_between_characters() {
    let reply = CharonReply::refused(ReplyStatus::Failed, "é".repeat(TEXT_BYTES));
    let (_, CharonReply::Refused { reason, .. }) =
        CharonReply::decode(&reply.encode(17, 1)).expect("a reply")
    else {
        panic!("a refusal")
    };
    assert_eq!(reason, "é".repeat(TEXT_BYTES / 2));
}

#[test]
fn keys_are_not_printed() {
    let keys =
        WireSaKeys { encryption: 20, integrity: 0, encryption_key: vec![0xab; 20], integrity_key: vec![] };
    let text = format!("{keys:?}");
    assert!(text.contains("20") && !text.contains("171") && !text.contains("ab"), "{text}");
}

#[test]
fn ip_tfs_is_there_since_strongswan_6_0_2() {
    let has_iptfs =
        |charon: &str| Hello { role: Role::Control, session: 1, charon: charon.into() }.has_iptfs();
    for old in ["5.9.14", "6.0.1", "6.0", "6.0.1-rc2", "", "unknown"] {
        assert!(!has_iptfs(old), "{old}");
    }
    for new in ["6.0.2", "6.0.10", "6.1", "6.1.0", "7.0beta1"] {
        assert!(has_iptfs(new), "{new}");
    }
}
