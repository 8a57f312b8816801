//! The path of packets through the gateway, from burst to departures, the same outbound and
//! inbound.
//!
//! - [`classify_outbound`](Pipeline::classify_outbound) and
//!   [`classify_inbound`](Pipeline::classify_inbound) take a burst and return the packets that an
//!   SA protects or opens; packets that stay as they are go to the departures.
//! - [`take_in`](Pipeline::take_in) puts classified packets into the window, which yields trains.
//! - [`CryptoStage::advance`](super::CryptoStage::advance) takes trains to engines and releases
//!   finished packets in order. [`pump`](Pipeline::pump) does the same with completions from
//!   engines elsewhere.
//! - `finish` turns released packets into departures.

use convoy_ipsec::{
    CryptoPacket, CryptoStatus, Direction, DropReason, EchoNumber, InboundBurst, OutboundBurst, SaIndex,
    TunnelId,
};
use convoy_packet::{Frame, Offload};
use convoy_scheduler::Input;

use super::{MOST_CLASSED_WAITING, MOST_WAITING, Pipeline, Released, StageContext};

/// A burst of at least this length shows that more is at hand.
const FULL_BURST: usize = 32;

/// Packets of one direction with their SAs, in order of arrival.
#[must_use]
pub struct Classified {
    packets: Vec<CryptoPacket>,
    direction: Direction,
    now_ns: u64,
}

impl Pipeline {
    /// Takes plaintext packets in, and moves them as far as possible at once.
    pub fn outbound(&mut self, frames: &mut Vec<Frame>) {
        let classified = self.classify_outbound(frames);
        self.take_in(classified);
    }

    /// Takes packets of the protected side in, and moves them as far as possible at once.
    pub fn inbound(&mut self, frames: &mut Vec<Frame>) {
        let classified = self.classify_inbound(frames);
        self.take_in(classified);
    }

    /// Finds the SAs of plaintext packets. Packets that need no protection go to their departures.
    pub fn classify_outbound(&mut self, frames: &mut Vec<Frame>) -> Classified {
        let now_ns = self.note_burst(frames.len());
        let Self { ipsec, pool, ivs, outbound, .. } = self;
        ipsec.outbound.classify(&mut ipsec.tables, now_ns, &mut |iv| ivs.fill(iv), pool, frames, outbound);
        // A request for an SA of this worker's own comes with a packet for another one.
        let packets = std::mem::take(&mut outbound.protect);
        if self.is_tracing() {
            self.trace_outbound(&packets);
        }
        let OutboundBurst { bypass, to_inside, for_others, without_sa, protect: _, own_sa: _ } =
            &self.outbound;
        // Draining an empty vector costs a packet that arrives alone some instructions, and in most
        // bursts all of them are empty.
        if !(bypass.is_empty() && to_inside.is_empty() && for_others.is_empty() && without_sa.is_empty()) {
            self.sort_unprotected(now_ns);
        }
        Classified { packets, direction: Direction::Seal, now_ns }
    }

    /// Finds the SAs of packets of the protected side. Packets that need not be opened go to their
    /// departures.
    pub fn classify_inbound(&mut self, frames: &mut Vec<Frame>) -> Classified {
        let now_ns = self.note_burst(frames.len());
        for frame in frames.iter_mut() {
            if let Offload::Opened { sa } = frame.offload() {
                // If the binding is gone the device opened the packet in vain: its tag matches
                // no SA.
                let index = self.stage.engines().bound(sa).unwrap_or(SaIndex(u32::MAX));
                frame.set_offload(Offload::Opened { sa: index.0 });
            }
        }
        let Self { ipsec, pool, inbound, .. } = self;
        ipsec.inbound.classify(&mut ipsec.tables, now_ns, pool, frames, inbound);
        let packets = std::mem::take(&mut inbound.open);
        if self.is_tracing() {
            self.trace_inbound(&packets);
        }
        let InboundBurst { bypass, to_outside, ike, for_others, open: _ } = &self.inbound;
        if !(bypass.is_empty() && to_outside.is_empty() && ike.is_empty() && for_others.is_empty()) {
            self.sort_unopened();
        }
        Classified { packets, direction: Direction::Open, now_ns }
    }

    /// Takes packets in that are to be sealed and that the gateway has made itself.
    pub(super) fn take_own_in(&mut self, packets: Vec<CryptoPacket>, now_ns: u64) {
        self.take_in(Classified { packets, direction: Direction::Seal, now_ns });
    }

    fn note_burst(&mut self, packets: usize) -> u64 {
        self.worker_overhead.took_in(packets);
        self.rounds.took_in();
        self.now_ns()
    }

    /// Puts packets into the window and dispatches what it yields at once: bursts as they came, and
    /// full multi-packets.
    pub fn take_in(&mut self, classified: Classified) {
        let Classified { mut packets, direction, now_ns } = classified;
        self.shed(&mut packets, direction);
        if self.is_tracing() {
            self.stage.trace_entering(&packets);
        }
        let input = if packets.len() >= FULL_BURST { Input::More } else { self.rounds.input() };
        let Self { stage, ipsec, pool, released, .. } = self;
        let context = &mut StageContext { tables: &mut ipsec.tables, pool, released };
        stage.enter(now_ns, input, &mut packets, context);
        if stage.has_classes() {
            // What else the round reads may be of a higher class.
            stage.trim(MOST_CLASSED_WAITING, context.released);
        } else if !stage.is_empty() {
            // Later packets of the same round may make a multi-packet longer.
            let input = if stage.scheduler.has_bursts() { input } else { Input::More };
            stage.advance(now_ns, input, context);
        }
        match direction {
            Direction::Seal => self.outbound.protect = packets,
            Direction::Open => self.inbound.open = packets,
        }
        self.finish();
    }

    /// Drops packets without room, where reading goes on regardless.
    fn shed(&mut self, packets: &mut Vec<CryptoPacket>, direction: Direction) {
        if !self.sheds || self.has_room() || self.stage.has_classes() {
            return;
        }
        let room = MOST_WAITING.saturating_sub(self.stage.in_line()).min(packets.len());
        let status = CryptoStatus::Refused(DropReason::Overloaded);
        let excess = packets.drain(room..).map(|packet| CryptoPacket { status, ..packet });
        self.released.of(direction).extend(excess);
    }

    /// Moves packets as far as possible without waiting; returns whether anything moved. `input`
    /// says whether more is at hand.
    pub fn pump(&mut self, input: Input) -> bool {
        let has_timed = self.payloads_due_ns() <= self.now_ns();
        let has_timed = has_timed && self.move_payloads(input) || self.answer_echoes();
        if self.stage.is_quiet() {
            let moved = !self.released.is_empty() || has_timed;
            if moved || self.stage.is_retiring() {
                self.finish();
            }
            (self.gathered, self.behind_since_ns) = (None, None);
            return moved;
        }
        let Self { stage, ipsec, pool, released, gathered, .. } = self;
        let context = &mut StageContext { tables: &mut ipsec.tables, pool, released };
        let mut moved = stage.pump(input, context) || has_timed;
        // However much is at hand, no train stays gathered for longer than from one call to the
        // next.
        if gathered.is_some() && stage.oldest_gathered() == *gathered {
            stage.begin_gathered(context);
            moved = true;
        }
        *gathered = stage.oldest_gathered();
        self.finish();
        let is_behind = !self.has_room();
        self.behind_since_ns = is_behind.then(|| self.behind_since_ns.unwrap_or_else(|| self.now_ns()));
        moved
    }

    /// Sends the responses to echo requests; returns whether there were any.
    fn answer_echoes(&mut self) -> bool {
        if !self.ipsec.inbound.echoes.has_responses() {
            return false;
        }
        let (responses, now_ns) = (self.ipsec.inbound.echoes.take_responses(), self.now_ns());
        self.take_own_in(responses, now_ns);
        true
    }

    /// Sends an echo request by a tunnel's current SA, if it has one of ESP in tunnel mode.
    pub(crate) fn send_echo(&mut self, tunnel: TunnelId, number: EchoNumber, data_len: u16) {
        let Self { ipsec, pool, .. } = self;
        let request = ipsec.tables.echo_request(tunnel, number, data_len, pool);
        let now_ns = self.now_ns();
        self.take_own_in(request.into_iter().collect(), now_ns);
    }

    /// Lets the payloads of AGGFRAG mode go on whose time has come; returns whether there were any.
    fn move_payloads(&mut self, input: Input) -> bool {
        let now_ns = self.now_ns();
        let Self { ipsec, pool, outbound, departures, .. } = self;
        let mut packets = std::mem::take(&mut outbound.protect);
        let has_more = input == Input::More;
        ipsec.outbound.close_payloads(&mut ipsec.tables, now_ns, has_more, pool, &mut packets);
        let before = departures.to_inside.len();
        if ipsec.inbound.payloads_due_ns() <= now_ns {
            ipsec.inbound.give_up_payloads(&mut ipsec.tables, now_ns, pool, &mut departures.to_inside);
            if ipsec.inbound.has_roamed() {
                ipsec.follow_roamers();
            }
        }
        let moved = !packets.is_empty() || departures.to_inside.len() > before;
        self.take_in(Classified { packets, direction: Direction::Seal, now_ns });
        moved
    }

    /// Lets everything go that waits for more input, as none will follow: payloads of AGGFRAG mode
    /// that are open or have their turn later, and what stands behind a missing payload. What can
    /// not go without more input is dropped: parts of packets, and packets that wait for an SA.
    pub fn end_input(&mut self) {
        let now_ns = self.now_ns();
        let Self { ipsec, pool, outbound, departures, acquiring, given_up, .. } = self;
        acquiring.expire(u64::MAX, given_up);
        given_up.drain(..).for_each(|packet| ipsec.tables.give_up(pool, packet));
        ipsec.inbound.end_input(&mut ipsec.tables, pool, &mut departures.to_inside);
        let mut packets = std::mem::take(&mut outbound.protect);
        ipsec.outbound.close_all_payloads(&mut ipsec.tables, pool, &mut packets);
        self.take_in(Classified { packets, direction: Direction::Seal, now_ns });
    }

    /// Lets an SA's payloads go that wait for more packets.
    pub(super) fn close_payloads_of(&mut self, sa: SaIndex) {
        let Some(id) = sa.outbound() else { return };
        let now_ns = self.now_ns();
        let Self { ipsec, pool, outbound, .. } = self;
        let mut packets = std::mem::take(&mut outbound.protect);
        ipsec.outbound.close_payloads_of(&mut ipsec.tables, id, pool, &mut packets);
        self.take_in(Classified { packets, direction: Direction::Seal, now_ns });
    }

    /// Completes the headers of finished packets for their departure.
    pub(super) fn finish(&mut self) {
        let now_ns = self.now_ns();
        if self.is_tracing() {
            self.trace_released();
        }
        let Self { ipsec, pool, released: Released { outbound, inbound }, departures, .. } = self;
        if !outbound.is_empty() {
            ipsec.outbound.finish(&mut ipsec.tables, pool, outbound, &mut departures.to_outside);
        }
        if !inbound.is_empty() {
            ipsec.inbound.finish(&mut ipsec.tables, now_ns, pool, inbound, &mut departures.to_inside);
            if ipsec.inbound.has_roamed() {
                ipsec.follow_roamers();
            }
        }
        if self.is_tracing() {
            self.trace_finished();
        }
        if self.stage.is_retiring() {
            self.remove_retired();
        }
    }
}
