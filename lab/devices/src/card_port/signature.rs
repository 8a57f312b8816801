//! `[[port.signature]]`: what the card looks for in packets.

use std::collections::HashMap;
use std::sync::Arc;

use convoy_card::signature::{Signature, SignatureTable};
use convoy_settings::{Checker, tables};

tables! {
    /// One rule.
    pub SignatureKeys {
        rule: String,
    }
}

/// The rules, compiled for the card.
pub(super) fn table(all: &[SignatureKeys], c: &mut Checker<'_>) -> Arc<SignatureTable> {
    let example = r#"'alert tcp any any -> any 80 (content:"..."; sid:1;)'"#;
    let mut seen: HashMap<u32, usize> = HashMap::new();
    let mut rules = Vec::new();
    for (keys, number) in all.iter().zip(1..) {
        let Some(text) = c.needed(&keys.at, keys.rule.as_ref(), "port.signature.rule", example) else {
            continue;
        };
        let Some(rule) = c.read::<Signature>(text, "port.signature.rule") else { continue };
        if let Some(other) = seen.insert(rule.sid, number) {
            let what = format!("sid {} is also that of rule {other}; hits are counted by it", rule.sid);
            c.add(&text.span(), "port.signature.rule", what);
        }
        rules.push(rule);
    }
    match (SignatureTable::compile(rules), all.last()) {
        (Ok(table), _) => Arc::new(table),
        (Err(error), last) => {
            if let Some(last) = last {
                c.add(&last.at.span, "port.signature", error);
            }
            Arc::default()
        }
    }
}

/// The hits of each rule, by its sid.
#[cfg(feature = "card")]
pub(super) fn by_sid(
    counts: &convoy_card::nic::SignatureCounts,
) -> impl Iterator<Item = (std::borrow::Cow<'static, str>, u64)> + '_ {
    let hits = counts.table.signatures().iter().zip(counts.hits);
    hits.map(|(signature, count)| (format!("signature_{}", signature.sid).into(), count))
}
