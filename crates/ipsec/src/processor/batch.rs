//! The dispatch of a batch: its sequence numbers and what it uses of its SA's life, and the template that works without the SA from then on.

use super::Ipsec;
use crate::batch::BatchTemplate;
use crate::drops::DropReason;
use crate::job::{CryptoStatus, Prepared, SaIndex};
use crate::sa_id::{InboundId, OutboundId, SaId};

impl Ipsec {
    /// Whether [`outbound`](Self::outbound) and [`inbound`](Self::inbound) hand packets out [raw](Prepared::is_raw), to be laid out later and on
    /// whichever core. It is so for ESP in tunnel mode; AH, transport mode and what a port's device has opened are laid out at once in any case.
    pub fn set_raw(&mut self, is_raw: bool) {
        self.is_raw = is_raw;
    }

    /// Begins a batch: gives the raw packets of one outbound SA their sequence numbers, in the order of `packets`, counts them towards its limits,
    /// and returns what lays them out. A packet that has its number already, since an engine failed with it, keeps it and is not counted
    /// again. Packets of inbound SAs bring their numbers with them.
    ///
    /// A packet that may not go is [`Refused`](CryptoStatus::Refused). It stays among the others, no number is spent for it, and it is dropped and counted when it is
    /// finished. `None` if the SA is gone, or if its packets are never raw.
    pub fn begin_batch(
        &mut self,
        now_ns: u64,
        sa: SaIndex,
        packets: &mut [Prepared],
    ) -> Option<BatchTemplate> {
        self.now_ns = self.now_ns.max(now_ns);
        match sa.id() {
            SaId::Outbound(id) => self.begin_seal(id, packets),
            SaId::Inbound(id) => self.begin_open(id, packets),
        }
    }

    /// TEMPORARY until the rewrite lands.
    pub fn lay_out(&mut self, now_ns: u64, packets: &mut [Prepared], random: &mut dyn FnMut(&mut [u8])) {
        for run in packets.chunk_by_mut(|one, other| one.sa == other.sa) {
            if let Some(template) = self.begin_batch(now_ns, run[0].sa, run) {
                template.lay_out(run, random);
            }
        }
    }

    #[inline]
    fn begin_seal(&mut self, id: OutboundId, packets: &mut [Prepared]) -> Option<BatchTemplate> {
        for packet in packets.iter_mut().filter(|packet| packet.is_raw() && packet.context.sequence == 0) {
            match self.reserve(id, packet) {
                Ok(is_limit) => {
                    packet.status = CryptoStatus::Pending;
                    self.totals.protected += 1;
                    if is_limit {
                        self.limits_reached.push(id.into());
                    }
                }
                Err(reason) => packet.status = CryptoStatus::Refused(reason),
            }
        }
        self.sad.outbound.line(id.0)?.template().map(BatchTemplate::Seal)
    }

    #[inline]
    fn reserve(&mut self, id: OutboundId, packet: &mut Prepared) -> Result<bool, DropReason> {
        let now_ns = self.now_ns;
        let Some(sa) = self.sad.outbound.line_mut(id.0) else { return Err(DropReason::OutboundNoSa) };
        if sa.generation() != packet.context.generation {
            return Err(DropReason::OutboundNoSa);
        }
        if !sa.is_due(now_ns) {
            return sa.reserve(packet, now_ns);
        }
        let mtu = self.config.mtu;
        let Some((sa, rest)) = self.sad.outbound.both_mut(id.0) else {
            return Err(DropReason::OutboundNoSa);
        };
        sa.renew(rest, now_ns, mtu);
        sa.check_limits(rest, now_ns)?;
        sa.reserve(packet, now_ns)
    }

    #[inline]
    fn begin_open(&mut self, id: InboundId, packets: &mut [Prepared]) -> Option<BatchTemplate> {
        let sa = self.sad.inbound.line(id.0);
        let generation = sa.map(|sa| sa.generation);
        for packet in packets.iter_mut().filter(|packet| packet.is_raw()) {
            if generation != Some(packet.context.generation) {
                packet.status = CryptoStatus::Refused(DropReason::UnknownSpi);
            }
        }
        sa?.template().map(BatchTemplate::Open)
    }
}
