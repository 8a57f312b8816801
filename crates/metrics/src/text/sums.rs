//! Tunnels and SAs as a whole: few series, however many tunnels there are.

use std::collections::BTreeMap;

use convoy_report::snapshot::{SaRow, Snapshot};

use super::family::{Encoder, gauges, label, single_gauge};
use super::numbers_left;

/// Tunnels whose own series are written, at most, unless the configuration says otherwise.
const TUNNELS: usize = 100;
/// SAs whose own series are written, at most, unless the configuration says otherwise. Peers of one
/// connection of charon's are one tunnel.
const SAS: usize = 1_000;
/// A tunnel is in use if it sent a packet within this time, in seconds,
const IN_USE_S: f64 = 60.0;
/// and silent if it has received none for this time.
const SILENT_S: f64 = 600.0;

/// Whether each tunnel and SA gets series of its own.
pub(super) fn has_each(per_tunnel: Option<bool>, snapshot: &Snapshot) -> bool {
    per_tunnel.unwrap_or(snapshot.tunnels.len() <= 2 * TUNNELS && snapshot.sas.len() <= SAS)
}

/// Series that `tunnels` with an SA in each direction have of their own: the most that one has.
pub(crate) fn series_of(tunnels: usize) -> usize {
    // Whether it is up; packets and bytes of each direction; info, age, idle time, lifetime and
    // sequence number of each SA, and path MTU and numbers left of the outbound one.
    tunnels * (1 + 2 * (2 + 5) + 2)
}

/// Whether so many configured tunnels get series of their own.
pub(crate) fn are_few(tunnels: usize) -> bool {
    tunnels <= TUNNELS
}

/// Writes the sums.
pub(super) fn sums(encoder: &mut Encoder<'_>, snapshot: &Snapshot) -> std::fmt::Result {
    let quiet = quiet_times(&snapshot.sas);
    single_gauge(encoder, "tunnels", "Tunnels that have SAs", quiet.len() as f64)?;
    let help = "Tunnels that sent a packet within a minute and have received none for ten minutes";
    let is_silent = |[out, back]: &&[f64; 2]| *out < IN_USE_S && *back > SILENT_S;
    single_gauge(encoder, "silent_tunnels", help, quiet.values().filter(is_silent).count() as f64)?;
    let down = snapshot.usable().iter().filter(|(_, is_usable)| !is_usable).count();
    let help = "Tunnels of the configuration without SAs in both directions, or without a peer";
    single_gauge(encoder, "down_tunnels", help, down as f64)?;
    let counts = ["outbound", "inbound"].map(|direction| {
        let count = snapshot.sas.iter().filter(|row| row.direction == direction).count();
        ([label("direction", direction)], count as f64)
    });
    gauges(encoder, "sas", "Installed SAs", counts)?;
    let parts = snapshot.sas.iter().filter_map(|row| row.lifetime_part).reduce(f64::max);
    let help = "The greatest convoy_sa_lifetime_used_ratio of all SAs";
    one(encoder, "sas_lifetime_used_ratio_max", help, parts)?;
    let left = snapshot.sas.iter().filter_map(numbers_left).map(|(_, left)| left).reduce(f64::min);
    let help = "The least convoy_sa_sequence_numbers_left of all SAs";
    one(encoder, "sas_sequence_numbers_left_min", help, left)?;
    let mtu = snapshot.sas.iter().filter_map(|row| row.path_mtu).min().map(f64::from);
    let help = "The least convoy_sa_path_mtu_bytes of all SAs";
    one(encoder, "sas_path_mtu_bytes_min", help, mtu)
}

/// A gauge that is absent as long as it has no value.
fn one(encoder: &mut Encoder<'_>, name: &str, help: &str, value: Option<f64>) -> std::fmt::Result {
    value.map_or(Ok(()), |value| single_gauge(encoder, name, help, value))
}

/// For each tunnel that has SAs, the seconds since its last packet outbound and inbound. One
/// without a packet counts from its SA's beginning inbound, and outbound has none.
fn quiet_times(rows: &[SaRow]) -> BTreeMap<(&str, u32), [f64; 2]> {
    let mut quiet = BTreeMap::new();
    for row in rows {
        let times = quiet.entry((row.tunnel.as_str(), row.tunnel_id)).or_insert([f64::INFINITY; 2]);
        let is_outbound = row.direction == "outbound";
        let unused = if is_outbound { f64::INFINITY } else { row.age_s };
        let time = &mut times[usize::from(!is_outbound)];
        *time = time.min(row.last_used_s.unwrap_or(unused));
    }
    quiet
}

#[cfg(test)]
mod tests {
    use convoy_report::snapshot::{ConfiguredRow, TunnelRow};

    use super::*;
    use crate::write;

    fn sa(tunnel: u32, direction: &str, age_s: f64, last_used_s: Option<f64>) -> SaRow {
        let is_outbound = direction == "outbound";
        SaRow {
            tunnel: format!("site-{tunnel}"),
            tunnel_id: tunnel,
            direction: direction.to_owned(),
            age_s,
            last_used_s,
            path_mtu: is_outbound.then_some(1_400 + tunnel as u16),
            lifetime_part: Some(f64::from(tunnel) / 10.0),
            ..SaRow::default()
        }
    }

    fn lines(snapshot: &Snapshot, per_tunnel: Option<bool>) -> Vec<String> {
        let mut text = String::new();
        write(&mut text, snapshot.clone(), per_tunnel).expect("a string takes whatever is written");
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[test]
    fn the_sums_say_how_many_there_are_and_the_worst_of_each_kind() {
        let sas = vec![
            // It gets answers; its SAs have been replaced.
            sa(1, "outbound", 5.0, Some(1.0)),
            sa(1, "inbound", 5.0, None),
            sa(1, "inbound", 3_000.0, Some(2.0)),
            // It gets none, by an SA that had some and by one that had none.
            sa(2, "outbound", 3_000.0, Some(1.0)),
            sa(2, "inbound", 3_000.0, Some(700.0)),
            sa(3, "outbound", 700.0, Some(1.0)),
            sa(3, "inbound", 700.0, None),
            // Its peer has had no time to answer, or nothing to answer.
            sa(4, "outbound", 5.0, Some(1.0)),
            sa(4, "inbound", 5.0, None),
            sa(5, "outbound", 5_000.0, None),
            sa(5, "inbound", 5_000.0, None),
        ];
        let configured = |name: &str| ConfiguredRow { name: name.to_owned(), ..ConfiguredRow::default() };
        let configured = ["site-5", "site-6"].map(configured).to_vec();
        let lines = lines(&Snapshot { configured, sas, ..Snapshot::default() }, None);
        for line in [
            "convoy_tunnels 5.0",
            "convoy_silent_tunnels 2.0",
            "convoy_down_tunnels 1.0",
            "convoy_tunnel_up{tunnel=\"site-5\"} 1.0",
            "convoy_tunnel_up{tunnel=\"site-6\"} 0.0",
            "convoy_sas{direction=\"outbound\"} 5.0",
            "convoy_sas{direction=\"inbound\"} 6.0",
            "convoy_sas_lifetime_used_ratio_max 0.5",
            "convoy_sas_sequence_numbers_left_min 4294967295.0",
            "convoy_sas_path_mtu_bytes_min 1401.0",
        ] {
            assert!(lines.iter().any(|found| found == line), "{line}: {lines:?}");
        }
    }

    #[test]
    fn many_tunnels_have_series_of_their_own_only_if_the_configuration_says_so() {
        let snapshot = |count: u32| {
            let of = |direction| move |at| sa(at, direction, 5.0, Some(1.0));
            let row =
                |sa: SaRow| TunnelRow { tunnel: sa.tunnel, direction: sa.direction, ..TunnelRow::default() };
            let sas: Vec<_> = (0..count).map(of("outbound")).chain((0..count).map(of("inbound"))).collect();
            let configured = |at| ConfiguredRow { name: format!("site-{at}"), ..ConfiguredRow::default() };
            Snapshot {
                configured: (0..count).map(configured).collect(),
                tunnels: sas.iter().cloned().map(row).collect(),
                sas,
                ..Snapshot::default()
            }
        };
        let own = |count: u32, per_tunnel| {
            let is_own = |line: &&String| line.contains("tunnel=\"");
            lines(&snapshot(count), per_tunnel).iter().filter(is_own).count()
        };
        let most = TUNNELS as u32;
        assert_eq!([own(most, None), own(most + 1, None)], [series_of(TUNNELS), 0]);
        assert_eq!([own(2, Some(false)), own(most + 1, Some(true))], [0, series_of(TUNNELS + 1)]);
        assert_eq!(lines(&snapshot(10), Some(false)).len(), lines(&snapshot(1_000), None).len());
    }
}
