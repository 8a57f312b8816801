//! The rules of the card's firewall in the card's format (docs/lab/card.md, "Filter").

use std::net::IpAddr;

/// Rules that a table holds.
pub const MOST_RULES: usize = 16;
/// Length of a rule, in bytes.
pub const RULE_BYTES: usize = 128;

/// A network: an address, and the length of its prefix in bits.
pub type Network = (IpAddr, u8);

/// A rule. What it leaves open matches any packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterRule {
    /// The name by which its packets are counted.
    pub name: String,
    /// The source's network.
    pub source: Option<Network>,
    /// The destination's network; of the same family as the source's.
    pub destination: Option<Network>,
    /// The IP protocol.
    pub protocol: Option<u8>,
    /// The source port of TCP or UDP.
    pub source_port: Option<u16>,
    /// The destination port of TCP or UDP.
    pub destination_port: Option<u16>,
    /// Whether packets pass that it matches; else they are dropped.
    pub accepts: bool,
}

impl FilterRule {
    /// The rule as FILTER_WRITE has it: values and masks.
    pub fn to_bytes(&self) -> [u8; RULE_BYTES] {
        const ACCEPTS: u8 = 1;
        const IPV4: u8 = 2;
        const IPV6: u8 = 4;
        let mut bytes = [0; RULE_BYTES];
        put_network(&mut bytes[..32], self.source);
        put_network(&mut bytes[32..64], self.destination);
        for (at, port) in [(64, self.source_port), (66, self.destination_port)] {
            put(&mut bytes, at, &port.map(u16::to_be_bytes).unwrap_or_default());
            put(&mut bytes, at + 4, &[port.map_or(0, |_| u8::MAX); 2]);
        }
        put(&mut bytes, 72, &[self.protocol.unwrap_or(0), self.protocol.map_or(0, |_| u8::MAX)]);
        let families = match self.source.or(self.destination) {
            Some((IpAddr::V4(_), _)) => IPV4,
            Some((IpAddr::V6(_), _)) => IPV6,
            None => IPV4 | IPV6,
        };
        bytes[74] = families | if self.accepts { ACCEPTS } else { 0 };
        bytes
    }
}

fn put(bytes: &mut [u8], at: usize, part: &[u8]) {
    bytes[at..at + part.len()].copy_from_slice(part);
}

/// Writes an address and its mask, 16 bytes each.
fn put_network(bytes: &mut [u8], network: Option<Network>) {
    let Some((address, bits)) = network else { return };
    match address {
        IpAddr::V4(address) => put(bytes, 0, &address.octets()),
        IpAddr::V6(address) => put(bytes, 0, &address.octets()),
    }
    for at in 0..usize::from(bits) {
        bytes[16 + at / 8] |= 0x80 >> (at % 8);
    }
}

/// The rules for one direction, in order: the first that matches a packet decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterTable {
    /// At most [`MOST_RULES`].
    pub rules: Vec<FilterRule>,
    /// Whether packets pass that no rule matches.
    pub accepts_rest: bool,
}

impl Default for FilterTable {
    /// Without rules; everything passes.
    fn default() -> Self {
        Self { rules: Vec::new(), accepts_rest: true }
    }
}

impl FilterTable {
    /// Whether everything passes uncounted, so that no packet need be looked at.
    pub fn is_open(&self) -> bool {
        self.rules.is_empty() && self.accepts_rest
    }

    /// The body of FILTER_WRITE.
    pub fn body(&self) -> Vec<u8> {
        self.rules.iter().take(MOST_RULES).flat_map(FilterRule::to_bytes).collect()
    }
}

/// What decided about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The rule with this index in its table.
    Rule(u8),
    /// No rule matched.
    Rest,
    /// Its headers were not complete; it was dropped.
    Malformed,
}

impl Decision {
    /// From byte 3 of a status.
    pub(crate) const fn of(byte: u8) -> Self {
        match byte {
            u8::MAX => Self::Rest,
            254 => Self::Malformed,
            rule => Self::Rule(rule),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_has_its_fields_where_the_card_reads_them() {
        let rule = FilterRule {
            name: "1".to_owned(),
            source: Some(([10, 1, 0, 0].into(), 12)),
            destination: Some(([192, 0, 2, 7].into(), 32)),
            protocol: Some(6),
            source_port: None,
            destination_port: Some(0x0102),
            accepts: true,
        };
        let bytes = rule.to_bytes();
        assert_eq!(bytes[..8], [10, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[16..24], [255, 0xf0, 0, 0, 0, 0, 0, 0]);
        assert_eq!((&bytes[32..36], &bytes[48..54]), (&[192, 0, 2, 7][..], &[255, 255, 255, 255, 0, 0][..]));
        assert_eq!(bytes[64..76], [0, 0, 1, 2, 0, 0, 255, 255, 6, 255, 3, 0]);
        let v6 = FilterRule { source: Some(([0xfd; 16].into(), 65)), ..FilterRule::default() }.to_bytes();
        assert_eq!(v6[..16], [0xfd; 16]);
        assert_eq!((v6[23], v6[24], v6[25], v6[74]), (255, 0x80, 0, 4));
        assert_eq!(FilterRule::default().to_bytes()[72..75], [0, 0, 6], "any protocol, both families");
    }

    #[test]
    fn a_table_without_rules_is_open_unless_it_drops_the_rest() {
        assert!(FilterTable::default().is_open());
        assert!(!FilterTable { accepts_rest: false, ..FilterTable::default() }.is_open());
        let table = FilterTable { rules: vec![FilterRule::default(); 2], accepts_rest: true };
        assert_eq!((table.is_open(), table.body().len()), (false, 256));
    }
}
