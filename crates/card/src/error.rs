use crate::command::Code;

/// Why the card did not do as asked. After any but [`CardError::Unfit`] it is to be reset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CardError {
    /// No model could be made.
    #[error("no memory for the card's model")]
    Absent,
    /// Another device answers.
    #[error("its identification is {0:#010x}, not that of a GRIP card")]
    NotGrip(u32),
    /// Nothing came back.
    #[error("it did not finish in {0} cycles")]
    Silent(u64),
    /// Its bus master went beyond the window.
    #[error("it accessed memory outside its window")]
    Strayed,
    /// A completion says that its descriptor is bad.
    #[error("a completion with flags {0:#04x}")]
    Completion(u8),
    /// A status with a cookie that was not given.
    #[error("a status with the unknown cookie {0}")]
    Cookie(u32),
    /// A command got no status.
    #[error("a command was not answered")]
    Unanswered,
    /// A command failed.
    #[error("it refused a command: {0:?}")]
    Refused(Code),
    /// An SA or a packet that it cannot do.
    #[error("an SA or a packet that it cannot do")]
    Unfit,
    /// A frame on the line with a wrong FCS.
    #[error("it sent a broken frame")]
    Broken,
    /// The thread that ran it has ended.
    #[error("its thread has ended")]
    Gone,
}
