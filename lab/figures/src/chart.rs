//! Data of the figures of the other papers: curves, bars, stacked bars, and a table of boxes.

/// One figure.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    /// The figure's number in the paper.
    pub(super) number: u32,
    pub(super) title: String,
    /// How the paper is read for this figure.
    pub(super) reading: &'static str,
    /// Explanation of the figure.
    pub(super) note: String,
    pub(super) body: Body,
}

/// Content of a figure.
#[derive(Clone, Debug)]
pub(super) enum Body {
    Plot(Plot),
    Boxes(Boxes),
}

#[derive(Clone, Debug)]
pub(super) struct Plot {
    /// Quantity and unit of each axis.
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    pub(super) form: PlotForm,
    pub(super) series: Vec<Curve>,
}

/// Kind of a plot.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PlotForm {
    /// Curves over a numeric axis that ends at this value.
    Curves(f64),
    /// Groups of bars with these names, one bar for each series. The index of a group is its
    /// position on the axis.
    Groups(Vec<String>),
    /// Bars with these names, in each of which the series are stacked.
    Stacks(Vec<String>),
}

/// One curve, or one bar of each group.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
    /// Whether these are numbers of the paper, which are drawn as marks without a line.
    pub(super) is_papers: bool,
    /// Position, and the lowest and the highest value measured there.
    pub(super) whiskers: Vec<(f64, f64, f64)>,
}

impl Curve {
    /// A curve of simulated values.
    pub(super) fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let points = points.into_iter().collect();
        Self { name: name.into(), points, is_papers: false, whiskers: Vec::new() }
    }

    /// Adds the spread at each position.
    pub(super) fn with_whiskers(self, whiskers: Vec<(f64, f64, f64)>) -> Self {
        Self { whiskers, ..self }
    }

    /// A curve of the paper's values.
    pub(super) fn papers(points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let name = "in the paper".to_owned();
        Self { name, points: points.into_iter().collect(), is_papers: true, whiskers: Vec::new() }
    }
}

/// A table of boxes, each with its text and whether it is highlighted.
#[derive(Clone, Debug)]
pub(super) struct Boxes {
    pub(super) columns: Vec<String>,
    /// Name of the row, and one box for each column.
    pub(super) rows: Vec<(String, Vec<(String, bool)>)>,
}

impl Chart {
    /// The data as a table with a header and one row for each point.
    pub(super) fn csv(&self) -> String {
        match &self.body {
            Body::Plot(plot) => plot.csv(),
            Body::Boxes(boxes) => {
                let mut text = format!("row,{}\n", boxes.columns.join(","));
                for (name, cells) in &boxes.rows {
                    let cells: Vec<&str> = cells.iter().map(|(cell, _)| cell.as_str()).collect();
                    text.push_str(&format!("{name},{}\n", cells.join(",")));
                }
                text
            }
        }
    }
}

impl Plot {
    fn csv(&self) -> String {
        let clean = |text: &str| text.replace(',', ";");
        let mut text = format!("series,{},{}\n", clean(self.x), clean(self.y));
        for series in &self.series {
            for (x, y) in &series.points {
                let x = match &self.form {
                    PlotForm::Curves(_) => x.to_string(),
                    PlotForm::Groups(names) | PlotForm::Stacks(names) => {
                        clean(names.get(x.round() as usize).map_or("", String::as_str))
                    }
                };
                text.push_str(&format!("{},{x},{y}\n", clean(&series.name)));
            }
        }
        text
    }
}
