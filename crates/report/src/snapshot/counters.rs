//! Counters of the workers, each declared by one row. All that shows them goes by these rows:
//! `convoy show stats`, its JSON and the metrics.

use std::collections::BTreeMap;

use convoy_ipsec::IpsecCounters;

/// A counter, summed over the workers.
#[derive(Debug)]
pub struct Counter {
    /// Its name in JSON and, between `convoy_` and `_total`, as a metric.
    pub name: &'static str,
    /// Its title in `convoy show stats`.
    pub title: &'static str,
    /// What it counts.
    pub help: &'static str,
    value: fn(&IpsecCounters) -> u64,
}

/// All of them, in the order in which they are shown.
pub static COUNTERS: &[Counter] = &[
    Counter {
        name: "bypassed_outbound_packets",
        title: "bypassed outbound",
        help: "Packets that left unprotected, as a bypass selects them",
        value: |counters| counters.bypassed_out,
    },
    Counter {
        name: "bypassed_inbound_packets",
        title: "bypassed inbound",
        help: "Packets that came in unprotected, as a bypass selects them",
        value: |counters| counters.bypassed_in,
    },
    Counter {
        name: "icmp_sent_packets",
        title: "ICMP errors sent",
        help: "ICMP errors that the gateway sent",
        value: |counters| counters.icmp_sent,
    },
    Counter {
        name: "fragmented_packets",
        title: "packets fragmented",
        help: "Packets that were cut into fragments, before or after protection",
        value: |counters| counters.cut,
    },
    Counter {
        name: "reassembled_packets",
        title: "packets reassembled",
        help: "Packets that were put together from fragments",
        value: |counters| counters.reassembled,
    },
    Counter {
        name: "esp_echo_packets",
        title: "ESP echoes received",
        help: "ESP echoes that came: requests that were answered, and answers",
        value: |counters| counters.echoes,
    },
    Counter {
        name: "flow_cache_hits",
        title: "flow cache hits",
        help: "Packets whose policy a flow cache had",
        value: |counters| counters.flow_hits,
    },
    Counter {
        name: "flow_cache_misses",
        title: "flow cache misses",
        help: "Packets whose policy had to be searched",
        value: |counters| counters.flow_misses,
    },
];

/// Each counter's count, by name.
pub(super) fn counts(counters: &IpsecCounters) -> BTreeMap<String, u64> {
    COUNTERS.iter().map(|row| (row.name.to_owned(), (row.value)(counters))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_has_a_name_and_a_value_of_its_own() {
        let counters = IpsecCounters {
            bypassed_out: 1,
            bypassed_in: 2,
            icmp_sent: 3,
            cut: 4,
            reassembled: 5,
            echoes: 6,
            flow_hits: 7,
            flow_misses: 8,
            ..IpsecCounters::default()
        };
        let counts = counts(&counters);
        let values: Vec<u64> = COUNTERS.iter().map(|row| counts[row.name]).collect();
        assert_eq!(values, [1, 2, 3, 4, 5, 6, 7, 8]);
    }
}
