//! Error concealment: fills the parts of a frame that did not arrive.

use std::ops::Range;

use crate::format::{Depth, Format};
use crate::samples::{pack, unpack};

/// How holes in a frame are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concealment {
    /// Zeros.
    None,
    /// The same place in the previous frame.
    Previous,
    /// Linear interpolation between the nearest lines above and below; the previous frame where
    /// neither arrived.
    Interpolate,
}

/// Fills the holes of a frame. Without a previous frame, they are filled with zeros.
pub fn conceal(
    how: Concealment,
    format: &Format,
    frame: &mut [u8],
    holes: &[Range<usize>],
    previous: Option<&[u8]>,
) {
    for hole in holes {
        let before = previous.filter(|_| how != Concealment::None);
        match before {
            Some(previous) => frame[hole.clone()].copy_from_slice(&previous[hole.clone()]),
            None => frame[hole.clone()].fill(0),
        }
    }
    if how == Concealment::Interpolate {
        holes
            .iter()
            .flat_map(|hole| runs_of_lines(format, hole))
            .for_each(|run| interpolate(format, frame, holes, run));
    }
}

/// Splits a hole at the ends of lines.
fn runs_of_lines(format: &Format, hole: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
    let (line, hole) = (format.line_bytes(), hole.clone());
    (hole.start / line..hole.end.div_ceil(line))
        .map(move |at| (at * line).max(hole.start)..((at + 1) * line).min(hole.end))
}

/// A line that is complete where another has a hole.
struct NearLine {
    /// In lines.
    distance: isize,
    /// Where its part is in the frame.
    bytes: Range<usize>,
}

/// Fills a part of one line from the nearest lines of its field that are complete there.
fn interpolate(format: &Format, frame: &mut [u8], holes: &[Range<usize>], run: Range<usize>) {
    let line_bytes = format.line_bytes();
    let field_bytes = line_bytes * format.field_lines();
    let field = run.start / field_bytes * field_bytes;
    let is_there = |other: &Range<usize>| {
        let at = holes.partition_point(|hole| hole.end <= other.start);
        holes.get(at).is_none_or(|hole| hole.start >= other.end)
    };
    let moved = |lines: isize| {
        let start = run.start.checked_add_signed(lines * line_bytes as isize)?;
        let other = start..start + run.len();
        (other.start >= field && other.end <= field + field_bytes).then_some(other)
    };
    let nearest = |step: isize| {
        (1..)
            .map_while(|distance| Some(NearLine { distance, bytes: moved(step * distance)? }))
            .find(|line| is_there(&line.bytes))
    };
    match (nearest(-1), nearest(1)) {
        (Some(above), Some(below)) => mix(format.depth, frame, above, below, run),
        (Some(other), None) | (None, Some(other)) => frame.copy_within(other.bytes, run.start),
        (None, None) => {}
    }
}

/// Mixes the samples of two lines, each weighted by the distance of the other.
fn mix(depth: Depth, frame: &mut [u8], above: NearLine, below: NearLine, run: Range<usize>) {
    let (up, down) = (above.distance as u32, below.distance as u32);
    let (mut first, mut second) = (Vec::new(), Vec::new());
    unpack(depth, &frame[above.bytes], &mut first);
    unpack(depth, &frame[below.bytes], &mut second);
    for (first, second) in first.iter_mut().zip(&second) {
        let sum = u32::from(*first) * down + u32::from(*second) * up;
        *first = ((sum + (up + down) / 2) / (up + down)) as u16;
    }
    pack(depth, &first, &mut frame[run]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format() -> Format {
        "4x6p25".parse().expect("a name")
    }

    /// Every sample of a line is ten times the line's number.
    fn frame() -> Vec<u8> {
        (0..48).map(|at| at / 8 * 10).collect()
    }

    #[test]
    fn the_frame_before_stands_in() {
        let (mut frame, previous) = (frame(), vec![7; 48]);
        conceal(Concealment::Previous, &format(), &mut frame, &[8..12, 40..48], Some(&previous));
        assert_eq!((&frame[8..12], &frame[12..16], &frame[40..]), (&[7; 4][..], &[10; 4][..], &[7; 8][..]));
        conceal(Concealment::None, &format(), &mut frame, &[0..8, 16..20], Some(&previous));
        assert_eq!(&frame[16..20], [0; 4]);
    }

    #[test]
    fn a_ramp_is_interpolated_as_it_was() {
        let mut broken = frame();
        broken[12..36].fill(99);
        conceal(Concealment::Interpolate, &format(), &mut broken, std::slice::from_ref(&(12..36)), None);
        assert_eq!(broken, frame());
    }

    #[test]
    fn edges_are_copied_and_a_frame_without_lines_is_the_one_before() {
        let mut broken = frame();
        conceal(Concealment::Interpolate, &format(), &mut broken, &[0..8, 40..48], None);
        assert_eq!((broken[0], broken[47]), (10, 40));
        conceal(
            Concealment::Interpolate,
            &format(),
            &mut broken,
            std::slice::from_ref(&(0..48)),
            Some(&[3; 48]),
        );
        assert_eq!(broken, [3; 48]);
    }

    #[test]
    fn lines_of_the_other_field_are_not_taken() {
        let format: Format = "4x6i50".parse().expect("a name");
        let mut broken = frame();
        conceal(Concealment::Interpolate, &format, &mut broken, std::slice::from_ref(&(16..24)), None);
        assert_eq!(broken[16..24], [10; 8]);
    }
}
