//! A batch of one SA between its dispatch and its completion, on any core: lays out the jobs of raw
//! packets and unpacks opened ones.

use crate::drops::DropReason;
use crate::esp::job::{CryptoPacket, CryptoStatus};
use crate::esp::open_template::OpenTemplate;
use crate::esp::seal_template::SealTemplate;
use crate::esp::stage::Form;

/// Bytes free behind every raw packet: for block padding, trailer and the longest ICV.
pub const RAW_TAILROOM_BYTES: usize = 16 + 2 + 32;

/// Everything needed of an SA to turn numbered raw packets into jobs, and opened packets into plain
/// ones. It is copied from the SA when a batch is [begun](crate::Tables::begin) and shares nothing
/// with it, so that several cores may work for one SA.
#[derive(Clone, Copy, Debug)]
pub enum BatchTemplate {
    /// For an outbound SA.
    Seal(SealTemplate),
    /// For an inbound SA.
    Open(OpenTemplate),
}

impl BatchTemplate {
    /// Lays out headers and job of every [raw](CryptoPacket::is_raw) packet that was not refused;
    /// others stay as they are. `random` generates the IVs of CBC. A packet whose frame no longer
    /// has the required room is refused.
    pub fn lay_out(&self, packets: &mut [CryptoPacket], random: &mut dyn FnMut(&mut [u8])) {
        let raw =
            packets.iter_mut().filter(|packet| packet.is_raw() && packet.status == CryptoStatus::Pending);
        for packet in raw {
            let sequence = packet.context.sequence;
            let laid_out = match self {
                // Without a number of its own it would share its nonce with others.
                Self::Seal(_) if sequence == 0 => Err(DropReason::EngineFailed),
                Self::Seal(template) => template.lay_out(packet, sequence, random),
                Self::Open(template) => template.lay_out(packet, |_| Ok(sequence)),
            };
            if let Err(reason) = laid_out {
                packet.status = CryptoStatus::Refused(reason);
            }
        }
    }

    /// Turns opened packets into the plain ones that were protected, so that
    /// [`finish`](crate::Inbound::finish) need not. Outbound packets stay as they are.
    pub fn open_up(&self, packets: &mut [CryptoPacket]) {
        let Self::Open(template) = self else { return };
        for packet in packets.iter_mut().filter(|packet| packet.status == CryptoStatus::Done) {
            let CryptoPacket { frame, job, context, .. } = packet;
            if context.form == Form::LaidOut {
                context.form = Form::Stripped(if template.is_iptfs {
                    template.strip_payload(frame, job, context)
                } else {
                    template.strip(frame, job, context).map(|_| ())
                });
            }
        }
    }
}

/// The template for a run of packets of one SA.
#[derive(Clone, Copy, Debug)]
pub struct RunTemplate {
    /// The SA's template; `None` where its packets are never raw.
    pub template: Option<BatchTemplate>,
    /// The number of packets in the run.
    pub packets: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_two_cache_lines_at_most() {
        assert!(size_of::<BatchTemplate>() <= 128, "{} bytes", size_of::<BatchTemplate>());
    }
}
