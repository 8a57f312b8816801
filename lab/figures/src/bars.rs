//! Figures 5 to 7: groups of bars, relative to the value at `W = 1`.

use convoy_sim::Pattern;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axes::{Axes, chart};
use super::draw::{Area, ceiling, row_start, said, text_style, text_width};
use super::plots::{Figure, Panel, name};

/// A light and a dark fill with a black edge, which differ without colour.
const FILLS: [RGBColor; 2] = [RGBColor(222, 235, 247), RGBColor(49, 96, 140)];
/// Width of a bar, where a group has a width of 1.
const WIDTH: f64 = 0.38;

pub(super) fn bars<B: DrawingBackend>(
    area: &Area<'_, B>,
    figure: &Figure,
    panel: &Panel,
    scale: u32,
) -> Result<(), String> {
    let points = || panel.series.iter().flat_map(|series| &series.points);
    let top = ceiling(points().map(|point| point.y).fold(1.0, f64::max) * 1.04);
    let groups = Pattern::PAPER.len();
    let ends = (-0.5, groups as f64 - 0.5);
    let label =
        |x: &f64| Pattern::PAPER.get(x.round() as usize).map(|pattern| name(*pattern)).unwrap_or_default();
    let axes = Axes {
        caption: None,
        x: ends,
        x_name: "pattern (sizes: payload)",
        x_labels: groups + 1,
        x_label: &label,
        top,
        y_name: figure.y,
    };
    let mut chart = chart(area, &axes, scale)?;
    let value = text_style(9 * scale).pos(Pos::new(HPos::Center, VPos::Bottom));
    for (place, (series, fill)) in panel.series.iter().zip(FILLS).enumerate() {
        for point in &series.points {
            let left = point.x + WIDTH * (place as f64 - 1.0);
            let corners = [(left, 0.0), (left + WIDTH, point.y)];
            let (inside, edge) = (Rectangle::new(corners, fill.filled()), BLACK.stroke_width(scale));
            chart.draw_series([inside, Rectangle::new(corners, edge)]).map_err(said)?;
            // The label must not cross the line at 1.
            let is_just_below = (1.0 - top * 0.05..1.0).contains(&point.y);
            let foot = if is_just_below { 1.0 } else { point.y };
            let at = (left + WIDTH / 2.0, foot + top * 0.008);
            chart.draw_series([Text::new(format!("{:.2}", point.y), at, value.clone())]).map_err(said)?;
        }
    }
    let one = [(ends.0, 1.0), (ends.1, 1.0)];
    let (dash, gap) = ((6 * scale) as i32, (4 * scale) as i32);
    chart.draw_series(DashedLineSeries::new(one, dash, gap, BLACK.stroke_width(scale))).map_err(said)?;
    Ok(())
}

pub(super) fn legend<B: DrawingBackend>(
    area: &Area<'_, B>,
    names: &[&str],
    scale: u32,
) -> Result<(), String> {
    let style = text_style(11 * scale).pos(Pos::new(HPos::Left, VPos::Center));
    let (sample, side) = ((22 * scale) as i32, (12 * scale) as i32);
    let mut x = row_start(area, names, sample, scale)?;
    for (name, fill) in names.iter().zip(FILLS) {
        let corners = [(x, side / 2), (x + side, side * 3 / 2)];
        area.draw(&Rectangle::new(corners, fill.filled())).map_err(said)?;
        area.draw(&Rectangle::new(corners, BLACK.stroke_width(scale))).map_err(said)?;
        area.draw(&Text::new((*name).to_owned(), (x + sample, side), style.clone())).map_err(said)?;
        x += sample + text_width(area, name, scale)? + (12 * scale) as i32;
    }
    Ok(())
}
