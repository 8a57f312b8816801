//! The sliding window (docs/lab/simulator.md: rule 1): multi-packets grow in it until they
//! are taken.
//!
//! A packet is appended to its SA's last batch on arrival, so that a dispatch moves one pointer,
//! however many packets it has. If `byte_limit` closes a batch, the SA's next packet starts another
//! behind it. Each class has a linked list of the batches that contain packets of it, in the order
//! of their first ones: the first packet of a class is in the batch at the head of its list.
//!
//! If nothing is gained by sorting packets by SA, whole bursts stand in the window instead, as they
//! came.

mod contenders;

use std::collections::VecDeque;

use crate::config::CLASSES;
use crate::train::Parts;
pub(crate) use contenders::Contender;
use contenders::Contenders;

/// A packet, as the owner hands it in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<T> {
    /// The SA; a small number, since tables are indexed by it.
    pub sa: u32,
    /// The algorithm, as a number assigned by the owner; cost models are kept by it.
    pub algorithm: u16,
    /// The traffic class, 0 highest.
    pub class: u8,
    /// The packet's size in blocks of 16 bytes.
    pub blocks: u32,
    /// The packet's size in bytes.
    pub bytes: u32,
    /// The owner's packet.
    pub payload: T,
}

/// No batch.
const NONE: u32 = u32::MAX;

/// Buffers kept for reuse.
const SPARE_BUFFERS: usize = 256;
/// Capacity of a new buffer, in packets: few multi-packets are longer, and those grow theirs once.
const BUFFER_PACKETS: usize = 64;

/// The limits of a window, and what it records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowSize {
    /// Packets.
    pub(crate) packets: usize,
    /// Classes in use.
    pub(crate) classes: usize,
    /// Bytes of a batch, unless it is a single packet.
    pub(crate) byte_limit: u32,
    /// Whether to record how long packets stood in it.
    pub(crate) notes_arrivals: bool,
    /// Whether the policy compares all multi-packets of the window.
    pub(crate) is_compared: bool,
}

/// Packets of one SA, in the order of their arrival.
struct Batch<T> {
    items: Vec<T>,
    /// When the first arrived.
    arrived: u64,
    /// The time of the last arrival, and the number of packets that arrived then: packets of a
    /// burst arrive together.
    last: (u64, u32),
    /// Times and numbers of earlier arrivals, if recorded.
    earlier: Vec<(u64, u32)>,
    blocks: u64,
    bytes: u64,
    sa: u32,
    /// The SA's next batch; for a free one, the next free one.
    next: u32,
    /// The class of the first.
    class: u8,
    /// What [`Window::taken`] is for its class when all batches in front of it have been taken, and
    /// none behind it.
    turn: u64,
}

/// A batch's link in the list of a class.
#[derive(Clone, Copy)]
struct ClassLink {
    /// Packets of the class in the batch; with none it is not in the list.
    packets: u32,
    /// The algorithm of the first of these.
    algorithm: u16,
    /// The neighbouring batches in the list.
    before: u32,
    after: u32,
}

const UNLINKED: ClassLink = ClassLink { packets: 0, algorithm: 0, before: NONE, after: NONE };

/// The batches of one SA.
#[derive(Clone, Copy)]
struct Chain {
    head: u32,
    tail: u32,
}

/// The next multi-packet of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// The batch of its reference packet, and that packet's class.
    pub(crate) reference: u32,
    pub(crate) class: u8,
    pub(crate) sa: u32,
    pub(crate) algorithm: u16,
    pub(crate) packets: u32,
    pub(crate) blocks: u64,
    pub(crate) bytes: u64,
}

impl Group {
    /// No packets, which stand nowhere in the window.
    pub(crate) const NOWHERE: Self =
        Self { reference: NONE, class: 0, sa: 0, algorithm: 0, packets: 0, blocks: 0, bytes: 0 };
}

/// A burst that stands in the window as it came.
pub(crate) struct WholeBurst<T> {
    pub(crate) items: Vec<T>,
    pub(crate) parts: Parts,
    pub(crate) bytes: u64,
}

/// Packets in order of arrival: in batches by SA, or in whole bursts.
pub(crate) struct Window<T> {
    size: WindowSize,
    batches: Vec<Batch<T>>,
    /// For each batch, its link in the list of each class.
    places: Vec<ClassLink>,
    free: u32,
    chains: Vec<Chain>,
    heads: [u32; CLASSES],
    tails: [u32; CLASSES],
    counts: [usize; CLASSES],
    len: usize,
    bytes: u64,
    /// Batches that stand here, and those that were taken so far, by the class of their first
    /// packet.
    standing: [u64; CLASSES],
    taken: [u64; CLASSES],
    bursts: VecDeque<WholeBurst<T>>,
    spare: Vec<Vec<T>>,
    /// If the policy compares them, which takes them for the time of a decision.
    pub(crate) contenders: Option<Box<Contenders>>,
}

impl<T> Window<T> {
    pub(crate) fn new(size: WindowSize) -> Self {
        let batches = (0..size.packets as u32).map(|at| Batch {
            items: new_buffer(&size),
            arrived: 0,
            last: (0, 0),
            earlier: Vec::with_capacity(if size.notes_arrivals { BUFFER_PACKETS } else { 0 }),
            blocks: 0,
            bytes: 0,
            sa: 0,
            next: if at + 1 < size.packets as u32 { at + 1 } else { NONE },
            class: 0,
            turn: 0,
        });
        Self {
            batches: batches.collect(),
            places: vec![UNLINKED; size.packets * size.classes],
            size,
            free: 0,
            chains: Vec::new(),
            heads: [NONE; CLASSES],
            tails: [NONE; CLASSES],
            counts: [0; CLASSES],
            len: 0,
            bytes: 0,
            standing: [0; CLASSES],
            taken: [0; CLASSES],
            bursts: VecDeque::new(),
            spare: Vec::with_capacity(SPARE_BUFFERS),
            contenders: size.is_compared.then(|| Box::new(Contenders::new(size.packets, size.classes))),
        }
    }

    /// Whether the window holds whole bursts.
    #[inline]
    pub(crate) fn has_bursts(&self) -> bool {
        !self.bursts.is_empty()
    }

    /// Appends a burst, and leaves an empty buffer in `items`.
    #[inline]
    pub(crate) fn push_burst(&mut self, items: &mut Vec<T>, parts: Parts, bytes: u64) {
        self.len += items.len();
        let items = std::mem::replace(items, self.spare.pop().unwrap_or_default());
        self.bursts.push_back(WholeBurst { items, parts, bytes });
    }

    #[inline]
    pub(crate) fn first_burst(&self) -> Option<&WholeBurst<T>> {
        self.bursts.front()
    }

    #[inline]
    pub(crate) fn take_burst(&mut self) -> Option<WholeBurst<T>> {
        let burst = self.bursts.pop_front()?;
        self.len -= burst.items.len();
        Some(burst)
    }

    /// Whether there are packets of an SA; `sa_of` returns the SA of a burst's packet.
    pub(crate) fn has(&self, sa: u32, sa_of: impl Fn(&T) -> u32) -> bool {
        let is_in_batch = self.chains.get(sa as usize).is_some_and(|chain| chain.head != NONE);
        is_in_batch || self.bursts.iter().flat_map(|burst| &burst.items).any(|item| sa_of(item) == sa)
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of all its packets.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Packets of each class.
    #[inline]
    pub(crate) fn counts(&self) -> &[usize; CLASSES] {
        &self.counts
    }

    /// When the first packet of the window arrived.
    pub(crate) fn first_arrival(&self) -> Option<u64> {
        let heads = self.heads.iter().filter(|head| **head != NONE);
        heads.map(|head| self.batches[*head as usize].arrived).min()
    }

    /// Appends a packet to its class. The caller has made sure that there is room.
    #[inline]
    pub(crate) fn push(&mut self, now: u64, class: usize, item: Item<T>) {
        let sa = item.sa as usize;
        if sa >= self.chains.len() {
            self.ensure_sa(sa);
        }
        let tail = self.chains[sa].tail;
        let (bytes, limit) = (u64::from(item.bytes), u64::from(self.size.byte_limit));
        let at = match self.batches.get(tail as usize) {
            Some(batch) if batch.bytes + bytes <= limit => tail,
            _ => self.open(now, class, item.sa, tail),
        };
        let batch = &mut self.batches[at as usize];
        batch.items.push(item.payload);
        batch.blocks += u64::from(item.blocks);
        batch.bytes += bytes;
        if batch.last.0 == now {
            batch.last.1 += 1;
        } else {
            let earlier = std::mem::replace(&mut batch.last, (now, 1));
            if self.size.notes_arrivals {
                batch.earlier.push(earlier);
            }
        }
        self.stand_in_line(at, class, item.algorithm);
        self.bytes += bytes;
        self.len += 1;
        if self.contenders.is_some() {
            self.note_pushed(at);
        }
    }

    /// Notes a batch that has one packet more. Kept out of the code of policies that do not
    /// compare, as is what follows.
    #[inline(never)]
    fn note_pushed(&mut self, at: u32) {
        let batch = &self.batches[at as usize];
        if let (Some(contenders), 1) = (&mut self.contenders, batch.items.len()) {
            contenders.open(batch.class.into(), at);
        }
        self.compare(at);
    }

    /// Notes the size of the first batch of an SA for the policy that compares them.
    fn compare(&mut self, at: u32) {
        let Batch { class, sa, .. } = self.batches[at as usize];
        if self.chains[sa as usize].head != at {
            return;
        }
        let class = usize::from(class);
        let contender = self.group_of(at, class).map(|group| group.contender());
        if let (Some(contenders), Some(contender)) = (&mut self.contenders, contender) {
            contenders.set(at, contender);
        }
    }

    #[cold]
    fn ensure_sa(&mut self, sa: usize) {
        self.chains.resize(sa + 1, Chain { head: NONE, tail: NONE });
    }

    /// Begins a batch behind the SA's last one.
    #[inline]
    fn open(&mut self, now: u64, class: usize, sa: u32, tail: u32) -> u32 {
        let at = self.free;
        let batch = &mut self.batches[at as usize];
        self.free = batch.next;
        (batch.arrived, batch.last) = (now, (now, 0));
        (batch.blocks, batch.bytes) = (0, 0);
        (batch.sa, batch.class, batch.next) = (sa, class as u8, NONE);
        batch.turn = self.taken[class] + self.standing[class];
        self.standing[class] += 1;
        let chain = &mut self.chains[sa as usize];
        chain.tail = at;
        match tail {
            NONE => chain.head = at,
            tail => self.batches[tail as usize].next = at,
        }
        at
    }

    /// Counts a packet that was added to a batch, and links the batch into the class's list at its
    /// first packet of the class.
    #[inline]
    fn stand_in_line(&mut self, at: u32, class: usize, algorithm: u16) {
        self.counts[class] += 1;
        let place = self.place(at, class);
        let place = &mut self.places[place];
        place.packets += 1;
        if place.packets > 1 {
            return;
        }
        let before = self.tails[class];
        *place = ClassLink { packets: 1, algorithm, before, after: NONE };
        self.tails[class] = at;
        match before {
            NONE => self.heads[class] = at,
            before => {
                let before = self.place(before, class);
                self.places[before].after = at;
            }
        }
    }

    #[inline]
    fn place(&self, batch: u32, class: usize) -> usize {
        // One class is the common case, and needs no multiplication.
        if self.size.classes == 1 { batch as usize } else { batch as usize * self.size.classes + class }
    }

    /// The multi-packet whose reference is the first packet of `class`: all packets of its SA, in
    /// order, as far as the byte limit goes.
    #[inline]
    pub(crate) fn group(&self, class: usize) -> Option<Group> {
        self.group_of(self.heads[class], class)
    }

    /// The next multi-packet of the same class behind that of `group`: that of the first packet of
    /// another SA whose packets all stand behind.
    pub(crate) fn group_behind(&self, group: &Group) -> Option<Group> {
        let class = usize::from(group.class);
        let mut at = group.reference;
        loop {
            at = self.places[self.place(at, class)].after;
            let batch = self.batches.get(at as usize)?;
            if self.chains[batch.sa as usize].head == at && batch.class == group.class {
                return self.group_of(at, class);
            }
        }
    }

    /// How many multi-packets that begin behind the first one of their class went before it.
    #[inline]
    pub(crate) fn passed(&self, first: &Group) -> u64 {
        let batch = &self.batches[first.reference as usize];
        self.taken[usize::from(batch.class)].saturating_sub(batch.turn)
    }

    /// The multi-packet of a reference packet of a class.
    #[inline]
    pub(crate) fn group_of(&self, reference: u32, class: usize) -> Option<Group> {
        let sa = self.batches.get(reference as usize)?.sa;
        let batch = &self.batches[self.chains[sa as usize].head as usize];
        Some(Group {
            reference,
            class: class as u8,
            sa,
            algorithm: self.places[self.place(reference, class)].algorithm,
            packets: batch.items.len() as u32,
            blocks: batch.blocks,
            bytes: batch.bytes,
        })
    }

    /// Takes the first batch of a group's SA out; `waited` is called with how long how many of its
    /// packets stood here, if recorded.
    #[inline]
    pub(crate) fn take(&mut self, group: &Group, now: u64, mut waited: impl FnMut(u64, u32)) -> Vec<T> {
        let chain = &mut self.chains[group.sa as usize];
        let at = chain.head;
        let batch = &mut self.batches[at as usize];
        chain.head = batch.next;
        if chain.head == NONE {
            chain.tail = NONE;
        }
        let (behind, class) = (chain.head, batch.class.into());
        batch.next = self.free;
        self.free = at;
        self.standing[usize::from(batch.class)] -= 1;
        self.taken[usize::from(batch.class)] += 1;
        let buffer = self.spare.pop().unwrap_or_else(|| new_buffer(&self.size));
        let items = std::mem::replace(&mut batch.items, buffer);
        self.len -= items.len();
        self.bytes -= batch.bytes;
        for (arrived, packets) in &batch.earlier {
            waited(now.saturating_sub(*arrived), *packets);
        }
        batch.earlier.clear();
        waited(now.saturating_sub(batch.last.0), batch.last.1);
        self.leave_line(at, 0);
        for class in 1..self.size.classes {
            self.leave_line(at, class);
        }
        if self.contenders.is_some() {
            self.remove_contender(class, at, behind);
        }
        items
    }

    /// Removes a batch; `behind` is the SA's next one, if any.
    #[inline(never)]
    fn remove_contender(&mut self, class: usize, at: u32, behind: u32) {
        if let Some(contenders) = &mut self.contenders {
            contenders.remove(class, at);
        }
        if behind != NONE {
            self.compare(behind);
        }
    }

    #[inline]
    fn leave_line(&mut self, at: u32, class: usize) {
        let place = self.place(at, class);
        let place = &mut self.places[place];
        let ClassLink { packets, before, after, .. } = *place;
        if packets == 0 {
            return;
        }
        place.packets = 0;
        self.counts[class] -= packets as usize;
        match before {
            NONE => self.heads[class] = after,
            before => {
                let before = self.place(before, class);
                self.places[before].after = after;
            }
        }
        match after {
            NONE => self.tails[class] = before,
            after => {
                let after = self.place(after, class);
                self.places[after].before = before;
            }
        }
    }

    /// Keeps the buffer of a multi-packet for reuse; its contents are dropped.
    #[inline]
    pub(crate) fn keep_buffer(&mut self, mut items: Vec<T>) {
        items.clear();
        if self.spare.len() < SPARE_BUFFERS && items.capacity() > 0 {
            self.spare.push(items);
        }
    }
}

#[cold]
fn new_buffer<T>(size: &WindowSize) -> Vec<T> {
    Vec::with_capacity(size.packets.min(BUFFER_PACKETS))
}

#[cfg(test)]
mod tests;
