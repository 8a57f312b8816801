//! `[[port.filter]]`: the rules of the card's firewall.

use convoy_card::filter::{FilterRule, FilterTable, MOST_RULES, Network};
use convoy_settings::{Checker, Spanned, Text, tables, unknown_value};

tables! {
    /// One rule.
    pub FilterKeys {
        direction: String,
        source: String,
        destination: String,
        protocol: String,
        source_port: u16,
        destination_port: u16,
        action: String,
    }
}

/// The protocols that have a name; others are written as numbers.
const PROTOCOLS: [(&str, u8); 7] =
    [("icmp", 1), ("tcp", 6), ("udp", 17), ("gre", 47), ("esp", 50), ("ah", 51), ("icmpv6", 58)];
/// Those with ports that the card reads.
const WITH_PORTS: [u8; 2] = [6, 17];
const ACTIONS: [(&str, bool); 2] = [("accept", true), ("drop", false)];

/// The rules for what leaves and for what comes, each with its number in the file as its name.
pub(super) fn tables(rules: &[FilterKeys], default: Option<&Text>, c: &mut Checker<'_>) -> [FilterTable; 2] {
    let accepts_rest = c.one_of(default, "port.filter_default", &ACTIONS).unwrap_or(true);
    let mut tables = [(); 2].map(|()| FilterTable { rules: Vec::new(), accepts_rest });
    for (keys, number) in rules.iter().zip(1..) {
        let rule = rule(keys, number, c);
        let directions = [("both", [true, true]), ("in", [false, true]), ("out", [true, false])];
        let sides = c.one_of(keys.direction.as_ref(), "port.filter.direction", &directions);
        let applies = tables.iter_mut().zip(["leaves", "comes"]).zip(sides.unwrap_or_default());
        for ((table, way), _) in applies.filter(|(_, applies)| *applies) {
            table.rules.push(rule.clone());
            if table.rules.len() == MOST_RULES + 1 {
                let what = format!(
                    "the card has room for {MOST_RULES} rules for what {way}, and this is one more; \
                     give rules a direction, or combine their prefixes"
                );
                c.add(&keys.at.span, "port.filter", what);
            }
        }
    }
    tables
}

fn rule(keys: &FilterKeys, number: usize, c: &mut Checker<'_>) -> FilterRule {
    let action = c.needed(&keys.at, keys.action.as_ref(), "port.filter.action", "\"drop\" or \"accept\"");
    let accepts = c.one_of(action, "port.filter.action", &ACTIONS).unwrap_or(true);
    let source = network(keys.source.as_ref(), "port.filter.source", c);
    let destination = network(keys.destination.as_ref(), "port.filter.destination", c);
    if let (Some((from, _)), Some((to, _)), Some(text)) = (source, destination, &keys.destination)
        && from.is_ipv4() != to.is_ipv4()
    {
        let what = "source and destination must both be IPv4 or both be IPv6: no packet has one of each";
        c.add(&text.span(), "port.filter.destination", what);
    }
    let protocol = keys.protocol.as_ref().and_then(|text| protocol(text, c));
    let has_ports = protocol.is_some_and(|protocol| WITH_PORTS.contains(&protocol));
    let mut port = |port: Option<&Spanned<u16>>, key: &str| {
        if !keys.at.unread.contains(&"protocol") {
            c.only(port, has_ports, key, "only TCP and UDP have ports; add protocol = \"tcp\" or \"udp\"");
        }
        port.map(|port| c.in_range(Some(port), key, 1, 1..=u16::MAX))
    };
    FilterRule {
        name: number.to_string(),
        source,
        destination,
        protocol,
        source_port: port(keys.source_port.as_ref(), "port.filter.source_port"),
        destination_port: port(keys.destination_port.as_ref(), "port.filter.destination_port"),
        accepts,
    }
}

/// A network. Bits behind the prefix are an error: what was meant is unclear.
fn network(text: Option<&Text>, key: &str, c: &mut Checker<'_>) -> Option<Network> {
    let text = text?;
    let given = c.prefix(text, key)?;
    if given.trunc() != given {
        let what = format!("{given} has bits behind its prefix; write {}, or a longer prefix", given.trunc());
        c.add(&text.span(), key, what);
    }
    Some((given.addr(), given.prefix_len()))
}

fn protocol(text: &Text, c: &mut Checker<'_>) -> Option<u8> {
    let word = text.get_ref();
    let named = PROTOCOLS.iter().find(|(name, _)| name == word).map(|(_, number)| *number);
    let found = named.or_else(|| word.parse().ok());
    if found.is_none() {
        let known: Vec<&str> = PROTOCOLS.iter().map(|(name, _)| *name).collect();
        let what = format!("{}, or a number up to 255 as text", unknown_value(word, &known));
        c.add(&text.span(), "port.filter.protocol", what);
    }
    found
}

/// What the tables decided, by rule: `filter_2_in` is what the second rule of the file matched of
/// what came. Of packets that leave, only rules that drop are counted: the card does not report the
/// others.
#[cfg(feature = "card")]
pub(super) fn by_rule(
    counts: &[convoy_card::nic::FilterCounts; 2],
) -> Vec<(std::borrow::Cow<'static, str>, u64)> {
    let mut all = Vec::new();
    for (counts, (way, is_reported)) in counts.iter().zip([("out", false), ("in", true)]) {
        let table = &counts.table;
        if table.is_open() {
            continue;
        }
        for (rule, count) in table.rules.iter().zip(counts.by_rule) {
            if is_reported || !rule.accepts {
                all.push((format!("filter_{}_{way}", rule.name).into(), count));
            }
        }
        if is_reported || !table.accepts_rest {
            all.push((format!("filter_default_{way}").into(), counts.rest));
        }
        all.push((format!("filter_malformed_{way}").into(), counts.malformed));
    }
    all
}
