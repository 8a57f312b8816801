//! Who the peers of tunnels are, and whether they answer.

use std::collections::{BTreeMap, BTreeSet};

use convoy_report::snapshot::{ConfiguredRow, IkePeerRow, MonitorRow, Snapshot};

use super::family::{Encoder, gauges, infos, label};

/// Whether each tunnel of the configuration can be used.
pub(super) fn usable(encoder: &mut Encoder<'_>, snapshot: &Snapshot) -> std::fmt::Result {
    let help = "1 while a tunnel of the configuration has SAs in both directions and a peer, else 0";
    let value = |(row, is_usable): (&ConfiguredRow, bool)| {
        ([label("tunnel", &row.name)], f64::from(u8::from(is_usable)))
    };
    gauges(encoder, "tunnel_up", help, snapshot.usable().into_iter().map(value))
}

/// What the probes of tunnels say.
pub(super) fn probes(encoder: &mut Encoder<'_>, rows: &[MonitorRow]) -> std::fmt::Result {
    let known = || rows.iter().filter(|row| row.is_answered() || row.is_lost());
    let labels = |row: &MonitorRow| [label("tunnel", &row.tunnel)];
    let answered = known().map(|row| (labels(row), f64::from(u8::from(row.is_answered()))));
    let help = "1 while the probes of a tunnel's monitor are answered, 0 while they are not";
    gauges(encoder, "tunnel_probe_answered", help, answered)?;
    let trips = known().filter_map(|row| Some((labels(row), row.round_trip_s?)));
    let help = "The average round trip of the probes of a tunnel's monitor";
    gauges(encoder, "tunnel_probe_round_trip_seconds", help, trips)?;
    let share = |row: &MonitorRow| row.unanswered as f64 / row.recent.max(1) as f64;
    let help = "The share of the last 64 probes of a tunnel's monitor that had no answer";
    gauges(encoder, "tunnel_probe_loss_ratio", help, known().map(|row| (labels(row), share(row))))
}

/// Who the peers of charon's tunnels are, each once.
pub(super) fn identities(encoder: &mut Encoder<'_>, snapshot: &Snapshot) -> std::fmt::Result {
    let Some(charon) = &snapshot.charon else { return Ok(()) };
    let names: BTreeMap<u32, &str> =
        snapshot.sas.iter().map(|sa| (sa.tunnel_id, sa.tunnel.as_str())).collect();
    let known = |(id, peer): (&u32, &IkePeerRow)| {
        let IkePeerRow { identity, virtual_ips, key_exchange } = peer.clone();
        Some([(*names.get(id)?).to_owned(), identity, virtual_ips, key_exchange])
    };
    let peers: BTreeSet<[String; 4]> = charon.peers.iter().filter_map(known).collect();
    let rows = peers.into_iter().map(|[tunnel, identity, virtual_ips, key_exchange]| {
        [
            label("tunnel", tunnel),
            label("identity", identity),
            label("virtual_ips", virtual_ips),
            label("key_exchange", key_exchange),
        ]
    });
    infos(encoder, "tunnel_peer", "The peer of each of charon's tunnels", rows)
}

#[cfg(test)]
mod tests {
    use convoy_report::snapshot::{CharonRow, SaRow};

    use super::super::tests::assert_lines;
    use super::*;

    #[test]
    fn peers_are_reported_once_with_identity_and_key_exchange() {
        let peer = |identity: &str| IkePeerRow {
            identity: identity.to_owned(),
            virtual_ips: String::new(),
            key_exchange: "x25519+mlkem768".to_owned(),
        };
        let peers = [(7, peer("b.example")), (8, peer("b.example")), (9, peer("of no SA"))].into();
        let sa = |tunnel_id| SaRow { tunnel: "site/net".to_owned(), tunnel_id, ..SaRow::default() };
        let snapshot = Snapshot {
            charon: Some(CharonRow { peers, ..CharonRow::default() }),
            sas: vec![sa(7), sa(8)],
            ..Snapshot::default()
        };
        assert_lines(
            &snapshot,
            &[
                r#"convoy_tunnel_peer_info{tunnel="site/net",identity="b.example",virtual_ips="",key_exchange="x25519+mlkem768"} 1"#,
            ],
        );
    }

    #[test]
    fn probes_are_reported_once_it_is_known_whether_they_are_answered() {
        let row = |tunnel: &str, state: &str| MonitorRow {
            tunnel: tunnel.to_owned(),
            state: state.to_owned(),
            round_trip_s: Some(0.5),
            recent: 4,
            unanswered: 1,
            ..MonitorRow::default()
        };
        let monitors = vec![row("a", "answered"), row("b", "lost"), row("c", "unknown")];
        assert_lines(
            &Snapshot { monitors, ..Snapshot::default() },
            &[
                r#"convoy_tunnel_probe_answered{tunnel="a"} 1.0"#,
                r#"convoy_tunnel_probe_answered{tunnel="b"} 0.0"#,
                r#"convoy_tunnel_probe_round_trip_seconds{tunnel="a"} 0.5"#,
                r#"convoy_tunnel_probe_loss_ratio{tunnel="a"} 0.25"#,
            ],
        );
    }
}
