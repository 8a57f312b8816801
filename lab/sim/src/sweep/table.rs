//! Results as a table with one row for each point.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use serde_json::{Map, Value};

use super::SweepError;
use super::results::Line;

const MEASURES: [&str; 6] = [
    "average_length_scheduled",
    "packets_per_multipacket",
    "throughput_mbps",
    "latency_ms",
    "sojourn_ms",
    "bus_conflicts",
];

/// Writes all points in order. Shares and lengths have one column for each processor.
pub(super) fn write(lines: &[Line], path: &Path) -> Result<(), SweepError> {
    let settings: Vec<Map<String, Value>> = lines
        .iter()
        .map(|line| {
            serde_json::to_value(&line.setting)
                .ok()
                .and_then(|it| it.as_object().cloned())
                .unwrap_or_default()
        })
        .collect();
    let keys: BTreeSet<&String> = settings.iter().flat_map(Map::keys).collect();
    let processors = lines.iter().map(|line| line.report.share.len()).max().unwrap_or(0);
    let mut text = String::from("point");
    keys.iter().for_each(|key| text.extend([",", key]));
    for list in ["share", "average_length"] {
        (0..processors).for_each(|processor| text.push_str(&format!(",{list}_{processor}")));
    }
    MEASURES.iter().for_each(|measure| text.extend([",", measure]));
    text.push('\n');
    for (line, setting) in lines.iter().zip(&settings) {
        text.push_str(&line.point.to_string());
        for key in &keys {
            text.push(',');
            match setting.get(*key) {
                Some(Value::String(word)) => text.push_str(word),
                Some(other) => text.push_str(&other.to_string()),
                None => {}
            }
        }
        let report = &line.report;
        for list in [&report.share, &report.average_length] {
            for processor in 0..processors {
                text.push(',');
                list.get(processor).inspect(|value| text.push_str(&value.to_string()));
            }
        }
        for value in [
            report.average_length_scheduled,
            report.packets_per_multipacket,
            report.throughput_mbps,
            report.latency_ms,
            report.sojourn_ms,
            report.bus_conflicts,
        ] {
            // Writing to a string cannot fail.
            let _ = write!(text, ",{value}");
        }
        text.push('\n');
    }
    std::fs::write(path, text).map_err(|error| SweepError::Io { path: path.to_owned(), error })
}
