//! Destinations of frames: files and pipes, raw or as Y4M, and single pictures as PNG.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::format::{Format, Scan};
use crate::samples::line_to_rgb;
use crate::y4m::{self, Y4mError};

/// File format of the video.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// The packed lines from top to bottom, frame after frame, as GStreamer's `videoparse` and
    /// ffmpeg's `rawvideo` expect them.
    Raw,
    /// Y4M (YUV4MPEG2), planar 4:2:2.
    Y4m,
}

/// A file or pipe that frames are written to.
pub struct Output {
    writer: BufWriter<Box<dyn Write + Send>>,
    format: Format,
    y4m: Option<y4m::Writer>,
}

impl Output {
    /// Starts the output and writes its header, if the container has one.
    ///
    /// # Errors
    /// If writing fails, or if the container does not support the format.
    pub fn new(
        writer: Box<dyn Write + Send>,
        container: Container,
        format: Format,
    ) -> Result<Self, Y4mError> {
        let mut writer = BufWriter::with_capacity(1 << 20, writer);
        let y4m = match container {
            Container::Raw => None,
            Container::Y4m => {
                y4m::write_header(&mut writer, &format)?;
                Some(y4m::Writer::default())
            }
        };
        Ok(Self { writer, format, y4m })
    }

    /// Writes a frame.
    ///
    /// # Errors
    /// If writing fails, for example when the pipe has no reader or the disk is full.
    pub fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        let Self { writer, format, y4m } = self;
        match (y4m, format.scan) {
            (Some(y4m), _) => y4m.write(writer, format, frame),
            (None, Scan::Progressive) => writer.write_all(frame),
            (None, Scan::Interlaced) => (0..format.height).try_for_each(|row| {
                let start = format.row_start(row);
                writer.write_all(&frame[start..start + format.line_bytes()])
            }),
        }
    }

    /// Flushes what is buffered.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn finish(mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Writes a frame as a PNG in RGB.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn write_png(path: &Path, format: &Format, frame: &[u8]) -> io::Result<()> {
    let (mut rgb, mut samples) = (Vec::with_capacity(format.width * format.height * 3), Vec::new());
    for row in 0..format.height {
        let start = format.row_start(row);
        line_to_rgb(format, &frame[start..start + format.line_bytes()], &mut samples, &mut rgb);
    }
    let file = BufWriter::new(File::create(path)?);
    let mut encoder = png::Encoder::new(file, format.width as u32, format.height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Balanced);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&rgb)?;
    Ok(writer.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_lines_of_both_fields_are_written_from_top_to_bottom() {
        let format: Format = "2x4i50".parse().expect("a name");
        let path = tempfile::NamedTempFile::new().expect("a file");
        let file = Box::new(path.reopen().expect("a file"));
        let mut output = Output::new(file, Container::Raw, format).expect("a file");
        output.write(&[0, 0, 0, 0, 2, 2, 2, 2, 1, 1, 1, 1, 3, 3, 3, 3]).expect("a disk");
        output.finish().expect("a disk");
        assert_eq!(
            std::fs::read(path.path()).expect("a file"),
            [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]
        );
    }

    #[test]
    fn a_png_has_the_pictures_colours() {
        let format: Format = "2x2p25".parse().expect("a name");
        let path = tempfile::NamedTempFile::new().expect("a file");
        write_png(path.path(), &format, &[128, 16, 128, 235, 128, 235, 128, 16]).expect("a disk");
        let file = std::io::BufReader::new(File::open(path.path()).expect("a file"));
        let mut reader = png::Decoder::new(file).read_info().expect("a PNG");
        let mut rgb = vec![0; 12];
        reader.next_frame(&mut rgb).expect("a picture");
        assert_eq!(rgb, [0, 0, 0, 255, 255, 255, 255, 255, 255, 0, 0, 0]);
    }
}
