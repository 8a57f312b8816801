//! The form of messages between a gateway and its companions: a length of four bytes, then JSON.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

/// Bytes of a message's length.
pub const LENGTH: usize = 4;

/// Messages of at most so many bytes of JSON.
pub struct Framing {
    /// The limit in bytes.
    pub limit: usize,
}

impl Framing {
    /// A message as it is sent. The bytes are wiped in the end, since they may be keys.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if it is too long.
    pub fn frame(&self, message: &impl Serialize) -> io::Result<Zeroizing<Vec<u8>>> {
        let mut frame = Zeroizing::new(vec![0; LENGTH]);
        serde_json::to_writer(&mut *frame, message).map_err(invalid)?;
        let len = self.checked(frame.len() - LENGTH)?;
        frame[..LENGTH].copy_from_slice(&(len as u32).to_le_bytes());
        Ok(frame)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// As for [`Framing::frame`], or the stream's error.
    pub fn send(&self, stream: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
        stream.write_all(&self.frame(message)?)
    }

    /// Receives a message; `None` if the other end is closed.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if it is too long or no such message,
    /// [`io::ErrorKind::UnexpectedEof`] if it is cut off, or the stream's error.
    pub fn receive<T: DeserializeOwned>(&self, stream: &mut impl Read) -> io::Result<Option<T>> {
        let mut length = [0; LENGTH];
        match stream.read_exact(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            result => result?,
        }
        self.receive_rest(stream, length).map(Some)
    }

    /// Receives what follows the length of a message.
    ///
    /// # Errors
    /// As for [`Framing::receive`].
    pub fn receive_rest<T: DeserializeOwned>(
        &self,
        stream: &mut impl Read,
        length: [u8; LENGTH],
    ) -> io::Result<T> {
        let len = self.checked(u32::from_le_bytes(length) as usize)?;
        let mut text = Zeroizing::new(vec![0; len]);
        stream.read_exact(&mut text)?;
        serde_json::from_slice(&text).map_err(invalid)
    }

    fn checked(&self, len: usize) -> io::Result<usize> {
        let limit = self.limit;
        if len > limit {
            Err(invalid(format!("a message has {len} bytes; at most {limit} are possible")))
        } else {
            Ok(len)
        }
    }
}

fn invalid(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMING: Framing = Framing { limit: 8 };

    #[test]
    fn a_message_is_received_as_it_was_sent_and_a_cut_one_is_an_error() {
        let frame = FRAMING.frame(&[12, 345]).expect("8 bytes");
        let received: Option<[u32; 2]> = FRAMING.receive(&mut &frame[..]).expect("whole");
        assert_eq!(received, Some([12, 345]));
        assert_eq!(FRAMING.receive::<u32>(&mut &[][..]).expect("the end"), None);
        let cut = FRAMING.receive::<[u32; 2]>(&mut &frame[..frame.len() - 1]).expect_err("cut");
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn the_limit_holds_for_both_ends() {
        let sent = FRAMING.frame(&[12, 3456]).expect_err("9 bytes");
        let received = FRAMING.receive::<[u32; 2]>(&mut &b"\x09\0\0\0[12,3456]"[..]).expect_err("9 bytes");
        for error in [sent, received] {
            assert_eq!(error.to_string(), "a message has 9 bytes; at most 8 are possible");
        }
    }
}
