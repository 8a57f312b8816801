//! What the card does with packets besides cryptography.

use std::sync::Arc;

use crate::filter::FilterTable;
use crate::signature::SignatureTable;

/// What the operator wants of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// The firewall for packets that leave.
    pub outbound: FilterTable,
    /// The firewall for frames from the line.
    pub inbound: FilterTable,
    /// Whether checksums are filled in and verified.
    pub checksum: bool,
    /// What is looked for in frames from the line.
    pub signatures: Arc<SignatureTable>,
}
