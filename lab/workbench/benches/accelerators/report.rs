//! The results: Markdown for docs/results/accelerators.md, CSV beside it, and JSON.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use convoy_workbench::Measurement;
use serde::Serialize;

use super::grouping::WAYS;

/// Fraction of the load that a setup may refuse; beyond it, its rings are full and determine its
/// latency.
const CARRIED: f64 = 0.01;
/// The command that renews the page, as named in the page's markers.
const WRITTEN_BY: &str = "written by make bench-accelerators";

/// Result of one engine on its own.
#[derive(Serialize)]
pub(crate) struct Alone {
    pub(crate) engine: String,
    pub(crate) proposal: &'static str,
    /// Time per packet in ns, by packets per burst.
    pub(crate) ns_by_burst: Vec<(usize, f64)>,
}

/// Result of one engine with packets of several SAs.
#[derive(Serialize)]
pub(crate) struct Grouped {
    pub(crate) engine: String,
    pub(crate) proposal: &'static str,
    /// TSC cycles per packet, in the order of [`WAYS`].
    pub(crate) cycles: Vec<f64>,
}

/// Result of one setup in one case.
#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) proposal: &'static str,
    pub(crate) sas: usize,
    pub(crate) packets: &'static str,
    pub(crate) engines: &'static str,
    /// The policy or device that chooses among the engines.
    pub(crate) by: String,
    pub(crate) is_finishing_time: bool,
    /// When saturated.
    pub(crate) full: Measurement,
    /// Under the load that is the same for all setups of the case.
    pub(crate) offered: Measurement,
    /// Names of the engines, in the order of `shares`.
    pub(crate) engine_names: Vec<String>,
}

/// All results.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) about: String,
    pub(crate) alone: Vec<Alone>,
    pub(crate) grouped: Vec<Grouped>,
    pub(crate) rows: Vec<Row>,
}

impl Row {
    fn rate(&self) -> f64 {
        self.full.packets_per_second
    }

    /// Whether every packet arrived unchanged and in order.
    pub(crate) fn is_perfect(&self) -> bool {
        self.full.is_perfect && self.offered.is_perfect
    }

    fn late(&self, us: f64) -> String {
        if self.offered.refused > CARRIED { format!("({us:.0})") } else { format!("{us:.0}") }
    }

    fn latency(&self) -> String {
        let latency = self.offered.latency;
        format!("{},{}", self.late(latency.p50_us), self.late(latency.p99_us))
    }

    /// Share of each engine.
    fn taken(&self) -> String {
        let parts = self.engine_names.iter().zip(&self.full.shares);
        let parts: Vec<String> =
            parts.map(|(name, share)| format!("{name} {:.0} %", share * 100.0)).collect();
        parts.join(", ")
    }

    /// The engines and what chooses among them, in one cell.
    fn setup(&self) -> String {
        if self.by == "-" { self.engines.to_owned() } else { self.by.clone() }
    }
}

impl Report {
    /// Describes the rows in which packets were lost, changed or reordered.
    pub(crate) fn wrong(&self) -> Vec<String> {
        let wrong = self.rows.iter().filter(|row| !row.is_perfect());
        wrong
            .map(|row| {
                let Row { proposal, sas, packets, full, offered, .. } = row;
                let (good, sent) = (full.good + offered.good, full.sent + offered.sent);
                format!("{}: {proposal}, {sas} SAs, {packets}: {good} of {sent} packets came out byte for byte and in order", row.setup())
            })
            .collect()
    }

    /// A row per case: finishing time and the best setup that is not convoy's.
    pub(crate) fn summary(&self) -> String {
        let columns = "algorithm | SAs | packets | finishing-time | best of the others | its rate | ratio";
        let about = self.about.replace("; ", ";\n");
        let mut text = format!("{about}\n\n| {columns} |\n|{}\n", " --- |".repeat(7));
        for own in self.rows.iter().filter(|row| row.is_finishing_time) {
            let is_same = |row: &&Row| {
                (row.proposal, row.sas, row.packets) == (own.proposal, own.sas, own.packets)
                    && !row.by.starts_with("finishing-time")
            };
            let others = self.rows.iter().filter(is_same);
            let Some(best) = others.max_by(|a, b| a.rate().total_cmp(&b.rate())) else { continue };
            let _ = writeln!(
                text,
                "| {} | {} | {} | {:.0} | {} | {:.0} | {:.2} |",
                own.proposal,
                own.sas,
                own.packets,
                own.rate(),
                best.setup(),
                best.rate(),
                own.rate() / best.rate().max(1.0)
            );
        }
        text
    }

    /// Time of one packet in each engine on its own.
    pub(crate) fn alone(&self) -> String {
        let mut text = "| engine | algorithm |".to_owned();
        let bursts = self.alone.first().map_or(&[][..], |first| &first.ns_by_burst);
        bursts.iter().for_each(|(burst, _)| {
            let _ = write!(text, " bursts of {burst} |");
        });
        let _ = writeln!(text, "\n|{}", " --- |".repeat(2 + bursts.len()));
        for Alone { engine, proposal, ns_by_burst } in &self.alone {
            let cells: Vec<String> = ns_by_burst.iter().map(|(_, ns)| format!("{ns:.0}")).collect();
            let _ = writeln!(text, "| `{engine}` | {proposal} | {} |", cells.join(" | "));
        }
        text
    }

    /// Cycles of one packet by how packets of several SAs are handed over.
    pub(crate) fn grouped(&self) -> String {
        let ways: String = WAYS.iter().map(|way| format!(" {} |", way.name)).collect();
        let mut text =
            format!("| engine | algorithm |{ways}\n| --- | --- |{}\n", " --: |".repeat(WAYS.len()));
        for Grouped { engine, proposal, cycles } in &self.grouped {
            let cells: Vec<String> = cycles.iter().map(|cycles| format!("{cycles:.0}")).collect();
            let _ = writeln!(text, "| `{engine}` | {proposal} | {} |", cells.join(" | "));
        }
        text
    }

    /// A row for every setup in every case.
    pub(crate) fn csv(&self) -> String {
        let mut text =
            "algorithm,SAs,packets,engines,by,packets/s,\"p50, us\",\"p99, us\",taken by\n".to_owned();
        for row in &self.rows {
            let (rate, latency, taken) = (row.rate(), row.latency(), row.taken());
            let Row { proposal, sas, packets, engines, by, .. } = row;
            let _ = writeln!(
                text,
                "{proposal},{sas},{packets},\"{engines}\",\"{by}\",{rate:.0},{latency},\"{taken}\""
            );
        }
        text
    }

    /// Writes target/bench/accelerators.json and returns its path.
    pub(crate) fn write_json(&self) -> std::io::Result<PathBuf> {
        let path = root().join("target/bench/accelerators.json");
        std::fs::create_dir_all(path.parent().expect("it has one"))?;
        std::fs::write(&path, serde_json::to_string_pretty(self)?)?;
        Ok(path)
    }

    /// Inserts the tables that were measured into docs/results/accelerators.md, and writes the rows
    /// of all setups, if there are any, to a CSV file beside it.
    pub(crate) fn write_page(&self) -> std::io::Result<PathBuf> {
        let path = root().join("docs/results/accelerators.md");
        let mut page = std::fs::read_to_string(&path)?;
        let mut tables = vec![("accelerators-alone", self.alone()), ("accelerators-grouped", self.grouped())];
        if !self.rows.is_empty() {
            tables.push(("accelerators", self.summary()));
            std::fs::write(path.with_extension("csv"), self.csv())?;
        }
        for (name, text) in tables {
            page = between(&page, name, &text).ok_or_else(|| {
                std::io::Error::other(format!("{} has no place for {name}", path.display()))
            })?;
        }
        std::fs::write(&path, page)?;
        Ok(path)
    }
}

/// Replaces the text between the markers of this name by `text`; `None` if they are missing.
fn between(page: &str, name: &str, text: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- {name}: {WRITTEN_BY} -->\n"), format!("<!-- {name}: end -->"));
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n{}\n\n{end}{after}", text.trim()))
}

/// Root of the repository.
fn root() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    crates.and_then(Path::parent).expect("this crate is two folders below").to_owned()
}
