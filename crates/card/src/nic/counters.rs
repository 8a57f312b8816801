/// What a [`Nic`](super::Nic) has counted, in packets unless it says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicCounters {
    /// Given to the card to be sealed in flight; those that it refused or lost are among them.
    pub sealed: u64,
    /// Given to the card to be sent as they are.
    pub raw: u64,
    /// Put on the line.
    pub sent: u64,
    /// Opened on their way in: decrypted, and their ICV right.
    pub opened: u64,
    /// From the line, handed up as they came.
    pub passed: u64,
    /// From the line with a wrong ICV; the card keeps them.
    pub wrong_icv: u64,
    /// From the line, of an installed SA and not whole ESP packets; the card keeps them.
    pub malformed: u64,
    /// Not sent: of an SA that is not installed, or not what its algorithms can seal, or too long
    /// for the line. Or from the line, and opened by keys that nobody has any more.
    pub refused: u64,
    /// From the line, and lost since the card's buffer was full or nobody took them.
    pub overrun: u64,
    /// Under way in the card when it failed.
    pub lost: u64,
    /// Times that the card failed and was set anew.
    pub device_errors: u64,
    /// Times that the line failed; a frame to be sent was lost then.
    pub line_errors: u64,
}
