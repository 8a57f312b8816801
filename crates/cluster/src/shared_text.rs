//! The part of a configuration that all gateways of a cluster share.

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::seal::{ClusterKey, SealError};
use crate::store::KeyValue;

/// Why a version cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SharedTextError {
    /// It cannot be opened.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// What was sealed is no version.
    #[error(transparent)]
    Text(#[from] serde_json::Error),
}

/// A version of the shared part of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedText {
    /// Its number; the first one is 1.
    pub version: u64,
    /// When it was put into the store, in seconds since 1970.
    pub time_s: u64,
    /// The member by which it was.
    pub by: String,
    /// The TOML.
    pub text: Zeroizing<String>,
}

impl SharedText {
    /// Opens and reads a version as it is in the store.
    ///
    /// # Errors
    /// [`SharedTextError`].
    pub fn open(key: &ClusterKey, found: &KeyValue) -> Result<Self, SharedTextError> {
        Ok(serde_json::from_slice(&key.open(&found.key, &found.value)?)?)
    }
}
