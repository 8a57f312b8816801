use super::{FilterCounts, SignatureCounts};

/// Counters of a [`Nic`](super::Nic), in packets unless another unit is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicCounters {
    /// Given to the card to be sealed inline, including those that it refused or lost.
    pub sealed: u64,
    /// Given to the card to be sent unchanged.
    pub raw: u64,
    /// Given to the card to be sealed or sent unchanged, and sent in fragments.
    pub fragmented: u64,
    /// Frames sent on the line.
    pub sent: u64,
    /// Received from the line, decrypted, and authentic.
    pub opened: u64,
    /// Received from the line and passed to the host unchanged.
    pub passed: u64,
    /// Received from the line with a wrong ICV, and dropped by the card.
    pub wrong_icv: u64,
    /// Received from the line with an installed SPI, but no complete ESP packet; dropped by the
    /// card.
    pub malformed: u64,
    /// Not sent, because the SA is not installed, its algorithms cannot seal the packet, or the
    /// packet is too long for the line; or received and opened with an SA that has been removed.
    pub refused: u64,
    /// Received from the line and dropped: the checksum of its IPv4 header is wrong, or of that
    /// inside, if it was decrypted in tunnel mode.
    pub wrong_ip_checksum: u64,
    /// Received from the line and passed on, but the checksum of UDP is wrong, likewise.
    pub wrong_udp_checksum: u64,
    /// Not sent, because the filter dropped it.
    pub filtered_out: u64,
    /// Received from the line, and dropped by the filter.
    pub filtered_in: u64,
    /// What the filter decided, by pipeline: outbound, inbound.
    pub filters: [FilterCounts; 2],
    /// What was found in packets from the line.
    pub signatures: SignatureCounts,
    /// Received from the line and dropped, because the card's buffer or the host's queue was full.
    pub overrun: u64,
    /// Received from the line and dropped, because it is longer than the host takes.
    pub too_long: u64,
    /// Completions: frames and commands that the card has read, and frames and answers that it has
    /// written.
    pub completions: u64,
    /// Interrupts that the card has raised for them.
    pub interrupts: u64,
    /// In the card when it failed.
    pub lost: u64,
    /// Number of times that the card failed and was reset.
    pub device_errors: u64,
    /// Number of errors of the line. A frame that was being sent is lost.
    pub line_errors: u64,
}
