//! Policies as charon describes them.

use std::net::IpAddr;

use super::DecodeError;
use super::sa::EncapMode;
use super::wire::{FieldReader, FieldWriter};

/// Addresses, protocol and ports of one side. In charon's encoding, 0 to 65,535 is any port and
/// 65,535 to 0 is `opaque`; for ICMP, type and code form the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WireSelector {
    /// The lowest address.
    pub first: IpAddr,
    /// The highest address; of the same family.
    pub last: IpAddr,
    /// The IP protocol; 0 is any.
    pub protocol: u8,
    /// The lowest port.
    pub first_port: u16,
    /// The highest port.
    pub last_port: u16,
}

impl WireSelector {
    pub(super) fn write(&self, writer: &mut FieldWriter) {
        writer.family(self.first).u8(self.protocol).u16(self.first_port).u16(self.last_port).zeros(2);
        writer.address(self.first).address(self.last);
    }

    pub(super) fn read(reader: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        let is_v6 = reader.is_v6()?;
        let (protocol, first_port, last_port) = (reader.u8()?, reader.u16()?, reader.u16()?);
        reader.zeros(2)?;
        let (first, last) = (reader.address(is_v6)?, reader.address(is_v6)?);
        Ok(Self { first, last, protocol, first_port, last_port })
    }
}

/// The direction of a policy's traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WirePolicyDirection {
    /// To the gateway itself.
    In,
    /// Out through the tunnel.
    Out,
    /// In through the tunnel and on to another host.
    Forward,
}

impl WirePolicyDirection {
    const fn number(self) -> u8 {
        match self {
            Self::In => 0,
            Self::Out => 1,
            Self::Forward => 2,
        }
    }

    fn read(reader: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            0 => Ok(Self::In),
            1 => Ok(Self::Out),
            2 => Ok(Self::Forward),
            _ => Err(DecodeError::Field("direction")),
        }
    }
}

/// What happens to the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PolicyKind {
    /// SAs protect it.
    Protect,
    /// It passes unprotected.
    Pass,
    /// It is dropped.
    Drop,
}

impl PolicyKind {
    const fn number(self) -> u8 {
        match self {
            Self::Protect => 1,
            Self::Pass => 2,
            Self::Drop => 3,
        }
    }

    fn read(reader: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::Protect),
            2 => Ok(Self::Pass),
            3 => Ok(Self::Drop),
            _ => Err(DecodeError::Field("kind")),
        }
    }
}

/// charon's classes of priority, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PolicyClass {
    /// Traffic that passes unprotected.
    Pass,
    /// Traffic protected by SAs.
    Regular,
    /// Requests SAs when traffic arrives.
    Trap,
    /// Keeps traffic from leaving in plain while SAs change.
    Fallback,
}

impl PolicyClass {
    /// 0 to 3, in order.
    pub const fn number(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Regular => 1,
            Self::Trap => 2,
            Self::Fallback => 3,
        }
    }

    fn read(reader: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            0 => Ok(Self::Pass),
            1 => Ok(Self::Regular),
            2 => Ok(Self::Trap),
            3 => Ok(Self::Fallback),
            _ => Err(DecodeError::Field("class")),
        }
    }
}

/// The identity of a policy, for a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PolicyRef {
    /// Which way.
    pub direction: WirePolicyDirection,
    /// charon's number of the interface (`if_id_in`, `if_id_out`); 0 is none.
    pub if_id: u32,
    /// The packets' source.
    pub source: WireSelector,
    /// Their destination.
    pub destination: WireSelector,
}

impl PolicyRef {
    pub(super) fn write(&self, writer: &mut FieldWriter) {
        writer.u8(self.direction.number()).zeros(3).u32(self.if_id);
        self.source.write(writer);
        self.destination.write(writer);
    }

    pub(super) fn read(reader: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        let direction = WirePolicyDirection::read(reader)?;
        reader.zeros(3)?;
        let if_id = reader.u32()?;
        let (source, destination) = (WireSelector::read(reader)?, WireSelector::read(reader)?);
        Ok(Self { direction, if_id, source, destination })
    }
}

/// A policy to add, or to remove once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PolicySpec {
    /// Its identity.
    pub id: PolicyRef,
    /// Its action.
    pub kind: PolicyKind,
    /// Its class of priority.
    pub class: PolicyClass,
    /// The mode of its SAs.
    pub mode: EncapMode,
    /// Whether each resource that has packets is to have an SA of its own (RFC 9611).
    pub is_per_resource: bool,
    /// The SAs' reqid; 0 where none protect.
    pub reqid: u32,
    /// A manual priority; 0 is none, lower comes first.
    pub manual_priority: u32,
}

impl PolicySpec {
    pub(super) fn write(&self, writer: &mut FieldWriter) {
        self.id.write(writer);
        writer.u8(self.kind.number()).u8(self.class.number()).u8(self.mode.number());
        writer.u8(u8::from(self.is_per_resource));
        writer.u32(self.reqid).u32(self.manual_priority);
    }

    pub(super) fn read(reader: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        let id = PolicyRef::read(reader)?;
        let (kind, class) = (PolicyKind::read(reader)?, PolicyClass::read(reader)?);
        let mode = EncapMode::read(reader)?;
        let is_per_resource = reader.flag("per resource")?;
        let (reqid, manual_priority) = (reader.u32()?, reader.u32()?);
        Ok(Self { id, kind, class, mode, is_per_resource, reqid, manual_priority })
    }
}
