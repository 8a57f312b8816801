//! Signatures: rules in a subset of Snort's form, and the tables into which the card's scanner gets
//! them (docs/lab/card.md, "Signatures").

mod automaton;
mod rule;

use automaton::{Automaton, CLASSES};
pub use rule::{RuleError, Signature};

/// Rules that the card holds.
pub const MOST_SIGNATURES: usize = 32;
/// Distinct contents of all rules that it holds.
const MOST_CONTENTS: usize = 32;
/// States of the automaton that it holds: one, and about one for each byte of the contents.
const MOST_STATES: usize = 256;
/// Bytes in a page of the automaton's table.
const PAGE_BYTES: usize = 8_192;
/// The pages of classes and ends, and of rules.
const CLASSES_PAGE: u8 = 2;
const RULES_PAGE: u8 = 3;
/// Where in its page the ends begin, in bytes.
const ENDS_AT: usize = 1_024;

/// A rule set is larger than the card's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the rules need {count} {what}, and the card has room for {most}; leave out rules, or shorten contents"
)]
pub struct TooLarge {
    what: &'static str,
    count: usize,
    most: usize,
}

fn bounded(what: &'static str, count: usize, most: usize) -> Result<(), TooLarge> {
    if count <= most { Ok(()) } else { Err(TooLarge { what, count, most }) }
}

/// A compiled rule set. Without rules, nothing is looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignatureTable {
    signatures: Vec<Signature>,
    pages: Vec<(u8, Vec<u8>)>,
}

impl SignatureTable {
    /// Compiles rules; of several that a packet hits, the first counts.
    ///
    /// # Errors
    /// [`TooLarge`] says what the card has no room for.
    pub fn compile(signatures: Vec<Signature>) -> Result<Self, TooLarge> {
        bounded("signatures", signatures.len(), MOST_SIGNATURES)?;
        if signatures.is_empty() {
            return Ok(Self::default());
        }
        let mut contents: Vec<&[u8]> = Vec::new();
        for content in signatures.iter().flat_map(|signature| &signature.contents) {
            if !contents.contains(&&content[..]) {
                contents.push(content);
            }
        }
        bounded("different contents", contents.len(), MOST_CONTENTS)?;
        let automaton = Automaton::new(&contents);
        bounded("states (about one for each byte of contents)", automaton.states(), MOST_STATES)?;
        let classes = automaton.classes();
        bounded("classes of bytes", classes.rows.first().map_or(0, Vec::len), CLASSES)?;
        let mut following: Vec<u8> = Vec::new();
        for row in &classes.rows {
            following.extend_from_slice(row);
            following.resize(following.len().next_multiple_of(CLASSES), 0);
        }
        let mut pages: Vec<(u8, Vec<u8>)> =
            (0..).zip(following.chunks(PAGE_BYTES).map(<[u8]>::to_vec)).collect();
        let mut page = classes.of_byte.to_vec();
        page.resize(ENDS_AT, 0);
        page.extend(automaton.ends().flat_map(u32::to_le_bytes));
        page.resize(page.len().next_multiple_of(8), 0);
        pages.push((CLASSES_PAGE, page));
        let words = signatures.iter().flat_map(|signature| word(signature, &contents));
        pages.push((RULES_PAGE, words.collect()));
        Ok(Self { signatures, pages })
    }

    /// The rules, in order: the card names them by their number, from 1.
    pub fn signatures(&self) -> &[Signature] {
        &self.signatures
    }

    /// The commands' bodies, each with its page. The rules come last, and count from then on.
    pub fn pages(&self) -> Vec<(u8, Vec<u8>)> {
        if self.pages.is_empty() { vec![(RULES_PAGE, Vec::new())] } else { self.pages.clone() }
    }
}

/// A rule as the card has it.
fn word(signature: &Signature, contents: &[&[u8]]) -> [u8; 8] {
    let is_needed = |content: &&[u8]| signature.contents.iter().any(|needed| needed == content);
    let needed = contents.iter().rev().fold(0_u32, |bits, content| bits << 1 | u32::from(is_needed(content)));
    let mut word = [0; 8];
    word[..4].copy_from_slice(&needed.to_le_bytes());
    word[4] = signature.protocol;
    word[5..7].copy_from_slice(&signature.port.to_le_bytes());
    word
}

#[cfg(test)]
mod tests {
    use sha1::{Digest, Sha1};

    use super::*;

    fn table(rules: &[String]) -> Result<SignatureTable, TooLarge> {
        SignatureTable::compile(rules.iter().map(|rule| rule.parse().expect("good")).collect())
    }

    fn rule(content: &str, sid: usize) -> String {
        format!("alert ip any any -> any any (content:\"{content}\"; sid:{};)", sid + 1)
    }

    #[test]
    fn the_tables_are_those_that_python_compiles() {
        let text = include_str!("../../../card/signatures.rules");
        let rules: Vec<String> =
            text.lines().filter(|line| line.starts_with("alert")).map(str::to_owned).collect();
        let table = table(&rules).expect("small");
        let bytes: Vec<u8> = table.pages().into_iter().flat_map(|(_, body)| body).collect();
        let digest = Sha1::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        // card/tests/test_inspect.py has the same number.
        assert_eq!(
            (table.signatures().len(), digest.as_str()),
            (7, "29cce1a0fed270259060c2019f1665cab26d581d")
        );
    }

    #[test]
    fn a_rule_set_beyond_the_cards_memory_is_refused_with_what_is_too_large() {
        let reported = |rules: &[String]| table(rules).expect_err("too large").to_string();
        let letters: Vec<String> = (0..33).map(|n| rule(&format!("|{:02x}|", 32 + n), n)).collect();
        assert!(
            reported(&letters).contains("33 signatures, and the card has room for 32"),
            "{}",
            reported(&letters)
        );
        assert!(table(&letters[..32]).is_ok());
        let long: String = "0123456789".repeat(26);
        assert!(reported(&[rule(&long, 0)]).contains("261 states"), "{}", reported(&[rule(&long, 0)]));
        assert!(table(&[rule(&long[..255], 0)]).is_ok());
        let many = |each: u8| {
            (0..3)
                .map(|n| {
                    let bytes: String = (0..each).map(|byte| format!("{:02x} ", n * each + byte)).collect();
                    rule(&format!("|{bytes}|"), n.into())
                })
                .collect::<Vec<_>>()
        };
        assert!(reported(&many(22)).contains("67 classes of bytes"), "{}", reported(&many(22)));
        assert!(table(&many(21)).is_ok());
        let twice = "alert ip any any -> any any (content:\"a\"; content:\"b\"; sid:1;)".to_owned();
        assert!(table(&vec![twice; 32]).is_ok(), "equal contents are one");
    }

    #[test]
    fn no_rules_are_one_empty_page() {
        assert_eq!(table(&[]).expect("small").pages(), [(RULES_PAGE, vec![])]);
    }
}
