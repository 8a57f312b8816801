//! An SA of charon's with all that another gateway of a cluster needs to go on with it.

use super::policy::PolicySpec;
use super::sa::AddSa;
use super::wire::{FieldReader, FieldWriter, Message};
use super::{DecodeError, MESSAGE_BYTES, NAME_BYTES};

/// The kind of a record, which is kept and never sent to charon. Another layout has another number.
const RECORD: u16 = 160;
/// The length of an encoded policy with its order, in bytes.
const POLICY_BYTES: usize = 108;
/// A record with more policies would not fit into the store together with others.
const MOST_POLICIES: usize = 4096;

/// What is kept of an SA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaRecord {
    /// The charon that negotiated it.
    pub session: u64,
    /// When it was installed, in ms since 1970.
    pub installed_ms: u64,
    /// The SA, with its present ends.
    pub sa: AddSa,
    /// The name of its connection; may be empty.
    pub connection: String,
    /// That of its child; may be empty.
    pub child: String,
    /// The policies that it serves, each with its place in the order in which they were added.
    pub policies: Vec<(u64, PolicySpec)>,
}

impl SaRecord {
    /// Whether these bytes may be a record of an SA of charon's.
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(&RECORD.to_le_bytes())
    }

    /// As bytes. Of very many policies the first ones are kept.
    pub fn encode(&self) -> Message {
        let policies = &self.policies[..self.policies.len().min(MOST_POLICIES)];
        let mut writer = FieldWriter::new(MESSAGE_BYTES + policies.len() * POLICY_BYTES, RECORD, 0);
        writer.u64(self.session).u64(self.installed_ms);
        self.sa.write(&mut writer);
        writer.text(&self.connection, NAME_BYTES).text(&self.child, NAME_BYTES);
        writer.u32(policies.len() as u32);
        for (order, policy) in policies {
            writer.u64(*order);
            policy.write(&mut writer);
        }
        writer.finish()
    }

    /// From bytes.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (id, mut reader) = FieldReader::of_kind(bytes, RECORD)?;
        if id != 0 {
            return Err(DecodeError::Field("id"));
        }
        let (session, installed_ms) = (reader.u64()?, reader.u64()?);
        let sa = AddSa::read(&mut reader)?;
        let connection = reader.text("connection", NAME_BYTES)?;
        let child = reader.text("child", NAME_BYTES)?;
        let count = reader.u32()? as usize;
        if count > MOST_POLICIES {
            return Err(DecodeError::Field("policies"));
        }
        let mut policies = Vec::new();
        for _ in 0..count {
            policies.push((reader.u64()?, PolicySpec::read(&mut reader)?));
        }
        reader.end()?;
        Ok(Self { session, installed_ms, sa, connection, child, policies })
    }
}
