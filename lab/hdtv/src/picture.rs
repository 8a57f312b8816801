//! The moving test picture: fixed colour bars with the frame number, a moving zone plate and a
//! moving colour ramp. It is deterministic, so a receiver can compute each frame and compare.

use crate::format::{Format, Sampling};
use crate::samples::pack;

/// Pixels by which the moving parts shift per frame.
const SPEED: usize = 8;
/// Digits of 3 by 5 dots: a row of dots is three bits.
const DIGITS: [[u8; 5]; 10] = [
    [7, 5, 5, 5, 7],
    [2, 6, 2, 2, 7],
    [7, 1, 7, 4, 7],
    [7, 1, 7, 1, 7],
    [5, 5, 7, 1, 1],
    [7, 4, 7, 1, 7],
    [7, 4, 7, 5, 7],
    [7, 1, 1, 1, 1],
    [7, 5, 7, 5, 7],
    [7, 5, 7, 1, 7],
];
/// Digits shown.
const PLACES: usize = 6;
/// White, yellow, cyan, green, magenta, red, blue and black, at 75 % as in television's colour
/// bars.
const BARS: [[f32; 3]; 8] = [
    [0.75, 0.75, 0.75],
    [0.75, 0.75, 0.0],
    [0.0, 0.75, 0.75],
    [0.0, 0.75, 0.0],
    [0.75, 0.0, 0.75],
    [0.75, 0.0, 0.0],
    [0.0, 0.0, 0.75],
    [0.0, 0.0, 0.0],
];

/// The picture, drawn once; a frame is a copy of its lines, shifted.
pub struct Picture {
    format: Format,
    /// Each line twice in a row, so that a shifted line is one copy.
    canvas: Vec<u8>,
    white: Vec<u8>,
    black: Vec<u8>,
}

impl Picture {
    /// Draws the picture.
    pub fn new(format: Format) -> Self {
        let line_bytes = format.line_bytes();
        let mut canvas = vec![0; 2 * format.frame_bytes()];
        let mut samples = Vec::new();
        for (row, twice) in canvas.chunks_exact_mut(2 * line_bytes).enumerate() {
            samples.clear();
            let pixels = (0..format.width)
                .map(|x| colour(x as f32 / format.width as f32, row as f32 / format.height as f32));
            to_samples(&format, pixels, &mut samples);
            pack(format.depth, &samples, &mut twice[..line_bytes]);
            twice.copy_within(..line_bytes, line_bytes);
        }
        let flat = |light: f32| {
            let (mut samples, mut bytes) = (Vec::new(), vec![0; line_bytes]);
            to_samples(&format, (0..format.width).map(|_| [light; 3]), &mut samples);
            pack(format.depth, &samples, &mut bytes);
            bytes
        };
        Self { format, canvas, white: flat(0.9), black: flat(0.05) }
    }

    /// Copies the frame with this number into `frame`.
    pub fn draw(&self, number: u64, frame: &mut [u8]) {
        let Format { width, height, .. } = self.format;
        let (group, line_bytes) = (self.format.pgroup(), self.format.line_bytes());
        let fields = self.format.fields();
        for (row, twice) in self.canvas.chunks_exact(2 * line_bytes).enumerate() {
            // The second field is half a frame later, so its lines have moved further.
            let instant = number as usize * fields + row % fields;
            let moved = instant * SPEED / fields % width / group.pixels;
            let moved = match part(row as f32 / height as f32) {
                PicturePart::Bars => 0,
                PicturePart::Plate => moved,
                PicturePart::Ramp => width / group.pixels - moved,
            };
            let start = self.format.row_start(row);
            frame[start..start + line_bytes].copy_from_slice(&twice[moved * group.bytes..][..line_bytes]);
        }
        self.draw_number(number, frame);
    }

    /// Draws the frame number over the colour bars.
    fn draw_number(&self, number: u64, frame: &mut [u8]) {
        let Format { width, height, .. } = self.format;
        let group = self.format.pgroup();
        // A dot is a whole number of pixel groups wide, and as high as wide. A margin of one dot
        // surrounds the number.
        let dot = (width / 160).max(1).next_multiple_of(group.pixels);
        let (columns, rows) = (PLACES * 4 + 1, 7);
        let left = width.saturating_sub(columns * dot) / 2 / group.pixels * group.pixels;
        if left + columns * dot > width || dot * (rows + 1) > height {
            return;
        }
        for line in 0..rows * dot {
            let start = self.format.row_start(dot + line);
            for column in 0..columns {
                let is_lit = (line / dot).checked_sub(1).filter(|row| *row < 5).is_some_and(|row| {
                    let (place, dot) = (column / 4, column % 4);
                    let power = 10_u64.pow((PLACES - 1).saturating_sub(place) as u32);
                    let digit = DIGITS[(number / power % 10) as usize];
                    place < PLACES && dot > 0 && digit[row] >> (3 - dot) & 1 == 1
                });
                let from = if is_lit { &self.white } else { &self.black };
                let bytes = dot / group.pixels * group.bytes;
                let at = start + (left + column * dot) / group.pixels * group.bytes;
                frame[at..at + bytes].copy_from_slice(&from[..bytes]);
            }
        }
    }
}

enum PicturePart {
    Bars,
    Plate,
    Ramp,
}

fn part(y: f32) -> PicturePart {
    match y {
        y if y < 0.35 => PicturePart::Bars,
        y if y < 0.8 => PicturePart::Plate,
        _ => PicturePart::Ramp,
    }
}

/// Red, green and blue at a point of the picture; coordinates and result are from 0 to 1.
fn colour(x: f32, y: f32) -> [f32; 3] {
    match part(y) {
        PicturePart::Bars => BARS[((x * 8.0) as usize).min(7)],
        PicturePart::Plate => {
            let (dx, dy) = ((x - 0.5) * 16.0 / 9.0, y - 0.575);
            [0.5 + 0.4 * (900.0 * (dx * dx + dy * dy)).cos(); 3]
        }
        // A full turn of the hue, so that the two ends of a line match.
        PicturePart::Ramp => {
            [0.0, 1.0, 2.0].map(|third| 0.5 + 0.45 * (std::f32::consts::TAU * (x + third / 3.0)).cos())
        }
    }
}

/// Cb, Y and Cr in units of 8-bit samples (ITU-R BT.709, narrow range).
fn to_ycbcr([red, green, blue]: [f32; 3]) -> [f32; 3] {
    let y = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    let [cb, cr] = [(blue - y) / 1.8556, (red - y) / 1.5748].map(|part| 128.0 + 224.0 * part);
    [cb, 16.0 + 219.0 * y, cr]
}

fn to_samples(format: &Format, pixels: impl Iterator<Item = [f32; 3]>, samples: &mut Vec<u16>) {
    let unit = f32::from(1_u16 << (format.depth.bits() - 8));
    let sample = |value: f32| (value * unit).round() as u16;
    match format.sampling {
        Sampling::Rgb => samples.extend(pixels.flatten().map(|part| sample(part * 255.0))),
        Sampling::Ycbcr422 => {
            let mut colour = [0; 2];
            for (at, pixel) in pixels.map(to_ycbcr).enumerate() {
                if at.is_multiple_of(2) {
                    colour = [pixel[0], pixel[2]].map(sample);
                }
                samples.extend([colour[at % 2], sample(pixel[1])]);
            }
        }
        Sampling::Ycbcr444 => samples.extend(pixels.flat_map(to_ycbcr).map(sample)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Depth;

    #[test]
    fn frames_differ_and_are_the_same_each_time() {
        for name in ["320x180p50", "320x180i50", "16x8p25"] {
            let of = [
                (Sampling::Ycbcr422, Depth::Ten),
                (Sampling::Rgb, Depth::Eight),
                (Sampling::Ycbcr444, Depth::Twelve),
            ];
            for (sampling, depth) in of {
                let format =
                    name.parse::<Format>().expect("a name").with_sampling(sampling).with_depth(depth);
                let frame = |number| {
                    let mut frame = vec![0; format.frame_bytes()];
                    Picture::new(format).draw(number, &mut frame);
                    frame
                };
                assert!(frame(3) == frame(3) && frame(3) != frame(4), "{name}");
            }
        }
    }

    #[test]
    fn samples_are_within_televisions_range() {
        let format: Format = "320x180p50".parse().expect("a name");
        let mut frame = vec![0; format.frame_bytes()];
        Picture::new(format).draw(123_456, &mut frame);
        assert!(frame.iter().all(|sample| (16..=240).contains(sample)));
    }
}
