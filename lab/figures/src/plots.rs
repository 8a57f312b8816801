//! The data of figures 3 to 15 of the paper.

use convoy_sim::{Pattern, Report};

use super::readings::Reading;
use super::runs::{ENC_RATIO, ENC_RATIOS, Key, Runs, Variant};

/// One figure.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    /// The figure's number in the paper.
    pub(super) number: u32,
    pub(super) title: String,
    /// Quantity and unit.
    pub(super) y: &'static str,
    pub(super) panels: Vec<Panel>,
    pub(super) form: Form,
    /// The reading of the paper in which it is drawn.
    pub(super) reading: Reading,
    /// What else the paper leaves open of it, and how it is read here; may be empty.
    pub(super) read_as: &'static str,
}

/// Kind of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Lines over `T_enc_ratio`.
    Lines,
    /// Groups of bars, one group for each pattern, relative to the value at `W = 1`.
    Bars,
}

/// A part of a figure with its own axes.
#[derive(Clone, Debug)]
pub(super) struct Panel {
    /// Empty if there is only one panel.
    pub(super) title: String,
    pub(super) series: Vec<Series>,
}

/// One line, or one bar of each group.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) points: Vec<Point>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// `T_enc_ratio`, or the index of the pattern.
    pub(super) x: f64,
    pub(super) y: f64,
    /// Standard deviation, if the figure shows it.
    pub(super) deviation: Option<f64>,
}

/// Name of a pattern in legends.
pub(super) fn name(pattern: Pattern) -> String {
    match pattern {
        Pattern::Fixed(size) => format!("{size} B"),
        other => other.to_string(),
    }
}

/// All figures; `runs_of` returns the runs of a reading.
pub(super) fn all(runs_of: &dyn Fn(Reading) -> Runs) -> Vec<Figure> {
    let (runs, from_window) = (&runs_of(Reading::Pool), &runs_of(Reading::PoolFromWindow));
    let share = |processor: usize| move |report: &Report| report.share[processor] * 100.0;
    let length = |processor: usize| move |report: &Report| report.average_length[processor];
    let lines = |number, title: &str, y, panels| Figure {
        number,
        title: title.to_owned(),
        y,
        panels,
        form: Form::Lines,
        reading: Reading::Pool,
        read_as: "",
    };
    let patterns = |accelerators, of: &dyn Fn(&Report) -> f64| {
        vec![panel(
            "",
            Pattern::PAPER.map(|pattern| over_ratios(runs, pattern, accelerators, 30, name(pattern), of)),
        )]
    };
    let windows = |of: &dyn Fn(&Report) -> f64| {
        vec![panel(
            "",
            [1, 30].map(|window| over_ratios(runs, Pattern::Trace, 2, window, format!("W = {window}"), of)),
        )]
    };
    let bars = |number, title: &str, y, of: &dyn Fn(&Report) -> f64| Figure {
        number,
        title: format!("{title}, one accelerator, T_enc ratio 3"),
        y,
        panels: vec![panel("", [10, 30].map(|window| relative(runs, window, of)))],
        form: Form::Bars,
        reading: Reading::Pool,
        read_as: "",
    };
    let (percent, bytes) = ("packets / %", "average length / bytes");
    vec![
        lines(3, "Packets processed by the CPU; W = 30, one accelerator", percent, patterns(1, &share(0))),
        lines(4, "Average length and its standard deviation; W = 30, one accelerator", bytes, lengths(runs)),
        bars(5, "Packets processed by the CPU, relative to W = 1", "packets / packets at W = 1", &share(0)),
        bars(6, "Throughput, relative to W = 1", "throughput / that at W = 1", &|report| {
            report.throughput_mbps
        }),
        Figure {
            reading: Reading::PoolFromWindow,
            read_as: "latency is from the entry into the window to completion, since the paper explains it by the time to fill \
                      the window; that of figure 13 is another",
            ..bars(
                7,
                "Average latency from the window, relative to W = 1",
                "latency from the window / that at W = 1",
                &|report| from_window.latency_ms(report),
            )
        },
        lines(8, "Packets processed by the CPU; W = 30, two accelerators", percent, patterns(2, &share(0))),
        lines(
            9,
            "Packets processed by accelerator 1; W = 30, two accelerators",
            percent,
            patterns(2, &share(1)),
        ),
        lines(10, "Average length at the CPU; W = 30, two accelerators", bytes, patterns(2, &length(0))),
        lines(
            11,
            "Average length at accelerator 1; W = 30, two accelerators",
            bytes,
            patterns(2, &length(1)),
        ),
        Figure {
            read_as: "the text describes the system and the caption accelerator 1, so both are drawn",
            ..lines(12, "Throughput; W = 30, two accelerators", "throughput / Mbit/s", throughputs(runs))
        },
        Figure {
            read_as: "latency is from scheduling to completion, as section IV-B.1 defines it; that of figure 7 is another",
            ..lines(
                13,
                "Average latency from scheduling of the trace, two accelerators",
                "latency from scheduling / ms",
                windows(&|report| runs.latency_ms(report)),
            )
        },
        lines(14, "Average length at the CPU, trace, two accelerators", bytes, windows(&length(0))),
        lines(15, "Average length at accelerator 1, trace, two accelerators", bytes, windows(&length(1))),
    ]
}

fn panel(title: &str, series: impl IntoIterator<Item = Series>) -> Panel {
    Panel { title: title.to_owned(), series: series.into_iter().collect() }
}

fn over_ratios(
    runs: &Runs,
    pattern: Pattern,
    accelerators: usize,
    window: usize,
    name: String,
    of: &dyn Fn(&Report) -> f64,
) -> Series {
    let point = |ratio: u32| Point {
        x: f64::from(ratio),
        y: of(runs.at(pattern, accelerators, window, ratio)),
        deviation: None,
    };
    Series { name, points: ENC_RATIOS.map(point).to_vec() }
}

/// The measure of each pattern divided by its value at `W = 1`; 0 if that is not defined.
fn relative(runs: &Runs, window: usize, of: &dyn Fn(&Report) -> f64) -> Series {
    let points = Pattern::PAPER.iter().enumerate().map(|(place, pattern)| {
        let at = |window| of(runs.at(*pattern, 1, window, ENC_RATIO));
        let ratio = at(window) / at(1);
        Point { x: place as f64, y: if ratio.is_finite() { ratio } else { 0.0 }, deviation: None }
    });
    Series { name: format!("W = {window}"), points: points.collect() }
}

/// Figure 4: the patterns of mixed sizes. With a single size only the number of packets varies.
fn lengths(runs: &Runs) -> Vec<Panel> {
    let of = |pattern, name: &str, processor: Option<usize>| {
        let points = ENC_RATIOS.map(|enc_ratio| {
            let key = Key { pattern, accelerators: 1, window: 30, enc_ratio, variant: Variant::Plain };
            let outcome = runs.of(key);
            let (y, deviation) = match processor {
                Some(place) => (outcome.report.average_length[place], outcome.deviation[place]),
                None => (outcome.report.average_length_scheduled, outcome.deviation_scheduled),
            };
            Point { x: f64::from(enc_ratio), y, deviation: Some(deviation) }
        });
        Series { name: name.to_owned(), points: points.to_vec() }
    };
    [Pattern::Trace, Pattern::Exponential, Pattern::Uniform]
        .map(|pattern| {
            let series = [
                of(pattern, "accelerator", Some(1)),
                of(pattern, "scheduled", None),
                of(pattern, "CPU", Some(0)),
            ];
            panel(&name(pattern), series)
        })
        .to_vec()
}

/// Figure 12: the text describes the system, the caption accelerator 1.
fn throughputs(runs: &Runs) -> Vec<Panel> {
    let of_first = |report: &Report| match report.end_ms {
        end if end > 0.0 => report.processors[1].bytes as f64 * 8.0 / end / 1e3,
        _ => 0.0,
    };
    let of = |title: &str, of: &dyn Fn(&Report) -> f64| {
        panel(title, Pattern::PAPER.map(|pattern| over_ratios(runs, pattern, 2, 30, name(pattern), of)))
    };
    vec![of("system", &|report| report.throughput_mbps), of("accelerator 1", &of_first)]
}

impl Figure {
    /// The name of its reading, and how it is read beyond that.
    pub(super) fn reading(&self) -> String {
        let between = if self.read_as.is_empty() { "" } else { "; " };
        format!("{}{between}{}", self.reading.name(), self.read_as)
    }

    /// The data as a table with a header and one row for each point.
    pub(super) fn csv(&self) -> String {
        let x = if self.form == Form::Bars { "pattern" } else { "enc_ratio" };
        let mut text = format!("panel,series,{x},{},standard deviation\n", self.y.replace(',', ";"));
        for panel in &self.panels {
            for series in &panel.series {
                for point in &series.points {
                    let x = match self.form {
                        Form::Bars => Pattern::PAPER[point.x as usize].to_string(),
                        Form::Lines => point.x.to_string(),
                    };
                    let deviation = point.deviation.map(|it| it.to_string()).unwrap_or_default();
                    text.push_str(&format!("{},{},{x},{},{deviation}\n", panel.title, series.name, point.y));
                }
            }
        }
        text
    }
}
