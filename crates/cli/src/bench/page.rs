//! A report as one HTML page, with its figures in it.

use std::fmt::Write as _;
use std::path::Path;

use convoy_measure::Machine;
use convoy_sim::Drawing;

use crate::Failure;

/// A report.
pub(super) struct Page<'a> {
    pub(super) title: &'a str,
    pub(super) machine: &'a Machine,
    /// How it was measured: n, trial time, cores.
    pub(super) facts: Vec<String>,
    /// Each with what one has to know to read it.
    pub(super) figures: Vec<(Drawing, String)>,
    /// What follows from it.
    pub(super) verdicts: Vec<String>,
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

impl Page<'_> {
    fn html(&self) -> Result<String, String> {
        let Machine { processor, cores, kernel, convoy, is_release } = self.machine;
        let build =
            if *is_release { "release build" } else { "built without optimisation: of no use as figures" };
        let mut text = format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\n\
             <style>body{{font:15px/1.5 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}}\
             figure{{margin:2rem 0}}svg{{max-width:100%;height:auto}}</style>\n<h1>{title}</h1>\n\
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
        Ok(text + "</html>\n")
    }

    /// Writes it, if it is asked for.
    pub(super) fn write(&self, path: Option<&Path>) -> Result<(), Failure> {
        let Some(path) = path else { return Ok(()) };
        let html = self.html().map_err(Failure::Failed)?;
        std::fs::write(path, html)
            .map_err(|error| Failure::Failed(format!("cannot write {}: {error}", path.display())))
    }
}
