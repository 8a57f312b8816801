//! How bursts enter the window: as they came, sorted by SA, or later.

use convoy_ipsec::{CryptoPacket, CryptoStatus, DropReason};
use convoy_scheduler::{Admission, Burst, Input, Item, Outstanding, Parts, TrainDispatch, TrainPart};

use super::{CryptoStage, Released, StageContext};
use crate::pipeline::train::{Algorithms, Train, is_pending};

/// Waiting packets enter the window in bursts of at most this many.
const LONGEST_BURST: usize = 64;

impl CryptoStage {
    /// Takes in a burst of one direction at `now_ns`: into the window as far as there is room,
    /// behind packets that wait already. `packets` is left empty. Packets that their port has
    /// opened, or that were refused, only wait for those before them. A burst that stays as it came
    /// and finds nothing before it becomes a train at once; `input` says whether more is at hand.
    /// With several classes all wait until [`advance`](Self::advance) is called.
    pub fn enter(
        &mut self,
        now_ns: u64,
        input: Input,
        packets: &mut Vec<CryptoPacket>,
        context: &mut StageContext<'_>,
    ) {
        if self.inside == 0 {
            self.pass_done(packets, context.released);
        }
        if packets.is_empty() {
            return;
        }
        if !self.line.is_empty() || self.has_classes() {
            self.inside += packets.len() as u64;
            return self.line.extend(packets.drain(..));
        }
        if self.scheduler.sorts_all(self.outstanding()) {
            self.inside += packets.len() as u64;
            return self.sort_all_in(now_ns, packets, context.released);
        }
        let burst = self.burst_of(packets.iter());
        self.inside += packets.len() as u64;
        let has_nothing_before = self.again.is_empty() && self.held.is_none();
        if has_nothing_before && let Some(given) = self.scheduler.pass(now_ns, input, &burst) {
            return self.go(now_ns, given, packets, context);
        }
        match self.scheduler.admission(&burst) {
            Admission::Whole => self.scheduler.push_burst(packets, &burst),
            Admission::Later => self.line.extend(packets.drain(..)),
            Admission::BySa => self.sort_all_in(now_ns, packets, context.released),
        }
    }

    /// Puts packets into the window by SA, and those without room into the line.
    fn sort_all_in(&mut self, now_ns: u64, packets: &mut Vec<CryptoPacket>, released: &mut Released) {
        let mut packets = packets.drain(..);
        let refused = packets.by_ref().find_map(|packet| self.sort_in(now_ns, packet, released).err());
        self.line.extend(refused.into_iter().chain(packets));
    }

    /// Refuses what waits in the line beyond so many packets: the latest of the lowest class, or
    /// with weights of the one that has most for its weight.
    pub fn trim(&mut self, most: usize, released: &mut Released) {
        while self.line.len() > most
            && let Some(mut packet) = self.line.pop_last()
        {
            packet.status = CryptoStatus::Refused(DropReason::Overloaded);
            released.of(packet.direction).push(packet);
            self.inside -= 1;
        }
    }

    /// Executes the dispatch of a burst, and leaves an empty buffer in `packets`.
    fn go(
        &mut self,
        now_ns: u64,
        given: TrainDispatch,
        packets: &mut Vec<CryptoPacket>,
        context: &mut StageContext<'_>,
    ) {
        let Some(first) = packets.first() else { return };
        if self.tracer.is_some() {
            self.trace_train(packets, given);
        }
        let place = self.place_behind(first.direction as u32, packets.len());
        let is_here = self.does_here(given.engine, place);
        if is_here && self.do_here(now_ns, given, packets, context) {
            return self.release(place, packets, context.released);
        }
        let packets = std::mem::replace(packets, self.spare.pop().unwrap_or_default());
        let train = Train { place, packets, templates: Vec::new() };
        if is_here {
            self.again.push_front(train);
        } else {
            self.hand_over(now_ns, train, given, context);
        }
    }

    /// Releases the first packets that need no engine: nothing precedes them.
    fn pass_done(&mut self, packets: &mut Vec<CryptoPacket>, released: &mut Released) {
        let Some(first) = packets.first().filter(|first| !is_pending(first)) else { return };
        let direction = first.direction;
        let done = packets.iter().take_while(|packet| !is_pending(packet)).count();
        released.of(direction).extend(packets.drain(..done));
    }

    /// Moves packets from the line into the window as far as there is room.
    pub(super) fn admit_line(&mut self, now_ns: u64, released: &mut Released) {
        while self.scheduler.room() > 0
            && let Some(direction) = self.line.direction()
        {
            if self.scheduler.sorts_all(self.outstanding()) {
                return self.sort_line_in(now_ns, released);
            }
            let of_one = self.line.first().take_while(|packet| packet.direction == direction);
            let burst = self.burst_of(of_one.take(LONGEST_BURST));
            match self.scheduler.admission(&burst) {
                Admission::Whole => {
                    let mut packets = self.spare.pop().unwrap_or_default();
                    self.line.take_first(burst.packets, &mut packets);
                    self.scheduler.push_burst(&mut packets, &burst);
                    self.keep_buffer(packets);
                }
                Admission::Later => break,
                // What follows sorted packets is sorted, too.
                Admission::BySa => return self.sort_line_in(now_ns, released),
            }
        }
    }

    fn sort_line_in(&mut self, now_ns: u64, released: &mut Released) {
        for class in 0..self.line.classes() {
            while self.scheduler.room() > 0
                && let Some(packet) = self.line.pop(class)
            {
                if let Err(refused) = self.sort_in(now_ns, packet, released) {
                    self.line.push_front(refused);
                    // Another class may have room: part of the window is reserved for each.
                    break;
                }
            }
        }
    }

    /// Puts a packet into the window by its SA.
    ///
    /// # Errors
    /// The packet itself, if there is no room for it.
    fn sort_in(
        &mut self,
        now_ns: u64,
        mut packet: CryptoPacket,
        released: &mut Released,
    ) -> Result<(), CryptoPacket> {
        let Some(Some(sa)) = self.sas.get(packet.sa.0 as usize) else {
            packet.status = CryptoStatus::Refused(DropReason::UnknownSpi);
            released.of(packet.direction).push(packet);
            self.inside -= 1;
            return Ok(());
        };
        let item = Item {
            sa: packet.sa.0,
            algorithm: sa.algorithm,
            class: packet.class,
            blocks: if is_pending(&packet) { packet.blocks() } else { 0 },
            bytes: packet.frame.len() as u32,
            payload: packet,
        };
        self.scheduler.push(now_ns, item).map_err(|item| item.payload)
    }

    /// A burst as the scheduler sees it.
    pub(super) fn burst_of<'a>(&self, packets: impl Iterator<Item = &'a CryptoPacket> + Clone) -> Burst {
        let common = packets.clone().next().map(|first| self.algorithms_of[first.direction as usize]);
        let mut burst = if let Some(Algorithms::One(algorithm)) = common {
            burst_of_one(algorithm, packets.clone())
        } else {
            self.burst_of_several(packets.clone())
        };
        burst.outstanding = self.outstanding();
        if self.counts_sas {
            self.count_sas(packets, &mut burst);
        }
        burst
    }

    /// What has been dispatched and has not left.
    fn outstanding(&self) -> Outstanding {
        if self.inside == 0 {
            return Outstanding::Nothing;
        }
        let in_trains = self.order.outstanding(0) + self.order.outstanding(1);
        let waiting = (self.line.len() + self.scheduler.waiting()) as u64;
        match (in_trains, self.inside > in_trains + waiting) {
            (0, false) => Outstanding::Nothing,
            (0, true) => Outstanding::MultiPackets,
            _ => Outstanding::Trains,
        }
    }

    /// A burst with its parts by algorithm; without parts if there are too many, or if a port's
    /// device processes some of its packets.
    fn burst_of_several<'a>(&self, packets: impl Iterator<Item = &'a CryptoPacket>) -> Burst {
        let mut burst = Burst::new(Some(Parts::default()));
        let mut last = None;
        for packet in packets {
            burst.packets += 1;
            burst.bytes += packet.frame.len() as u64;
            let sa = self.sas.get(packet.sa.0 as usize).and_then(Option::as_ref);
            let whole = sa.filter(|sa| sa.bound_to.is_none()).zip(burst.parts.as_mut());
            let Some(part) = whole.and_then(|(sa, parts)| parts.of(sa.algorithm)) else {
                burst.parts = None;
                continue;
            };
            part.add(packet.blocks());
            part.changes += u32::from(last.is_some_and(|last| last != packet.sa));
            last = Some(packet.sa);
        }
        burst
    }

    fn count_sas<'a>(&self, packets: impl Iterator<Item = &'a CryptoPacket>, burst: &mut Burst) {
        let Some(parts) = &mut burst.parts else { return };
        let mut seen = self.seen.borrow_mut();
        seen.begin();
        for packet in packets.filter(|packet| seen.is_new(packet.sa)) {
            let sa = self.sas.get(packet.sa.0 as usize).and_then(Option::as_ref);
            if let Some(part) = sa.and_then(|sa| parts.of(sa.algorithm)) {
                part.sas += 1;
            }
        }
    }
}

/// A burst whose packets have one algorithm.
fn burst_of_one<'a>(algorithm: u16, packets: impl Iterator<Item = &'a CryptoPacket>) -> Burst {
    let mut part = TrainPart { algorithm, ..TrainPart::default() };
    let (mut bytes, mut last) = (0, None);
    for packet in packets {
        bytes += packet.frame.len() as u64;
        part.add(packet.blocks());
        part.changes += u32::from(last.is_some_and(|last| last != packet.sa));
        last = Some(packet.sa);
    }
    Burst { packets: part.packets as usize, bytes, ..Burst::new(Some(Parts::one(part))) }
}
