//! Draws charts.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axes::{Axes, Chart as Axed, chart};
use super::chart::{Body, Boxes, Chart, Curve, Plot, PlotForm};
use super::draw::{Area, Drawn, Picture, SIZE, ceiling, legend, row_start, said, text_style, text_width};
use super::marks::{Look, Marker, looks};

/// Fills from light to dark with a black edge, which differ without colour.
const FILLS: [RGBColor; 6] = [
    RGBColor(222, 235, 247),
    RGBColor(49, 96, 140),
    RGBColor(158, 197, 222),
    RGBColor(253, 212, 158),
    RGBColor(190, 190, 190),
    RGBColor(240, 240, 240),
];
/// Appearance of a paper's own numbers.
const PAPERS: Look =
    Look { color: RGBColor(200, 30, 30), dash: Some((0, 40)), marker: Marker::Diamond(false) };
/// Width of all bars of a group, where a group has a width of 1.
const GROUP: f64 = 0.84;
/// Width of the caps of a whisker, as a fraction of the axis of curves, and of a bar.
const CURVE_CAP: f64 = 0.012;
const BAR_CAP: f64 = 0.3;
/// Width of a series in the legend, and of each letter of its name, in pixels of the SVG. A long
/// legend makes the picture wider.
const KEY_SAMPLE: usize = 54;
const KEY_LETTER: usize = 7;

/// A plot or table with its heading.
pub(super) struct Headed<'a> {
    pub(super) heading: String,
    pub(super) body: &'a Body,
}

impl Chart {
    fn headed(&self) -> Headed<'_> {
        Headed { heading: format!("Figure {}. {}", self.number, self.title), body: &self.body }
    }
}

impl Picture for Chart {
    fn size(&self) -> (u32, u32) {
        self.headed().size()
    }

    fn draw<B: DrawingBackend>(&self, backend: B, scale: u32) -> Drawn {
        self.headed().draw(backend, scale)
    }
}

impl Picture for Headed<'_> {
    fn size(&self) -> (u32, u32) {
        let Body::Plot(plot) = self.body else { return SIZE };
        let key: usize =
            plot.series.iter().map(|series| KEY_SAMPLE + KEY_LETTER * series.name.chars().count()).sum();
        (SIZE.0.max(key as u32), SIZE.1)
    }

    fn draw<B: DrawingBackend>(&self, backend: B, scale: u32) -> Drawn {
        let root = backend.into_drawing_area();
        root.fill(&WHITE).map_err(said)?;
        let (width, height) = root.dim_in_pixel();
        let scaled = |pixels: u32| (pixels * scale) as i32;
        let style = text_style(13 * scale).pos(Pos::new(HPos::Center, VPos::Center));
        root.draw(&Text::new(self.heading.as_str(), (width as i32 / 2, scaled(16)), style)).map_err(said)?;
        let (_, rest) = root.split_vertically(scaled(30));
        match self.body {
            Body::Boxes(table) => boxes(&rest, table, scale)?,
            Body::Plot(plot) => {
                let (area, key) = rest.split_vertically(height as i32 - scaled(60));
                match &plot.form {
                    PlotForm::Curves(end) => curves(&area, &key, plot, *end, scale)?,
                    PlotForm::Groups(names) => bars(&area, &key, plot, names, false, scale)?,
                    PlotForm::Stacks(names) => bars(&area, &key, plot, names, true, scale)?,
                }
            }
        }
        root.present().map_err(said)
    }
}

/// End of an axis; a percentage ends at 100.
pub(super) fn axis_end(quantity: &str, airy: f64) -> f64 {
    if quantity.ends_with("/ %") { airy.min(100.0) } else { airy }
}

fn marks<B: DrawingBackend>(chart: &Axed<'_, B>, series: &Curve, look: Look, scale: u32) -> Drawn {
    series.points.iter().try_for_each(|at| look.marker.draw(chart.plotting_area(), *at, look.color, scale))
}

/// The stem and the caps of a whisker, with caps of this width on the axis.
fn whisker(x: f64, low: f64, high: f64, width: f64, style: ShapeStyle) -> [PathElement<(f64, f64)>; 3] {
    let cap = |y| vec![(x - width / 2.0, y), (x + width / 2.0, y)];
    [vec![(x, low), (x, high)], cap(low), cap(high)].map(|path| PathElement::new(path, style))
}

/// The highest end of all whiskers; 0 if there are none.
fn highest_whisker(plot: &Plot) -> f64 {
    plot.series.iter().flat_map(|series| &series.whiskers).map(|(_, _, high)| *high).fold(0.0, f64::max)
}

fn curves<B: DrawingBackend>(
    area: &Area<'_, B>,
    key: &Area<'_, B>,
    plot: &Plot,
    end: f64,
    scale: u32,
) -> Drawn {
    let most = plot.series.iter().flat_map(|series| &series.points).map(|(_, y)| *y).fold(0.0, f64::max);
    let axes = Axes {
        caption: None,
        x: (0.0, end),
        x_name: plot.x,
        x_labels: 9,
        x_label: &|x| format!("{x:.0}"),
        top: axis_end(plot.y, ceiling(most.max(highest_whisker(plot)))),
        y_name: plot.y,
    };
    let mut chart = chart(area, &axes, scale)?;
    let mut looks = looks(plot.series.len());
    for (series, look) in plot.series.iter().zip(&mut looks) {
        if series.is_papers {
            *look = PAPERS;
        } else {
            let stroke = look.color.stroke_width(scale * 3 / 2 + scale % 2);
            let path = series.points.clone();
            match look.dash {
                Some((size, gap)) => {
                    let (size, gap) = ((size * scale) as i32, (gap * scale) as i32);
                    chart.draw_series(DashedLineSeries::new(path, size, gap, stroke)).map_err(said)?
                }
                None => chart.draw_series(LineSeries::new(path, stroke)).map_err(said)?,
            };
        }
        let thin = look.color.stroke_width(scale);
        let whiskers =
            series.whiskers.iter().flat_map(|(x, low, high)| whisker(*x, *low, *high, end * CURVE_CAP, thin));
        chart.draw_series(whiskers).map_err(said)?;
        marks(&chart, series, *look, scale)?;
    }
    let names: Vec<&str> = plot.series.iter().map(|series| series.name.as_str()).collect();
    legend(key, &names, &looks, scale)
}

fn bars<B: DrawingBackend>(
    area: &Area<'_, B>,
    key: &Area<'_, B>,
    plot: &Plot,
    names: &[String],
    is_stacked: bool,
    scale: u32,
) -> Drawn {
    let simulated: Vec<&Curve> = plot.series.iter().filter(|series| !series.is_papers).collect();
    let height_at = |place: usize| -> f64 {
        let here = simulated.iter().flat_map(|it| &it.points).filter(|(x, _)| x.round() as usize == place);
        if is_stacked { here.map(|(_, y)| y).sum() } else { here.map(|(_, y)| *y).fold(0.0, f64::max) }
    };
    let papers = plot.series.iter().filter(|series| series.is_papers);
    let marked = papers.clone().flat_map(|series| &series.points).map(|(_, y)| *y);
    let spread = if is_stacked { 0.0 } else { highest_whisker(plot) };
    let most = (0..names.len()).map(height_at).chain(marked).fold(spread, f64::max);
    let axes = Axes {
        caption: None,
        x: (-0.5, names.len() as f64 - 0.5),
        x_name: plot.x,
        x_labels: names.len() + 1,
        x_label: &|x| names.get(x.round() as usize).cloned().unwrap_or_default(),
        top: ceiling(most * 1.02),
        y_name: plot.y,
    };
    let mut chart = chart(area, &axes, scale)?;
    let mut foot = vec![0.0; names.len()];
    let width = if is_stacked { 0.56 } else { GROUP / simulated.len().max(1) as f64 };
    let value = text_style(9 * scale).pos(Pos::new(HPos::Center, VPos::Bottom));
    // Labels are placed above the mark of a paper's number, if there is one.
    let air = axes.top * if papers.clone().next().is_some() { 0.022 } else { 0.008 };
    for (place, (series, fill)) in simulated.iter().zip(FILLS.iter().cycle()).enumerate() {
        for (x, y) in &series.points {
            let left = if is_stacked { x - width / 2.0 } else { x - GROUP / 2.0 + width * place as f64 };
            let base = if is_stacked { foot[x.round() as usize] } else { 0.0 };
            let corners = [(left, base), (left + width, base + y)];
            let (inside, edge) = (Rectangle::new(corners, fill.filled()), BLACK.stroke_width(scale));
            chart.draw_series([inside, Rectangle::new(corners, edge)]).map_err(said)?;
            foot[x.round() as usize] = base + y;
            let spread = series.whiskers.iter().find(|(at, ..)| at == x).map(|(_, low, high)| (*low, *high));
            // The whiskers of a stack are placed side by side.
            let middle = if is_stacked {
                left + width * (place as f64 + 1.0) / (simulated.len() + 1) as f64
            } else {
                left + width / 2.0
            };
            if let Some((low, high)) = spread {
                let cap = if is_stacked { BAR_CAP / 4.0 } else { BAR_CAP };
                chart
                    .draw_series(whisker(
                        middle,
                        base + low,
                        base + high,
                        width * cap,
                        BLACK.stroke_width(scale),
                    ))
                    .map_err(said)?;
            }
            if !is_stacked {
                let above = spread.map_or(*y, |(_, high)| high.max(*y));
                let at = (left + width / 2.0, above + air);
                chart.draw_series([Text::new(short(*y), at, value.clone())]).map_err(said)?;
            }
        }
    }
    if is_stacked {
        let sums = foot
            .iter()
            .enumerate()
            .map(|(x, sum)| Text::new(short(*sum), (x as f64, sum + axes.top * 0.008), value.clone()));
        chart.draw_series(sums).map_err(said)?;
    }
    for series in papers {
        marks(&chart, series, PAPERS, scale)?;
    }
    bar_legend(key, plot, scale)
}

/// Formats a number with three significant digits.
fn short(value: f64) -> String {
    if value >= 99.95 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// Draws the legend as a row under the plot.
fn bar_legend<B: DrawingBackend>(area: &Area<'_, B>, plot: &Plot, scale: u32) -> Drawn {
    let style = text_style(11 * scale).pos(Pos::new(HPos::Left, VPos::Center));
    let (sample, side) = ((22 * scale) as i32, (12 * scale) as i32);
    let names: Vec<&str> = plot.series.iter().map(|series| series.name.as_str()).collect();
    let mut x = row_start(area, &names, sample, scale)?;
    let mut fills = FILLS.iter().cycle();
    for series in &plot.series {
        if series.is_papers {
            PAPERS.marker.draw(area, (x + side / 2, side), PAPERS.color, scale)?;
        } else if let Some(fill) = fills.next() {
            let corners = [(x, side / 2), (x + side, side * 3 / 2)];
            area.draw(&Rectangle::new(corners, fill.filled())).map_err(said)?;
            area.draw(&Rectangle::new(corners, BLACK.stroke_width(scale))).map_err(said)?;
        }
        area.draw(&Text::new(series.name.clone(), (x + sample, side), style.clone())).map_err(said)?;
        x += sample + text_width(area, &series.name, scale)? + (12 * scale) as i32;
    }
    Ok(())
}

fn boxes<B: DrawingBackend>(area: &Area<'_, B>, table: &Boxes, scale: u32) -> Drawn {
    let (width, height) = area.dim_in_pixel();
    let margin = (12 * scale) as i32;
    let (columns, rows) = (table.columns.len() as i32 + 1, table.rows.len() as i32 + 1);
    let (wide, high) = ((width as i32 - 2 * margin) / columns, (height as i32 - 2 * margin) / rows);
    let style = text_style(11 * scale).pos(Pos::new(HPos::Center, VPos::Center));
    let gap = (4 * scale) as i32;
    let cell = |column: i32, row: i32, text: &str, fill: Option<RGBColor>| -> Drawn {
        let (x, y) = (margin + column * wide, margin + row * high);
        if let Some(fill) = fill {
            let corners = [(x + gap, y + gap), (x + wide - gap, y + high - gap)];
            area.draw(&Rectangle::new(corners, fill.filled())).map_err(said)?;
            area.draw(&Rectangle::new(corners, BLACK.stroke_width(scale))).map_err(said)?;
        }
        let lines: Vec<&str> = text.split('\n').collect();
        let line = (15 * scale) as i32;
        let top = y + high / 2 - line * (lines.len() as i32 - 1) / 2;
        for (at, words) in (0..).zip(lines) {
            let at = (x + wide / 2, top + line * at);
            area.draw(&Text::new(words.to_owned(), at, style.clone())).map_err(said)?;
        }
        Ok(())
    };
    for (column, name) in (1..).zip(&table.columns) {
        cell(column, 0, name, None)?;
    }
    for (row, (name, cells)) in (1..).zip(&table.rows) {
        cell(0, row, name, None)?;
        for (column, (text, stands_out)) in (1..).zip(cells) {
            cell(column, row, text, Some(if *stands_out { FILLS[2] } else { FILLS[5] }))?;
        }
    }
    Ok(())
}
