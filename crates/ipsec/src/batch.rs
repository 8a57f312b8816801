//! A batch of one SA between its dispatch and its end, on whichever core: what lays out the jobs of
//! raw packets and takes opened ones apart.

use crate::Form;
use crate::drops::DropReason;
use crate::job::{CryptoPacket, CryptoStatus};
use crate::open_template::OpenTemplate;
use crate::seal_template::SealTemplate;

/// Bytes that are free behind every raw packet: for block padding, trailer and the longest ICV.
pub const RAW_TAILROOM_BYTES: usize = 16 + 2 + 32;

/// All that it takes of an SA to make raw packets, which have their numbers, into jobs, and opened
/// packets into plain ones. It is copied out of the SA when a batch is
/// [begun](crate::Tables::begin) and shares nothing with it, so that several cores may work for one
/// SA.
#[derive(Clone, Copy, Debug)]
pub enum BatchTemplate {
    /// Of an outbound SA.
    Seal(SealTemplate),
    /// Of an inbound SA.
    Open(OpenTemplate),
}

impl BatchTemplate {
    /// Lays out headers and job of every packet that is [raw](CryptoPacket::is_raw) and was not
    /// refused; others stay as they are. `random` gives the IVs of CBC. A packet whose frame has
    /// lost the room that it had is refused.
    pub fn lay_out(&self, packets: &mut [CryptoPacket], random: &mut dyn FnMut(&mut [u8])) {
        let raw =
            packets.iter_mut().filter(|packet| packet.is_raw() && packet.status == CryptoStatus::Pending);
        for packet in raw {
            let sequence = packet.context.sequence;
            let laid_out = match self {
                // Without a number of its own it would have the nonce of others.
                Self::Seal(_) if sequence == 0 => Err(DropReason::EngineFailed),
                Self::Seal(template) => template.lay_out(packet, sequence, random),
                Self::Open(template) => template.lay_out(packet, |_| Ok(sequence)),
            };
            if let Err(reason) = laid_out {
                packet.status = CryptoStatus::Refused(reason);
            }
        }
    }

    /// Makes packets that were opened into the plain ones that were protected, so that
    /// [`finish`](crate::Inbound::finish) need not. Outbound packets stay as they are.
    pub fn open_up(&self, packets: &mut [CryptoPacket]) {
        let Self::Open(template) = self else { return };
        for packet in packets.iter_mut().filter(|packet| packet.status == CryptoStatus::Done) {
            let CryptoPacket { frame, job, context, .. } = packet;
            if context.form == Form::LaidOut {
                context.form = Form::Stripped(template.strip(frame, job, context).map(|_| ()));
            }
        }
    }
}

/// What lays out a run of packets of one SA.
#[derive(Clone, Copy, Debug)]
pub struct RunTemplate {
    /// The SA's template; `None` where its packets are never raw.
    pub template: Option<BatchTemplate>,
    /// Packets of the run.
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
