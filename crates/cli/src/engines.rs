//! `convoy engines`.

use convoy_assembly::engines::{
    CostRow, DeviceOverview, EngineOverview, HandoverRow, TrainRow, overview, window_ns,
};
use convoy_config::{Kinds, counted};

use crate::Failure;
use crate::args::EnginesArgs;
use crate::table::{folded, number, table_of, word};

/// Width without `--wide`, in characters.
const WIDTH: usize = 80;
/// The algorithms that new tunnels use (RFC 8221), whose costs are listed without `--wide`.
const USUAL: [&str; 7] = [
    "aes128gcm16",
    "aes256gcm16",
    "chacha20poly1305",
    "aes128ctr-sha256",
    "aes256ctr-sha256",
    "aes128-sha256",
    "aes256-sha256",
];

/// `convoy engines`, in a program with these kinds of engine.
///
/// # Errors
/// An engine that fails during calibration.
pub fn run(args: &EnginesArgs, kinds: &Kinds) -> Result<(), Failure> {
    let engines =
        overview(&kinds.engines, args.calibrate).map_err(|error| Failure::Failed(error.to_string()))?;
    if args.json {
        let text =
            serde_json::to_string_pretty(&engines).map_err(|error| Failure::Failed(error.to_string()))?;
        println!("{text}");
        return Ok(());
    }
    for engine in &engines {
        println!("{}", text(engine, args.wide));
    }
    if args.calibrate {
        println!("costs in ns: for a train, each packet, 16 bytes, and 16 bytes of the longest");
        println!("  packet, while other vector lanes run empty; key: for a change of SA;");
        println!("  handover: for a train + packet + 16 bytes");
        println!("window: {:.0} ns to sort a packet by its SA", window_ns());
        println!("  packets are sorted where a key costs more than a multi-packet plus this");
    }
    if !args.wide {
        println!("--wide lists all algorithms{}", if args.calibrate { " and their costs" } else { "" });
    }
    Ok(())
}

/// One kind of engine.
fn text(engine: &EngineOverview, is_wide: bool) -> String {
    let width = if is_wide { usize::MAX } else { WIDTH };
    let mut lines = vec![folded(&format!("{}: ", engine.kind), &engine.summary, width)];
    let mut say = |label: &str, text: &str| lines.push(folded(&format!("  {label}"), text, width));
    if let Some(reason) = &engine.reason {
        say("unavailable: ", reason);
        engine.remedy.iter().for_each(|remedy| say("to install it: ", remedy));
        lines.push(String::new());
        return lines.join("\n");
    }
    say("version ", engine.version.as_deref().unwrap_or("unknown"));
    say("algorithms: ", &algorithms(&engine.algorithms, is_wide));
    engine.left_out.iter().for_each(|left_out| say("not supported: ", left_out));
    for device in &engine.devices {
        describe(device, is_wide, &mut say);
    }
    if !engine.costs.is_empty() {
        lines.push(costs(&engine.costs, is_wide));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn algorithms(names: &[String], is_wide: bool) -> String {
    if is_wide { names.join(", ") } else { names.len().to_string() }
}

fn describe(device: &DeviceOverview, is_wide: bool, say: &mut dyn FnMut(&str, &str)) {
    let label = format!("device {}: ", device.device);
    match &device.why_not {
        Some(_) if !is_wide => say(&label, "not usable, --wide says why"),
        None if !is_wide => {
            say(&label, &format!("reports support for {}", counted(device.algorithms.len(), "algorithm")))
        }
        why_not => {
            say(&label, &device.summary);
            match why_not {
                Some(why_not) => say("  not usable: ", why_not),
                None => say("  reported algorithms: ", &device.algorithms.join(", ")),
            }
        }
    }
}

/// A table for each placement with a line for each algorithm. Unless all are asked for, of the
/// usual ones, and without lookaside for an engine that can be inline.
fn costs(costs: &[CostRow], is_wide: bool) -> String {
    let shown = |cost: &&CostRow| is_wide || USUAL.contains(&cost.algorithm.as_str());
    let (elsewhere, inline): (Vec<&CostRow>, Vec<&CostRow>) =
        costs.iter().filter(shown).partition(|cost| cost.handover.is_some());
    let is_short = !is_wide && !inline.is_empty();
    let placements = [("  inline", inline), ("  lookaside", elsewhere)];
    let tables = placements.into_iter().filter(|(_, rows)| !rows.is_empty());
    let tables = tables.take(if is_short { 1 } else { 2 });
    tables.map(|(placement, rows)| table(placement, &rows)).collect::<Vec<_>>().join("\n")
}

fn table(placement: &str, rows: &[&CostRow]) -> String {
    let of_train = |of: fn(&TrainRow) -> f64, digits: usize| {
        move |row: &&CostRow| row.train.as_ref().map_or_else(none, |train| format!("{:.digits$}", of(train)))
    };
    let mut columns = vec![
        word(placement, |row: &&CostRow| format!("  {}", row.algorithm)),
        number("train", |row: &&CostRow| {
            format!("{:.0}", row.train.as_ref().map_or(row.t_init_ns, |train| train.init_ns))
        }),
        number("packet", of_train(|train| train.packet_ns, 0)),
        number("16 B", |row: &&CostRow| {
            format!("{:.2}", row.train.as_ref().map_or(row.t_block_ns, |train| train.block_ns))
        }),
        number("longest", of_train(|train| train.longest_ns, 1)),
        number("key", |row: &&CostRow| row.t_key_ns.map_or_else(none, |ns| format!("{ns:.1}"))),
    ];
    if rows.iter().any(|row| row.handover.is_some()) {
        columns.push(number("handover", |row: &&CostRow| row.handover.as_ref().map_or_else(none, handover)));
    }
    table_of(&columns, rows, None)
}

fn none() -> String {
    "-".to_owned()
}

/// Components of the handover cost.
fn handover(row: &HandoverRow) -> String {
    let HandoverRow { init_ns, packet_ns, block_ns } = row;
    format!("{init_ns:.0} + {packet_ns:.0} + {block_ns:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(kind: &str) -> EngineOverview {
        let algorithms: Vec<String> =
            USUAL.into_iter().map(str::to_owned).chain((0..55).map(|n| format!("aes256-sha{n}"))).collect();
        let cost = |algorithm: &String, is_elsewhere: bool| CostRow {
            algorithm: algorithm.clone(),
            placement: String::new(),
            t_init_ns: 12_345.6,
            t_block_ns: 123.456,
            train: Some(TrainRow {
                init_ns: 12_345.6,
                packet_ns: 1_234.5,
                block_ns: 123.456,
                longest_ns: 123.4,
            }),
            t_key_ns: (!is_elsewhere).then_some(1_234.5),
            handover: is_elsewhere.then_some(HandoverRow {
                init_ns: 12_345.6,
                packet_ns: 123.4,
                block_ns: 12.34,
            }),
        };
        EngineOverview {
            kind: kind.to_owned(),
            summary: "bursts with a library of a long name, on the worker's core or a core of its own"
                .to_owned(),
            present: true,
            version: Some("1.3.0, AVX-512, few by SHA-NI".to_owned()),
            reason: None,
            remedy: None,
            left_out: Some("what the functions that were built into it do not do".to_owned()),
            costs: algorithms.iter().flat_map(|name| [cost(name, false), cost(name, true)]).collect(),
            devices: Vec::new(),
            algorithms,
        }
    }

    #[test]
    fn four_calibrated_engines_fit_a_page_of_80_columns() {
        let page: Vec<String> = (0..4).map(|_| text(&engine("multibuffer"), false)).collect();
        let page = page.join("\n");
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
        assert!(page.lines().count() <= 66, "{} lines:\n{page}", page.lines().count());
        for name in USUAL {
            assert!(page.contains(name), "{name} is missing in\n{page}");
        }
    }

    #[test]
    fn nothing_is_left_out_of_wide_output() {
        let text = text(&engine("multibuffer"), true);
        let lines =
            |name: &str| text.lines().filter(|line| line.split_whitespace().next() == Some(name)).count();
        assert_eq!(lines("aes256-sha54"), 2, "of both placements:\n{text}");
        let columns = |line: &str| line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ");
        for row in ["12346 1234 123.46 123.4 1234.5", "12346 1234 123.46 123.4 - 12346 + 123 + 12.34"] {
            assert!(text.lines().any(|line| columns(line) == row), "{row}:\n{text}");
        }
    }
}
