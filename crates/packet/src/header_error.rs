/// Why bytes are not the expected header. Lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The bytes end before the header does.
    #[error("{header}: {need} bytes are needed, {have} are present")]
    TooShort {
        /// Which header.
        header: &'static str,
        /// What it needs.
        need: usize,
        /// What is there.
        have: usize,
    },
    /// The version field is another protocol's.
    #[error("{header}: version {found} in the first four bits")]
    Version {
        /// Which header.
        header: &'static str,
        /// What stands there.
        found: u8,
    },
    /// A length field says less than the header itself takes, or more than there is.
    #[error("{header}: its length field says {says} bytes; {least} to {most} are possible")]
    Length {
        /// Which header.
        header: &'static str,
        /// What the field says.
        says: usize,
        /// The header itself.
        least: usize,
        /// What is there.
        most: usize,
    },
    /// An IPv6 packet of more than 65,575 bytes (RFC 2675), which no frame holds.
    #[error("IPv6: jumbograms are not supported")]
    Jumbogram,
    /// More IPv6 extension headers than are walked.
    #[error("IPv6: more than {0} extension headers")]
    ExtensionLimit(usize),
    /// A second fragment header.
    #[error("IPv6: more than one fragment header")]
    RepeatedFragment,
    /// An extension header before AH that its receiver may see otherwise than it was sent.
    #[error("IPv6: AH cannot cover an extension header {0} as its receiver will see it")]
    Unpredictable(u8),
}
