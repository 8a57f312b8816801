//! The multi-packets that a policy compares, side by side in memory: the batches themselves lie far
//! apart, and to visit them in their lists took ten times as many instructions.

use super::{Group, NONE};
use crate::config::CLASSES;

/// All that decides between two multi-packets of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contender {
    /// Its size in blocks of 16 bytes.
    pub(crate) blocks: u32,
    /// Its size in bytes.
    pub(crate) bytes: u32,
    /// Its packets; 0 for a batch behind another one of its SA, which is out of the comparison.
    pub(crate) packets: u16,
    pub(crate) algorithm: u16,
}

impl Contender {
    /// A group of this size and a class, which stands nowhere.
    pub(crate) fn as_group(self, class: u8) -> Group {
        let (blocks, bytes) = (self.blocks.into(), self.bytes.into());
        let packets = self.packets.into();
        Group { class, algorithm: self.algorithm, packets, blocks, bytes, ..Group::NOWHERE }
    }
}

impl Group {
    /// What decides between this and another one.
    pub(crate) fn contender(&self) -> Contender {
        let Self { blocks, bytes, packets, algorithm, .. } = *self;
        Contender { blocks: blocks as u32, bytes: bytes as u32, packets: packets as u16, algorithm }
    }
}

/// Sizes that a walk through a line remembers.
const REMEMBERED: usize = 16;

/// The batches of each class, in the order of their first packets.
pub(crate) struct Contenders {
    lines: [Vec<u32>; CLASSES],
    /// By batch.
    of: Vec<Contender>,
    /// The first batch of each size in the line of `class`, until one of the lines changes: while
    /// the window waits for room a decision is made at each completion, over the same batches.
    different: Vec<(Contender, u32)>,
    class: Option<usize>,
}

impl Contenders {
    /// For a window of this many batches and classes.
    pub(super) fn new(batches: usize, classes: usize) -> Self {
        let lines =
            std::array::from_fn(|class| Vec::with_capacity(if class < classes { batches } else { 0 }));
        let of = vec![Contender::default(); batches];
        Self { lines, of, different: Vec::with_capacity(batches), class: None }
    }

    /// Appends a batch, out of the comparison until its [size is set](Self::set).
    pub(super) fn open(&mut self, class: usize, batch: u32) {
        self.lines[class].push(batch);
        self.set(batch, Contender::default());
    }

    /// Sets the size of the first batch of an SA.
    #[inline]
    pub(super) fn set(&mut self, batch: u32, contender: Contender) {
        self.of[batch as usize] = contender;
        self.class = None;
    }

    pub(super) fn remove(&mut self, class: usize, batch: u32) {
        let line = &mut self.lines[class];
        debug_assert!(line.contains(&batch) && batch != NONE, "every open batch stands in its line");
        if let Some(at) = line.iter().position(|other| *other == batch) {
            line.remove(at);
        }
        self.class = None;
    }

    /// The multi-packets whose first packet is of a class, each with its batch. Of those alike only
    /// the first one is always among them.
    pub(crate) fn different(&mut self, class: usize) -> &[(Contender, u32)] {
        if self.class != Some(class) {
            self.compare(class);
        }
        &self.different
    }

    fn compare(&mut self, class: usize) {
        self.class = Some(class);
        self.different.clear();
        let mut met = [Contender::default(); REMEMBERED];
        for batch in &self.lines[class] {
            let contender = self.of[*batch as usize];
            let met = &mut met[contender.blocks as usize % REMEMBERED];
            if *met != contender {
                *met = contender;
                self.different.push((contender, *batch));
            }
        }
    }
}
