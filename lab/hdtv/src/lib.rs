//! Uncompressed video over RTP (RFC 3550, RFC 4175), the demonstration application of the GRIP
//! papers.
//!
//! - [`Format`] is a video format. It determines how a frame lies in memory.
//! - [`Layout`] splits frames into packets as SMPTE ST 2110-20 allows, and [`Payload`] parses any
//!   packet of RFC 4175.
//! - [`Assembler`] puts received packets back into frames and releases each frame when it is due.
//! - [`VideoSource`] and [`View`] are the two ends: where frames come from, and what is done with
//!   them.
//!
//! [`send_video`] runs two threads. One makes frames; the other sends their packets, spread over
//! the frame period, in messages of many packets that the kernel gathers directly from the frame.
//!
//! [`receive_video`] runs two threads as well. One receives: as far as the [`Assembler`] can
//! predict the next packets, the kernel writes their pixels directly to their places in the frame.
//! The other conceals losses and writes, compares or saves each frame ([`View`]). Sender and
//! receiver exchange reports by [`rtcp`].
//!
//! [`Layout`], [`Payload`], [`Assembler`] and [`rtcp`] know no socket, no thread and no clock.
#![forbid(unsafe_code)]

mod announce;
mod assembler;
mod conceal;
mod coverage;
mod format;
mod group;
mod layout;
mod output;
mod payload;
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
mod snapshot;
mod source;
mod split;
mod transmit;
mod usage;
mod viewer;
mod y4m;

pub use announce::describe;
pub use assembler::{Assembler, Counts, Finished};
pub use conceal::{Concealment, conceal};
pub use format::{Depth, Format, FormatError, LineNumbers, Rate, Sampling, Scan};
pub use group::{GROUP_TTL, GroupError, Interface, ListenAddress};
pub use layout::{DatagramLimit, Layout, LayoutError, PAYLOAD_TYPE, PacketPlan};
pub use output::{Container, Output};
pub use payload::{LineHeader, Payload, PayloadError, PayloadRun};
pub use picture::Picture;
pub use psnr::Difference;
pub use receiver::{ReceiveConfig, ReceiveError, ReceiveReport, receive_video};
pub use reception::{Reception, ReceptionReport};
pub use sdp::{Announcement, Description, SdpError, TrafficProfile};
pub use sender::{Feedback, SendConfig, SendError, SendReport, send_video};
pub use snapshot::Snapshot;
pub use source::{SourceError, VideoSource};
pub use transmit::Route;
pub use usage::CpuSeconds;
pub use viewer::View;
pub use y4m::Y4mError;
