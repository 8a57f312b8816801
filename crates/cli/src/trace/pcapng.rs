//! Traced packets as a pcapng file: each as it arrived and as it left, with its trace as comment.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use convoy_capture::{Annotated, AnnotatedWriter};
use convoy_gateway::trace::TraceRow;

use super::text;
use crate::Failure;
use crate::secret::secret_file;

/// The interfaces of the file, by the side on which a packet is.
const INTERFACES: [&str; 2] = ["inside", "outside"];

/// A file of traced packets.
pub(super) struct Traces {
    path: PathBuf,
    file: AnnotatedWriter<BufWriter<File>>,
}

impl Traces {
    /// Creates the file. Only its owner may read it, since it has packets unencrypted.
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        let writer =
            secret_file(path).and_then(|file| AnnotatedWriter::new(BufWriter::new(file), INTERFACES));
        let file = writer.map_err(|error| failed(path, &error))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Writes a packet as it arrived and, if it left, as it left.
    pub(super) fn write(&mut self, row: &TraceRow) -> Result<(), Failure> {
        let side = usize::from(row.side != INTERFACES[0]);
        let began = Duration::from_secs_f64(row.began_s);
        let took = Duration::from_nanos(row.steps.last().map_or(0, |step| step.after_ns));
        let comment = text::packet(row);
        let arrived = (side, began, &row.received, row.received_len, comment.as_str());
        let left = (1 - side, began + took, &row.sent, row.sent_len, "the packet before, as it left");
        for (side, time, hex, original_len, comment) in [arrived, left] {
            let bytes = bytes(hex);
            if bytes.is_empty() {
                continue;
            }
            let packet = Annotated { interface: side as u32, time, bytes: &bytes, original_len, comment };
            self.file.write(&packet).map_err(|error| failed(&self.path, &error))?;
        }
        Ok(())
    }

    /// Writes what is left to the disk.
    pub(super) fn finish(self) -> Result<(), Failure> {
        self.file.into_inner().flush().map_err(|error| failed(&self.path, &error))
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::Failed(format!("cannot write {}: {error}", path.display()))
}

/// The bytes of a hexadecimal text, as the gateway writes it.
fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    (0..hex.len()).step_by(2).map_while(digit).collect()
}
