//! The table as netlink messages for the kernel's nftables.

use std::ffi::{CStr, CString};

use netlink_bindings::builtin::PushDummy;
use netlink_bindings::nftables::{
    Chained, CmpOps, ExprOps, LookupFlags, MetaKeys, Nfgenmsg, OpGetruleDump, PayloadBase, PushExprAttrs,
    PushExprListAttrs, RangeOps, Registers, Request, SetElemFlags, SetFlags, VerdictCode,
};
use netlink_bindings::traits::{NetlinkRequest, Protocol, Pusher};

use super::GuardCounts;
use super::ranges::{Range, highest};
use super::rules::{
    AddressSet, Expression, FROM_REMOTE, GuardChain, GuardVerdict, Meta, PRIORITY, Ruleset, TO_REMOTE,
};

/// The number of nftables among the subsystems of netfilter, as a batch names it.
const NFTABLES: u16 = 10;
/// `NFPROTO_UNSPEC`.
const EVERY_FAMILY: u8 = 0;
/// `NFPROTO_INET`: IPv4 and IPv6.
const INET: u8 = 1;
/// The types by which nft(8) displays a set's addresses.
const IPV4_ADDRESS: u32 = 7;
const IPV6_ADDRESS: u32 = 8;
/// Ranges in one message: an attribute is limited to 64 KiB, and a range takes up to 80 bytes.
const RANGES: usize = 512;
/// Bytes of a netlink message's header.
pub(super) const HEADER_BYTES: usize = 16;
const REGISTER: u32 = Registers::Reg1 as u32;

fn header() -> Nfgenmsg {
    of_family(INET)
}

fn of_family(family: u8) -> Nfgenmsg {
    Nfgenmsg { nfgen_family: family, ..Default::default() }
}

/// Messages that the kernel applies as one change, or not at all.
fn batch(messages: impl FnOnce(&mut Chained<'_>)) -> Vec<u8> {
    let mut marker = Nfgenmsg::new();
    marker.set_res_id(NFTABLES);
    let mut batch = Chained::new(1);
    batch.request().op_batch_begin_do(&marker);
    messages(&mut batch);
    batch.request().op_batch_end_do(&marker);
    batch.finalize().buf().clone()
}

/// Replaces the table's content.
pub(super) fn replace(table: &CStr, content: &Ruleset) -> Vec<u8> {
    batch(|batch| {
        // So that there is one to delete.
        batch.request().set_create().op_newtable_do(&header()).encode().push_name(table);
        batch.request().op_deltable_do(&header()).encode().push_name(table);
        batch.request().set_create().op_newtable_do(&header()).encode().push_name(table);
        for (set, number) in content.sets.iter().zip(1..) {
            add_set(batch, table, set, number);
        }
        for chain in &content.chains {
            add_chain(batch, table, chain);
        }
    })
}

/// Removes the table; a missing one is no error.
pub(super) fn remove(table: &CStr) -> Vec<u8> {
    batch(|batch| {
        batch.request().set_create().op_newtable_do(&header()).encode().push_name(table);
        batch.request().op_deltable_do(&header()).encode().push_name(table);
    })
}

fn add_set(batch: &mut Chained<'_>, table: &CStr, set: &AddressSet, number: u32) {
    let name = text(&set.name);
    let (of_type, len) = if set.is_v6 { (IPV6_ADDRESS, 16) } else { (IPV4_ADDRESS, 4) };
    let request = batch.request().set_create().op_newset_do(&header());
    request
        .into_encoder()
        .push_table(table)
        .push_name(&name)
        .push_flags(SetFlags::Interval as u32)
        .push_key_type(of_type)
        .push_key_len(len)
        .push_id(number);
    for ranges in set.ranges.chunks(RANGES) {
        let request = batch.request().set_create().op_newsetelem_do(&header());
        let encoder = request.into_encoder().push_table(table).push_set(&name).push_set_id(number);
        let mut elements = encoder.nested_elements();
        for Range { first, last } in ranges {
            elements = elements
                .nested_elem()
                .nested_key()
                .push_value(&key(*first, set.is_v6))
                .end_nested()
                .end_nested();
            // A range that includes the last address has no end.
            if *last < highest(set.is_v6) {
                let end =
                    elements.nested_elem().push_flags(&(SetElemFlags::IntervalEnd as u32).to_be_bytes());
                elements = end.nested_key().push_value(&key(last + 1, set.is_v6)).end_nested().end_nested();
            }
        }
        elements.end_nested();
    }
}

fn key(number: u128, is_v6: bool) -> Vec<u8> {
    if is_v6 { number.to_be_bytes().to_vec() } else { (number as u32).to_be_bytes().to_vec() }
}

fn add_chain(batch: &mut Chained<'_>, table: &CStr, chain: &GuardChain) {
    let name = text(chain.name);
    let request = batch.request().set_create().op_newchain_do(&header());
    let named = request.into_encoder().push_table(table).push_name(&name);
    match chain.hook {
        Some(hook) => {
            let hooked = named.nested_hook().push_num(hook).push_priority(PRIORITY).end_nested();
            let kind = if chain.routes { c"route" } else { c"filter" };
            drop(hooked.push_type(kind).push_policy(VerdictCode::Accept as u32));
        }
        None => drop(named),
    }
    for rule in &chain.rules {
        let request = batch.request().set_create().set_append().op_newrule_do(&header());
        let placed = request.into_encoder().push_table(table).push_chain(&name);
        rule.iter().fold(placed.nested_expressions(), add_expression).end_nested();
    }
}

fn add_expression<P: Pusher>(list: PushExprListAttrs<P>, expression: &Expression) -> PushExprListAttrs<P> {
    if let Expression::SetMark(mark) = expression {
        let immediate = list.nested_elem().nested_data_immediate().push_dreg(REGISTER);
        let loaded = immediate.nested_data().push_value(&mark.to_ne_bytes()).end_nested().end_nested();
        let set = loaded.end_nested().nested_elem().nested_data_meta();
        return set.push_key(MetaKeys::Mark as u32).push_sreg(REGISTER).end_nested().end_nested();
    }
    let element = list.nested_elem();
    match expression {
        Expression::Meta(meta) => {
            element.nested_data_meta().push_key(meta_key(*meta) as u32).push_dreg(REGISTER).end_nested()
        }
        Expression::Network { offset, len } => payload(element, PayloadBase::NetworkHeader, *offset, *len),
        Expression::Transport { offset, len } => {
            payload(element, PayloadBase::TransportHeader, *offset, *len)
        }
        Expression::Equal(value) => {
            let compare = element.nested_data_cmp().push_sreg(REGISTER).push_op(CmpOps::Eq as u32);
            compare.nested_data().push_value(value).end_nested().end_nested()
        }
        Expression::Between { first, last } => {
            let range = element.nested_data_range().push_sreg(REGISTER).push_op(RangeOps::Eq as u32);
            let range = range.nested_from_data().push_value(first).end_nested();
            range.nested_to_data().push_value(last).end_nested().end_nested()
        }
        Expression::In { is, set } => {
            let mut look_up = element.nested_data_lookup();
            look_up.as_vec_mut().extend(source_register());
            let look_up = look_up.push_set(&text(set));
            let look_up = if *is { look_up } else { look_up.push_flags(LookupFlags::Invert as u32) };
            look_up.end_nested()
        }
        Expression::Counter => element.nested_data_counter().end_nested(),
        Expression::SetMark(_) => return element.end_nested(),
        Expression::Verdict(verdict) => conclude(element, *verdict),
    }
    .end_nested()
}

fn payload<P: Pusher>(element: PushExprAttrs<P>, base: PayloadBase, offset: u32, len: u32) -> PushDummy<P> {
    let load = element.nested_data_payload().push_dreg(REGISTER).push_base(base as u32);
    load.push_offset(offset).push_len(len).end_nested()
}

fn conclude<P: Pusher>(element: PushExprAttrs<P>, verdict: GuardVerdict) -> PushDummy<P> {
    let immediate = element.nested_data_immediate().push_dreg(Registers::RegVerdict as u32);
    let verdicts = immediate.nested_data().nested_verdict();
    let verdicts = match verdict {
        GuardVerdict::Accept => verdicts.push_code(VerdictCode::Accept as u32),
        GuardVerdict::Drop => verdicts.push_code(VerdictCode::Drop as u32),
        GuardVerdict::Jump(chain) => verdicts.push_code(VerdictCode::Jump as u32).push_chain(&text(chain)),
    };
    verdicts.end_nested().end_nested().end_nested()
}

const fn meta_key(meta: Meta) -> MetaKeys {
    match meta {
        Meta::InterfaceIn => MetaKeys::Iifname,
        Meta::InterfaceOut => MetaKeys::Oifname,
        Meta::Mark => MetaKeys::Mark,
        Meta::Family => MetaKeys::Nfproto,
        Meta::Protocol => MetaKeys::L4Proto,
    }
}

/// `NFTA_LOOKUP_SREG`, whose number is wrong in the specification from which the bindings are
/// generated: it counts another attribute before it.
fn source_register() -> Vec<u8> {
    const NFTA_LOOKUP_SREG: u16 = 2;
    [&8_u16.to_ne_bytes()[..], &NFTA_LOOKUP_SREG.to_ne_bytes(), &REGISTER.to_be_bytes()].concat()
}

/// Names of tables, chains and sets are the guard's own and contain no zero byte.
pub(super) fn text(name: &str) -> CString {
    CString::new(name).unwrap_or_default()
}

/// The request for all rules of a table of the guard's family.
pub(super) fn question(table: &CStr) -> Vec<u8> {
    rules_question(INET, table)
}

/// The request for all rules of a table.
pub(super) fn rules_question(family: u8, table: &CStr) -> Vec<u8> {
    let mut question = Request::new().op_getrule_dump(&of_family(family));
    question.encode().push_table(table);
    dump(&question)
}

/// The request for all sets of a table.
pub(super) fn sets_question(family: u8, table: &CStr) -> Vec<u8> {
    let mut question = Request::new().op_getset_dump(&of_family(family));
    question.encode().push_table(table);
    dump(&question)
}

/// The request for all chains of all tables.
pub(super) fn chains_question() -> Vec<u8> {
    dump(&Request::new().op_getchain_dump(&of_family(EVERY_FAMILY)))
}

/// A request for a list as a message.
fn dump(question: &impl NetlinkRequest) -> Vec<u8> {
    let Protocol::Raw { request_type, .. } = question.protocol() else { return Vec::new() };
    let flags = question.flags() | libc::NLM_F_REQUEST as u16;
    let len = HEADER_BYTES + question.payload().len();
    let mut message = Vec::with_capacity(len);
    message.extend((len as u32).to_ne_bytes());
    message.extend(request_type.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(question.payload());
    message
}

/// Adds what a rule has dropped, according to an answer, to the counts.
pub(super) fn count(answer: &[u8], counts: &mut GuardCounts) {
    let (_, rule) = OpGetruleDump::decode_reply(answer);
    let (Ok(chain), Ok(steps)) = (rule.get_chain(), rule.get_expressions()) else { return };
    let counters = steps.get_elem().filter_map(|step| match step.get_data() {
        Ok(ExprOps::Counter(counter)) => counter.get_packets().ok(),
        _ => None,
    });
    let packets: u64 = counters.sum();
    match chain.to_bytes() {
        name if name == FROM_REMOTE.as_bytes() => counts.inbound += packets,
        name if name == TO_REMOTE.as_bytes() => counts.outbound += packets,
        _ => {}
    }
}
