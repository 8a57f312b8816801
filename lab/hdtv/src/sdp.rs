//! Session descriptions (SDP, RFC 8866) of uncompressed video: written as SMPTE ST 2110-10 section
//! 8 and ST 2110-20 section 7 have them; read with these parameters or with those of RFC 4175
//! section 6 alone.

mod read;
#[cfg(test)]
mod tests;
mod write;

use std::net::{IpAddr, SocketAddr};

use crate::format::{Format, FormatError};

/// A described stream: its destination and format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Address and port of RTP; RTCP uses the next port.
    pub to: SocketAddr,
    /// TTL of packets to an IPv4 group, if it is described.
    pub ttl: Option<u8>,
    /// The sources that the stream comes from (RFC 4570); empty for any.
    pub sources: Vec<IpAddr>,
    /// RTP payload type of the video.
    pub payload_type: u8,
    /// The video format.
    pub format: Format,
}

/// What a sender's description says besides the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Address of the sender.
    pub from: IpAddr,
    /// Distinguishes this session from others of the same host.
    pub number: u64,
    /// Hardware address that names the sender's clock (SMPTE ST 2110-10 section 8.2).
    pub hardware_address: Option<[u8; 6]>,
    /// Whether RTP timestamps are those of the sender's clock, without an offset.
    pub is_clocked: bool,
    /// Length of the longest datagram in bytes, if it exceeds the standard UDP size limit.
    pub max_udp_bytes: Option<usize>,
    /// Sender type, if the bursts fit one.
    pub profile: Option<TrafficProfile>,
}

/// Sender types of SMPTE ST 2110-21.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficProfile {
    /// Narrow and linear: 2110TPNL.
    NarrowLinear,
    /// Wide: 2110TPW.
    Wide,
}

/// Why a description cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SdpError {
    /// It is not SDP.
    #[error("this is not a session description (RFC 8866): {0}")]
    Syntax(String),
    /// It has no stream of uncompressed video.
    #[error("no stream in it is uncompressed video over RTP (m=video with a=rtpmap of raw/90000)")]
    NoVideo,
    /// An address is missing or not an IP address.
    #[error("the address of the video (c=) is missing or not an IP address")]
    Address,
    /// A required parameter is missing.
    #[error("the parameter `{0}` of the video (a=fmtp) is missing")]
    Missing(&'static str),
    /// The frame rate is missing.
    #[error(
        "the frame rate is missing: neither `exactframerate` (a=fmtp; SMPTE ST 2110-20, not RFC 4175) nor a=framerate; give it with --rate"
    )]
    NoRate,
    /// A parameter has an unsupported value.
    #[error("the parameter `{name}` of the video is `{value}`, but only {known} can be received")]
    Unknown {
        /// Name of the parameter.
        name: &'static str,
        /// Its value.
        value: String,
        /// The supported values.
        known: &'static str,
    },
    /// Segmented frames are not supported.
    #[error("the video is `segmented` (a=fmtp), but only progressive and interlaced video can be received")]
    Segmented,
    /// A source filter is malformed or not one of included addresses.
    #[error("a=source-filter:{value}: {fault}; expected `incl IN IP4|IP6 GROUP SOURCE...` (RFC 4570)")]
    SourceFilter {
        /// Value of the attribute.
        value: String,
        /// What is wrong with it.
        fault: String,
    },
    /// The format is invalid.
    #[error(transparent)]
    Format(#[from] FormatError),
}
