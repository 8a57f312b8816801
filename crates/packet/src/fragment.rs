/// The fields that identify the fragments of a datagram: in IPv4's header, and in IPv6's fragment
/// header (RFC 8200 section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// What the fragments of one datagram share; 16 bits in IPv4.
    pub identification: u32,
    /// Offset of the payload in its datagram, in bytes; a multiple of eight.
    pub offset: usize,
    /// Whether other fragments come behind this one.
    pub more: bool,
}

impl Fragment {
    /// Whether this is only a piece of a datagram; an "atomic fragment" (RFC 6946) is whole.
    pub const fn is_piece(&self) -> bool {
        self.more || self.offset != 0
    }
}
