//! Fields as bytes: little-endian numbers, addresses, texts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use zeroize::Zeroizing;

use super::{DecodeError, TEXT_BYTES};

/// What stands for no resource; charon has the same for no CPU.
const NO_RESOURCE: u32 = u32::MAX;

/// The family byte of an IPv4 address.
const V4: u8 = 4;
/// The family byte of an IPv6 address.
const V6: u8 = 6;

/// A message's bytes; wiped when dropped, as they may hold keys.
pub type Message = Zeroizing<Vec<u8>>;

/// Writes fields. The bytes never move, so that no copy of a key is left behind.
pub(super) struct FieldWriter(Message);

impl FieldWriter {
    /// A message that begins with its kind and number, and has no more bytes than `capacity`.
    pub(super) fn new(capacity: usize, kind: u16, id: u32) -> Self {
        let mut writer = Self(Zeroizing::new(Vec::with_capacity(capacity)));
        writer.u16(kind).u16(0).u32(id);
        writer
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        debug_assert!(self.0.len() + bytes.len() <= self.0.capacity(), "a message has a largest size");
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes(&[value])
    }

    pub(super) fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn resource(&mut self, resource: Option<u32>) -> &mut Self {
        self.u32(resource.unwrap_or(NO_RESOURCE))
    }

    pub(super) fn zeros(&mut self, count: usize) -> &mut Self {
        self.bytes(&[0; 8][..count])
    }

    pub(super) fn family(&mut self, address: IpAddr) -> &mut Self {
        self.u8(if address.is_ipv6() { V6 } else { V4 })
    }

    pub(super) fn address(&mut self, address: IpAddr) -> &mut Self {
        match address {
            IpAddr::V4(v4) => self.bytes(&v4.octets()).bytes(&[0; 12]),
            IpAddr::V6(v6) => self.bytes(&v6.octets()),
        }
    }

    pub(super) fn host(&mut self, host: SocketAddr) -> &mut Self {
        self.family(host.ip()).u8(0).u16(host.port()).address(host.ip())
    }

    /// A length and as much of the text as has room, cut between characters.
    pub(super) fn text(&mut self, text: &str, limit: usize) -> &mut Self {
        let mut end = text.len().min(limit);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.u16(end as u16).bytes(&text.as_bytes()[..end])
    }

    pub(super) fn finish(self) -> Message {
        self.0
    }
}

/// Reads fields, each once, in order.
pub(super) struct FieldReader<'a>(&'a [u8]);

impl<'a> FieldReader<'a> {
    /// Reads the kind and the number; the rest is the message's.
    pub(super) fn new(bytes: &'a [u8]) -> Result<(u16, u32, Self), DecodeError> {
        let mut reader = Self(bytes);
        let kind = reader.u16()?;
        reader.zeros(2)?;
        let id = reader.u32()?;
        Ok((kind, id, reader))
    }

    /// As [`FieldReader::new`], where only one kind is expected.
    pub(super) fn of_kind(bytes: &'a [u8], expected: u16) -> Result<(u32, Self), DecodeError> {
        match Self::new(bytes)? {
            (kind, id, reader) if kind == expected => Ok((id, reader)),
            (kind, ..) => Err(DecodeError::Kind(kind)),
        }
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(DecodeError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(DecodeError::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(super) fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn resource(&mut self) -> Result<Option<u32>, DecodeError> {
        Ok(Some(self.u32()?).filter(|resource| *resource != NO_RESOURCE))
    }

    pub(super) fn flag(&mut self, field: &'static str) -> Result<bool, DecodeError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Field(field)),
        }
    }

    pub(super) fn zeros(&mut self, count: usize) -> Result<(), DecodeError> {
        if self.bytes(count)?.iter().any(|byte| *byte != 0) {
            return Err(DecodeError::Field("reserved"));
        }
        Ok(())
    }

    pub(super) fn is_v6(&mut self) -> Result<bool, DecodeError> {
        match self.u8()? {
            V4 => Ok(false),
            V6 => Ok(true),
            _ => Err(DecodeError::Field("family")),
        }
    }

    pub(super) fn address(&mut self, is_v6: bool) -> Result<IpAddr, DecodeError> {
        if is_v6 {
            return Ok(Ipv6Addr::from(self.array::<16>()?).into());
        }
        let v4 = Ipv4Addr::from(self.array::<4>()?);
        self.zeros(12)?;
        Ok(v4.into())
    }

    pub(super) fn host(&mut self) -> Result<SocketAddr, DecodeError> {
        let is_v6 = self.is_v6()?;
        self.zeros(1)?;
        let port = self.u16()?;
        Ok(SocketAddr::new(self.address(is_v6)?, port))
    }

    pub(super) fn text(&mut self, field: &'static str, limit: usize) -> Result<String, DecodeError> {
        let len = usize::from(self.u16()?);
        if len > limit {
            return Err(DecodeError::Field(field));
        }
        let text = std::str::from_utf8(self.bytes(len)?).map_err(|_| DecodeError::Field(field))?;
        Ok(text.to_owned())
    }

    pub(super) fn reason(&mut self) -> Result<String, DecodeError> {
        self.text("text", TEXT_BYTES)
    }

    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    pub(super) fn end(self) -> Result<(), DecodeError> {
        if self.0.is_empty() { Ok(()) } else { Err(DecodeError::Long(self.0.len())) }
    }
}
