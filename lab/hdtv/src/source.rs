//! Sources of the sender's frames.

use std::io::{self, BufRead, ErrorKind, Read};

use crate::format::{Depth, Format, Sampling, Scan};
use crate::picture::Picture;
use crate::samples::ten_to_eight;
use crate::y4m::{Reader, Y4mError, read_header};

/// A file or pipe that frames are read from.
type VideoInput = Box<dyn BufRead + Send>;

/// Why a source fails.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is not a supported Y4M file.
    #[error(transparent)]
    Y4m(#[from] Y4mError),
    /// It ends within a frame.
    #[error("the video ends within frame {0}; its format may differ from the given one")]
    Cut(u64),
    /// It has another number of bits per sample than requested, and is not converted to it.
    #[error("a source of {} bits cannot be sent with {}: only YCbCr of 10 bits is converted, to 8", .0.bits(), .1.bits())]
    Depth(Depth, Depth),
    /// RGB cannot be converted to fewer bits.
    #[error("only YCbCr is converted from 10 to 8 bits, not RGB")]
    Rgb,
}

/// A source of frames.
pub enum VideoSource {
    /// The moving test picture.
    Generated {
        /// The picture.
        picture: Box<Picture>,
        /// Converts it to the depth that is sent.
        converter: Converter,
    },
    /// A Y4M file or pipe.
    Y4m(Box<Reader<VideoInput>>),
    /// Raw frames, packed lines from top to bottom.
    Raw {
        /// File or pipe.
        input: VideoInput,
        /// A frame as read; empty where a frame is read directly to its place.
        rows: Vec<u8>,
        /// Converts it to the depth that is sent.
        converter: Converter,
    },
}

/// Checks that samples of one depth can be sent with another.
fn check_depths(from: Depth, to: Depth) -> Result<(), SourceError> {
    let can_be = from == to || (from, to) == (Depth::Ten, Depth::Eight);
    if can_be { Ok(()) } else { Err(SourceError::Depth(from, to)) }
}

/// Converts 10 bits to 8, or leaves frames unchanged.
pub struct Converter {
    from: Format,
    to: Format,
    frame: Vec<u8>,
}

impl Converter {
    fn new(from: Format, to: Depth) -> Result<Self, SourceError> {
        check_depths(from.depth, to)?;
        if from.depth != to && from.sampling == Sampling::Rgb {
            return Err(SourceError::Rgb);
        }
        let to = from.with_depth(to);
        let bytes = if from == to { 0 } else { from.frame_bytes() };
        Ok(Self { from, to, frame: vec![0; bytes] })
    }

    /// Lets `write` write a frame in the source's format, and converts it into `frame`.
    fn convert<T>(&mut self, frame: &mut [u8], write: impl FnOnce(&mut [u8]) -> T) -> T {
        if self.from == self.to {
            return write(frame);
        }
        let result = write(&mut self.frame);
        ten_to_eight(&self.frame, frame);
        result
    }
}

impl VideoSource {
    /// The moving test picture, drawn in `format` and sent with `depth`.
    ///
    /// # Errors
    /// If the conversion is not supported.
    pub fn generated(format: Format, depth: Depth) -> Result<Self, SourceError> {
        Ok(Self::Generated {
            picture: Box::new(Picture::new(format)),
            converter: Converter::new(format, depth)?,
        })
    }

    /// Opens a Y4M file or pipe; returns its format as well. Without `depth`, it is sent with its
    /// own.
    ///
    /// # Errors
    /// If it is not Y4M, or if its sampling is not supported.
    pub fn y4m(mut input: VideoInput, depth: Option<Depth>) -> Result<(Self, Format), SourceError> {
        let format = read_header(&mut input)?;
        let depth = depth.unwrap_or(format.depth);
        check_depths(format.depth, depth)?;
        Ok((Self::Y4m(Box::new(Reader::new(input, format, depth))), format))
    }

    /// Raw frames in `format`, sent with `depth`.
    ///
    /// # Errors
    /// If the conversion is not supported.
    pub fn raw(input: VideoInput, format: Format, depth: Depth) -> Result<Self, SourceError> {
        let bytes = if format.scan == Scan::Interlaced { format.frame_bytes() } else { 0 };
        Ok(Self::Raw { input, rows: vec![0; bytes], converter: Converter::new(format, depth)? })
    }

    /// Writes the next frame, whose number is `number`; `false` at the end.
    ///
    /// # Errors
    /// If it cannot be read, is damaged or is truncated.
    pub fn next(&mut self, number: u64, frame: &mut [u8]) -> Result<bool, SourceError> {
        match self {
            Self::Generated { picture, converter } => {
                converter.convert(frame, |frame| picture.draw(number, frame));
                Ok(true)
            }
            Self::Y4m(reader) => Ok(reader.read(frame)?),
            Self::Raw { input, rows, converter } => {
                let format = converter.from;
                converter.convert(frame, |frame| read_rows(input, rows, &format, frame, number))
            }
        }
    }
}

/// Reads a frame whose lines are ordered from top to bottom.
fn read_rows(
    input: &mut VideoInput,
    rows: &mut [u8],
    format: &Format,
    frame: &mut [u8],
    number: u64,
) -> Result<bool, SourceError> {
    if input.fill_buf()?.is_empty() {
        return Ok(false);
    }
    let to = if rows.is_empty() { &mut *frame } else { &mut *rows };
    input.read_exact(to).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => SourceError::Cut(number),
        _ => SourceError::Io(error),
    })?;
    for (row, line) in rows.chunks_exact(format.line_bytes()).enumerate() {
        let start = format.row_start(row);
        frame[start..start + line.len()].copy_from_slice(line);
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(bytes: &'static [u8]) -> VideoInput {
        Box::new(bytes)
    }

    #[test]
    fn raw_frames_are_read_until_the_end() {
        let format: Format = "2x2i50".parse().expect("a name");
        let mut source = VideoSource::raw(input(b"aaaabbbbccccdddd"), format, Depth::Eight).expect("8 bits");
        let mut frame = [0; 8];
        assert!(source.next(0, &mut frame).expect("a frame") && source.next(1, &mut frame).expect("a frame"));
        assert_eq!(&frame, b"ccccdddd");
        assert!(!source.next(2, &mut frame).expect("the end"));
        let mut source = VideoSource::raw(input(b"aaaabbbbcc"), format, Depth::Eight).expect("8 bits");
        assert!(source.next(0, &mut frame).expect("a frame"));
        assert!(matches!(source.next(1, &mut frame), Err(SourceError::Cut(1))));
    }

    #[test]
    fn ten_bits_are_converted_and_eight_are_not_made_ten() {
        let format = "2x1p25".parse::<Format>().expect("a name").with_depth(Depth::Ten);
        let mut source = VideoSource::raw(input(&[0xff, 0xc0, 0x0f, 0xfc, 0x00]), format, Depth::Eight)
            .expect("converted");
        let mut frame = [0; 4];
        assert!(source.next(0, &mut frame).expect("a frame"));
        assert_eq!(frame, [255, 0, 255, 0]);
        assert!(matches!(
            VideoSource::generated(format.with_depth(Depth::Eight), Depth::Ten),
            Err(SourceError::Depth(Depth::Eight, Depth::Ten))
        ));
        let rgb =
            "4x1p25".parse::<Format>().expect("a name").with_depth(Depth::Ten).with_sampling(Sampling::Rgb);
        assert!(matches!(VideoSource::generated(rgb, Depth::Eight), Err(SourceError::Rgb)));
    }
}
