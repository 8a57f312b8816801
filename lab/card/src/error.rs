use crate::command::Code;

/// Errors of the card. After any but [`CardError::Unfit`], the card has to be reset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CardError {
    /// The model could not be allocated.
    #[error("no memory for the card's model")]
    Absent,
    /// The card has no such function.
    #[error("there is no function {0}")]
    NoFunction(u8),
    /// The function's model is not in this program.
    #[error("function {0} is not in this build; build it with the feature `all-functions`")]
    NotBuilt(u8),
    /// The identification register belongs to another device.
    #[error("its identification is {0:#010x}, not that of a GRIP card")]
    NotGrip(u32),
    /// No answer came in this many cycles.
    #[error("it did not finish in {0} cycles")]
    Silent(u64),
    /// The card's bus master accessed an address outside the window and the frames that it has.
    #[error("it accessed memory that is not its own")]
    Strayed,
    /// A completion reports a bad descriptor.
    #[error("a completion with flags {0:#04x}")]
    Completion(u8),
    /// A status has a cookie that is not in use.
    #[error("a status with the unknown cookie {0}")]
    Cookie(u32),
    /// A command has no status.
    #[error("a command was not answered")]
    Unanswered,
    /// A command failed.
    #[error("it refused a command: {0:?}")]
    Refused(Code),
    /// The card does not support this SA or packet.
    #[error("it does not support this SA or packet")]
    Unfit,
    /// The card sent a frame with a wrong FCS.
    #[error("it sent a broken frame")]
    Broken,
    /// The process has no packet memory left for the card's frames.
    #[error("{0}")]
    Memory(String),
    /// The card's thread has ended.
    #[error("its thread has ended")]
    Gone,
}
