//! Packets that are never raw, one at a time: AH, and ESP in transport mode.

use convoy_packet::protocol::{ESP, UDP};
use convoy_packet::udp::HEADER_BYTES as UDP_HEADER;
use convoy_packet::{Layout, ip};

use super::{OutboundCold, OutboundSa};
use crate::drops::DropReason;
use crate::esp::ah;
use crate::esp::job::CryptoPacket;
use crate::esp::job_plan::EspParts;
use crate::esp::outer_header::{Inner, write_udp};
use crate::esp::stage::{FinishContext, LONGEST_BYTES, no_room};
use crate::esp::trailer::{ESP_TRAILER, write_trailer};
use crate::sa::config::Mode;
use crate::sa::id::SaProtocol;

impl OutboundSa {
    /// Turns a plain packet with this layout into an IPsec packet with its job. On an error the
    /// frame's content is undefined. Returns whether a limit was reached.
    ///
    /// # Errors
    /// The reason to drop the packet.
    pub(crate) fn prepare(
        &mut self,
        cold: &mut OutboundCold,
        packet: &mut CryptoPacket,
        inner: &Layout,
        now_ns: u64,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<bool, DropReason> {
        packet.frame.truncate(inner.total_len);
        let sequence = self.take_sequence(cold, now_ns)?;
        let sealed = self.seal(cold, packet, inner, sequence, random);
        sealed.and_then(|()| check_length(packet)).inspect_err(|_| cold.skipped += 1)?;
        self.last_used_ns = now_ns;
        Ok(self.spend(packet.job.lifetime_bytes(cold.common.facts.name.protocol)))
    }

    fn seal(
        &mut self,
        cold: &OutboundCold,
        packet: &mut CryptoPacket,
        layout: &Layout,
        sequence: u64,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), DropReason> {
        let (facts, inner) = (&cold.common.facts, Inner::of(layout));
        let frame = &mut packet.frame;
        match (facts.name.protocol, facts.mode) {
            (SaProtocol::Esp, _) => return self.esp_transport(cold, packet, layout, sequence, random),
            (SaProtocol::Ah, Mode::Tunnel | Mode::Iptfs) => {
                let before = self.template.outer.len();
                let header = ah::header_len(self.template.plan.icv_len(), self.template.outer.is_v6());
                frame.prepend(before + header).map_err(no_room)?;
                self.template.outer.write(frame, inner, packet.context.identification);
                let place = ah::AhPosition { at: before, len: header, next: inner.next_header };
                (packet.job, packet.context) =
                    ah::seal(frame, place, self.template.spi, sequence, &self.template.plan)?;
            }
            (SaProtocol::Ah, Mode::Transport) => {
                let place = ah::insert(frame, layout, self.template.plan.icv_len())?;
                (packet.job, packet.context) =
                    ah::seal(frame, place, self.template.spi, sequence, &self.template.plan)?;
            }
        }
        packet.context.generation = self.template.generation;
        Ok(())
    }

    fn esp_transport(
        &mut self,
        cold: &OutboundCold,
        packet: &mut CryptoPacket,
        inner: &Layout,
        sequence: u64,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), DropReason> {
        if inner.fragment.is_some() {
            return Err(DropReason::FragmentInTransport);
        }
        let CryptoPacket { frame, job, context, .. } = packet;
        let header = inner.unfragmentable;
        let next = frame[inner.next_header_at];
        let payload_len = frame.len() - header;
        let body_len = self.template.plan.padded(payload_len + ESP_TRAILER);
        let encap = cold.common.facts.encap;
        let udp = encap.map_or(0, |_| UDP_HEADER);
        let grown = udp + self.template.plan.esp_header_len();
        let trailer_len = body_len - payload_len + self.template.plan.icv_len();
        let bytes = frame.grow(grown, trailer_len).map_err(no_room)?;
        write_trailer(&mut bytes[grown + header + payload_len..], body_len - payload_len, next);
        bytes.copy_within(grown..grown + header, 0);
        bytes[inner.next_header_at] = if encap.is_some() { UDP } else { ESP };
        if let Some(ports) = encap {
            write_udp(&mut bytes[header..], ports);
        }
        ip::set_length(bytes);
        let esp = header + udp;
        self.template.write_esp(bytes, esp, sequence, random);
        let parts = EspParts { header: esp, body_len };
        *job = self.template.plan.esp_job(bytes, parts, self.template.spi, sequence);
        *context = FinishContext { header: esp as u16, ..self.template.context(sequence) };
        Ok(())
    }
}

/// Refuses a packet that exceeds the maximum length once protected.
fn check_length(packet: &CryptoPacket) -> Result<(), DropReason> {
    let len = packet.frame.len() - usize::from(packet.context.saved);
    if len > LONGEST_BYTES { Err(DropReason::PacketTooBig) } else { Ok(()) }
}
