//! Session descriptions (SDP, RFC 8866) with the parameters of RFC 4175 section 6: writing and
//! parsing.

use std::net::{IpAddr, SocketAddr};

use sdp_types::{Connection, Media, MediaType, Origin, Session, TransportProto};

use crate::format::{CLOCK_HZ, Depth, Format, FormatError, LineNumbers, Rate, Sampling, Scan};

/// A described stream: its destination and format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// Address and port of RTP; RTCP uses the next port.
    pub to: SocketAddr,
    /// RTP payload type of the video.
    pub payload_type: u8,
    /// The video format.
    pub format: Format,
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
    /// The format is invalid.
    #[error(transparent)]
    Format(#[from] FormatError),
}

impl Description {
    /// Writes the description. `from` is the sender's address; `number` distinguishes this session
    /// from others of the same host.
    pub fn write(&self, from: IpAddr, number: u64) -> String {
        let Self { to, payload_type, format } = self;
        let sampling = match format.sampling {
            Sampling::Ycbcr422 => "YCbCr-4:2:2",
            Sampling::Rgb => "RGB",
        };
        let interlace = if format.scan == Scan::Interlaced { "; interlace" } else { "" };
        let parameters = format!(
            "{payload_type} sampling={sampling}; width={}; height={}; depth={}; colorimetry=BT709-2; exactframerate={}{interlace}",
            format.width,
            format.height,
            format.depth.bits(),
            format.rate,
        );
        let mut media = Media::new(MediaType::Video, to.port(), TransportProto::RtpAvp, payload_type);
        media.add_attribute_with_value("rtpmap", format!("{payload_type} raw/{CLOCK_HZ}"));
        media.add_attribute_with_value("fmtp", parameters);
        media.add_attribute_with_value("framerate", format!("{:.6}", format.rate.hz()));
        let mut session = Session::new(Origin::with_ip_addr(number.to_string(), number, from), "convoy hdtv");
        session.connection =
            Some(Connection::from_ip_addr_ttl(to.ip(), to.ip().is_multicast().then_some(16)));
        session.add_media(media);
        let mut bytes = Vec::new();
        session.write(&mut bytes).expect("a vector takes all that is written");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Finds and reads the first stream of uncompressed video.
    ///
    /// # Errors
    /// If there is none, or if it is not supported.
    pub fn read(text: &str) -> Result<Self, SdpError> {
        let session = Session::parse(text.as_bytes()).map_err(|error| SdpError::Syntax(error.to_string()))?;
        let (media, payload_type) = session
            .medias
            .iter()
            .find_map(|media| Some((media, raw_type(media)?)))
            .ok_or(SdpError::NoVideo)?;
        let connection =
            media.connections.first().or(session.connection.as_ref()).ok_or(SdpError::Address)?;
        let ip = connection.try_address().map_err(|_| SdpError::Address)?.ip;
        let parameters =
            values(media, "fmtp").find_map(|value| of_type(value, payload_type)).unwrap_or_default();
        let format = read_format(parameters, values(media, "framerate").next())?;
        Ok(Self { to: SocketAddr::new(ip, media.port), payload_type, format })
    }
}

fn values<'a>(media: &'a Media, name: &'a str) -> impl Iterator<Item = &'a str> {
    media.get_attribute_values(name).flatten()
}

/// The rest of an attribute's value, if it starts with this payload type.
fn of_type(value: &str, payload_type: u8) -> Option<&str> {
    let (number, rest) = value.trim().split_once(' ')?;
    (number.parse() == Ok(payload_type)).then_some(rest.trim())
}

/// The payload type of uncompressed video, if the media has one.
fn raw_type(media: &Media) -> Option<u8> {
    if media.media != "video" {
        return None;
    }
    values(media, "rtpmap").find_map(|value| {
        let (number, encoding) = value.trim().split_once(' ')?;
        encoding.trim().eq_ignore_ascii_case("raw/90000").then(|| number.parse().ok()).flatten()
    })
}

fn read_format(parameters: &str, framerate: Option<&str>) -> Result<Format, SdpError> {
    let parameter = |name: &'static str| {
        let pairs =
            parameters.split(';').map(|pair| pair.trim().split_once('=').unwrap_or((pair.trim(), "")));
        pairs.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    };
    let needed = |name| parameter(name).ok_or(SdpError::Missing(name));
    let unknown = |name, value: &str, known| SdpError::Unknown { name, value: value.to_owned(), known };
    let number = |name| {
        let value = needed(name)?;
        value.parse().map_err(|_| unknown(name, value, "a number of pixels"))
    };
    let sampling = match needed("sampling")? {
        "YCbCr-4:2:2" => Sampling::Ycbcr422,
        "RGB" => Sampling::Rgb,
        other => return Err(unknown("sampling", other, "YCbCr-4:2:2 and RGB")),
    };
    let depth = match needed("depth")? {
        "8" => Depth::Eight,
        "10" => Depth::Ten,
        other => return Err(unknown("depth", other, "8 and 10")),
    };
    let scan = if parameter("interlace").is_some() { Scan::Interlaced } else { Scan::Progressive };
    let rate = parameter("exactframerate").or(framerate).ok_or(SdpError::Missing("exactframerate"))?;
    let rate = read_rate(rate).ok_or_else(|| unknown("exactframerate", rate, "a number or a fraction"))?;
    let (width, height, line_numbers) = (number("width")?, number("height")?, LineNumbers::default());
    Ok(Format { width, height, scan, rate, sampling, depth, line_numbers }.checked()?)
}

/// Parses a rate, also in RFC 8866's notation with a decimal point.
fn read_rate(text: &str) -> Option<Rate> {
    let text = text.trim();
    Rate::parse(text).or_else(|| {
        let hz: f64 = text.parse().ok().filter(|hz| (0.01..1000.0).contains(hz))?;
        let whole = hz.round();
        match ((hz - whole).abs() < 0.001, (hz - whole * 1000.0 / 1001.0).abs() < 0.005) {
            (true, _) => Some(Rate { frames: whole as u32, seconds: 1 }),
            (_, true) => Some(Rate { frames: whole as u32 * 1000, seconds: 1001 }),
            _ => Some(Rate { frames: (hz * 1000.0) as u32, seconds: 1000 }),
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::layout::PAYLOAD_TYPE;

    fn described(name: &str) -> Description {
        let format: Format = name.parse().expect("a name");
        Description {
            to: "[2001:db8::1]:5004".parse().expect("an address"),
            payload_type: PAYLOAD_TYPE,
            format,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for name in ["720p60", "1080i59.94", "64x36p25"] {
            let mut description = described(name);
            for (sampling, depth) in [(Sampling::Ycbcr422, Depth::Ten), (Sampling::Rgb, Depth::Eight)] {
                description.format = description.format.with_sampling(sampling).with_depth(depth);
                let text = description.write("2001:db8::2".parse().expect("an address"), 7);
                assert_eq!(Description::read(&text), Ok(description), "{text}");
            }
        }
    }

    const GSTREAMER: &str = "v=0\r\no=- 1 1 IN IP4 10.0.0.1\r\ns=x\r\nc=IN IP4 10.0.0.2\r\nt=0 0\r\nm=audio 5002 RTP/AVP 0\r\n\
        m=video 5004 RTP/AVP 97 96\r\na=rtpmap:97 H264/90000\r\na=rtpmap:96 RAW/90000\r\na=framerate:59.94\r\n\
        a=fmtp:96 sampling=YCbCr-4:2:2;depth=8;width=1280;height=720;colorimetry=BT709-2\r\n";

    #[test]
    fn others_descriptions_are_read() {
        let read = Description::read(GSTREAMER).expect("one of GStreamer's caps");
        assert_eq!((read.to.to_string().as_str(), read.payload_type), ("10.0.0.2:5004", 96));
        assert_eq!(read.format, "720p59.94".parse().expect("a name"));
    }

    #[test]
    fn errors_are_reported() {
        let with = |from: &str, to: &str| {
            Description::read(&GSTREAMER.replace(from, to)).expect_err("wrong").to_string()
        };
        assert!(with("RAW/", "VP8/").contains("no stream in it is uncompressed video"));
        assert!(
            with("4:2:2", "4:2:0")
                .contains("`sampling` of the video is `YCbCr-4:2:0`, but only YCbCr-4:2:2 and RGB")
        );
        assert!(with("width=", "w=").contains("`width` of the video (a=fmtp) is missing"));
        assert!(with("c=IN IP4 10.0.0.2\r\n", "").contains("(c=)"));
        assert!(with("v=0", "x").contains("not a session description"));
        assert!(with("1280", "1281").contains("groups of 2"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(at in 0..300_usize, text in ".{0,12}") {
            let mut broken = GSTREAMER.to_owned();
            let at = at.min(broken.len());
            broken.replace_range(at.., &text);
            let _ = Description::read(&broken);
            let mut broken = GSTREAMER.to_owned();
            broken.insert_str(at, &text);
            let _ = Description::read(&broken);
        }
    }
}
