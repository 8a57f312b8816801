//! The sliding window (docs/simulator.md: rule 1), in flat memory.
//!
//! Each packet stands in two lists: the arrivals of its class, and the chain of its SA. Both are links
//! between slots, so that taking the packets of an SA out costs only as many steps as there are such packets.

use crate::config::CLASSES;

/// One packet, as its owner hands it in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<T> {
    /// The SA; small numbers, since tables are indexed by it.
    pub sa: u32,
    /// The algorithm, as a number that the owner gives; cost models are kept by it.
    pub algorithm: u16,
    /// The traffic class, 0 highest.
    pub class: u8,
    /// The packet's size in blocks of 16 bytes.
    pub blocks: u32,
    /// The packet's size in bytes.
    pub bytes: u32,
    /// Whatever the owner wants back.
    pub payload: T,
}

/// No slot.
const NONE: u32 = u32::MAX;

struct Slot<T> {
    payload: Option<T>,
    sa: u32,
    blocks: u32,
    bytes: u32,
    algorithm: u16,
    class: u8,
    arrived: u64,
    /// Neighbours among the arrivals of the class.
    before: u32,
    after: u32,
    /// The next packet of the SA; in a free slot, the next free one.
    next: u32,
}

/// The packets of one SA that stand in the window.
#[derive(Clone, Copy)]
struct Chain {
    head: u32,
    tail: u32,
    packets: u32,
    blocks: u64,
    bytes: u64,
}

const EMPTY: Chain = Chain { head: NONE, tail: NONE, packets: 0, blocks: 0, bytes: 0 };

/// What the next multi-packet of a class would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// The slot of its reference packet.
    reference: u32,
    pub(crate) sa: u32,
    pub(crate) algorithm: u16,
    pub(crate) packets: u32,
    pub(crate) blocks: u64,
    pub(crate) bytes: u64,
}

/// Packets in the order of their arrival.
pub(crate) struct Window<T> {
    slots: Vec<Slot<T>>,
    free: u32,
    chains: Vec<Chain>,
    heads: [u32; CLASSES],
    tails: [u32; CLASSES],
    counts: [usize; CLASSES],
    len: usize,
    bytes: u64,
}

impl<T> Window<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        let slots = (0..capacity as u32)
            .map(|at| Slot {
                payload: None,
                sa: 0,
                blocks: 0,
                bytes: 0,
                algorithm: 0,
                class: 0,
                arrived: 0,
                before: NONE,
                after: NONE,
                next: if at + 1 < capacity as u32 { at + 1 } else { NONE },
            })
            .collect();
        Self {
            slots,
            free: 0,
            chains: Vec::new(),
            heads: [NONE; CLASSES],
            tails: [NONE; CLASSES],
            counts: [0; CLASSES],
            len: 0,
            bytes: 0,
        }
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

    /// Puts a packet at the end of its class. The caller has made sure that there is a slot.
    #[inline]
    pub(crate) fn push(&mut self, now: u64, class: usize, item: Item<T>) {
        let at = self.free;
        let sa = item.sa as usize;
        if sa >= self.chains.len() {
            self.know(sa);
        }
        let before = self.tails[class];
        let slot = &mut self.slots[at as usize];
        self.free = slot.next;
        *slot = Slot {
            payload: Some(item.payload),
            sa: item.sa,
            blocks: item.blocks,
            bytes: item.bytes,
            algorithm: item.algorithm,
            class: class as u8,
            arrived: now,
            before,
            after: NONE,
            next: NONE,
        };
        match before {
            NONE => self.heads[class] = at,
            before => self.slots[before as usize].after = at,
        }
        self.tails[class] = at;
        self.counts[class] += 1;
        let chain = &mut self.chains[sa];
        match chain.tail {
            NONE => chain.head = at,
            tail => self.slots[tail as usize].next = at,
        }
        chain.tail = at;
        chain.packets += 1;
        chain.blocks += u64::from(item.blocks);
        chain.bytes += u64::from(item.bytes);
        self.bytes += u64::from(item.bytes);
        self.len += 1;
    }

    #[cold]
    fn know(&mut self, sa: usize) {
        self.chains.resize(sa + 1, EMPTY);
    }

    /// When the first packet of the window arrived.
    pub(crate) fn first_arrival(&self) -> Option<u64> {
        let heads = self.heads.iter().filter(|head| **head != NONE);
        heads.map(|head| self.slots[*head as usize].arrived).min()
    }

    /// Packets of each class.
    #[inline]
    pub(crate) fn counts(&self) -> &[usize; CLASSES] {
        &self.counts
    }

    /// The multi-packet whose reference is the first packet of `class`: all packets of its SA, in order, as far as
    /// `byte_limit` goes.
    #[inline]
    pub(crate) fn group(&self, class: usize, byte_limit: u32) -> Option<Group> {
        self.group_of(self.heads[class], byte_limit)
    }

    /// The next multi-packet of the same class behind that of `group`: the first packet of another SA whose packets all
    /// stand behind.
    pub(crate) fn group_behind(&self, group: &Group, byte_limit: u32) -> Option<Group> {
        let mut at = group.reference;
        loop {
            at = self.slots.get(at as usize)?.after;
            let slot = self.slots.get(at as usize)?;
            if self.chains[slot.sa as usize].head == at {
                return self.group_of(at, byte_limit);
            }
        }
    }

    #[inline]
    fn group_of(&self, at: u32, byte_limit: u32) -> Option<Group> {
        let reference = self.slots.get(at as usize)?;
        let chain = &self.chains[reference.sa as usize];
        let limit = u64::from(byte_limit);
        let mut group = Group {
            reference: at,
            sa: reference.sa,
            algorithm: reference.algorithm,
            packets: chain.packets,
            blocks: chain.blocks,
            bytes: chain.bytes,
        };
        if chain.bytes > limit {
            (group.packets, group.blocks, group.bytes) = self.cut(chain.head, limit);
        }
        Some(group)
    }

    /// As many packets of a chain as `limit` bytes allow, and at least one.
    #[cold]
    fn cut(&self, head: u32, limit: u64) -> (u32, u64, u64) {
        let (mut packets, mut blocks, mut bytes) = (0, 0, 0);
        let mut at = head;
        while at != NONE {
            let slot = &self.slots[at as usize];
            if packets > 0 && bytes + u64::from(slot.bytes) > limit {
                break;
            }
            packets += 1;
            blocks += u64::from(slot.blocks);
            bytes += u64::from(slot.bytes);
            at = slot.next;
        }
        (packets, blocks, bytes)
    }

    /// Takes the first packets of a group's SA out, in order; `wait` is told how long each stood here.
    #[inline]
    pub(crate) fn take(&mut self, group: &Group, now: u64, items: &mut Vec<T>, mut wait: impl FnMut(u64)) {
        let mut at = self.chains[group.sa as usize].head;
        for _ in 0..group.packets {
            let slot = &mut self.slots[at as usize];
            let (before, after, next, class) = (slot.before, slot.after, slot.next, usize::from(slot.class));
            if let Some(payload) = slot.payload.take() {
                items.push(payload);
            }
            wait(now.saturating_sub(slot.arrived));
            slot.next = self.free;
            self.free = at;
            self.counts[class] -= 1;
            match before {
                NONE => self.heads[class] = after,
                before => self.slots[before as usize].after = after,
            }
            match after {
                NONE => self.tails[class] = before,
                after => self.slots[after as usize].before = before,
            }
            at = next;
        }
        let chain = &mut self.chains[group.sa as usize];
        if at == NONE {
            *chain = EMPTY;
        } else {
            chain.head = at;
            chain.packets -= group.packets;
            chain.blocks -= group.blocks;
            chain.bytes -= group.bytes;
        }
        self.len -= group.packets as usize;
        self.bytes -= group.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(window: &mut Window<u32>, sa: u32, class: u8, payload: u32) {
        let item = Item { sa, algorithm: 0, class, blocks: 1, bytes: 10, payload };
        window.push(0, usize::from(class), item);
    }

    fn take(window: &mut Window<u32>, class: usize, limit: u32) -> Vec<u32> {
        let group = window.group(class, limit).expect("the class has packets");
        let mut items = Vec::new();
        window.take(&group, 0, &mut items, |_| ());
        items
    }

    #[test]
    fn all_packets_of_the_first_ones_sa_leave_and_the_rest_stay_in_order() {
        let mut window = Window::new(8);
        for (place, sa) in [5, 6, 5, 7, 6, 5].into_iter().enumerate() {
            push(&mut window, sa, 0, place as u32);
        }
        assert_eq!(take(&mut window, 0, 1000), [0, 2, 5]);
        push(&mut window, 7, 0, 6);
        assert_eq!(take(&mut window, 0, 1000), [1, 4]);
        assert_eq!(take(&mut window, 0, 1000), [3, 6]);
        assert_eq!((window.len(), window.bytes()), (0, 0));
    }

    #[test]
    fn behind_a_group_stands_that_of_the_next_sa() {
        let mut window = Window::new(8);
        for (place, sa) in [5, 6, 5, 7, 6, 5].into_iter().enumerate() {
            push(&mut window, sa, 0, place as u32);
        }
        let first = window.group(0, 1000).expect("it has packets");
        let second = window.group_behind(&first, 1000).expect("SA 6");
        let third = window.group_behind(&second, 1000).expect("SA 7");
        assert_eq!([first, second, third].map(|group| (group.sa, group.packets)), [(5, 3), (6, 2), (7, 1)]);
        assert_eq!(window.group_behind(&third, 1000), None);
    }

    #[test]
    fn the_byte_limit_closes_a_multi_packet_but_never_empties_it() {
        let mut window = Window::new(8);
        for place in 0..5 {
            push(&mut window, 1, 0, place);
        }
        assert_eq!(take(&mut window, 0, 25), [0, 1]);
        assert_eq!(take(&mut window, 0, 5), [2]);
        assert_eq!(take(&mut window, 0, 20), [3, 4]);
    }

    #[test]
    fn a_packet_of_a_lower_class_rides_with_its_sa() {
        let mut window = Window::new(8);
        push(&mut window, 1, 3, 0);
        push(&mut window, 2, 3, 1);
        push(&mut window, 1, 0, 2);
        assert_eq!(take(&mut window, 0, 1000), [0, 2]);
        assert_eq!(window.counts()[0], 0);
        assert_eq!(take(&mut window, 3, 1000), [1]);
    }
}
