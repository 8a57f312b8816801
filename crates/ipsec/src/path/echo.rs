//! The encrypted ESP echo (draft-ietf-ipsecme-encrypted-esp-ping): requests that this end sends and
//! those that it answers. No packet of it comes from the inside or goes there.

use std::net::IpAddr;

use convoy_packet::protocol::AGGFRAG;
use convoy_packet::{EspEcho, Frame, FramePool, HeaderError, esp_echo};

use super::frame_notes::FrameNote;
use super::tables::Tables;
use crate::drops::DropReason;
use crate::esp::batch_template::RAW_TAILROOM_BYTES;
use crate::esp::job::{CryptoPacket, Direction};
use crate::esp::outer_header::Inner;
use crate::ip::tos::OWN_CLASS;
use crate::sa::id::{InboundId, OutboundId, SaIndex, TunnelId};
use crate::sad::path_mtu::{LEAST_V4, LEAST_V6};

/// Answers that wait to be taken; further ones are not reported.
const MOST_ANSWERS: usize = 256;

/// Bytes of a request before its data.
const ECHO_HEADER: usize = esp_echo::HEADER_BYTES + esp_echo::SPI_BYTES;

/// What an SA assumes of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssumedPath {
    /// The peer at its end.
    pub peer: IpAddr,
    /// The longest packet that any path carries, in bytes.
    pub least: u16,
    /// The longest outer packet that the SA sends, in bytes.
    pub mtu: u16,
}

/// What tells an echo request from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoNumber {
    /// Common to the sender's requests of one kind.
    pub id: u16,
    /// Of its own.
    pub sequence: u16,
}

/// A response to an echo request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoAnswer {
    /// The tunnel by whose SA it came.
    pub tunnel: TunnelId,
    /// The request's number.
    pub number: EchoNumber,
}

/// Echoes that came, as far as something is to be done with them.
#[derive(Debug, Default)]
pub struct Echoes {
    /// Responses to requests of peers, to be sealed.
    responses: Vec<CryptoPacket>,
    /// Responses of peers.
    answers: Vec<EchoAnswer>,
}

impl Tables {
    /// An echo request to be sealed by a tunnel's current SA, with this much data, to be answered
    /// by the inbound SA that was used last, as the peer has that for certain; nothing if there is
    /// no SA of ESP with a header of its own in a direction, if its packets leave at a constant
    /// rate, or without a free frame.
    pub fn echo_request(
        &self,
        tunnel: TunnelId,
        number: EchoNumber,
        data_len: u16,
        pool: &mut FramePool,
    ) -> Option<CryptoPacket> {
        let tunnel = self.tunnels.find(tunnel)?;
        // The newest if none was used.
        let used =
            |id: &&InboundId| self.sad.inbound.hot(id.0).map_or(0, |sa| sa.last_used_ns.wrapping_add(1));
        let back = *self.tunnels.inbound(tunnel).iter().max_by_key(used)?;
        let return_spi = Some(self.sad.common(back.into())?.facts.name.spi);
        let EchoNumber { id, sequence } = number;
        let echo = EspEcho { is_response: false, return_spi, id, sequence, data_len };
        self.echo(self.tunnels.current(tunnel)?, &echo, &vec![0; data_len.into()], pool)
    }

    /// What the current SA of a tunnel assumes of its path.
    pub fn assumed_path(&self, tunnel: TunnelId) -> Option<AssumedPath> {
        let id = self.tunnels.current(self.tunnels.find(tunnel)?)?;
        let (sa, cold) = self.sad.outbound.hot_and_cold(id.0)?;
        let peer = cold.common.facts.name.remote;
        Some(AssumedPath { peer, least: if peer.is_ipv6() { LEAST_V6 } else { LEAST_V4 }, mtu: sa.path_mtu })
    }

    /// Bytes of data in an echo request by a tunnel's current SA whose outer packet is at most this
    /// long.
    pub fn echo_data_len(&self, tunnel: TunnelId, outer: u16) -> Option<u16> {
        let id = self.tunnels.current(self.tunnels.find(tunnel)?)?;
        let message = self.sad.outbound.cold(id.0)?.inner_mtu(outer.into(), 0);
        u16::try_from(message.checked_sub(ECHO_HEADER)?).ok()
    }

    /// An echo message to be sealed by an SA.
    fn echo(
        &self,
        id: OutboundId,
        echo: &EspEcho,
        data: &[u8],
        pool: &mut FramePool,
    ) -> Option<CryptoPacket> {
        let (sa, cold) = self.sad.outbound.hot_and_cold(id.0)?;
        // At a constant rate, an echo between the payloads would show that something happens.
        let is_paced = cold.aggregator.as_ref().is_some_and(|aggregator| aggregator.is_paced());
        if !sa.is_raw() || is_paced {
            return None;
        }
        let frame = pool.take_filled(&[&echo.to_bytes(), data].concat(), RAW_TAILROOM_BYTES)?;
        // It finds out what the path carries, so it must not be cut on the way.
        let inner = Inner { next_header: AGGFRAG, traffic_class: 0, dont_fragment: true };
        Some(CryptoPacket::new(frame, id.into(), Direction::Seal, OWN_CLASS, sa.raw_context(inner)))
    }

    /// Counts an echo that has done what it came for.
    fn absorb_echo(&mut self, pool: &mut FramePool, message: Frame, sa: SaIndex) {
        let (frame, reason) = (Some(message.id()), DropReason::EspEcho);
        self.notes.add(|| FrameNote::Dropped { frame, sa: Some(sa), reason });
        self.totals.echoes += 1;
        pool.give_back(message);
    }

    /// The SA by which a request that came by a tunnel is answered: the one that it names, if that
    /// is the tunnel's.
    fn way_back(&self, tunnel: u32, return_spi: Option<u32>) -> Option<OutboundId> {
        let Some(spi) = return_spi else { return self.tunnels.current(tunnel) };
        let has_spi = |id: &OutboundId| {
            self.sad.common((*id).into()).is_some_and(|common| common.facts.name.spi == spi)
        };
        self.tunnels.outbound(tunnel).into_iter().find(has_spi)
    }
}

impl Echoes {
    /// Takes an authentic echo message.
    pub(super) fn take(&mut self, tables: &mut Tables, id: InboundId, message: Frame, pool: &mut FramePool) {
        let (now_ns, index) = (tables.now_ns, id.into());
        let echo = match EspEcho::parse(&message) {
            Ok(echo) => echo,
            Err(error) => {
                // A payload of AGGFRAG mode that came by an SA which is not in it.
                let is_other = matches!(error, HeaderError::Version { .. });
                let reason =
                    if is_other { DropReason::BadNextHeader } else { DropReason::MalformedDecrypted };
                return tables.drop_frame(pool, message, Some(index), reason);
            }
        };
        let Some(cold) = tables.sad.inbound.cold_mut(id.0) else {
            return tables.drop_frame(pool, message, None, DropReason::UnknownSpi);
        };
        let tunnel = cold.common.tunnel;
        if echo.is_response {
            if self.answers.len() < MOST_ANSWERS {
                let number = EchoNumber { id: echo.id, sequence: echo.sequence };
                self.answers.push(EchoAnswer { tunnel: tables.tunnels.id(tunnel), number });
            }
            return tables.absorb_echo(pool, message, index);
        }
        let is_admitted = cold.echo_limit.admits(now_ns);
        let back = tables.way_back(tunnel, echo.return_spi).filter(|_| is_admitted);
        let response = EspEcho { is_response: true, return_spi: None, ..echo };
        let answer = back.and_then(|back| tables.echo(back, &response, echo.data(&message), pool));
        match answer {
            Some(answer) => {
                self.responses.push(answer);
                tables.absorb_echo(pool, message, index);
            }
            None => tables.drop_frame(pool, message, Some(index), DropReason::EspEchoRefused),
        }
    }

    /// Whether [`take_responses`](Self::take_responses) would return some.
    #[inline]
    pub fn has_responses(&self) -> bool {
        !self.responses.is_empty()
    }

    /// Takes the responses to requests of peers, which are to be sealed.
    pub fn take_responses(&mut self) -> Vec<CryptoPacket> {
        std::mem::take(&mut self.responses)
    }

    /// Takes the responses of peers since the last call.
    pub fn take_answers(&mut self) -> Vec<EchoAnswer> {
        std::mem::take(&mut self.answers)
    }
}
