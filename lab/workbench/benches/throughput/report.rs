//! Markdown output.

use crate::time::{ROUNDS, UNIT, ticks_per_ns};

/// Inner packet lengths in bytes.
pub(crate) const BYTES: [usize; 3] = [64, 512, 1450];

/// Prints the machine and the units.
pub(crate) fn machine() {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(": ")).map_or("unknown", |(_, value)| value).to_owned()
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!(
        "\nProcessor: {} (family {}, model {}), {cores} cores, {:.2} ticks a ns; {library}.",
        field("model name"),
        field("cpu family"),
        field("model\t"),
        ticks_per_ns(),
        library = library(),
    );
    println!("Each figure is {UNIT} per packet; those of engines are medians of {ROUNDS} rounds.");
}

/// Version of ipsec-mb, or why it is missing.
pub(crate) fn library() -> String {
    convoy_ipsec_mb::Manager::new().map_or_else(
        |absent| format!("without ipsec-mb: {absent}"),
        |mb| format!("ipsec-mb {}", mb.version()),
    )
}

/// Prints a heading and a table's header.
pub(crate) fn table(title: &str, columns: &[String]) {
    println!("\n## {title}\n\n| {} |\n|{}", columns.join(" | "), " --- |".repeat(columns.len()));
}

/// Prints a row of a table.
pub(crate) fn row(cells: &[String]) {
    println!("| {} |", cells.join(" | "));
}

/// A figure, with its ratio to the floor where there is one.
pub(crate) fn with_ratio(figure: f64, floor: Option<f64>) -> String {
    floor.map_or_else(|| format!("{figure:.0}"), |floor| format!("{figure:.0} ({:.2})", figure / floor))
}
