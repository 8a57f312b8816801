//! Figures of the other papers, as numbers: curves, bars, stacks of bars, and a table of boxes.

/// One figure.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    /// The paper's number.
    pub(super) number: u32,
    pub(super) title: String,
    /// What one has to know to read it.
    pub(super) note: String,
    pub(super) body: Body,
}

/// What it shows.
#[derive(Clone, Debug)]
pub(super) enum Body {
    Plot(Plot),
    Boxes(Boxes),
}

#[derive(Clone, Debug)]
pub(super) struct Plot {
    /// Quantity and unit.
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    pub(super) form: PlotForm,
    pub(super) series: Vec<Curve>,
}

/// How a plot is drawn.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PlotForm {
    /// Curves over a number, up to this.
    Curves(f64),
    /// Bars in groups of these names, one for each series; the place of a group is its number.
    Groups(Vec<String>),
    /// Bars of these names, in which the series stand on top of each other.
    Stacks(Vec<String>),
}

/// A curve, or the bars of one kind.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
    /// Numbers that stand in the paper: marks without a line.
    pub(super) is_papers: bool,
    /// Places, and the lowest and the highest of what was measured there.
    pub(super) whiskers: Vec<(f64, f64, f64)>,
}

impl Curve {
    /// What was simulated.
    pub(super) fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let points = points.into_iter().collect();
        Self { name: name.into(), points, is_papers: false, whiskers: Vec::new() }
    }

    /// The same with the spread of each place.
    pub(super) fn with_whiskers(self, whiskers: Vec<(f64, f64, f64)>) -> Self {
        Self { whiskers, ..self }
    }

    /// What stands in the paper.
    pub(super) fn papers(points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let name = "in the paper".to_owned();
        Self { name, points: points.into_iter().collect(), is_papers: true, whiskers: Vec::new() }
    }
}

/// Columns of boxes, each with what it says and whether it stands out.
#[derive(Clone, Debug)]
pub(super) struct Boxes {
    pub(super) columns: Vec<String>,
    /// Name, and a box a column.
    pub(super) rows: Vec<(String, Vec<(String, bool)>)>,
}

impl Chart {
    /// Its numbers as a table with a header, one row a point.
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
