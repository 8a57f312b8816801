//! Figures of measurements, drawn in the same style as those of the papers.

use super::chart::{Body, Curve, Plot, PlotForm};
use super::chart_draw::{Headed, axis_end};
use super::draw::svg;

/// Kind of a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DrawingForm {
    /// Curves over a numeric axis.
    Curves,
    /// Groups of bars with these names, one bar for each series. The index of a group is its
    /// position on the axis.
    Groups(Vec<String>),
    /// Bars with these names, in each of which the series are stacked.
    Stacks(Vec<String>),
}

/// The data of a figure.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// Number of the figure; `None` if the numbered figures of the paper have no counterpart.
    pub number: Option<u32>,
    /// Title of the figure.
    pub title: String,
    /// Quantity and unit of the axis.
    pub x: &'static str,
    /// Quantity and unit of the axis.
    pub y: &'static str,
    /// Kind of the figure.
    pub form: DrawingForm,
    /// Names and points of the series.
    pub series: Vec<(String, Vec<(f64, f64)>)>,
    /// Spread of each series, in the order of `series`: the position, and the lowest and highest
    /// measured value. In stacked bars, the values are those of the series alone. Empty if there is
    /// a single value at each position.
    pub whiskers: Vec<Vec<(f64, f64, f64)>>,
}

impl Drawing {
    /// Draws the figure as SVG.
    ///
    /// # Errors
    /// The message of the drawing library.
    pub fn svg(&self) -> Result<String, String> {
        let xs = self.series.iter().flat_map(|(_, points)| points).map(|(x, _)| *x);
        let form = match &self.form {
            DrawingForm::Curves => PlotForm::Curves(axis_end(self.x, xs.fold(0.0, f64::max) * 1.05)),
            DrawingForm::Groups(names) => PlotForm::Groups(names.clone()),
            DrawingForm::Stacks(names) => PlotForm::Stacks(names.clone()),
        };
        let whiskers = self.whiskers.iter().cloned().chain(std::iter::repeat(Vec::new()));
        let series = self.series.iter().zip(whiskers).map(|((name, points), whiskers)| {
            Curve::new(name, points.iter().copied()).with_whiskers(whiskers)
        });
        let plot = Plot { x: self.x, y: self.y, form, series: series.collect() };
        let heading = self
            .number
            .map_or_else(|| self.title.clone(), |number| format!("Figure {number}. {}", self.title));
        svg(&Headed { heading, body: &Body::Plot(plot) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_drawn_with_its_names_and_its_axes() {
        let names = vec!["64".to_owned(), "1450".to_owned()];
        for form in [DrawingForm::Curves, DrawingForm::Groups(names.clone()), DrawingForm::Stacks(names)] {
            let drawing = Drawing {
                number: Some(8),
                title: "Forwarding".to_owned(),
                x: "packet length / bytes",
                y: "throughput / Mbit/s",
                form,
                series: vec![
                    ("none".to_owned(), vec![(0.0, 10.0), (1.0, 70.0)]),
                    ("packet I/O".to_owned(), vec![(0.0, 20.0), (1.0, 90.0)]),
                ],
                whiskers: Vec::new(),
            };
            let svg = drawing.svg().expect("it is drawn");
            for said in ["<svg", "Figure 8. Forwarding", "packet I/O", "throughput / Mbit/s"] {
                assert!(svg.contains(said), "{said}");
            }
            let unnumbered = Drawing { number: None, ..drawing.clone() }.svg().expect("it is drawn");
            assert!(!unnumbered.contains("Figure") && unnumbered.contains("Forwarding"));
            let lines = |svg: &str| svg.matches("<line").count() + svg.matches("<polyline").count();
            let spread = vec![vec![(1.0, 60.0, 130.0)], vec![(0.0, 10.0, 25.0), (1.0, 85.0, 91.0)]];
            let with_whiskers = Drawing { whiskers: spread, ..drawing }.svg().expect("it is drawn");
            assert!(
                lines(&with_whiskers) >= lines(&svg) + 3 * 3,
                "a stem and two caps for each of three points"
            );
        }
    }

    #[test]
    fn axes_of_percentages_end_at_100() {
        assert_eq!((axis_end("utilisation / %", 120.0), axis_end("lost / %", 3.0)), (100.0, 3.0));
        assert_eq!(axis_end("time / ns", 120.0), 120.0);
    }
}
