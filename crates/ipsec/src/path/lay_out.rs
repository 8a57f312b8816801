//! From raw packets to numbered ones with jobs, by runs of one SA: here at once, or by templates on
//! any core.

use super::Tables;
use crate::drops::DropReason;
use crate::esp::batch_template::{BatchTemplate, RunTemplate};
use crate::esp::identification::Series;
use crate::esp::job::{CryptoPacket, CryptoStatus};
use crate::sa::id::{OutboundId, SaId};
use crate::sad::outbound_sa::OutboundSa;

impl Tables {
    /// Lays out the [raw](CryptoPacket::is_raw) packets among these in place: numbers them in the
    /// order of `packets`, counts them towards their SAs' limits, and writes their jobs. Packets
    /// that are not raw or not pending stay as they are. `random` generates the IVs of chaining
    /// ciphers.
    ///
    /// A packet that must not proceed is [`Refused`](CryptoStatus::Refused). It stays among the
    /// others, uses no number, and is dropped and counted when it is finished. A packet that
    /// already has its number, because an engine failed with it, keeps it and is not counted again.
    pub fn lay_out(&mut self, now_ns: u64, packets: &mut [CryptoPacket], random: &mut dyn FnMut(&mut [u8])) {
        self.now_ns = self.now_ns.max(now_ns);
        let now_ns = self.now_ns;
        for run in packets.chunk_by_mut(|one, other| one.sa == other.sa) {
            match run[0].sa.id() {
                SaId::Outbound(id) => {
                    self.seal_run(id, run, |sa, these, ids| sa.lay_out(these, ids, now_ns, random))
                }
                SaId::Inbound(id) => match self.sad.inbound.hot(id.0) {
                    Some(sa) => sa.lay_out(run),
                    None => refuse(run, DropReason::UnknownSpi),
                },
            }
        }
    }

    /// Like [`lay_out`](Self::lay_out) up to the numbers; appends to `templates` what lays out each
    /// run of one SA, for an engine that does so on its own core.
    pub fn begin(&mut self, now_ns: u64, packets: &mut [CryptoPacket], templates: &mut Vec<RunTemplate>) {
        self.now_ns = self.now_ns.max(now_ns);
        let now_ns = self.now_ns;
        for run in packets.chunk_by_mut(|one, other| one.sa == other.sa) {
            let packets = run.len() as u32;
            let template = match run[0].sa.id() {
                SaId::Outbound(id) => {
                    self.seal_run(id, run, |sa, these, ids| sa.begin(these, ids, now_ns));
                    let template = self.sad.outbound.hot(id.0).and_then(OutboundSa::template);
                    template.map(BatchTemplate::Seal)
                }
                SaId::Inbound(id) => match self.sad.inbound.hot(id.0) {
                    Some(sa) => {
                        sa.begin(run);
                        sa.template().map(BatchTemplate::Open)
                    }
                    None => {
                        refuse(run, DropReason::UnknownSpi);
                        None
                    }
                },
            };
            templates.push(RunTemplate { template, packets });
        }
    }

    /// Lets `work` number a run of packets of one SA; it returns how many it has numbered.
    #[inline(always)]
    fn seal_run(
        &mut self,
        id: OutboundId,
        run: &mut [CryptoPacket],
        mut work: impl FnMut(&mut OutboundSa, &mut [CryptoPacket], Series) -> u64,
    ) {
        match self.sad.outbound.hot_mut(id.0) {
            Some(sa) if sa.covers(run.len(), self.now_ns) => {
                let used_before_ns = sa.last_used_ns;
                let ids = self.identifications.take(sa.flow(), sa.sequence() + 1, run.len());
                let numbered = work(sa, run, ids);
                self.totals.protected += numbered;
                if numbered > 0 {
                    self.note_moved(id.into(), used_before_ns);
                }
            }
            _ => run.iter_mut().for_each(|packet| self.seal_one(id, packet, &mut work)),
        }
    }

    /// Lets `work` number a packet that may reach a limit, or follows one that did.
    #[cold]
    fn seal_one(
        &mut self,
        id: OutboundId,
        packet: &mut CryptoPacket,
        work: &mut dyn FnMut(&mut OutboundSa, &mut [CryptoPacket], Series) -> u64,
    ) {
        let (now_ns, mtu) = (self.now_ns, self.config.mtu);
        let Some((sa, cold)) = self.sad.outbound.hot_and_cold_mut(id.0) else {
            return packet.refuse(DropReason::OutboundNoSa);
        };
        if sa.is_due(now_ns) {
            sa.renew(cold, now_ns, mtu);
            let is_of_sa = packet.context.generation == sa.generation();
            if let Err(reason) = sa.check_limits(cold, now_ns)
                && is_of_sa
                && packet.context.sequence == 0
            {
                return packet.refuse(reason);
            }
        }
        let used_before_ns = sa.last_used_ns;
        let ids = self.identifications.take(sa.flow(), sa.sequence() + 1, 1);
        let numbered = work(sa, std::slice::from_mut(packet), ids);
        self.totals.protected += numbered;
        if numbered > 0 && sa.is_limit() {
            self.limits_reached.push(id.into());
        }
        if numbered > 0 {
            self.note_moved(id.into(), used_before_ns);
        }
    }
}

/// Refuses raw pending packets.
#[cold]
fn refuse(packets: &mut [CryptoPacket], reason: DropReason) {
    packets.iter_mut().for_each(|packet| packet.refuse(reason));
}

impl CryptoPacket {
    fn refuse(&mut self, reason: DropReason) {
        if self.is_raw() && self.status == CryptoStatus::Pending {
            self.status = CryptoStatus::Refused(reason);
        }
    }
}
