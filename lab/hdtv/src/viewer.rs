//! Processing of due frames: holes are concealed, and the frame is written, compared and saved.

use std::io::{self, Write};

use crate::assembler::Finished;
use crate::conceal::{Concealment, conceal};
use crate::format::Format;
use crate::output::Output;
use crate::picture::Picture;
use crate::psnr::Difference;
use crate::snapshot::{Snapshot, SnapshotWriter};

/// What is done with received frames; every part is optional.
#[derive(Default)]
pub struct View {
    /// File or pipe that frames are written to.
    pub output: Option<Output>,
    /// Frames to save as pictures.
    pub snapshots: Vec<Snapshot>,
    /// Receives a line per frame: its RTP timestamp and the CRC-32 of its bytes.
    pub digests: Option<Box<dyn Write + Send>>,
    /// Whether frames are compared with the moving test picture.
    pub compares: bool,
    /// RTP timestamp of frame 0; `None` for that of the first frame received.
    pub first_timestamp: Option<u32>,
}

/// Processes frames one after the other.
pub(crate) struct Viewer {
    format: Format,
    concealment: Concealment,
    view: View,
    snapshot_writer: SnapshotWriter,
    reference: Option<(Picture, Vec<u8>)>,
    previous: Option<Vec<u8>>,
    pub(crate) difference: Difference,
}

impl Viewer {
    pub(crate) fn new(format: Format, concealment: Concealment, mut view: View) -> Self {
        let snapshot_writer = SnapshotWriter::new(format, std::mem::take(&mut view.snapshots));
        let reference = view.compares.then(|| (Picture::new(format), vec![0; format.frame_bytes()]));
        let difference = Difference::default();
        Self { format, concealment, view, snapshot_writer, reference, previous: None, difference }
    }

    /// Processes a frame. Returns the memory of the previous one, which is free now.
    pub(crate) fn process(&mut self, finished: Finished) -> io::Result<Option<Vec<u8>>> {
        let Finished { mut bytes, timestamp, holes, missing_before } = finished;
        let number = self.number(timestamp);
        // The last picture is repeated for missing frames, but for one second at most, to bound a
        // file's size.
        let still = u64::from(missing_before).min(self.format.rate.hz() as u64 + 1).min(number);
        if let Some(previous) = self.previous.take() {
            for missing in (1..=still).rev() {
                self.show(number - missing, None, &previous)?;
            }
            self.previous = Some(previous);
        }
        conceal(self.concealment, &self.format, &mut bytes, &holes, self.previous.as_deref());
        self.show(number, Some(timestamp), &bytes)?;
        Ok(self.previous.replace(bytes))
    }

    fn number(&mut self, timestamp: u32) -> u64 {
        let first = *self.view.first_timestamp.get_or_insert(timestamp);
        let ticks = self.format.ticks(1, 0).max(1);
        (u64::from(timestamp.wrapping_sub(first)) + ticks / 2) / ticks
    }

    fn show(&mut self, number: u64, timestamp: Option<u32>, frame: &[u8]) -> io::Result<()> {
        let Self { view, snapshot_writer, format, reference, difference, .. } = self;
        if let Some(output) = &mut view.output {
            output.write(frame)?;
        }
        if let (Some(digests), Some(timestamp)) = (&mut view.digests, timestamp) {
            writeln!(digests, "{timestamp} {:08x}", crc32fast::hash(frame))?;
        }
        if let Some((picture, should)) = reference {
            picture.draw(number, should);
            difference.add(format, frame, should);
        }
        snapshot_writer.offer(number, frame)
    }

    /// Flushes what is buffered and returns the comparison's result.
    pub(crate) fn finish(mut self) -> io::Result<Difference> {
        self.snapshot_writer.finish()?;
        if let Some(output) = self.view.output {
            output.finish()?;
        }
        self.view.digests.map_or(Ok(()), |mut digests| digests.flush())?;
        Ok(self.difference)
    }
}
