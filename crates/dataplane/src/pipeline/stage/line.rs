//! Packets for which the window has no room yet.

use std::collections::VecDeque;

use convoy_ipsec::{CryptoPacket, Direction, SaIndex};
use convoy_scheduler::{CLASSES, ClassDiscipline};

/// The service that a packet of a class with weight 1 counts for.
const SERVICE: u64 = 1 << 32;

/// Packets that wait for the window: those of a higher class first, or each class by its weight,
/// and within a class in order of arrival. Packets of an SA keep their order: one whose SA has
/// packets waiting goes behind them, whatever its class.
pub(super) struct WaitingLine {
    /// By class, the highest first.
    queues: Vec<VecDeque<CryptoPacket>>,
    /// What a packet of each class counts for, if classes have weights.
    costs: Option<[u64; CLASSES]>,
    /// What each class has been served, with weights: the one with the least is next.
    served: [u64; CLASSES],
    len: usize,
    /// For each SA how many of its packets wait, and in which queue. Unused with one class.
    of_sa: Vec<(u32, u8)>,
}

impl WaitingLine {
    pub(super) fn new(classes: usize, discipline: &ClassDiscipline) -> Self {
        let costs = match discipline {
            ClassDiscipline::Strict => None,
            ClassDiscipline::Weighted(weights) => {
                Some(weights.map(|weight| SERVICE / u64::from(weight.max(1))))
            }
        };
        let queues = (0..classes.max(1)).map(|_| VecDeque::new()).collect();
        Self { queues, costs, served: [0; CLASSES], len: 0, of_sa: Vec::new() }
    }

    pub(super) fn classes(&self) -> usize {
        self.queues.len()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether packets of an SA wait.
    pub(super) fn has(&self, sa: SaIndex) -> bool {
        self.queues.iter().flatten().any(|packet| packet.sa == sa)
    }

    /// The class that is next, if packets wait.
    fn next(&self) -> Option<usize> {
        let mut waiting = (0..self.queues.len()).filter(|class| !self.queues[*class].is_empty());
        match self.costs {
            None => waiting.next(),
            Some(_) => waiting.min_by_key(|class| self.served[*class]),
        }
    }

    /// The packets of the class that is next.
    pub(super) fn first(&self) -> impl Iterator<Item = &CryptoPacket> + Clone {
        self.next().into_iter().flat_map(|class| &self.queues[class])
    }

    /// The direction of the first packet.
    pub(super) fn direction(&self) -> Option<Direction> {
        self.first().next().map(|packet| packet.direction)
    }

    /// Takes the first packet of a class.
    #[inline]
    pub(super) fn pop(&mut self, class: usize) -> Option<CryptoPacket> {
        let packet = self.queues[class].pop_front()?;
        self.took(&packet);
        Some(packet)
    }

    /// Takes so many of the [first](Self::first) packets.
    pub(super) fn take_first(&mut self, packets: usize, to: &mut Vec<CryptoPacket>) {
        let Some(class) = self.next() else { return };
        if let Some(costs) = self.costs {
            self.served[class] += costs[class] * packets as u64;
        }
        to.extend((0..packets).map_while(|_| self.pop(class)));
    }

    /// Takes the last packet of the lowest class that has any; with weights, of the class that has
    /// most for its weight, so that none is kept out.
    pub(super) fn pop_last(&mut self) -> Option<CryptoPacket> {
        let mut waiting = (0..self.queues.len()).filter(|class| !self.queues[*class].is_empty());
        let class = match self.costs {
            None => waiting.next_back(),
            Some(costs) => waiting.max_by_key(|class| self.queues[*class].len() as u64 * costs[*class]),
        }?;
        let packet = self.queues[class].pop_back()?;
        self.took(&packet);
        Some(packet)
    }

    /// Appends packets.
    #[inline]
    pub(super) fn extend(&mut self, packets: impl IntoIterator<Item = CryptoPacket>) {
        if let [queue] = &mut self.queues[..] {
            let before = queue.len();
            queue.extend(packets);
            self.len += queue.len() - before;
            return;
        }
        for packet in packets {
            let class = self.admit(&packet);
            self.queues[class].push_back(packet);
        }
    }

    /// Puts a packet before all others of its class.
    pub(super) fn push_front(&mut self, packet: CryptoPacket) {
        let class = self.admit(&packet);
        self.queues[class].push_front(packet);
    }

    /// Counts a packet that comes in; returns its class.
    fn admit(&mut self, packet: &CryptoPacket) -> usize {
        self.len += 1;
        if self.queues.len() == 1 {
            return 0;
        }
        let at = packet.sa.0 as usize;
        if at >= self.of_sa.len() {
            self.of_sa.resize(at + 1, (0, 0));
        }
        let (waiting, class) = &mut self.of_sa[at];
        if *waiting == 0 {
            *class = packet.class.min(self.queues.len() as u8 - 1);
        }
        *waiting += 1;
        let class = usize::from(*class);
        if self.costs.is_some() && self.queues[class].is_empty() {
            // A class saves up no service while it has no packets.
            let least = self.next().map_or(0, |next| self.served[next]);
            self.served[class] = self.served[class].max(least);
        }
        class
    }

    #[inline]
    fn took(&mut self, packet: &CryptoPacket) {
        self.len -= 1;
        if let Some((waiting, _)) = self.of_sa.get_mut(packet.sa.0 as usize) {
            *waiting = waiting.saturating_sub(1);
        }
    }
}
