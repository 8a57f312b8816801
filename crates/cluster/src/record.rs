//! What a gateway needs to go on with an SA.

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// An SA's record, as a gateway put it: it may hold keys. Wiped when dropped, never printed.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct Record(Vec<u8>);

impl From<Vec<u8>> for Record {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl Deref for Record {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Record({} bytes)", self.0.len())
    }
}

/// In hexadecimal digits.
impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&Zeroizing::new(HEXLOWER.encode(&self.0)))
    }
}

impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Zeroizing::new(String::deserialize(deserializer)?);
        HEXLOWER_PERMISSIVE.decode(text.as_bytes()).map(Self).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error, StrDeserializer};

    use super::*;

    fn read(text: &str) -> Result<Record, Error> {
        let deserializer: StrDeserializer<'_, Error> = text.into_deserializer();
        Record::deserialize(deserializer)
    }

    #[test]
    fn a_record_is_read_from_digits_and_not_printed() {
        let record = read("00abff").expect("a record");
        assert_eq!(&record[..], [0, 0xab, 255]);
        assert_eq!(format!("{record:?}"), "Record(3 bytes)");
        read("0g").expect_err("no digits");
    }
}
