//! SAs as charon describes them.

use std::fmt;
use std::net::SocketAddr;

use zeroize::{Zeroize, ZeroizeOnDrop};

use super::wire::{FieldReader, FieldWriter};
use super::{DecodeError, KEY_BYTES};

/// The protocol of an SA, by its IP protocol number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SaProtocolId {
    /// 50.
    Esp,
    /// 51.
    Ah,
}

impl SaProtocolId {
    pub(super) const fn number(self) -> u8 {
        match self {
            Self::Esp => 50,
            Self::Ah => 51,
        }
    }

    pub(super) fn read(reader: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            50 => Ok(Self::Esp),
            51 => Ok(Self::Ah),
            _ => Err(DecodeError::Field("protocol")),
        }
    }
}

/// The identity of an SA. Ports are those of UDP encapsulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WireSaId {
    /// Its SPI.
    pub spi: u32,
    /// ESP or AH.
    pub protocol: SaProtocolId,
    /// Where its packets come from.
    pub source: SocketAddr,
    /// Where they go.
    pub destination: SocketAddr,
}

impl WireSaId {
    pub(super) fn write(&self, writer: &mut FieldWriter) {
        writer.u32(self.spi).u8(self.protocol.number()).zeros(3).host(self.source).host(self.destination);
    }

    pub(super) fn read(reader: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        let (spi, protocol) = (reader.u32()?, SaProtocolId::read(reader)?);
        reader.zeros(3)?;
        Ok(Self { spi, protocol, source: reader.host()?, destination: reader.host()? })
    }
}

/// The encapsulation mode; charon's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EncapMode {
    /// Transport.
    Transport,
    /// Tunnel.
    Tunnel,
    /// Bound end-to-end tunnel; the gateway refuses it.
    Beet,
    /// Aggregation and fragmentation (RFC 9347), as strongSwan numbers it since 6.0.2.
    Aggfrag,
}

impl EncapMode {
    pub(super) const fn number(self) -> u8 {
        match self {
            Self::Transport => 1,
            Self::Tunnel => 2,
            Self::Beet => 3,
            Self::Aggfrag => 6,
        }
    }

    pub(super) fn read(reader: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::Transport),
            2 => Ok(Self::Tunnel),
            3 => Ok(Self::Beet),
            6 => Ok(Self::Aggfrag),
            _ => Err(DecodeError::Field("mode")),
        }
    }
}

/// As in swanctl.conf.
impl fmt::Display for EncapMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Transport => "transport",
            Self::Tunnel => "tunnel",
            Self::Beet => "beet",
            Self::Aggfrag => "iptfs",
        })
    }
}

/// Between which headers the DSCP is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dscp {
    /// From the inner header to the outer.
    Out,
    /// From the outer header to the inner.
    In,
    /// Both.
    Both,
    /// Neither.
    Neither,
}

impl Dscp {
    const fn number(self) -> u8 {
        match self {
            Self::Out => 0,
            Self::In => 1,
            Self::Both => 2,
            Self::Neither => 3,
        }
    }

    fn read(reader: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            0 => Ok(Self::Out),
            1 => Ok(Self::In),
            2 => Ok(Self::Both),
            3 => Ok(Self::Neither),
            _ => Err(DecodeError::Field("dscp")),
        }
    }
}

/// When an SA is to be replaced (soft), and when it ends (hard); 0 is never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetimes {
    /// Seconds after which it is to be replaced.
    pub soft_s: u64,
    /// Seconds after which it ends.
    pub hard_s: u64,
    /// Bytes after which it is to be replaced.
    pub soft_bytes: u64,
    /// Bytes after which it ends.
    pub hard_bytes: u64,
    /// Packets after which it is to be replaced.
    pub soft_packets: u64,
    /// Packets after which it ends.
    pub hard_packets: u64,
}

impl Lifetimes {
    fn write(&self, writer: &mut FieldWriter) {
        writer.u64(self.soft_s).u64(self.hard_s).u64(self.soft_bytes);
        writer.u64(self.hard_bytes).u64(self.soft_packets).u64(self.hard_packets);
    }

    fn read(reader: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            soft_s: reader.u64()?,
            hard_s: reader.u64()?,
            soft_bytes: reader.u64()?,
            hard_bytes: reader.u64()?,
            soft_packets: reader.u64()?,
            hard_packets: reader.u64()?,
        })
    }
}

/// Algorithms by IKEv2's numbers (IANA), and their keys. Wiped when dropped, never printed.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct WireSaKeys {
    /// Encryption algorithm (transform type 1).
    #[zeroize(skip)]
    pub encryption: u16,
    /// Integrity algorithm (transform type 3).
    #[zeroize(skip)]
    pub integrity: u16,
    /// Cipher key, with the salt or nonce at its end; at most [`KEY_BYTES`].
    pub encryption_key: Vec<u8>,
    /// Integrity key; at most [`KEY_BYTES`].
    pub integrity_key: Vec<u8>,
}

impl fmt::Debug for WireSaKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (encryption, integrity) = (&self.encryption, &self.integrity);
        f.debug_struct("SaKeys")
            .field("encryption", encryption)
            .field("integrity", integrity)
            .finish_non_exhaustive()
    }
}

/// A simplex SA to install.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddSa {
    /// Which.
    pub id: WireSaId,
    /// What ties SAs to policies.
    pub reqid: u32,
    /// Tunnel, transport or AGGFRAG.
    pub mode: EncapMode,
    /// Whether it is for packets that come in.
    pub is_inbound: bool,
    /// Whether its SPI was reserved by `GetSpi`.
    pub is_reserved: bool,
    /// Whether it is in UDP, between the ports of `id`.
    pub is_encapsulated: bool,
    /// Extended sequence numbers.
    pub esn: bool,
    /// Whether the outer DF bit is the inner one; never set otherwise.
    pub copy_df: bool,
    /// Whether ECN crosses the tunnel.
    pub copy_ecn: bool,
    /// How the DSCP is copied.
    pub dscp: Dscp,
    /// Packets in the replay window.
    pub replay_window: u32,
    /// Packets are padded to this many bytes; 0 is none.
    pub tfc_bytes: u32,
    /// IPComp's algorithm; 0 is none. The gateway has none.
    pub ipcomp: u16,
    /// IPComp's index.
    pub cpi: u16,
    /// The resource whose packets it carries (RFC 9611), by our own number: a CPU. `None` is an SA
    /// of all resources.
    pub resource: Option<u32>,
    /// When it ends.
    pub lifetimes: Lifetimes,
    /// Algorithms and keys.
    pub keys: WireSaKeys,
    /// Settings of AGGFRAG mode, and of no other.
    pub iptfs: Option<IptfsOptions>,
}

/// charon's settings of AGGFRAG mode (`charon.iptfs` in strongswan.conf).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IptfsOptions {
    /// How long a missing payload is waited for, in us.
    pub drop_time_us: u32,
    /// Payloads that may wait for a missing one.
    pub reorder_window: u32,
    /// How long a payload waits for more packets, in us.
    pub init_delay_us: u32,
    /// Bytes that may wait to be sent.
    pub max_queue_size: u32,
    /// The largest outer packet, in bytes; 0 is the path MTU.
    pub packet_size: u32,
    /// Whether inner packets stay whole, as here is configured or the peer asks.
    pub dont_frag: bool,
}

impl IptfsOptions {
    fn write(self, writer: &mut FieldWriter) {
        writer.u32(self.drop_time_us).u32(self.reorder_window).u32(self.init_delay_us);
        writer.u32(self.max_queue_size).u32(self.packet_size).u8(u8::from(self.dont_frag)).zeros(3);
    }

    fn read(reader: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        let options = Self {
            drop_time_us: reader.u32()?,
            reorder_window: reader.u32()?,
            init_delay_us: reader.u32()?,
            max_queue_size: reader.u32()?,
            packet_size: reader.u32()?,
            dont_frag: reader.flag("dont_frag")?,
        };
        reader.zeros(3)?;
        Ok(options)
    }
}

const INBOUND: u8 = 1;
const RESERVED: u8 = 1 << 1;
const ENCAPSULATED: u8 = 1 << 2;
const ESN: u8 = 1 << 3;
const COPY_DF: u8 = 1 << 4;
const COPY_ECN: u8 = 1 << 5;
const ALL_FLAGS: u8 = (1 << 6) - 1;

impl AddSa {
    fn flags(&self) -> u8 {
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        bit(self.is_inbound, INBOUND)
            | bit(self.is_reserved, RESERVED)
            | bit(self.is_encapsulated, ENCAPSULATED)
            | bit(self.esn, ESN)
            | bit(self.copy_df, COPY_DF)
            | bit(self.copy_ecn, COPY_ECN)
    }

    pub(super) fn write(&self, writer: &mut FieldWriter) {
        self.id.write(writer);
        writer.u32(self.reqid).u8(self.mode.number()).u8(self.flags()).u8(self.dscp.number()).u8(0);
        writer.u32(self.replay_window).u32(self.tfc_bytes).u16(self.ipcomp).u16(self.cpi);
        writer.resource(self.resource);
        self.lifetimes.write(writer);
        let keys = &self.keys;
        let cut = |key: &[u8]| key.len().min(KEY_BYTES);
        let (cipher, integrity) = (cut(&keys.encryption_key), cut(&keys.integrity_key));
        writer.u16(keys.encryption).u16(keys.integrity).u16(cipher as u16).u16(integrity as u16);
        writer.bytes(&keys.encryption_key[..cipher]).bytes(&keys.integrity_key[..integrity]);
        if self.mode == EncapMode::Aggfrag {
            self.iptfs.unwrap_or_default().write(writer);
        }
    }

    pub(super) fn read(reader: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        let (id, reqid, mode) = (WireSaId::read(reader)?, reader.u32()?, EncapMode::read(reader)?);
        let flags = reader.u8()?;
        if flags & !ALL_FLAGS != 0 {
            return Err(DecodeError::Field("flags"));
        }
        let dscp = Dscp::read(reader)?;
        reader.zeros(1)?;
        Ok(Self {
            id,
            reqid,
            mode,
            is_inbound: flags & INBOUND != 0,
            is_reserved: flags & RESERVED != 0,
            is_encapsulated: flags & ENCAPSULATED != 0,
            esn: flags & ESN != 0,
            copy_df: flags & COPY_DF != 0,
            copy_ecn: flags & COPY_ECN != 0,
            dscp,
            replay_window: reader.u32()?,
            tfc_bytes: reader.u32()?,
            ipcomp: reader.u16()?,
            cpi: reader.u16()?,
            resource: reader.resource()?,
            lifetimes: Lifetimes::read(reader)?,
            keys: read_keys(reader)?,
            iptfs: (mode == EncapMode::Aggfrag).then(|| IptfsOptions::read(reader)).transpose()?,
        })
    }
}

fn read_keys(reader: &mut FieldReader<'_>) -> Result<WireSaKeys, DecodeError> {
    let (encryption, integrity) = (reader.u16()?, reader.u16()?);
    let (cipher, of_integrity) = (usize::from(reader.u16()?), usize::from(reader.u16()?));
    if cipher.max(of_integrity) > KEY_BYTES {
        return Err(DecodeError::Field("key"));
    }
    let encryption_key = reader.bytes(cipher)?;
    let integrity_key = reader.bytes(of_integrity)?;
    Ok(WireSaKeys {
        encryption,
        integrity,
        encryption_key: encryption_key.to_vec(),
        integrity_key: integrity_key.to_vec(),
    })
}

/// New ends of an SA (MOBIKE, NAT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateSa {
    /// Which, by its old ends.
    pub id: WireSaId,
    /// Where its packets come from now.
    pub source: SocketAddr,
    /// Where they go.
    pub destination: SocketAddr,
    /// Whether it is in UDP from now on.
    pub is_encapsulated: bool,
    /// The new reqid; 0 is unchanged.
    pub reqid: u32,
}

impl UpdateSa {
    pub(super) fn write(&self, writer: &mut FieldWriter) {
        self.id.write(writer);
        writer.host(self.source).host(self.destination);
        writer.u8(u8::from(self.is_encapsulated)).zeros(3).u32(self.reqid);
    }

    pub(super) fn read(reader: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        let (id, source, destination) = (WireSaId::read(reader)?, reader.host()?, reader.host()?);
        let is_encapsulated = reader.flag("encapsulated")?;
        reader.zeros(3)?;
        Ok(Self { id, source, destination, is_encapsulated, reqid: reader.u32()? })
    }
}
