//! Markers, dashes and colours of series.

use plotters::coord::CoordTranslate;
use plotters::prelude::*;

/// Appearance of a series.
#[derive(Clone, Copy)]
pub(super) struct Look {
    pub(super) color: RGBColor,
    /// Length of a dash and of the following gap in pixels of the SVG; `None` is a solid line.
    pub(super) dash: Option<(u32, u32)>,
    pub(super) marker: Marker,
}

/// Marker shapes that differ without colour; the flag says whether they are filled.
#[derive(Clone, Copy)]
pub(super) enum Marker {
    Circle(bool),
    Square(bool),
    Triangle(bool),
    Diamond(bool),
    Cross,
}

/// Appearance of the first series, in the colours of Okabe and Ito, which colour-blind readers can
/// tell apart.
pub(super) fn looks(count: usize) -> Vec<Look> {
    let look =
        |color: (u8, u8, u8), dash, marker| Look { color: RGBColor(color.0, color.1, color.2), dash, marker };
    let all = [
        look((0, 0, 0), None, Marker::Circle(true)),
        look((213, 94, 0), Some((7, 4)), Marker::Square(false)),
        look((0, 114, 178), None, Marker::Triangle(true)),
        look((0, 158, 115), Some((3, 3)), Marker::Diamond(false)),
        look((204, 121, 167), None, Marker::Square(true)),
        look((100, 60, 20), Some((12, 4)), Marker::Circle(false)),
        look((86, 140, 190), Some((5, 2)), Marker::Cross),
    ];
    all.into_iter().cycle().take(count).collect()
}

impl Marker {
    /// Draws the marker at a point of any area.
    pub(super) fn draw<B: DrawingBackend, C: CoordTranslate>(
        self,
        area: &DrawingArea<B, C>,
        at: C::From,
        color: RGBColor,
        scale: u32,
    ) -> Result<(), String>
    where
        C::From: Clone,
    {
        let r = (4 * scale) as i32;
        let is_filled = match self {
            Self::Circle(filled) | Self::Square(filled) | Self::Triangle(filled) | Self::Diamond(filled) => {
                filled
            }
            Self::Cross => true,
        };
        let inside = if is_filled { color.filled() } else { WHITE.filled() };
        let edge = color.stroke_width(scale * 3 / 2);
        let said = |error: DrawingAreaErrorKind<B::ErrorType>| error.to_string();
        let outline: Vec<(i32, i32)> = match self {
            Self::Circle(_) => {
                area.draw(&(EmptyElement::at(at.clone()) + Circle::new((0, 0), r, inside))).map_err(said)?;
                return area.draw(&(EmptyElement::at(at) + Circle::new((0, 0), r, edge))).map_err(said);
            }
            Self::Cross => {
                let strokes = EmptyElement::at(at)
                    + PathElement::new(vec![(-r, -r), (r, r)], edge)
                    + PathElement::new(vec![(-r, r), (r, -r)], edge);
                return area.draw(&strokes).map_err(said);
            }
            Self::Square(_) => vec![(-r, -r), (r, -r), (r, r), (-r, r), (-r, -r)],
            Self::Triangle(_) => vec![(0, -r - 1), (r, r - 1), (-r, r - 1), (0, -r - 1)],
            Self::Diamond(_) => vec![(0, -r - 1), (r + 1, 0), (0, r + 1), (-r - 1, 0), (0, -r - 1)],
        };
        let shape =
            EmptyElement::at(at) + Polygon::new(outline.clone(), inside) + PathElement::new(outline, edge);
        area.draw(&shape).map_err(said)
    }
}
