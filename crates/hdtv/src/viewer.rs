//! What is done with frames once they are due: holes are concealed, the frame is written, compared,
//! photographed.

use std::io::{self, Write};

use crate::assembler::Finished;
use crate::conceal::{Concealment, conceal};
use crate::format::Format;
use crate::output::Output;
use crate::photographer::{Photographer, Snapshot};
use crate::picture::Picture;
use crate::psnr::Difference;

/// What a viewer does; nothing of it is needed.
#[derive(Default)]
pub struct View {
    /// A file or pipe of frames.
    pub output: Option<Output>,
    /// Pictures to take.
    pub snapshots: Vec<Snapshot>,
    /// For each frame a line: its RTP timestamp and the CRC-32 of its bytes.
    pub digests: Option<Box<dyn Write + Send>>,
    /// Whether frames are held against the moving test picture.
    pub compares: bool,
    /// The RTP timestamp of frame 0; without it, that is the first one that comes.
    pub first_timestamp: Option<u32>,
}

/// Looks at frames, one after the other.
pub(crate) struct Viewer {
    format: Format,
    concealment: Concealment,
    view: View,
    photographer: Photographer,
    reference: Option<(Picture, Vec<u8>)>,
    previous: Option<Vec<u8>>,
    pub(crate) difference: Difference,
}

impl Viewer {
    pub(crate) fn new(format: Format, concealment: Concealment, mut view: View) -> Self {
        let photographer = Photographer::new(format, std::mem::take(&mut view.snapshots));
        let reference = view.compares.then(|| (Picture::new(format), vec![0; format.frame_bytes()]));
        let difference = Difference::default();
        Self { format, concealment, view, photographer, reference, previous: None, difference }
    }

    /// Looks at a frame. Returns memory that is free again: that of the frame before.
    pub(crate) fn look(&mut self, finished: Finished) -> io::Result<Option<Vec<u8>>> {
        let Finished { mut bytes, timestamp, holes, missing_before } = finished;
        let number = self.number(timestamp);
        // A picture stands still while frames are missing; a second of that is enough in a file.
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
        let Self { view, photographer, format, reference, difference, .. } = self;
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
        photographer.see(number, frame)
    }

    /// Writes what is buffered.
    pub(crate) fn finish(mut self) -> io::Result<Difference> {
        self.photographer.finish()?;
        if let Some(output) = self.view.output {
            output.finish()?;
        }
        self.view.digests.map_or(Ok(()), |mut digests| digests.flush())?;
        Ok(self.difference)
    }
}
