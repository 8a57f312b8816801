//! Y4M (YUV4MPEG2), the format of uncompressed video that ffmpeg, GStreamer and others read and
//! write: a header line, then planar frames, each after a header line of its own.

use std::io::{self, BufRead, Read, Write};

use crate::format::{Depth, Format, LineNumbers, Rate, Sampling, Scan};
use crate::samples::{pack, planes, to_eight, unpack};

const MAGIC: &str = "YUV4MPEG2";
/// Longest header line in bytes; real ones take a few dozen.
const LONGEST_LINE: u64 = 4096;

/// Why a file is not a supported Y4M file.
#[derive(Debug, thiserror::Error)]
pub enum Y4mError {
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It lacks the magic number.
    #[error("this is not a Y4M file: it does not begin with {MAGIC}")]
    Magic,
    /// A parameter is missing or invalid.
    #[error("the Y4M parameter {name} is {value}")]
    Parameter {
        /// Its letter and meaning.
        name: &'static str,
        /// Its value, or what is wrong with it.
        value: String,
    },
    /// The chroma subsampling or the depth is not supported.
    #[error(
        "the Y4M file has the format {0}, but only C422 and C444 of 8, 10 (p10) and 12 (p12) bits can be sent; `ffmpeg -i FILE -pix_fmt yuv422p OUT.y4m` converts it"
    )]
    Chroma(String),
    /// Y4M cannot hold RGB.
    #[error("Y4M has no RGB: write raw frames instead")]
    Rgb,
    /// A frame lacks its header.
    #[error("the Y4M file is damaged: frame {0} does not begin with FRAME")]
    Frame(u64),
}

/// Reads the file's header line.
///
/// # Errors
/// See [`Y4mError`].
pub(crate) fn read_header(input: &mut impl BufRead) -> Result<Format, Y4mError> {
    let line = read_line(input)?.ok_or(Y4mError::Magic)?;
    let mut words = line.split(' ');
    if words.next() != Some(MAGIC) {
        return Err(Y4mError::Magic);
    }
    let (mut width, mut height, mut rate, mut scan, mut chroma) = (None, None, None, Scan::Progressive, None);
    for word in words.filter(|word| !word.is_empty()) {
        let (letter, value) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        let wrong = |name| Y4mError::Parameter { name, value: format!("`{value}`") };
        match letter {
            "W" => width = Some(value.parse().map_err(|_| wrong("W (width)"))?),
            "H" => height = Some(value.parse().map_err(|_| wrong("H (height)"))?),
            "F" => rate = Some(Rate::parse(&value.replace(':', "/")).ok_or_else(|| wrong("F (frame rate)"))?),
            "I" if value == "p" || value == "?" => {}
            "I" if value == "t" => scan = Scan::Interlaced,
            "I" => {
                return Err(Y4mError::Parameter {
                    name: "I (interlacing)",
                    value: format!("`{value}`; only p and t are sent"),
                });
            }
            "C" => chroma = Some(read_chroma(value).ok_or_else(|| Y4mError::Chroma(format!("C{value}")))?),
            _ => {}
        }
    }
    // Without this parameter, Y4M means 4:2:0.
    let (sampling, depth) = chroma.ok_or_else(|| Y4mError::Chroma("C420".to_owned()))?;
    let missing = |name| move || Y4mError::Parameter { name, value: "missing".to_owned() };
    Format {
        width: width.ok_or_else(missing("W (width)"))?,
        height: height.ok_or_else(missing("H (height)"))?,
        scan,
        rate: rate.ok_or_else(missing("F (frame rate)"))?,
        sampling,
        depth,
        line_numbers: LineNumbers::default(),
    }
    .checked()
    .map_err(|error| Y4mError::Parameter { name: "W or H (size)", value: format!("impossible: {error}") })
}

/// The values of the parameter C.
const CHROMA: [(&str, Sampling, Depth); 6] = [
    ("422", Sampling::Ycbcr422, Depth::Eight),
    ("422p10", Sampling::Ycbcr422, Depth::Ten),
    ("422p12", Sampling::Ycbcr422, Depth::Twelve),
    ("444", Sampling::Ycbcr444, Depth::Eight),
    ("444p10", Sampling::Ycbcr444, Depth::Ten),
    ("444p12", Sampling::Ycbcr444, Depth::Twelve),
];

fn read_chroma(value: &str) -> Option<(Sampling, Depth)> {
    let (_, sampling, depth) = CHROMA.into_iter().find(|(known, ..)| *known == value)?;
    Some((sampling, depth))
}

/// Reads a line of text; `None` at the end of the file.
fn read_line(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    input.take(LONGEST_LINE).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.pop() != Some(b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(String::from_utf8_lossy(&line).into_owned()))
}

/// Reads frames after the file's header, in the file's depth or converted from 10 to 8 bits.
pub struct Reader<R> {
    input: R,
    /// Format of the file.
    format: Format,
    /// Format of the frames in memory.
    to: Format,
    planes: Vec<u8>,
    /// A packed line, unless it is packed directly from the planes.
    samples: Vec<u16>,
    frames: u64,
}

impl<R: BufRead> Reader<R> {
    /// Continues after the header, which said `format`.
    pub fn new(input: R, format: Format, to: Depth) -> Self {
        let bytes = format.line_samples() * format.height * bytes_of(format.depth);
        Self {
            input,
            format,
            to: format.with_depth(to),
            planes: vec![0; bytes],
            samples: Vec::new(),
            frames: 0,
        }
    }

    /// Reads the next frame; `false` at the end.
    ///
    /// # Errors
    /// If the file ends within a frame, or is damaged.
    pub fn read(&mut self, frame: &mut [u8]) -> Result<bool, Y4mError> {
        let Some(line) = read_line(&mut self.input)? else { return Ok(false) };
        if !line.starts_with("FRAME") {
            return Err(Y4mError::Frame(self.frames));
        }
        self.input.read_exact(&mut self.planes)?;
        self.frames += 1;
        let luma = self.format.width * bytes_of(self.format.depth);
        let (ys, colours) = self.planes.split_at(luma * self.format.height);
        let (cbs, crs) = colours.split_at(colours.len() / 2);
        for (row, y) in ys.chunks_exact(luma).enumerate() {
            let line = |plane: &[u8]| -> std::ops::Range<usize> {
                let bytes = plane.len() / self.format.height;
                row * bytes..(row + 1) * bytes
            };
            let start = self.to.row_start(row);
            let packed = &mut frame[start..start + self.to.line_bytes()];
            interleave(
                self.format.depth,
                self.to,
                [y, &cbs[line(cbs)], &crs[line(crs)]],
                &mut self.samples,
                packed,
            );
        }
        Ok(true)
    }
}

const fn bytes_of(depth: Depth) -> usize {
    match depth {
        Depth::Eight => 1,
        Depth::Ten | Depth::Twelve => 2,
    }
}

/// Packs a line of three planes: luma and both colour differences.
fn interleave(from: Depth, to: Format, line: [&[u8]; 3], samples: &mut Vec<u16>, packed: &mut [u8]) {
    let [y, cb, cr] = line;
    if (from, to.sampling) == (Depth::Eight, Sampling::Ycbcr422) {
        let pixels = y.as_chunks::<2>().0.iter().zip(cb.iter().zip(cr));
        for (group, ([y0, y1], (cb, cr))) in packed.as_chunks_mut().0.iter_mut().zip(pixels) {
            *group = [*cb, *y0, *cr, *y1];
        }
        return;
    }
    let [ys, cbs, crs] = line.map(|plane| plane_samples(from, plane));
    samples.clear();
    match to.sampling {
        Sampling::Ycbcr422 => {
            let groups = ys.as_chunks::<2>().0.iter().zip(cbs.iter().zip(&crs));
            samples.extend(groups.flat_map(|([y0, y1], (cb, cr))| [*cb, *y0, *cr, *y1]));
        }
        Sampling::Ycbcr444 | Sampling::Rgb => {
            samples.extend(ys.iter().zip(cbs.iter().zip(&crs)).flat_map(|(y, (cb, cr))| [*cb, *y, *cr]));
        }
    }
    if (from, to.depth) == (Depth::Ten, Depth::Eight) {
        packed.iter_mut().zip(samples.iter()).for_each(|(byte, sample)| *byte = to_eight(*sample));
    } else {
        pack(to.depth, samples, packed);
    }
}

fn plane_samples(depth: Depth, plane: &[u8]) -> Vec<u16> {
    match depth {
        Depth::Eight => plane.iter().map(|sample| u16::from(*sample)).collect(),
        Depth::Ten | Depth::Twelve => {
            plane.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect()
        }
    }
}

/// Writes the file's header line.
///
/// If Y4M cannot hold the format, or if writing fails.
pub(crate) fn write_header(output: &mut impl Write, format: &Format) -> Result<(), Y4mError> {
    let is_of = |(_, sampling, depth): &(_, _, _)| (*sampling, *depth) == (format.sampling, format.depth);
    let (chroma, ..) = CHROMA.into_iter().find(is_of).ok_or(Y4mError::Rgb)?;
    let scan = if format.scan == Scan::Interlaced { 't' } else { 'p' };
    let Rate { frames, seconds } = format.rate;
    Ok(writeln!(
        output,
        "{MAGIC} W{} H{} F{frames}:{seconds} I{scan} A1:1 C{chroma}",
        format.width, format.height
    )?)
}

/// Writes frames.
#[derive(Default)]
pub(crate) struct Writer {
    samples: Vec<u16>,
    line: [Vec<u16>; 3],
    planes: [Vec<u8>; 3],
}

impl Writer {
    /// Appends a frame.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn write(&mut self, output: &mut impl Write, format: &Format, frame: &[u8]) -> io::Result<()> {
        self.planes.iter_mut().for_each(Vec::clear);
        for row in 0..format.height {
            let start = format.row_start(row);
            unpack(format.depth, &frame[start..start + format.line_bytes()], &mut self.samples);
            planes(format.sampling, &self.samples, &mut self.line);
            for (plane, line) in self.planes.iter_mut().zip(&self.line) {
                match format.depth {
                    Depth::Eight => plane.extend(line.iter().map(|sample| *sample as u8)),
                    Depth::Ten | Depth::Twelve => {
                        plane.extend(line.iter().flat_map(|sample| sample.to_le_bytes()))
                    }
                }
            }
        }
        output.write_all(b"FRAME\n")?;
        self.planes.iter().try_for_each(|plane| output.write_all(plane))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(text: &str) -> Result<Format, String> {
        read_header(&mut text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn headers_of_others_are_read() {
        let format = header("YUV4MPEG2 W1280 H720 F60000:1001 Ip A1:1 C422 XYSCSS=422\n").expect("ffmpeg's");
        assert_eq!(format, "720p59.94".parse().expect("a name"));
        let format = header("YUV4MPEG2 C422p10 W1920 H1080 F25:1 It\n").expect("a header");
        assert_eq!(format, "1080i50".parse::<Format>().expect("a name").with_depth(Depth::Ten));
    }

    #[test]
    fn unsupported_files_are_reported() {
        let error = |text| header(text).expect_err("wrong");
        assert!(error("RIFF").contains("unexpected end"), "{}", error("RIFF"));
        assert!(error("RIFF W2\n").contains("not a Y4M file"));
        assert!(
            error("YUV4MPEG2 W2 H2 F25:1\n").contains("C420")
                && error("YUV4MPEG2 W2 H2 F25:1 C411\n").contains("C411")
        );
        assert!(error("YUV4MPEG2 H2 F25:1 C422\n").contains("W (width) is missing"));
        assert!(error("YUV4MPEG2 W2 H2 F0:0 C422\n").contains("F (frame rate) is `0:0`"));
        assert!(error("YUV4MPEG2 W3 H2 F25:1 C422\n").contains("groups of 2"));
    }

    #[test]
    fn ten_bits_become_eight() {
        let format = header("YUV4MPEG2 W2 H1 F25:1 C422p10\n").expect("a header");
        let planes = [64_u16, 940, 512, 514].iter().flat_map(|sample| sample.to_le_bytes());
        let file: Vec<u8> = b"FRAME\n".iter().copied().chain(planes).collect();
        let mut frame = [0; 4];
        let mut reader = Reader::new(file.as_slice(), format, Depth::Eight);
        assert!(reader.read(&mut frame).expect("whole"));
        assert_eq!(frame, [128, 16, 129, 235]);
        assert!(!reader.read(&mut frame).expect("the end"));
    }

    #[test]
    fn a_frame_that_is_cut_is_an_error() {
        let format = header("YUV4MPEG2 W2 H1 F25:1 C422\n").expect("a header");
        assert!(Reader::new(&b"FRAME\n123"[..], format, Depth::Eight).read(&mut [0; 4]).is_err());
        let error =
            Reader::new(&b"frame\n1234"[..], format, Depth::Eight).read(&mut [0; 4]).expect_err("damaged");
        assert!(error.to_string().contains("frame 0"));
    }

    proptest! {
        #[test]
        fn frames_come_back_as_they_were(
            groups in 1..9_usize, fields in 1..4_usize, chroma in 0..CHROMA.len(), is_interlaced in any::<bool>(), seed in any::<u8>(),
        ) {
            let scan = if is_interlaced { 'i' } else { 'p' };
            let format: Format = format!("{}x{}{scan}50", groups * 4, fields * 2).parse().expect("a name");
            let (_, sampling, depth) = CHROMA[chroma];
            let format = format.with_sampling(sampling).with_depth(depth);
            let frame: Vec<u8> = (0..format.frame_bytes()).map(|at| (at as u8).wrapping_mul(17) ^ seed).collect();
            let mut file = Vec::new();
            write_header(&mut file, &format).expect("YCbCr");
            Writer::default().write(&mut file, &format, &frame).expect("a vector");
            let mut input = file.as_slice();
            prop_assert_eq!(read_header(&mut input).expect("a header"), format);
            let mut again = vec![0; frame.len()];
            prop_assert!(Reader::new(input, format, format.depth).read(&mut again).expect("whole"));
            prop_assert_eq!(again, frame);
        }
    }
}
