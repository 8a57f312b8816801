//! `convoy engines`.

use convoy_assembly::engines::{CostRow, DeviceOverview, EngineOverview, HandoverRow, overview, window_ns};
use convoy_config::{Kinds, counted};

use crate::Failure;
use crate::args::EnginesArgs;
use crate::table::{Column, folded, number, table_of, word};

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
        println!("costs in ns: for a train + for 16 bytes; handover: train + packet + 16 bytes");
        println!("window: {:.0} ns to sort a packet by its SA", window_ns());
        println!("  packets are sorted where t_key exceeds t_init plus this");
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

/// The costs of one algorithm.
struct Row<'a> {
    algorithm: &'a str,
    /// On the worker's core.
    inline: Option<&'a CostRow>,
    /// On a core of its own, or in a device.
    elsewhere: Option<&'a CostRow>,
}

/// A line for each algorithm, of the usual ones unless all are asked for.
fn costs(costs: &[CostRow], is_wide: bool) -> String {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for cost in costs.iter().filter(|cost| is_wide || USUAL.contains(&cost.algorithm.as_str())) {
        let at = rows.iter().position(|row| row.algorithm == cost.algorithm).unwrap_or_else(|| {
            rows.push(Row { algorithm: &cost.algorithm, inline: None, elsewhere: None });
            rows.len() - 1
        });
        let place = if cost.handover.is_none() { &mut rows[at].inline } else { &mut rows[at].elsewhere };
        *place = Some(cost);
    }
    let mut columns = vec![word("  algorithm", |row: &Row<'_>| format!("  {}", row.algorithm))];
    if rows.iter().any(|row| row.inline.is_some()) {
        columns.extend([number("inline", |row: &Row<'_>| model(row.inline)), t_key(|row| row.inline)]);
    }
    if rows.iter().any(|row| row.elsewhere.is_some()) {
        columns.push(number("lookaside", |row: &Row<'_>| model(row.elsewhere)));
        columns.push(number("handover", |row: &Row<'_>| {
            row.elsewhere.and_then(|cost| cost.handover.as_ref()).map_or_else(String::new, handover)
        }));
    }
    table_of(&columns, &rows, None)
}

fn model(cost: Option<&CostRow>) -> String {
    cost.map_or_else(|| "-".to_owned(), |cost| format!("{:.0} + {:.2}", cost.t_init_ns, cost.t_block_ns))
}

fn t_key<'a>(of: fn(&Row<'a>) -> Option<&'a CostRow>) -> Column<'a, Row<'a>> {
    number("t_key", move |row: &Row<'a>| {
        of(row).and_then(|cost| cost.t_key_ns).map_or_else(|| "-".to_owned(), |ns| format!("{ns:.1}"))
    })
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
        assert_eq!(lines("aes256-sha54"), 1, "{text}");
        let row = "12346 + 123.46  1234.5  12346 + 123.46  12346 + 123 + 12.34";
        assert!(text.lines().any(|line| line.ends_with(row)), "{text}");
    }
}
