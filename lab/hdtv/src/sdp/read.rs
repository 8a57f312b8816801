//! Reading a description.

use std::net::{IpAddr, SocketAddr};

use sdp_types::{
    Media, Session, SourceFilter, SourceFilterAddress, SourceFilterDestination, SourceFilterMode,
};

use super::{Description, SdpError};
use crate::format::{Depth, Format, LineNumbers, Rate, Sampling, Scan};

impl Description {
    /// Finds and reads the first stream of uncompressed video. `rate` takes the place of the
    /// described frame rate, which RFC 4175 does not require.
    ///
    /// # Errors
    /// If there is none, if it is not supported, or if its frame rate is unknown.
    pub fn read(text: &str, rate: Option<Rate>) -> Result<Self, SdpError> {
        let session = Session::parse(text.as_bytes()).map_err(|error| SdpError::Syntax(error.to_string()))?;
        let (media, payload_type) = session
            .medias
            .iter()
            .find_map(|media| Some((media, raw_type(media)?)))
            .ok_or(SdpError::NoVideo)?;
        let connection =
            media.connections.first().or(session.connection.as_ref()).ok_or(SdpError::Address)?;
        let address = connection.try_address().map_err(|_| SdpError::Address)?;
        let parameters =
            values(media, "fmtp").find_map(|value| of_type(value, payload_type)).unwrap_or_default();
        let format = Parameters(parameters).format(rate, values(media, "framerate").next())?;
        let to = SocketAddr::new(address.ip, media.port);
        Ok(Self {
            to,
            ttl: address.ttl,
            sources: sources(&session, media, address.ip)?,
            payload_type,
            format,
        })
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

/// The sources of packets to an address. Filters of the media replace those of the session (RFC
/// 4570 section 3.1).
fn sources(session: &Session, media: &Media, to: IpAddr) -> Result<Vec<IpAddr>, SdpError> {
    const NAME: &str = "source-filter";
    let mut filters: Vec<&str> = values(media, NAME).collect();
    if filters.is_empty() {
        filters = session.get_attribute_values(NAME).flatten().collect();
    }
    let mut sources = Vec::new();
    for value in filters {
        sources.extend(included(value.trim(), to)?);
    }
    Ok(sources)
}

/// The sources that a filter includes for this destination; none if it is for another one.
fn included(value: &str, to: IpAddr) -> Result<Vec<IpAddr>, SdpError> {
    let wrong = |fault: String| SdpError::SourceFilter { value: value.to_owned(), fault };
    let filter: SourceFilter = value.parse().map_err(|_| wrong("malformed".to_owned()))?;
    let is_for = match &filter.destination {
        SourceFilterDestination::Wildcard => true,
        SourceFilterDestination::Address(SourceFilterAddress::IpAddr(address)) => *address == to,
        SourceFilterDestination::Address(SourceFilterAddress::FQDN(_)) => false,
    };
    if !is_for {
        return Ok(Vec::new());
    }
    if filter.mode == SourceFilterMode::Excl {
        return Err(wrong("sources cannot be excluded".to_owned()));
    }
    let address = |source: &SourceFilterAddress| match source {
        SourceFilterAddress::IpAddr(address) => Ok(*address),
        SourceFilterAddress::FQDN(name) => Err(wrong(format!("`{name}` is not an IP address"))),
    };
    filter.sources.iter().map(address).collect()
}

/// The parameters of the media type: `NAME=VALUE` or `NAME`, separated by semicolons.
struct Parameters<'a>(&'a str);

impl<'a> Parameters<'a> {
    fn get(&self, name: &str) -> Option<&'a str> {
        let mut pairs =
            self.0.split(';').map(|pair| pair.trim().split_once('=').unwrap_or((pair.trim(), "")));
        pairs.find(|(key, _)| key.trim().eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    fn needed(&self, name: &'static str) -> Result<&'a str, SdpError> {
        self.get(name).ok_or(SdpError::Missing(name))
    }

    fn pixels(&self, name: &'static str) -> Result<usize, SdpError> {
        let value = self.needed(name)?;
        value.parse().map_err(|_| unknown(name, value, "a number of pixels"))
    }

    fn sampling(&self) -> Result<Sampling, SdpError> {
        match self.needed("sampling")? {
            "YCbCr-4:2:2" => Ok(Sampling::Ycbcr422),
            "YCbCr-4:4:4" => Ok(Sampling::Ycbcr444),
            "RGB" => Ok(Sampling::Rgb),
            other => Err(unknown("sampling", other, "YCbCr-4:2:2, YCbCr-4:4:4 and RGB")),
        }
    }

    fn depth(&self) -> Result<Depth, SdpError> {
        match self.needed("depth")? {
            "8" => Ok(Depth::Eight),
            "10" => Ok(Depth::Ten),
            "12" => Ok(Depth::Twelve),
            other => Err(unknown("depth", other, "8, 10 and 12")),
        }
    }

    /// `interlace` is RFC 4175's name and SMPTE ST 2110-20's; some devices write `interlaced`.
    fn scan(&self) -> Result<Scan, SdpError> {
        if self.get("segmented").is_some() {
            return Err(SdpError::Segmented);
        }
        let is_interlaced = self.get("interlace").or(self.get("interlaced")).is_some();
        Ok(if is_interlaced { Scan::Interlaced } else { Scan::Progressive })
    }

    fn rate(&self, framerate: Option<&str>) -> Result<Rate, SdpError> {
        let rate = self.get("exactframerate").or(framerate).ok_or(SdpError::NoRate)?;
        read_rate(rate).ok_or_else(|| unknown("exactframerate", rate, "a number or a fraction"))
    }

    fn format(&self, rate: Option<Rate>, framerate: Option<&str>) -> Result<Format, SdpError> {
        let format = Format {
            width: self.pixels("width")?,
            height: self.pixels("height")?,
            scan: self.scan()?,
            rate: rate.map_or_else(|| self.rate(framerate), Ok)?,
            sampling: self.sampling()?,
            depth: self.depth()?,
            line_numbers: LineNumbers::default(),
        };
        Ok(format.checked()?)
    }
}

fn unknown(name: &'static str, value: &str, known: &'static str) -> SdpError {
    SdpError::Unknown { name, value: value.to_owned(), known }
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
