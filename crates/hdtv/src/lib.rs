//! Uncompressed video over RTP (RFC 3550, RFC 4175): the demonstration of the GRIP papers.
//!
//! A [`Format`] says what a frame is. [`send_video`] has one thread make frames from a [`Source`]
//! and another one send them: a [`Layout`] cuts a frame into packets of one length, and messages of
//! many packets leave straight from the frame, spread over its time. [`receive_video`] has one
//! thread receive, where the kernel writes the pixels of a packet to their place in the frame as
//! far as the [`Assembler`] knows what comes next, and another one that conceals what was lost and
//! has a [`View`] of each frame when it is due.
//!
//! [`Layout`], [`Payload`], [`Assembler`] and [`rtcp`] know no socket, no thread and no clock.
#![forbid(unsafe_code)]

mod assembler;
mod conceal;
mod coverage;
mod format;
mod layout;
mod output;
mod payload;
mod photographer;
mod picture;
mod playout;
mod priority;
mod psnr;
mod receiver;
mod reception;
pub mod rtcp;
mod samples;
mod scatter;
mod sdp;
mod sender;
mod shapes;
mod source;
mod transmit;
mod usage;
mod viewer;
mod y4m;

pub use assembler::{Assembler, Counts, Finished};
pub use conceal::{Concealment, conceal};
pub use format::{Depth, Format, FormatError, LineNumbers, Rate, Sampling, Scan};
pub use layout::{Layout, LayoutError, PAYLOAD_TYPE, PacketPlan};
pub use output::{Container, Output};
pub use payload::{LineHeader, Payload, PayloadError, Run};
pub use photographer::Snapshot;
pub use picture::Picture;
pub use psnr::Difference;
pub use receiver::{ReceiveConfig, ReceiveError, ReceiveReport, receive_video};
pub use reception::{Reception, ReceptionReport};
pub use sdp::{Description, SdpError};
pub use sender::{Feedback, SendConfig, SendError, SendReport, send_video};
pub use source::{Source, SourceError};
pub use usage::CpuSeconds;
pub use viewer::View;
pub use y4m::Y4mError;
