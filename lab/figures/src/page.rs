//! The page of a paper: one HTML file without other files, which has each figure beside the reading
//! behind it and the claims about it.

use std::fmt::Write;

use super::tables::{by_reading, summary};
use super::verdict::ClaimVerdict;

/// Two columns from 1000 pixels on, and one below.
const STYLE: &str = include_str!("../assets/page.css");

/// The content of a page.
pub(super) struct Page<'a> {
    pub(super) title: &'a str,
    /// The paper's title and authors.
    pub(super) paper: &'a str,
    /// Description of the runs.
    pub(super) about: String,
    /// Names and values of the readings, if the paper has several.
    pub(super) readings: Vec<(&'static str, String)>,
    pub(super) pictures: Vec<Picture>,
    pub(super) claims: &'a [ClaimVerdict],
    /// The figures that each claim is about.
    pub(super) pictured: &'a [Vec<u32>],
}

/// A figure.
pub(super) struct Picture {
    pub(super) number: u32,
    pub(super) title: String,
    /// How the paper is read for this figure.
    pub(super) reading: String,
    /// What else is to be said of it; may be empty.
    pub(super) note: String,
    /// The picture as an SVG file.
    pub(super) svg: String,
    /// Its numbers.
    pub(super) csv: String,
}

impl Page<'_> {
    /// The page. It is well-formed as XML too, but for its first line.
    pub(super) fn html(&self) -> String {
        let title = escaped(self.title);
        let mut text = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>{title}</title>\n\
             <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<p>From <em>{}</em>, by <code>convoy-lab sim figures</code>.</p>\n\
             <p class=\"summary\">{}.</p>\n<p>{}</p>\n",
            escaped(self.paper),
            escaped(&summary(self.claims)),
            escaped(&self.about)
        );
        text.push_str(&self.readings());
        let mut placed = vec![false; self.claims.len()];
        for picture in &self.pictures {
            self.pair(picture, &mut placed, &mut text);
        }
        let rest: Vec<usize> = (0..placed.len()).filter(|place| !placed[*place]).collect();
        if !rest.is_empty() {
            text.push_str(
                "<section class=\"rest\" id=\"without-figure\">\n<h2>Claims without a figure</h2>\n<div>\n",
            );
            rest.iter().for_each(|place| self.claim(*place, &mut text));
            text.push_str("</div>\n</section>\n");
        }
        text.push_str("</body>\n</html>\n");
        text
    }

    fn readings(&self) -> String {
        if self.readings.is_empty() {
            return String::new();
        }
        let row = |(name, values): &(&str, String)| {
            format!("<dt>{}</dt><dd>{}</dd>\n", escaped(name), escaped(values))
        };
        let rows: String = self.readings.iter().map(row).collect();
        format!("<section id=\"readings\">\n<h2>Readings</h2>\n<dl>\n{rows}</dl>\n</section>\n")
    }

    /// A figure, and beside it its reading and the claims about it. A claim about several figures
    /// stands beside the first, and the others link to it.
    fn pair(&self, picture: &Picture, placed: &mut [bool], text: &mut String) {
        let Picture { number, title, reading, note, svg, csv } = picture;
        let svg = svg.find("<svg").map_or("", |start| &svg[start..]);
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "<section class=\"pair\" id=\"figure-{number}\">\n<h2>Figure {number}. {}</h2>\n<figure>\n{svg}\n<figcaption>{}\
             <details><summary>numbers of figure {number}</summary><pre>{}</pre></details></figcaption>\n</figure>\n\
             <div>\n<p class=\"reading\"><b>Reading:</b> {}</p>\n",
            escaped(title),
            escaped(note),
            escaped(csv),
            escaped(reading)
        );
        for (place, figures) in self.pictured.iter().enumerate() {
            if !figures.contains(number) {
                continue;
            }
            if std::mem::replace(&mut placed[place], true) {
                let row = place + 1;
                let _ = writeln!(
                    text,
                    "<p><a href=\"#claim-{row}\">Claim {row}</a> is about this figure too.</p>"
                );
            } else {
                self.claim(place, text);
            }
        }
        text.push_str("</div>\n</section>\n");
    }

    fn claim(&self, place: usize, text: &mut String) {
        let claim = &self.claims[place];
        let number = place + 1;
        let class = claim.verdict.words().replace(' ', "-");
        let _ = write!(
            text,
            "<article class=\"{class}\" id=\"claim-{number}\">\n<h3>{number}. {}</h3>\n<p><b class=\"verdict\">{}</b> {}</p>\n<dl>\n",
            escaped(&claim.claim),
            claim.verdict,
            escaped(&claim.source)
        );
        for (name, words) in [
            ("measured", &claim.measured),
            ("compared", &claim.compared),
            ("noise", &claim.noise),
            ("basis", &claim.basis),
            ("read as", &claim.read_as),
            ("by reading", &by_reading(claim)),
            ("over the range", &claim.over_range()),
        ] {
            if !words.is_empty() {
                let _ = writeln!(text, "<dt>{name}</dt><dd>{}</dd>", escaped(words));
            }
        }
        text.push_str("</dl>\n</article>\n");
    }
}

/// The figures that a claim's source names: "figure 7" or "figures 9, 10" in it.
pub(super) fn figures_named(source: &str) -> Vec<u32> {
    let Some((_, after)) = source.split_once("figure") else { return Vec::new() };
    let after = after.strip_prefix('s').unwrap_or(after);
    after.split(", ").map_while(|number| number.trim().parse().ok()).collect()
}

/// Text in which no character is markup.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
#[path = "page_tests.rs"]
pub(super) mod tests;
