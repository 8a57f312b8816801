//! Common parts of all plots: margins, axes, grid.

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::draw::{Area, decimals, said, text_style};

/// A plot with linear axes.
pub(super) type Chart<'a, B> = ChartContext<'a, B, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// The axes of a plot; the vertical axis starts at 0.
pub(super) struct Axes<'a> {
    /// Heading of the plot, if any.
    pub(super) caption: Option<&'a str>,
    /// Ends of the horizontal axis, its name, the largest number of labels, and the formatter of
    /// labels.
    pub(super) x: (f64, f64),
    pub(super) x_name: &'a str,
    pub(super) x_labels: usize,
    pub(super) x_label: &'a dyn Fn(&f64) -> String,
    /// End and name of the vertical axis.
    pub(super) top: f64,
    pub(super) y_name: &'a str,
}

/// An empty plot with these axes.
pub(super) fn chart<'a, B: DrawingBackend>(
    area: &'a Area<'_, B>,
    axes: &Axes<'_>,
    scale: u32,
) -> Result<Chart<'a, B>, String> {
    let mut builder = ChartBuilder::on(area);
    builder.margin(6 * scale).margin_right(14 * scale);
    if let Some(caption) = axes.caption {
        builder.caption(caption, text_style(12 * scale));
    }
    let mut chart = builder
        .x_label_area_size(34 * scale)
        .y_label_area_size(52 * scale)
        .build_cartesian_2d(axes.x.0..axes.x.1, 0.0..axes.top)
        .map_err(said)?;
    let decimals = decimals(axes.top);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(215, 215, 215).stroke_width(scale))
        .axis_style(BLACK.stroke_width(scale))
        .set_all_tick_mark_size(4 * scale)
        .label_style(text_style(11 * scale))
        .axis_desc_style(text_style(12 * scale))
        .y_labels(10)
        .x_desc(axes.x_name)
        .y_desc(axes.y_name)
        .x_labels(axes.x_labels)
        .x_label_formatter(axes.x_label)
        .y_label_formatter(&|y| format!("{y:.decimals$}"))
        .draw()
        .map_err(said)?;
    Ok(chart)
}
