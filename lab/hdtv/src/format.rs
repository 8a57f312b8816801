//! Video formats: size, scan, rate, sampling and depth, and the sizes in bytes that follow from
//! them.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// Frequency of the RTP clock in hertz (RFC 4175 section 4.1).
pub(crate) const CLOCK_HZ: u64 = 90_000;
/// RFC 4175 has 15 bits for a line number and for the offset of a pixel in a line.
const LARGEST_SIDE: usize = 1 << 15;

/// The components of a pixel and their subsampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Sampling {
    /// Luma for every pixel, both colour differences for every pair of pixels.
    #[serde(rename = "YCbCr-4:2:2")]
    Ycbcr422,
    /// Luma and both colour differences for every pixel.
    #[serde(rename = "YCbCr-4:4:4")]
    Ycbcr444,
    /// Red, green and blue for every pixel.
    #[serde(rename = "RGB")]
    Rgb,
}

/// Bits per sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// 8 bits.
    Eight,
    /// 10 bits.
    Ten,
    /// 12 bits.
    Twelve,
}

impl Depth {
    /// The number of bits.
    pub const fn bits(self) -> u32 {
        match self {
            Self::Eight => 8,
            Self::Ten => 10,
            Self::Twelve => 12,
        }
    }

    /// The largest value of a sample.
    pub const fn peak(self) -> u16 {
        (1 << self.bits()) - 1
    }
}

impl Serialize for Depth {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.bits())
    }
}

/// Progressive or interlaced scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scan {
    /// All lines at one instant.
    Progressive,
    /// The even lines (the first field), and half a frame period later the odd lines.
    Interlaced,
}

/// How packets number the lines of an interlaced frame. RFC 4175 section 4.3 leaves this open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LineNumbers {
    /// From the top of the field, as in SMPTE ST 2110-20: both fields have lines 0, 1, 2...
    #[default]
    Field,
    /// From the top of the frame, as GStreamer's `rtpvrawpay` does: the first field has lines 0, 2,
    /// 4..., the second field 1, 3, 5...
    Frame,
}

/// Frame rate as a fraction: 60000/1001 is the rate called 59.94.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rate {
    /// Numerator: this many frames...
    pub frames: u32,
    /// ...in this many seconds.
    pub seconds: u32,
}

impl Rate {
    /// Frames per second.
    pub fn hz(self) -> f64 {
        f64::from(self.frames) / f64::from(self.seconds)
    }

    /// Reads `60`, `59.94` or `60000/1001`.
    pub fn parse(text: &str) -> Option<Self> {
        let (frames, seconds) = match (text, text.split_once('/')) {
            (_, Some((frames, seconds))) => (frames.parse().ok()?, seconds.parse().ok()?),
            ("23.98" | "23.976", _) => (24_000, 1001),
            ("29.97", _) => (30_000, 1001),
            ("59.94", _) => (60_000, 1001),
            _ => (text.parse().ok()?, 1),
        };
        ((1..=1_000_000).contains(&frames) && (1..=10_000).contains(&seconds))
            .then_some(Self { frames, seconds })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seconds {
            1 => write!(f, "{}", self.frames),
            seconds => write!(f, "{}/{seconds}", self.frames),
        }
    }
}

/// Why a format is invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FormatError {
    /// The name was not understood.
    #[error(
        "`{0}` is not a video format; expected one such as 720p60, 1080i50 (fields), 1080p29.97 or 640x360p25"
    )]
    Name(String),
    /// The width is not a multiple of the pixel group.
    #[error("a width of {width} pixels does not consist of groups of {pixels}, as {sampling:?} has them")]
    Width {
        /// Pixels per line.
        width: usize,
        /// Pixels per group.
        pixels: usize,
        /// The sampling that has this group size.
        sampling: Sampling,
    },
    /// A side is zero or too long.
    #[error("a picture of {0} x {1} pixels cannot be sent: RFC 4175 has room for 1 to 32,768 each way")]
    Size(usize, usize),
    /// The two fields would differ in height.
    #[error("an interlaced picture has an even number of lines, not {0}")]
    OddFields(usize),
}

/// The pixel group ("pgroup"): the smallest group of pixels that takes a whole number of bytes (RFC
/// 4175 section 4.3). No packet splits one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pgroup {
    /// Length in bytes.
    pub bytes: usize,
    /// Length in pixels.
    pub pixels: usize,
    /// Number of samples.
    pub samples: usize,
}

/// A video format.
///
/// A frame in memory consists of packed lines in RFC 4175's byte order. An interlaced frame has all
/// lines of the first field before those of the second, so that a packet's pixels are contiguous.
///
/// ```
/// use convoy_hdtv::Format;
/// let format: Format = "720p60".parse().expect("a name");
/// assert_eq!(format.frame_bytes(), 1_843_200);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Format {
    /// Pixels per line.
    pub width: usize,
    /// Lines per frame.
    pub height: usize,
    /// Progressive or interlaced.
    pub scan: Scan,
    /// Frames per second; an interlaced format has two fields per frame.
    pub rate: Rate,
    /// The components.
    pub sampling: Sampling,
    /// Bits per sample.
    pub depth: Depth,
    /// How packets number the lines of an interlaced frame.
    pub line_numbers: LineNumbers,
}

impl Format {
    /// Checks that RFC 4175 can carry the format.
    ///
    /// # Errors
    /// If it cannot.
    pub fn checked(self) -> Result<Self, FormatError> {
        let pixels = self.pgroup().pixels;
        let side = 1..=LARGEST_SIDE;
        if !side.contains(&self.width) || !side.contains(&self.height) {
            return Err(FormatError::Size(self.width, self.height));
        }
        if !self.width.is_multiple_of(pixels) {
            return Err(FormatError::Width { width: self.width, pixels, sampling: self.sampling });
        }
        if self.scan == Scan::Interlaced && !self.height.is_multiple_of(2) {
            return Err(FormatError::OddFields(self.height));
        }
        Ok(self)
    }

    /// The same format with another sampling.
    pub fn with_sampling(self, sampling: Sampling) -> Self {
        Self { sampling, ..self }
    }

    /// The same format with another depth.
    pub fn with_depth(self, depth: Depth) -> Self {
        Self { depth, ..self }
    }

    /// The same format with another numbering of lines.
    pub fn with_line_numbers(self, line_numbers: LineNumbers) -> Self {
        Self { line_numbers, ..self }
    }

    /// The number that a field's line has in packets.
    pub(crate) fn line_number(&self, field: usize, line: usize) -> usize {
        match self.line_numbers {
            LineNumbers::Field => line,
            LineNumbers::Frame => line * self.fields() + field,
        }
    }

    /// The line of a field that has this number in packets, if there is one.
    pub(crate) fn numbered_line(&self, field: usize, number: usize) -> Option<usize> {
        let line = match self.line_numbers {
            LineNumbers::Field => number,
            LineNumbers::Frame if number % self.fields() == field => number / self.fields(),
            LineNumbers::Frame => return None,
        };
        (field < self.fields() && line < self.field_lines()).then_some(line)
    }

    /// Its pixel group.
    pub const fn pgroup(&self) -> Pgroup {
        match (self.sampling, self.depth) {
            (Sampling::Ycbcr422, Depth::Eight) => Pgroup { bytes: 4, pixels: 2, samples: 4 },
            (Sampling::Ycbcr422, Depth::Ten) => Pgroup { bytes: 5, pixels: 2, samples: 4 },
            (Sampling::Ycbcr422, Depth::Twelve) => Pgroup { bytes: 6, pixels: 2, samples: 4 },
            (Sampling::Ycbcr444 | Sampling::Rgb, Depth::Eight) => Pgroup { bytes: 3, pixels: 1, samples: 3 },
            (Sampling::Ycbcr444 | Sampling::Rgb, Depth::Ten) => Pgroup { bytes: 15, pixels: 4, samples: 12 },
            (Sampling::Ycbcr444 | Sampling::Rgb, Depth::Twelve) => Pgroup { bytes: 9, pixels: 2, samples: 6 },
        }
    }

    /// Bytes per line.
    pub const fn line_bytes(&self) -> usize {
        let group = self.pgroup();
        self.width / group.pixels * group.bytes
    }

    /// Samples per line.
    pub const fn line_samples(&self) -> usize {
        let group = self.pgroup();
        self.width / group.pixels * group.samples
    }

    /// Bytes per frame.
    pub const fn frame_bytes(&self) -> usize {
        self.line_bytes() * self.height
    }

    /// Fields per frame: one or two.
    pub const fn fields(&self) -> usize {
        match self.scan {
            Scan::Progressive => 1,
            Scan::Interlaced => 2,
        }
    }

    /// Lines per field, or per progressive frame.
    pub const fn field_lines(&self) -> usize {
        self.height / self.fields()
    }

    /// Offset in bytes of a field's line within a frame in memory.
    pub const fn line_start(&self, field: usize, line: usize) -> usize {
        (field * self.field_lines() + line) * self.line_bytes()
    }

    /// Offset in bytes within a frame in memory of a line counted from the top of the picture.
    pub const fn row_start(&self, row: usize) -> usize {
        self.line_start(row % self.fields(), row / self.fields())
    }

    /// Ticks of the RTP clock from the first field of frame 0 to this field.
    pub fn ticks(&self, frame: u64, field: usize) -> u64 {
        let fields = self.fields() as u64;
        let at = frame * fields + field as u64;
        at * CLOCK_HZ * u64::from(self.rate.seconds) / (u64::from(self.rate.frames) * fields)
    }

    /// Nanoseconds from the start of frame 0 to the start of frame `frame`.
    pub fn frame_start_ns(&self, frame: u64) -> u64 {
        let ns =
            u128::from(frame) * 1_000_000_000 * u128::from(self.rate.seconds) / u128::from(self.rate.frames);
        ns.try_into().unwrap_or(u64::MAX)
    }
}

impl FromStr for Format {
    type Err = FormatError;

    /// Reads a name. The format has 4:2:2 sampling and 8 bits, as in the papers.
    fn from_str(name: &str) -> Result<Self, FormatError> {
        let unknown = || FormatError::Name(name.to_owned());
        let at = name.find(['p', 'i']).ok_or_else(unknown)?;
        let (size, rate) = (&name[..at], &name[at + 1..]);
        let (width, height) = match size {
            "720" => (1280, 720),
            "1080" => (1920, 1080),
            _ => {
                let (width, height) = size.split_once('x').ok_or_else(unknown)?;
                (width.parse().map_err(|_| unknown())?, height.parse().map_err(|_| unknown())?)
            }
        };
        let mut rate = Rate::parse(rate).ok_or_else(unknown)?;
        let scan = if name[at..].starts_with('i') { Scan::Interlaced } else { Scan::Progressive };
        if scan == Scan::Interlaced {
            rate = match rate.frames.is_multiple_of(2) {
                true => Rate { frames: rate.frames / 2, ..rate },
                false => Rate { seconds: rate.seconds * 2, ..rate },
            };
        }
        let (sampling, depth, line_numbers) = (Sampling::Ycbcr422, Depth::Eight, LineNumbers::default());
        Self { width, height, scan, rate, sampling, depth, line_numbers }.checked()
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scan, factor) = match self.scan {
            Scan::Progressive => ('p', 1),
            Scan::Interlaced => ('i', 2),
        };
        let rate = Rate { frames: self.rate.frames * factor, ..self.rate };
        write!(f, "{}x{}{scan}{rate}", self.width, self.height)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_television_are_read() {
        let format: Format = "1080i59.94".parse().expect("a name");
        assert_eq!((format.width, format.height, format.scan), (1920, 1080, Scan::Interlaced));
        assert_eq!(format.rate, Rate { frames: 30_000, seconds: 1001 });
        assert_eq!(format.to_string().parse(), Ok(format));
        let small: Format = "64x36p25".parse().expect("a name");
        assert_eq!((small.width, small.height), (64, 36));
        for wrong in
            ["", "720", "720x60", "p", "720p0", "1280x720p", "63x36p25", "64x35i50", "0x36p25", "99999x2p25"]
        {
            assert!(wrong.parse::<Format>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_those_of_rfc_4175() {
        let format: Format = "720p60".parse().expect("a name");
        assert_eq!(format.line_bytes(), 2560);
        assert_eq!(format.with_depth(Depth::Ten).line_bytes(), 3200);
        assert_eq!(format.with_sampling(Sampling::Rgb).line_bytes(), 3840);
        assert_eq!(format.with_sampling(Sampling::Rgb).with_depth(Depth::Ten).line_bytes(), 4800);
        assert_eq!(format.with_depth(Depth::Twelve).line_bytes(), 3840);
        assert_eq!(format.with_sampling(Sampling::Ycbcr444).with_depth(Depth::Twelve).line_bytes(), 5760);
    }

    #[test]
    fn times_do_not_drift() {
        let format: Format = "720p59.94".parse().expect("a name");
        assert_eq!(format.ticks(60_000, 0), 90_090_000);
        assert_eq!(format.frame_start_ns(60_000), 1_001_000_000_000);
        let fields: Format = "1080i50".parse().expect("a name");
        assert_eq!((fields.ticks(1, 0), fields.ticks(1, 1)), (3600, 5400));
        assert_eq!((fields.row_start(3), fields.row_start(0)), (541 * 3840, 0));
    }
}
