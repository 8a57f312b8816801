//! Selecting, sorting and paging of tunnels, and what an answer has.

use convoy_report::snapshot::{ConfiguredRow, SaRow};
use serde_json::Value;

use super::*;

/// The tunnels, each with its name and the bytes that it has carried in each direction.
fn snapshot(uptime_s: f64, tunnels: &[(String, u64)]) -> Snapshot {
    let sa = |direction: &str, at: u32, name: &str, bytes: u64| SaRow {
        tunnel: name.to_owned(),
        tunnel_id: at,
        direction: direction.to_owned(),
        remote: format!("192.0.2.{at}"),
        packets: bytes / 100,
        bytes,
        last_used_s: Some(1.0),
        ..SaRow::default()
    };
    let both = |(at, (name, bytes)): (u32, &(String, u64))| {
        ["outbound", "inbound"].map(|direction| sa(direction, at, name, *bytes))
    };
    let configured = |name: &String| ConfiguredRow { name: name.clone(), ..ConfiguredRow::default() };
    Snapshot {
        uptime_s,
        sas: (1..).zip(tunnels).flat_map(both).collect(),
        configured: tunnels.iter().map(|(name, _)| configured(name)).collect(),
        ..Snapshot::default()
    }
}

fn status(snapshot: &Snapshot, earlier: Option<&GatewayStatus>) -> GatewayStatus {
    GatewayStatus::of(snapshot, earlier, &Events::default())
}

fn answer(status: &GatewayStatus, query: &str) -> Value {
    serde_json::from_str(&status.json(&Query::parse(query).expect("a good query"))).expect("JSON")
}

fn names(answer: &Value) -> Vec<&str> {
    let rows = answer["rows"].as_array().expect("rows");
    rows.iter().map(|row| row["tunnel"].as_str().expect("a name")).collect()
}

#[test]
fn tunnels_are_filtered_sorted_and_have_rates() {
    let of = |bytes: [u64; 3]| ["c", "a", "B"].map(str::to_owned).into_iter().zip(bytes).collect::<Vec<_>>();
    let before = status(&snapshot(1.0, &of([0; 3])), None);
    let mut now = snapshot(3.0, &of([100, 200, 300]));
    now.sas.retain(|sa| sa.tunnel != "a" || sa.direction == "outbound");
    let now = status(&now, Some(&before));
    assert_eq!(names(&answer(&now, "")), ["a", "c", "B"], "what has a problem comes first");
    assert_eq!(names(&answer(&now, "sort=rate")), ["B", "c", "a"]);
    assert_eq!(names(&answer(&now, "sort=name&reverse=true")), ["c", "a", "B"]);
    assert_eq!(names(&answer(&now, "filter=b")), ["B"], "whatever the case");
    assert_eq!(names(&answer(&now, "filter=0.2.1")), ["c"], "by the peer's address");
    assert_eq!(names(&answer(&now, "state=not-up")), ["a"]);
    let answer = answer(&now, "state=up&filter=c");
    assert_eq!(answer["rows"][0]["in"]["bits_per_s"], 400.0, "100 bytes in two seconds");
    assert_eq!((&answer["tunnels"], &answer["selected"]), (&Value::from(3), &Value::from(1)));
    assert_eq!(answer["states"], serde_json::json!({"up": 2, "one-way": 1}));
}

#[test]
fn rates_begin_again_with_a_restarted_gateway() {
    let tunnels = [("a".to_owned(), 100)];
    let before = status(&snapshot(9.0, &tunnels), None);
    let now = status(&Snapshot { started_s: 5.0, ..snapshot(1.0, &tunnels) }, Some(&before));
    let answer = answer(&now, "");
    assert_eq!((&answer["in"], &answer["rows"][0]["in"]["bits_per_s"]), (&Value::Null, &Value::Null));
}

#[test]
fn a_page_of_ten_thousand_tunnels_has_the_rows_asked_for_and_is_small() {
    let tunnels: Vec<_> = (0..10_000).map(|at| (format!("tunnel-{at:05}"), at * 100)).collect();
    let reasons = convoy_ipsec::DropReason::ALL.iter();
    let drops = reasons.map(|reason| (reason.name().to_owned(), 1)).collect();
    let before = status(&snapshot(1.0, &tunnels), None);
    let now = status(&Snapshot { drops, ..snapshot(2.0, &tunnels) }, Some(&before));
    let third = answer(&now, "sort=name&page=3&rows=100");
    assert_eq!((names(&third)[0], names(&third).len()), ("tunnel-00200", 100));
    assert_eq!((&third["first"], &third["pages"]), (&Value::from(200), &Value::from(100)));
    let behind = answer(&now, "page=1000000");
    assert_eq!((&behind["page"], names(&behind).len()), (&Value::from(200), 50), "the last one");
    let none = answer(&now, "filter=nothing");
    assert_eq!((&none["page"], &none["pages"], names(&none).len()), (&Value::from(1), &Value::from(1), 0));
    let bytes = now.json(&Query::parse("rows=100").expect("good")).len();
    assert!(bytes < 200_000, "{bytes} bytes");
}

#[test]
fn a_name_with_any_characters_is_a_json_string() {
    let name = "</script><b onload=\"x\">\u{202e}\u{0}\n'`${x}".to_owned();
    let now = status(&snapshot(1.0, &[(name.clone(), 1)]), None);
    assert_eq!(names(&answer(&now, "")), [name]);
}
