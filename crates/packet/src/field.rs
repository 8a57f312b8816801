//! Fields of headers: big-endian numbers at fixed places, and the length checks that come before
//! them.

use crate::HeaderError;

#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let mut field = [0; 2];
    field.copy_from_slice(&bytes[at..at + 2]);
    u16::from_be_bytes(field)
}

#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(field)
}

#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(field)
}

/// An IPv6 address, copied as a whole, since a load byte by byte does not vectorise.
#[inline]
pub(crate) fn u128_at(bytes: &[u8], at: usize) -> u128 {
    let mut field = [0; 16];
    field.copy_from_slice(&bytes[at..at + 16]);
    u128::from_be_bytes(field)
}

pub(crate) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// The first `N` bytes.
pub(crate) fn fixed<'a, const N: usize>(
    header: &'static str,
    bytes: &'a [u8],
) -> Result<&'a [u8; N], HeaderError> {
    bytes.first_chunk().ok_or(HeaderError::TooShort { header, need: N, have: bytes.len() })
}

/// `says`, if it lies within `least..=most`.
pub(crate) fn length(
    header: &'static str,
    says: usize,
    least: usize,
    most: usize,
) -> Result<usize, HeaderError> {
    if (least..=most).contains(&says) {
        Ok(says)
    } else {
        Err(HeaderError::Length { header, says, least, most })
    }
}
