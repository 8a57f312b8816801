//! The text of one scrape, shared by all who ask within a second: each client costs the gateway its
//! socket's buffers, but no snapshot and no text of its own. An answer to `/status.json` is a text
//! of its own for each connection (`server.rs`).

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};

/// The size of the pieces in which the text is kept, in bytes.
const PIECE: usize = 64 << 10;
/// Pages in memory at once, at most. Readers of older ones are cut off.
const PAGES: usize = 3;

/// A text in pieces.
#[derive(Debug, Default)]
pub(super) struct ServedPage {
    bytes: u64,
    /// Empty once withdrawn.
    pieces: Mutex<Vec<Bytes>>,
}

impl ServedPage {
    /// The output of `write`.
    pub(super) fn written(write: impl FnOnce(&mut Pieces) -> fmt::Result) -> Self {
        let mut pieces = Pieces::default();
        write(&mut pieces).expect("memory takes whatever is written");
        pieces.end();
        Self { bytes: pieces.bytes, pieces: Mutex::new(pieces.whole) }
    }

    fn piece(&self, at: usize) -> Option<Bytes> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner).get(at).cloned()
    }

    /// Frees the text, except for pieces being sent.
    fn withdraw(&self) {
        std::mem::take(&mut *self.pieces.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl From<&'static str> for ServedPage {
    fn from(words: &'static str) -> Self {
        Self { bytes: words.len() as u64, pieces: Mutex::new(vec![Bytes::from_static(words.as_bytes())]) }
    }
}

impl From<String> for ServedPage {
    fn from(text: String) -> Self {
        Self { bytes: text.len() as u64, pieces: Mutex::new(vec![text.into()]) }
    }
}

/// Collects a text in pieces, so that it never grows by being copied.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    bytes: u64,
    whole: Vec<Bytes>,
    last: String,
}

impl Pieces {
    fn end(&mut self) {
        if !self.last.is_empty() {
            self.whole.push(std::mem::take(&mut self.last).into());
        }
    }
}

impl fmt::Write for Pieces {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.last.len() + text.len() > PIECE {
            self.end();
        }
        if self.last.capacity() == 0 {
            self.last.reserve_exact(PIECE);
        }
        self.bytes += text.len() as u64;
        self.last.push_str(text);
        Ok(())
    }
}

/// A page being sent to a client.
#[derive(Debug)]
pub(super) struct PageReading {
    page: Arc<ServedPage>,
    next: usize,
    left: u64,
}

impl From<Arc<ServedPage>> for PageReading {
    fn from(page: Arc<ServedPage>) -> Self {
        Self { next: 0, left: page.bytes, page }
    }
}

impl Body for PageReading {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        // If the page is withdrawn, less is sent than announced, which ends the connection.
        let piece = self.page.piece(self.next);
        if let Some(piece) = &piece {
            self.next += 1;
            self.left -= piece.len() as u64;
        }
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// The pages in memory, the newest last.
#[derive(Debug, Default)]
pub(super) struct CachedPages(Vec<Arc<ServedPage>>);

impl CachedPages {
    /// Adds a new page, and drops those without a reader. If too many are still read, the oldest
    /// is withdrawn.
    pub(super) fn add(&mut self, page: ServedPage) -> Arc<ServedPage> {
        self.0.retain(|page| Arc::strong_count(page) > 1);
        let crowd = (self.0.len() + 1).saturating_sub(PAGES);
        self.0.drain(..crowd).for_each(|page| page.withdraw());
        let page = Arc::new(page);
        self.0.push(Arc::clone(&page));
        page
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn page(pieces: usize) -> ServedPage {
        ServedPage::written(|out| (0..pieces).try_for_each(|_| out.write_str(&"x".repeat(PIECE))))
    }

    /// The bytes that are still to be sent.
    fn rest(reading: &mut PageReading) -> u64 {
        let mut bytes = 0;
        let mut context = Context::from_waker(std::task::Waker::noop());
        while let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut *reading).poll_frame(&mut context) {
            bytes += frame.into_data().expect("data").len() as u64;
        }
        bytes
    }

    #[test]
    fn a_text_comes_whole_in_pieces_of_a_bounded_size() {
        let words = "a metric ".repeat(40_000);
        let page =
            ServedPage::written(|out| words.split_inclusive(' ').try_for_each(|word| out.write_str(word)));
        let pieces = page.pieces.lock().expect("no panic").clone();
        assert_eq!(pieces.concat(), words.as_bytes());
        assert!(pieces.len() > 1 && pieces.iter().all(|piece| piece.len() <= PIECE));
        let mut reading = PageReading::from(Arc::new(page));
        assert_eq!(reading.size_hint().exact(), Some(words.len() as u64));
        assert_eq!(rest(&mut reading), words.len() as u64);
        assert!(reading.is_end_stream());
    }

    #[test]
    fn however_many_pages_are_read_slowly_only_a_few_stay_in_memory() {
        let mut pages = CachedPages::default();
        let mut readers: Vec<PageReading> = (0..10).map(|_| PageReading::from(pages.add(page(4)))).collect();
        assert_eq!(pages.0.len(), PAGES);
        let (late, in_time) = readers.split_at_mut(10 - PAGES);
        assert!(late.iter_mut().all(|reading| rest(reading) == 0), "their pages were withdrawn");
        assert!(in_time.iter_mut().all(|reading| rest(reading) == 4 * PIECE as u64));
        drop(readers);
        pages.add(page(1));
        assert_eq!(pages.0.len(), 1, "the others have no reader");
    }
}
