//! A report as a single HTML page with figures.

use std::fmt::Write as _;
use std::path::Path;

use convoy_figures::Drawing;
use convoy_measure::Machine;

use convoy_cli::Failure;
use convoy_cli::table::Column;

/// Content of a report.
pub(super) struct Page<'a> {
    pub(super) title: &'a str,
    pub(super) machine: &'a Machine,
    /// Conditions of the measurement: n, trial time, cores.
    pub(super) facts: Vec<String>,
    /// Each with a note that explains it.
    pub(super) figures: Vec<(Drawing, String)>,
    /// Conclusions.
    pub(super) verdicts: Vec<String>,
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A table on the page.
pub(super) struct PageTable {
    caption: String,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Note that explains it.
    note: String,
}

impl PageTable {
    /// A table with these columns and rows.
    pub(super) fn new<R>(caption: String, columns: &[Column<'_, R>], rows: &[R], note: String) -> Self {
        let header = columns.iter().map(|column| column.header().to_owned()).collect();
        let cells = |row| columns.iter().map(|column| column.cell(row)).collect();
        Self { caption, header, rows: rows.iter().map(cells).collect(), note }
    }

    /// The table as HTML.
    pub(super) fn html(&self) -> String {
        let row = |cells: &[String], tag: &str| {
            let cells = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell)));
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        };
        let rows = self.rows.iter().map(|cells| row(cells, "td"));
        format!(
            "<table><caption>{}</caption>\n{}{}</table>\n<p>{}</p>\n",
            escaped(&self.caption),
            row(&self.header, "th"),
            rows.collect::<String>(),
            escaped(&self.note)
        )
    }
}

impl Page<'_> {
    fn html(&self, tables: &[PageTable]) -> Result<String, String> {
        let Machine { processor, cores, kernel, convoy, is_release } = self.machine;
        let build = if *is_release {
            "release build"
        } else {
            "built without optimisation: the figures are meaningless"
        };
        let mut text = format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\n\
             <style>body{{font:15px/1.5 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}}\
             figure{{margin:2rem 0}}svg{{max-width:100%;height:auto}}\
             caption{{text-align:left;font-weight:bold}}th,td{{text-align:right;padding:0 1rem 0 0}}</style>\n<h1>{title}</h1>\n\
             <p>{}, {cores} cores for the process, Linux {}, convoy {convoy}, {build}.</p>\n<ul>\n",
            escaped(processor),
            escaped(kernel),
            title = escaped(self.title),
        );
        for fact in &self.facts {
            let _ = writeln!(text, "<li>{}</li>", escaped(fact));
        }
        text += "</ul>\n";
        for verdict in &self.verdicts {
            let _ = writeln!(text, "<p><strong>{}</strong></p>", escaped(verdict));
        }
        for (drawing, note) in &self.figures {
            let svg = drawing.svg()?;
            let _ = writeln!(text, "<figure>{svg}<figcaption>{}</figcaption></figure>", escaped(note));
        }
        text.extend(tables.iter().map(PageTable::html));
        Ok(text + "</html>\n")
    }

    /// Writes the page, if a path is given.
    pub(super) fn write(&self, path: Option<&Path>) -> Result<(), Failure> {
        self.write_with(path, &[])
    }

    /// Writes the page with tables after its figures, if a path is given.
    pub(super) fn write_with(&self, path: Option<&Path>, tables: &[PageTable]) -> Result<(), Failure> {
        let Some(path) = path else { return Ok(()) };
        let html = self.html(tables).map_err(Failure::Failed)?;
        std::fs::write(path, html)
            .map_err(|error| Failure::Failed(format!("cannot write {}: {error}", path.display())))
    }
}
