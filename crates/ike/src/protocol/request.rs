//! charon's requests, on the control connection.

use std::net::{IpAddr, SocketAddr};

use super::ike_peer::IkePeer;
use super::ike_report::IkeReport;
use super::policy::{PolicyRef, PolicySpec};
use super::sa::{AddSa, EncapMode, SaProtocolId, UpdateSa, WireSaId};
use super::wire::{FieldReader, FieldWriter, Message};
use super::{DecodeError, MESSAGE_BYTES, NAME_BYTES};

/// One request; each has one reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CharonRequest {
    /// Reserves an SPI for an inbound SA.
    GetSpi {
        /// ESP or AH.
        protocol: SaProtocolId,
        /// The peer.
        source: SocketAddr,
        /// Us.
        destination: SocketAddr,
    },
    /// Installs an SA.
    AddSa(Box<AddSa>),
    /// Moves an SA's ends.
    UpdateSa(UpdateSa),
    /// Asks for an SA's counters.
    QuerySa(WireSaId),
    /// Removes an SA, or a reserved SPI.
    DelSa(WireSaId),
    /// Removes all SAs.
    FlushSas,
    /// Adds a policy, or increments the count of an existing one.
    AddPolicy(PolicySpec),
    /// Asks when a policy was last used.
    QueryPolicy(PolicyRef),
    /// Decrements the count of a policy, and removes it at 0.
    DelPolicy(PolicySpec),
    /// Removes all policies.
    FlushPolicies,
    /// Gives the names in swanctl.conf of a reqid.
    Name {
        /// What ties SAs to policies.
        reqid: u32,
        /// The mode that swanctl.conf has; the peer may have chosen another.
        mode: EncapMode,
        /// The connection's; may be empty.
        connection: String,
        /// The child's.
        child: String,
    },
    /// Reports how a negotiation goes.
    IkeReport(IkeReport),
    /// Says who the peer of a reqid is.
    Peer {
        /// What ties SAs to policies.
        reqid: u32,
        /// The peer.
        peer: IkePeer,
    },
    /// A tunnel has an address of this host's that the peer chose, or has it no longer.
    VirtualIp {
        /// The address.
        address: IpAddr,
        /// Whether the tunnel has it.
        is_held: bool,
    },
}

pub(super) const GET_SPI: u16 = 16;
pub(super) const ADD_SA: u16 = 17;
pub(super) const UPDATE_SA: u16 = 18;
pub(super) const QUERY_SA: u16 = 19;
pub(super) const DEL_SA: u16 = 20;
pub(super) const FLUSH_SAS: u16 = 21;
pub(super) const ADD_POLICY: u16 = 22;
pub(super) const QUERY_POLICY: u16 = 23;
pub(super) const DEL_POLICY: u16 = 24;
pub(super) const FLUSH_POLICIES: u16 = 25;
pub(super) const NAME: u16 = 26;
pub(super) const IKE_REPORT: u16 = 27;
pub(super) const PEER: u16 = 28;
pub(super) const VIRTUAL_IP: u16 = 29;

impl CharonRequest {
    /// The kind's number on the wire.
    pub const fn kind(&self) -> u16 {
        match self {
            Self::GetSpi { .. } => GET_SPI,
            Self::AddSa(_) => ADD_SA,
            Self::UpdateSa(_) => UPDATE_SA,
            Self::QuerySa(_) => QUERY_SA,
            Self::DelSa(_) => DEL_SA,
            Self::FlushSas => FLUSH_SAS,
            Self::AddPolicy(_) => ADD_POLICY,
            Self::QueryPolicy(_) => QUERY_POLICY,
            Self::DelPolicy(_) => DEL_POLICY,
            Self::FlushPolicies => FLUSH_POLICIES,
            Self::Name { .. } => NAME,
            Self::IkeReport(_) => IKE_REPORT,
            Self::Peer { .. } => PEER,
            Self::VirtualIp { .. } => VIRTUAL_IP,
        }
    }

    /// As bytes; the reply will carry `id`.
    pub fn encode(&self, id: u32) -> Message {
        let mut writer = FieldWriter::new(MESSAGE_BYTES, self.kind(), id);
        match self {
            Self::GetSpi { protocol, source, destination } => {
                writer.u8(protocol.number()).zeros(3).host(*source).host(*destination);
            }
            Self::AddSa(sa) => sa.write(&mut writer),
            Self::UpdateSa(update) => update.write(&mut writer),
            Self::QuerySa(sa) | Self::DelSa(sa) => sa.write(&mut writer),
            Self::AddPolicy(policy) | Self::DelPolicy(policy) => policy.write(&mut writer),
            Self::QueryPolicy(policy) => policy.write(&mut writer),
            Self::FlushSas | Self::FlushPolicies => {}
            Self::Name { reqid, mode, connection, child } => {
                writer.u32(*reqid).u8(mode.number()).zeros(3);
                writer.text(connection, NAME_BYTES).text(child, NAME_BYTES);
            }
            Self::IkeReport(report) => report.write(&mut writer),
            Self::Peer { reqid, peer } => peer.write(writer.u32(*reqid)),
            Self::VirtualIp { address, is_held } => {
                writer.u8((*is_held).into()).zeros(3).host(SocketAddr::new(*address, 0));
            }
        }
        writer.finish()
    }

    /// Decodes it, with the number that the reply must carry.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<(u32, Self), DecodeError> {
        let (kind, id, mut reader) = FieldReader::new(bytes)?;
        let request = Self::read(kind, &mut reader)?;
        reader.end()?;
        Ok((id, request))
    }

    fn read(kind: u16, reader: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        Ok(match kind {
            GET_SPI => {
                let protocol = SaProtocolId::read(reader)?;
                reader.zeros(3)?;
                Self::GetSpi { protocol, source: reader.host()?, destination: reader.host()? }
            }
            ADD_SA => Self::AddSa(Box::new(AddSa::read(reader)?)),
            UPDATE_SA => Self::UpdateSa(UpdateSa::read(reader)?),
            QUERY_SA => Self::QuerySa(WireSaId::read(reader)?),
            DEL_SA => Self::DelSa(WireSaId::read(reader)?),
            FLUSH_SAS => Self::FlushSas,
            ADD_POLICY => Self::AddPolicy(PolicySpec::read(reader)?),
            QUERY_POLICY => Self::QueryPolicy(PolicyRef::read(reader)?),
            DEL_POLICY => Self::DelPolicy(PolicySpec::read(reader)?),
            FLUSH_POLICIES => Self::FlushPolicies,
            NAME => {
                let (reqid, mode) = (reader.u32()?, EncapMode::read(reader)?);
                reader.zeros(3)?;
                let connection = reader.text("connection", NAME_BYTES)?;
                Self::Name { reqid, mode, connection, child: reader.text("child", NAME_BYTES)? }
            }
            IKE_REPORT => Self::IkeReport(IkeReport::read(reader)?),
            VIRTUAL_IP => {
                let is_held = reader.flag("held")?;
                reader.zeros(3)?;
                Self::VirtualIp { address: reader.host()?.ip(), is_held }
            }
            PEER => Self::Peer { reqid: reader.u32()?, peer: IkePeer::read(reader)? },
            _ => return Err(DecodeError::Kind(kind)),
        })
    }
}
