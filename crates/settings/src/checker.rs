//! Reads single values, and collects every problem.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::net::IpAddr;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;

use ipnet::IpNet;
use toml::Spanned;

use crate::environment::{HostEnvironment, Interface};
use crate::problem::{Problem, Source};
use crate::suggest::unknown_value;
use crate::{At, Text};

/// Reads values from their text and collects problems.
pub struct Checker<'a> {
    source: &'a Source<'a>,
    environment: &'a dyn HostEnvironment,
    /// The machine's interfaces, once requested.
    interfaces: OnceCell<Option<Vec<Interface>>>,
    /// Addresses checked so far, so that each is checked once.
    addresses: HashMap<IpAddr, bool>,
    problems: Vec<Problem>,
}

impl<'a> Checker<'a> {
    /// A checker of this text; `problems` are those found by its reader.
    pub fn new(source: &'a Source<'a>, environment: &'a dyn HostEnvironment, problems: Vec<Problem>) -> Self {
        Self { source, environment, interfaces: OnceCell::new(), addresses: HashMap::new(), problems }
    }

    /// The problems found by the reader and the checker.
    pub fn into_problems(self) -> Vec<Problem> {
        self.problems
    }

    /// The machine that the configuration is checked for.
    pub fn environment(&self) -> &'a dyn HostEnvironment {
        self.environment
    }

    /// The machine's interfaces; `None` if unknown.
    pub fn interfaces(&self) -> Option<&[Interface]> {
        self.interfaces.get_or_init(|| self.environment.interfaces()).as_deref()
    }

    /// Records an error about `key`, at `span`.
    pub fn add(&mut self, span: &Range<usize>, key: &str, what: impl Display) {
        self.problems.push(self.source.problem(span, key, &what.to_string()));
    }

    /// Records a warning about `key`, at `span`.
    pub fn warn(&mut self, span: &Range<usize>, key: &str, what: impl Display) {
        self.problems.push(self.source.problem(span, key, &what.to_string()).into_warning());
    }

    /// A warning about the file as a whole.
    pub fn warn_whole(&mut self, what: &str) {
        self.problems.push(self.source.whole_problem(what).into_warning());
    }

    /// Reads a value from its text.
    pub fn read<T: FromStr<Err: Display>>(&mut self, text: &Text, key: &str) -> Option<T> {
        match text.get_ref().parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.add(&text.span(), key, error);
                None
            }
        }
    }

    /// Requires a setting; `example` shows how to write it. One that was misspelt or invalid is not
    /// reported again.
    pub fn needed<'b, T>(
        &mut self,
        at: &At,
        value: Option<&'b Spanned<T>>,
        key: &str,
        example: &str,
    ) -> Option<&'b Spanned<T>> {
        let name = key.rsplit('.').next().unwrap_or(key);
        if value.is_none() && !at.unread.contains(&name) {
            self.add(&at.span, key, format!("it is missing; add {name} = {example}"));
        }
        value
    }

    /// An IP address.
    pub fn address(&mut self, text: &Text, key: &str) -> Option<IpAddr> {
        let address = text.get_ref().parse().ok();
        if address.is_none() {
            let what = format!("{:?} is not an IP address such as 192.0.2.1 or 2001:db8::1", text.get_ref());
            self.add(&text.span(), key, what);
        }
        address
    }

    /// One of a few words, by default the first; `None` for another.
    pub fn one_of<T: Copy>(&mut self, text: Option<&Text>, key: &str, words: &[(&str, T)]) -> Option<T> {
        let Some(text) = text else { return Some(words[0].1) };
        let found = words.iter().find(|(word, _)| word == text.get_ref()).map(|(_, value)| *value);
        if found.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.add(&text.span(), key, unknown_value(text.get_ref(), &known));
        }
        found
    }

    /// A number in `range`; `default` if it is missing or invalid.
    pub fn in_range<T: PartialOrd + Display + Copy>(
        &mut self,
        value: Option<&Spanned<T>>,
        key: &str,
        default: T,
        range: RangeInclusive<T>,
    ) -> T {
        let Some(value) = value else { return default };
        let number = *value.get_ref();
        // Also rejects NaN.
        if range.contains(&number) {
            return number;
        }
        let (least, most) = (range.start(), range.end());
        self.add(&value.span(), key, format!("{number} is out of range; it must be {least} to {most}"));
        default
    }

    /// Reports a setting as an error where it would be ignored.
    pub fn only<T>(&mut self, setting: Option<&Spanned<T>>, fits: bool, key: &str, what: &str) {
        if let Some(setting) = setting.filter(|_| !fits) {
            self.add(&setting.span(), key, what);
        }
    }

    /// An address with a prefix length; without one, the address alone.
    pub fn prefix(&mut self, text: &Text, key: &str) -> Option<IpNet> {
        let parsed = parse_prefix(text.get_ref());
        if parsed.is_none() {
            let what =
                format!("{:?} is not an address such as 10.1.0.1/32 or 2001:db8::1/128", text.get_ref());
            self.add(&text.span(), key, what);
        }
        parsed
    }

    /// An interface name that the kernel accepts: at most 15 bytes (IFNAMSIZ), and no forbidden
    /// character.
    pub fn interface(&mut self, text: Option<&Text>, key: &str) -> Option<String> {
        const MOST_BYTES: usize = 15;
        let text = text?;
        let name = text.get_ref();
        if name.len() > MOST_BYTES {
            let what =
                format!("{name:?} has {} bytes; an interface name has at most {MOST_BYTES}", name.len());
            self.add(&text.span(), key, what);
        }
        let is_forbidden = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | ':' | '%');
        if name.is_empty() || name == "." || name == ".." || name.contains(is_forbidden) {
            let what = format!("{name:?} is not an interface name such as convoy0");
            self.add(&text.span(), key, what);
        }
        Some(name.clone())
    }

    /// Warns of an interface that does not exist: it may appear later, and the port waits for it.
    pub fn interface_is_there(&mut self, text: Option<&Text>, key: &str) {
        let (Some(text), Some(interfaces)) = (text, self.interfaces()) else { return };
        let known: Vec<&str> =
            interfaces.iter().map(|it| it.name.as_str()).filter(|it| *it != "lo").collect();
        if known.contains(&text.get_ref().as_str()) || text.get_ref().is_empty() {
            return;
        }
        let has = if known.is_empty() { "only lo".to_owned() } else { known.join(", ") };
        let what = format!(
            "there is no interface {:?}, and `convoy run` waits for it; this machine has {has}",
            text.get_ref()
        );
        self.warn(&text.span(), key, what);
    }

    /// The name of a TUN interface: if it exists already, it must be one.
    pub fn interface_is_tun(&mut self, text: Option<&Text>, key: &str) {
        let (Some(text), Some(interfaces)) = (text, self.interfaces()) else { return };
        let other = interfaces.iter().find(|it| it.name == *text.get_ref()).filter(|it| !it.is_tun);
        if other.is_some() {
            let what = format!(
                "the interface {:?} exists and is not a TUN interface; choose an unused name, such as \
                 \"convoy0\": the gateway creates the interface itself",
                text.get_ref()
            );
            self.add(&text.span(), key, what);
        }
    }

    /// Takes an address for one that the machine will have when it is needed.
    pub fn expect_address(&mut self, address: IpAddr) {
        self.addresses.insert(address, true);
    }

    /// Warns of a local address that the machine does not have: it may appear later, and the port
    /// waits for it.
    pub fn address_is_there(&mut self, text: &Text, address: IpAddr, key: &str) {
        let has = || self.environment.has_address(address).unwrap_or(true);
        if address.is_unspecified() || *self.addresses.entry(address).or_insert_with(has) {
            return;
        }
        let what = format!(
            "no interface of this machine has the address {address}, and `convoy run` waits for it; add it \
             to an interface, or use an address that `ip address` lists"
        );
        self.warn(&text.span(), key, what);
    }

    /// Refuses a link-local address outside: without an interface (a scope) the kernel does not
    /// know which link is meant, and a configuration has no place for one.
    pub fn not_link_local(&mut self, text: &Text, address: IpAddr, key: &str) {
        if is_link_local(address) {
            let what = format!(
                "{address} is a link-local address, which means something on one link alone, and a scope such as \
                 %eth0 is not supported; use a global address, or one of fd00::/8"
            );
            self.add(&text.span(), key, what);
        }
    }

    /// Refuses an IPv6 address for an interface of the gateway's at which the kernel would refuse
    /// it.
    pub fn v6_is_possible(&mut self, text: &Text, address: IpAddr, interface: Option<&Text>, key: &str) {
        let setting = interface.and_then(|name| self.environment.disables_v6(name.get_ref()));
        if let Some(setting) = setting.filter(|_| address.is_ipv6()) {
            let what = format!(
                "{setting} = 1, so that the kernel gives the interface no IPv6 address; run: sysctl -w \
                 {setting}=0, or remove the address"
            );
            self.add(&text.span(), key, what);
        }
    }

    /// The number of a core of this machine.
    pub fn core(&mut self, value: Option<&Spanned<usize>>, key: &str) -> Option<usize> {
        let value = value?;
        let core = *value.get_ref();
        if let Some(cores) = self.environment.cores().filter(|cores| !cores.contains(&core)) {
            let what = format!("there is no core {core}; this machine has cores {}", in_ranges(&cores));
            self.add(&value.span(), key, what);
        }
        Some(core)
    }

    /// Requires names to be unique and not empty.
    pub fn unique<'b>(&mut self, names: impl Iterator<Item = Option<&'b Text>>, key: &str) {
        let mut seen = HashSet::new();
        for name in names.flatten() {
            if name.get_ref().trim().is_empty() {
                self.add(&name.span(), key, "the name is empty");
            } else if !seen.insert(name.get_ref()) {
                let what = format!("{:?} is used twice; names must differ", name.get_ref());
                self.add(&name.span(), key, what);
            }
        }
    }
}

/// An address with a prefix length; without one, the address alone.
pub fn parse_prefix(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

/// Whether it is an IPv6 address of one link alone, fe80::/10 (RFC 4291 section 2.5.6).
pub fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.segments()[0] & 0xffc0 == 0xfe80)
}

/// Numbers in ascending order as readable ranges, such as `0-3, 8`.
fn in_ranges(numbers: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match ranges.last_mut().filter(|(_, last)| last + 1 == *number) {
            Some((_, last)) => *last = *number,
            None => ranges.push((*number, *number)),
        }
    }
    let text = |(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(", ")
}
