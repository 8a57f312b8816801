//! Draws figures: the same picture as SVG and, larger, as PNG. Series differ in marker and dash as
//! well as in colour, so that they can be distinguished in print without colour.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::FontStyle;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use png::{PixelDimensions, Unit};

use super::axes::{Axes, chart};
use super::marks::{Look, looks};
use super::plots::{Figure, Form, Panel, Point};
use super::runs::ENC_RATIOS;
use super::{FigureError, bars};

/// Size of an SVG in pixels; each further panel makes it wider.
pub(super) const SIZE: (u32, u32) = (620, 430);
pub(super) const PANEL_WIDTH: u32 = 330;
/// Scale of a PNG: 300 dpi at a print of 16 cm.
const PNG_SCALE: u32 = 3;
const PIXELS_PER_METRE: u32 = 11_811;
const BYTES_PER_PIXEL: usize = 3;
/// Half the width of the caps of a deviation, on the axis of ratios.
const CAP: f64 = 0.07;

pub(super) type Area<'a, B> = DrawingArea<B, Shift>;
pub(super) type Drawn = Result<(), String>;

/// The font for text, included because a machine may have none.
pub(super) const FONT: &str = "sans-serif";

/// A picture that can be drawn by any backend.
pub(super) trait Picture {
    /// Size in pixels of the SVG.
    fn size(&self) -> (u32, u32);
    /// Draws the picture, with its size multiplied by `scale`.
    fn draw<B: DrawingBackend>(&self, backend: B, scale: u32) -> Drawn;
}

impl Picture for Figure {
    fn size(&self) -> (u32, u32) {
        (SIZE.0.max(PANEL_WIDTH * self.panels.len() as u32), SIZE.1)
    }

    fn draw<B: DrawingBackend>(&self, backend: B, scale: u32) -> Drawn {
        picture(backend, self, scale)
    }
}

/// Draws a figure as SVG.
///
/// # Errors
/// The message of the drawing library.
pub(super) fn svg(figure: &impl Picture) -> Result<String, String> {
    // The font is valid, since it is part of the program.
    let _ = plotters::style::register_font(
        FONT,
        FontStyle::Normal,
        include_bytes!("../assets/DejaVuSans-subset.ttf"),
    );
    // The library writes an SVG file when it is dropped, and discards errors.
    let mut text = String::new();
    figure.draw(SVGBackend::with_string(&mut text, figure.size()), 1)?;
    Ok(text)
}

/// Draws a figure as `stem.svg` and `stem.png`.
///
/// # Errors
/// [`FigureError::Drawing`] says which file could not be written.
pub(super) fn draw(figure: &impl Picture, stem: &Path) -> Result<(), FigureError> {
    let (width, height) = figure.size();
    let failed = |path: &Path, what: String| FigureError::Drawing(path.to_owned(), what);
    let svg_path = stem.with_extension("svg");
    let text = svg(figure).map_err(|what| failed(&svg_path, what))?;
    std::fs::write(&svg_path, text).map_err(|error| failed(&svg_path, error.to_string()))?;
    let png = stem.with_extension("png");
    let size = (width * PNG_SCALE, height * PNG_SCALE);
    let mut pixels = vec![0; BYTES_PER_PIXEL * size.0 as usize * size.1 as usize];
    figure
        .draw(BitMapBackend::with_buffer(&mut pixels, size), PNG_SCALE)
        .map_err(|what| failed(&png, what))?;
    write_png(&png, size.0, size.1, &pixels).map_err(|error| failed(&png, error.to_string()))
}

/// Writes RGB pixels as PNG. The library's own encoder would add decoders of several formats that
/// are not needed.
fn write_png(path: &Path, width: u32, height: u32, pixels: &[u8]) -> Result<(), png::EncodingError> {
    let mut encoder = png::Encoder::new(BufWriter::new(File::create(path)?), width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let resolution = PixelDimensions { xppu: PIXELS_PER_METRE, yppu: PIXELS_PER_METRE, unit: Unit::Meter };
    encoder.set_pixel_dims(Some(resolution));
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()
}

fn picture<B: DrawingBackend>(backend: B, figure: &Figure, scale: u32) -> Drawn {
    let root = backend.into_drawing_area();
    root.fill(&WHITE).map_err(said)?;
    let (width, height) = root.dim_in_pixel();
    let scaled = |pixels: u32| (pixels * scale) as i32;
    let heading = format!("Figure {}. {}", figure.number, figure.title);
    let style = text_style(13 * scale).pos(Pos::new(HPos::Center, VPos::Center));
    root.draw(&Text::new(heading, (width as i32 / 2, scaled(16)), style)).map_err(said)?;
    let names: Vec<&str> = figure.panels[0].series.iter().map(|series| series.name.as_str()).collect();
    let looks = looks(names.len());
    let (_, rest) = root.split_vertically(scaled(30));
    let (plots, key) = rest.split_vertically(height as i32 - scaled(30) - scaled(30));
    for (panel, area) in figure.panels.iter().zip(plots.split_evenly((1, figure.panels.len()))) {
        match figure.form {
            Form::Lines => lines(&area, figure, panel, &looks, scale)?,
            Form::Bars => bars::bars(&area, figure, panel, scale)?,
        }
    }
    match figure.form {
        Form::Lines => legend(&key, &names, &looks, scale)?,
        Form::Bars => bars::legend(&key, &names, scale)?,
    }
    root.present().map_err(said)
}

fn lines<B: DrawingBackend>(
    area: &Area<'_, B>,
    figure: &Figure,
    panel: &Panel,
    looks: &[Look],
    scale: u32,
) -> Drawn {
    let points = || panel.series.iter().flat_map(|series| &series.points);
    let top = ceiling(points().map(|point| point.y + point.deviation.unwrap_or(0.0)).fold(0.0, f64::max));
    let is_ratio = |x: &f64| ENC_RATIOS.iter().any(|ratio| (f64::from(*ratio) - x).abs() < 0.01);
    let axes = Axes {
        caption: Some(&panel.title),
        x: (0.5, 7.5),
        x_name: "T_enc ratio of the CPU",
        x_labels: 8,
        x_label: &|x| if is_ratio(x) { format!("{x:.0}") } else { String::new() },
        top,
        y_name: figure.y,
    };
    let mut chart = chart(area, &axes, scale)?;
    for (place, (series, look)) in panel.series.iter().zip(looks).enumerate() {
        // Series are shifted slightly, since equal values and their deviations would hide each
        // other.
        let shift = |point: &Point| {
            let step = if point.deviation.is_some() { 0.22 } else { 0.05 };
            point.x + step * (place as f64 - (panel.series.len() as f64 - 1.0) / 2.0)
        };
        let path: Vec<(f64, f64)> = series.points.iter().map(|point| (shift(point), point.y)).collect();
        let whiskers = series.points.iter().filter_map(|point| {
            let (x, deviation) = (shift(point), point.deviation?);
            let (low, high) = ((point.y - deviation).max(0.0), point.y + deviation);
            let thin = look.color.stroke_width(scale);
            let cap = |y| vec![(x - CAP, y), (x + CAP, y)];
            Some([vec![(x, low), (x, high)], cap(low), cap(high)].map(|path| PathElement::new(path, thin)))
        });
        chart.draw_series(whiskers.flatten()).map_err(said)?;
        let stroke = look.color.stroke_width(scale * 3 / 2 + scale % 2);
        match look.dash {
            Some((size, gap)) => {
                let (size, gap) = ((size * scale) as i32, (gap * scale) as i32);
                chart.draw_series(DashedLineSeries::new(path.clone(), size, gap, stroke)).map_err(said)?
            }
            None => chart.draw_series(LineSeries::new(path.clone(), stroke)).map_err(said)?,
        };
        for at in path {
            look.marker.draw(chart.plotting_area(), at, look.color, scale)?;
        }
    }
    Ok(())
}

/// Draws the legend as a row under the plots.
pub(super) fn legend<B: DrawingBackend>(
    area: &Area<'_, B>,
    names: &[&str],
    looks: &[Look],
    scale: u32,
) -> Drawn {
    let style = text_style(11 * scale).pos(Pos::new(HPos::Left, VPos::Center));
    let sample = (34 * scale) as i32;
    let mut x = row_start(area, names, sample, scale)?;
    let y = (12 * scale) as i32;
    for (name, look) in names.iter().zip(looks) {
        let width = sample * 4 / 5;
        let stroke = look.color.stroke_width(scale * 3 / 2 + scale % 2);
        let (size, gap) = look.dash.unwrap_or((u32::MAX / 8, 0));
        let mut from = 0;
        while from < width {
            let to = width.min(from.saturating_add((size.saturating_mul(scale)).min(i32::MAX as u32) as i32));
            area.draw(&PathElement::new(vec![(x + from, y), (x + to, y)], stroke)).map_err(said)?;
            from = to.saturating_add((gap * scale) as i32).max(from + 1);
        }
        look.marker.draw(area, (x + width / 2, y), look.color, scale)?;
        area.draw(&Text::new((*name).to_owned(), (x + sample, y), style.clone())).map_err(said)?;
        x += sample + text_width(area, name, scale)? + (12 * scale) as i32;
    }
    Ok(())
}

/// Start of a centred row of samples and names.
pub(super) fn row_start<B: DrawingBackend>(
    area: &Area<'_, B>,
    names: &[&str],
    sample: i32,
    scale: u32,
) -> Result<i32, String> {
    let mut width = 0;
    for name in names {
        width += sample + text_width(area, name, scale)? + (12 * scale) as i32;
    }
    Ok((area.dim_in_pixel().0 as i32 - width) / 2)
}

pub(super) fn text_width<B: DrawingBackend>(
    area: &Area<'_, B>,
    text: &str,
    scale: u32,
) -> Result<i32, String> {
    let (width, _) = area.estimate_text_size(text, &text_style(11 * scale)).map_err(said)?;
    Ok(width as i32)
}

pub(super) fn text_style(size: u32) -> TextStyle<'static> {
    TextStyle::from((FONT, size).into_font()).color(&BLACK)
}

/// The next round number that leaves some space above a maximum.
pub(super) fn ceiling(most: f64) -> f64 {
    if most <= 0.0 {
        return 1.0;
    }
    let airy = most * 1.06;
    let unit = 10f64.powf(airy.log10().floor());
    let steps = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    steps.into_iter().map(|step| step * unit).find(|round| *round >= airy).unwrap_or(airy)
}

/// Number of decimals that makes the axis's labels differ.
pub(super) fn decimals(top: f64) -> usize {
    match top {
        top if top > 8.0 => 0,
        top if top > 0.8 => 1,
        _ => 2,
    }
}

pub(super) fn said<E: std::fmt::Display>(error: E) -> String {
    error.to_string()
}
