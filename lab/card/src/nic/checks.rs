//! Checksums and firewall: what the card has or is about to get, and what it decided.

use std::sync::Arc;

use super::{ETHERNET_BYTES, Nic, NicCounters};
use crate::checks::Checks;
use crate::command::{Inspection, Operation, Pipeline};
use crate::device::CONTROL;
use crate::filter::{Decision, FilterTable, MOST_RULES};
use crate::rings::BOTH_ON;
use crate::signature::{MOST_SIGNATURES, SignatureTable};

use super::sas::{Effect, Order, OrderBody};

/// Packets by what a table decided, since it came into force. Of packets that leave, the card
/// reports only those that it dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterCounts {
    /// The table.
    pub table: Arc<FilterTable>,
    /// Packets that each of its rules matched.
    pub by_rule: [u64; MOST_RULES],
    /// Packets that no rule matched.
    pub rest: u64,
    /// Packets dropped because their headers were not complete.
    pub malformed: u64,
}

impl FilterCounts {
    /// Counts for this table; from 0 if it is another than before.
    fn start(&mut self, table: Arc<FilterTable>) {
        if self.table != table {
            *self = Self { table, ..Self::default() };
        }
    }

    fn count(&mut self, decision: Decision) {
        match decision {
            Decision::Rule(rule) => {
                if let Some(count) = self.by_rule.get_mut(usize::from(rule)) {
                    *count += 1;
                }
            }
            Decision::Rest => self.rest += 1,
            Decision::Malformed => self.malformed += 1,
        }
    }
}

/// Packets that each signature hit, since the table came into force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignatureCounts {
    /// The table.
    pub table: Arc<SignatureTable>,
    /// Packets by the rule that they hit.
    pub hits: [u64; MOST_SIGNATURES],
}

impl SignatureCounts {
    /// Counts for this table; from 0 if it is another than before.
    pub(super) fn start(&mut self, table: Arc<SignatureTable>) {
        if self.table != table {
            *self = Self { table, ..Self::default() };
        }
    }
}

impl NicCounters {
    /// A packet hit the signature with this number, from 1.
    pub(super) fn count_signature(&mut self, number: u8) {
        let index = usize::from(number).checked_sub(1);
        if let Some(count) = index.and_then(|index| self.signatures.hits.get_mut(index)) {
            *count += 1;
        }
    }

    pub(super) fn count_decision(&mut self, pipeline: Pipeline, decision: Option<Decision>) {
        if let Some(decision) = decision {
            self.filters[pipeline as usize].count(decision);
        }
    }
}

/// What was asked for.
#[derive(Default)]
pub(super) struct Wanted {
    tables: [Arc<FilterTable>; 2],
    checksum: bool,
    signatures: Arc<SignatureTable>,
    /// Whether X2 has had a table since the card was reset. Until then it would pass what the table
    /// drops.
    is_in_force: bool,
}

impl Wanted {
    /// Whether frames from the line have to wait for the table.
    pub(super) fn holds_line(&self) -> bool {
        !self.is_in_force && !self.tables[Pipeline::X2 as usize].is_open()
    }

    /// What X1 does with a frame besides: nothing if it is not IP. `is_sealed` if it carries ESP.
    pub(super) fn inspection(&self, frame: &[u8], is_sealed: bool) -> Inspection {
        let version = match frame.get(12..14) {
            Some([0x08, 0x00]) => 4,
            Some([0x86, 0xdd]) => 6,
            _ => return Inspection::default(),
        };
        let filter = Inspection::FILTER.when(!self.tables[Pipeline::X1 as usize].is_open());
        let has_udp_checksum = match version {
            4 => self.checksum && !is_sealed && !is_esp_in_udp(frame),
            // Linux, like most, drops UDP over IPv6 without a checksum, ESP in UDP included, though
            // RFC 6935 allows it to tunnels. What is sealed has its bytes only in the card.
            _ => self.checksum || is_sealed,
        };
        let checksums = Inspection::IP_CHECKSUM.when(self.checksum);
        filter.and(checksums).and(Inspection::UDP_CHECKSUM.when(has_udp_checksum))
    }

    /// What X2 does with frames from the line besides.
    fn inspection_of_line(&self) -> Inspection {
        let filter = Inspection::FILTER.when(!self.tables[Pipeline::X2 as usize].is_open());
        let checksums = Inspection::IP_CHECKSUM.and(Inspection::UDP_CHECKSUM).when(self.checksum);
        let signatures = Inspection::SIGNATURES.when(!self.signatures.signatures().is_empty());
        filter.and(checksums).and(signatures)
    }
}

impl Nic {
    /// Sets what the card does besides: with packets that leave, and with frames from the line, of
    /// which a packet that was decrypted in tunnel mode is looked at inside. A filter's table
    /// applies, as a whole, to all packets that come to its pipeline later, and is counted again.
    /// One that stays is not touched, nor are signatures; while others are loaded, packets pass
    /// without being searched.
    pub fn set_checks(&mut self, checks: Checks) {
        let Checks { outbound, inbound, checksum, signatures } = checks;
        self.wanted.checksum = checksum;
        if self.wanted.signatures != signatures {
            self.wanted.signatures = signatures;
            self.order_signatures();
        }
        for (pipeline, table) in [(Pipeline::X1, outbound), (Pipeline::X2, inbound)] {
            if *self.wanted.tables[pipeline as usize] != table {
                self.wanted.tables[pipeline as usize] = Arc::new(table);
                self.order_filter(pipeline);
            }
        }
        self.inspect_line();
    }

    /// Writes the tables again after a reset of the card, before anything else.
    pub(super) fn restore_checks(&mut self) {
        self.wanted.is_in_force = false;
        let later = std::mem::take(&mut self.sas.orders);
        for pipeline in [Pipeline::X1, Pipeline::X2] {
            let wanted = &self.wanted.tables[pipeline as usize];
            if wanted.is_open() {
                self.counters.filters[pipeline as usize].start(Arc::clone(wanted));
            } else {
                self.order_filter(pipeline);
            }
        }
        if self.wanted.signatures.signatures().is_empty() {
            self.counters.signatures.start(Arc::clone(&self.wanted.signatures));
        } else {
            self.order_signatures();
        }
        self.sas.orders.extend(later);
        self.inspect_line();
    }

    /// A table is in force from the card's answer on, which comes after those of all packets before
    /// it.
    pub(super) fn filter_written(&mut self, pipeline: Pipeline, table: Arc<FilterTable>) {
        self.wanted.is_in_force |= pipeline == Pipeline::X2;
        self.counters.filters[pipeline as usize].start(table);
    }

    fn order_filter(&mut self, pipeline: Pipeline) {
        let table = Arc::clone(&self.wanted.tables[pipeline as usize]);
        self.sas.orders.push_back(Order {
            pipeline,
            operation: Operation::FilterWrite(table.accepts_rest),
            place: 0,
            body: OrderBody::Table(table.body()),
            effect: Effect::Filter(table),
        });
    }

    /// The rules come last, and are in force when they are there.
    fn order_signatures(&mut self) {
        let table = &self.wanted.signatures;
        let mut orders: Vec<Order> =
            table.pages().into_iter().map(|(number, body)| page(number, body)).collect();
        if let Some(last) = orders.last_mut() {
            last.effect = Effect::Signatures(Arc::clone(table));
        }
        self.sas.orders.extend(orders);
    }

    fn inspect_line(&mut self) {
        self.device.write(CONTROL, BOTH_ON | self.wanted.inspection_of_line().of_line());
    }
}

/// A page of the signatures' tables.
fn page(number: u8, body: Vec<u8>) -> Order {
    Order {
        pipeline: Pipeline::X2,
        operation: Operation::SignatureWrite(number),
        place: 0,
        body: OrderBody::Table(body),
        effect: Effect::Loaded,
    }
}

/// Whether an IPv4 frame carries ESP in UDP that an engine sealed, whose checksum is to be 0 (RFC
/// 3948 section 2.1): from or to its usual port, and with an SPI.
fn is_esp_in_udp(frame: &[u8]) -> bool {
    const PORT: [u8; 2] = 4500_u16.to_be_bytes();
    let Some(ihl) = frame.get(14).map(|first| usize::from(first & 15) * 4) else { return false };
    let udp = frame.get(usize::from(ETHERNET_BYTES) + ihl..).unwrap_or_default();
    matches!(udp, [a, b, c, d, _, _, _, _, spi @ ..]
        if ([*a, *b] == PORT || [*c, *d] == PORT) && spi.get(..4).is_some_and(|spi| spi != [0; 4]))
}
