//! Writing a description.

use std::fmt::Write;

use sdp_types::{
    Attribute, Connection, Media, MediaType, NetType, Origin, Session, SourceFilter, SourceFilterAddrType,
    SourceFilterAddress, SourceFilterDestination, SourceFilterMode, TransportProto,
};

use super::{Announcement, Description, TrafficProfile};
use crate::format::{CLOCK_HZ, Format, Sampling, Scan};

impl Description {
    /// Writes the description.
    pub fn write(&self, announcement: &Announcement) -> String {
        let Self { to, payload_type, format, .. } = self;
        let mut media = Media::new(MediaType::Video, to.port(), TransportProto::RtpAvp, payload_type);
        media.add_connection(Connection::from_ip_addr_ttl(to.ip(), self.ttl));
        if !self.sources.is_empty() {
            media.add_attribute_with_value("source-filter", self.source_filter());
        }
        media.add_attribute_with_value("rtpmap", format!("{payload_type} raw/{CLOCK_HZ}"));
        media
            .add_attribute_with_value("fmtp", format!("{payload_type} {}", parameters(format, announcement)));
        // Receivers of RFC 4175 know no `exactframerate`.
        media.add_attribute_with_value("framerate", format!("{:.6}", format.rate.hz()));
        media.add_attribute(reference_clock(announcement.hardware_address));
        let media_clock = if announcement.is_clocked { "direct=0" } else { "sender" };
        media.add_attribute_with_value("mediaclk", media_clock);
        let origin = Origin::with_ip_addr(announcement.number, announcement.number, announcement.from);
        let mut session = Session::new(origin, "convoy hdtv");
        session.add_media(media);
        let mut bytes = Vec::new();
        session.write(&mut bytes).expect("a vector takes all that is written");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn source_filter(&self) -> SourceFilter {
        let group = SourceFilterAddress::IpAddr(self.to.ip());
        SourceFilter {
            mode: SourceFilterMode::Incl,
            nettype: NetType::In,
            addrtype: if self.to.is_ipv4() { SourceFilterAddrType::Ip4 } else { SourceFilterAddrType::Ip6 },
            destination: SourceFilterDestination::Address(group),
            sources: self.sources.iter().map(|source| SourceFilterAddress::IpAddr(*source)).collect(),
        }
    }
}

/// The media type's parameters (SMPTE ST 2110-20 section 7, ST 2110-21 section 8).
fn parameters(format: &Format, announcement: &Announcement) -> String {
    let sampling = match format.sampling {
        Sampling::Ycbcr422 => "YCbCr-4:2:2",
        Sampling::Ycbcr444 => "YCbCr-4:4:4",
        Sampling::Rgb => "RGB",
    };
    let mut text = format!(
        "sampling={sampling}; width={}; height={}; exactframerate={}; depth={}; TCS=SDR; colorimetry=BT709",
        format.width,
        format.height,
        format.rate,
        format.depth.bits(),
    );
    if format.scan == Scan::Interlaced {
        text.push_str("; interlace");
    }
    text.push_str("; PM=2110GPM; SSN=ST2110-20:2017");
    if let Some(bytes) = announcement.max_udp_bytes {
        let _ = write!(text, "; MAXUDP={bytes}");
    }
    match announcement.profile {
        Some(TrafficProfile::NarrowLinear) => text.push_str("; TP=2110TPNL"),
        Some(TrafficProfile::Wide) => text.push_str("; TP=2110TPW"),
        None => {}
    }
    text
}

/// The sender's own clock (RFC 7273 section 4): this sender follows no PTP.
fn reference_clock(hardware_address: Option<[u8; 6]>) -> Attribute {
    let value = match hardware_address {
        Some(address) => {
            let bytes = address.map(|byte| format!("{byte:02x}"));
            format!("localmac={}", bytes.join("-"))
        }
        None => "local".to_owned(),
    };
    Attribute::with_value("ts-refclk", value)
}
