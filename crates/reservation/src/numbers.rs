//! What is known of an SA's numbers: used, permitted, and reserved in a store.

use serde::{Deserialize, Serialize};

/// The last numbers that an SA, or the two of a pair, used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// The last outbound sequence number.
    pub sent: u64,
    /// The highest inbound one of an authentic packet, also if it was above the limit and dropped:
    /// the peer has come to it.
    pub received: u64,
}

/// The last numbers that an SA, or the two of a pair, may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The last outbound sequence number.
    pub send: u64,
    /// The last inbound one; `u64::MAX` if received numbers are not reserved.
    pub accept: u64,
}

impl Limits {
    /// No limit.
    pub const NONE: Self = Self { send: u64::MAX, accept: u64::MAX };
}

/// How an SA, or a pair of them, starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaStart {
    /// Numbers that may have been used before.
    pub used: Used,
    /// Numbers that may be used from now on.
    pub limits: Limits,
    /// The start of counter ciphers' IVs: each is this plus its packet's sequence number, modulo
    /// 2^64.
    pub iv_start: u64,
}

impl SaStart {
    /// With the first number and no limit, for an SA whose numbers nothing keeps. IVs begin at the
    /// wall clock, which no IV counted up from an earlier reading has reached, as no gateway sends
    /// a packet each nanosecond.
    pub fn unlimited(clock_ns: u64) -> Self {
        Self { used: Used::default(), limits: Limits::NONE, iv_start: clock_ns }
    }

    /// Behind everything that may have been used; nothing may be until more is reserved.
    pub fn behind(used: Used, iv_start: u64) -> Self {
        Self { used, limits: Limits { send: used.sent, accept: used.received }, iv_start }
    }
}

/// What a store has of an SA's numbers, or of a pair's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// The last outbound sequence number that may be used.
    pub send_until: u64,
    /// The last inbound sequence number that may be accepted; `u64::MAX` if they are not reserved.
    pub accept_until: u64,
    /// The highest inbound sequence number, as far as the store knows.
    pub received: u64,
    /// The start of the IVs: see [`SaStart::iv_start`].
    pub iv_start: u64,
}

impl Reservation {
    /// The length of an encoded reservation, in bytes.
    pub const LEN: usize = 32;

    /// The reservation in network byte order.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let numbers = [self.send_until, self.accept_until, self.received, self.iv_start];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        bytes
    }

    /// The reservation in these bytes; `None` if there are too few or too many.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.try_into().ok()?;
        let number = |at: usize| bytes[at..].first_chunk().map(|number| u64::from_be_bytes(*number));
        Some(Self {
            send_until: number(0)?,
            accept_until: number(8)?,
            received: number(16)?,
            iv_start: number(24)?,
        })
    }

    /// The numbers that it permits.
    pub fn limits(&self) -> Limits {
        Limits { send: self.send_until, accept: self.accept_until }
    }

    /// The IV after all that may have been used under it.
    pub(crate) fn next_iv(&self) -> u64 {
        self.iv_start.wrapping_add(self.send_until).wrapping_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservation_is_decoded_as_it_was_encoded() {
        let reservation = Reservation {
            send_until: 1,
            accept_until: u64::MAX,
            received: 0x0102_0304_0506_0708,
            iv_start: 5,
        };
        assert_eq!(Reservation::decode(&reservation.encode()), Some(reservation));
        assert_eq!(Reservation::decode(&[0; Reservation::LEN - 1]), None);
        assert_eq!(Reservation::decode(&[0; Reservation::LEN + 1]), None);
    }
}
