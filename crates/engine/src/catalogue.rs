//! Which engines this build and this machine have, and why not the others: what `convoy engines` shows.

use convoy_ipsec::Transform;

use crate::EngineKind;
use crate::software::transforms;

/// What was found out about one kind of engine.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineFinding {
    /// The kind, as the configuration names it.
    pub kind: EngineKind,
    /// Whether one can be made here.
    pub present: bool,
    /// What it is, in a few words.
    pub summary: &'static str,
    /// The version of what does the work, where it is present.
    pub version: Option<String>,
    /// Why it is not there; `None` where it is.
    pub reason: Option<String>,
    /// What to do to get it; `None` where there is nothing to do.
    pub remedy: Option<String>,
    /// What it leaves to others although its library has it, and why.
    pub left_out: Option<&'static str>,
    /// What it can do; empty where it is not there.
    pub transforms: Vec<Transform>,
}

/// All kinds, in the order of preference for a newcomer's reading: the reference first.
pub fn available() -> Vec<EngineFinding> {
    vec![software(), multibuffer(), model(), card()]
}

fn software() -> EngineFinding {
    EngineFinding {
        kind: EngineKind::Software,
        present: true,
        summary: "one packet at a time with RustCrypto and ring, on the worker's core; the reference",
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        reason: None,
        remedy: None,
        left_out: None,
        transforms: transforms(),
    }
}

const WITHOUT_VECTOR_CODE: &str = "DES and 3DES, for which ipsec-mb has vector code with AVX-512 alone";

fn multibuffer() -> EngineFinding {
    let summary = "bursts with Intel's ipsec-mb, on the worker's core or a core of its own";
    let absent = EngineFinding {
        kind: EngineKind::Multibuffer,
        present: false,
        summary,
        version: None,
        reason: None,
        remedy: None,
        left_out: None,
        transforms: Vec::new(),
    };
    match convoy_ipsec_mb::Manager::new() {
        Ok(found) => {
            let done_well = crate::multibuffer::done_well(&found);
            let is_all = done_well.len() == transforms().len();
            EngineFinding {
                present: true,
                version: Some(found.version()),
                left_out: (!is_all).then_some(WITHOUT_VECTOR_CODE),
                transforms: done_well,
                ..absent
            }
        }
        Err(error) => EngineFinding { reason: Some(error.reason), remedy: Some(error.remedy), ..absent },
    }
}

fn model() -> EngineFinding {
    EngineFinding {
        kind: EngineKind::Model,
        present: true,
        summary: "a modelled accelerator: real ciphers, the timing of a device on a shared bus",
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        reason: None,
        remedy: None,
        left_out: None,
        transforms: transforms(),
    }
}

fn card() -> EngineFinding {
    let absent = EngineFinding {
        kind: EngineKind::Card,
        present: false,
        summary: "the GRIP card: its RTL in simulation, with the card's cycles as its time",
        version: None,
        reason: None,
        remedy: None,
        left_out: None,
        transforms: Vec::new(),
    };
    match card_transforms() {
        Ok(transforms) => EngineFinding {
            present: true,
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            left_out: Some("what the functions that were built into it do not do (docs/card.md, \"Slot\")"),
            transforms,
            ..absent
        },
        Err((reason, remedy)) => {
            EngineFinding { reason: Some(reason), remedy: Some(remedy.to_owned()), ..absent }
        }
    }
}

/// What the card can do, or why it is not there and what to do.
#[cfg(feature = "card")]
fn card_transforms() -> Result<Vec<Transform>, (String, &'static str)> {
    use crate::Engine;
    let card = crate::Card::new("card").map_err(|error| {
        (error.to_string(), "a card that does not come out of reset is a fault of convoy; please report it")
    })?;
    Ok(card.description().transforms.clone())
}

#[cfg(not(feature = "card"))]
fn card_transforms() -> Result<Vec<Transform>, (String, &'static str)> {
    let reason = "not built in".to_owned();
    Err((
        reason,
        "make demo, or cargo build -p convoy --features card where Verilator is (scripts/card-venv.sh build)",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_card_is_there_in_a_build_with_it_and_else_says_how_to_get_one() {
        let card = available().pop().expect("the last one");
        assert_eq!((card.kind, card.present), (EngineKind::Card, cfg!(feature = "card")));
        if let Some(remedy) = card.remedy {
            assert!(remedy.contains("--features card"), "{remedy}");
        }
    }

    #[test]
    fn what_is_absent_says_why_and_what_is_present_says_what_it_does() {
        for finding in available() {
            assert_eq!(finding.present, finding.reason.is_none(), "{}", finding.kind);
            assert_eq!(finding.present, finding.version.is_some(), "{}", finding.kind);
            assert_eq!(finding.present, !finding.transforms.is_empty(), "{}", finding.kind);
            let is_short = finding.present && finding.transforms != transforms();
            assert_eq!(is_short, finding.left_out.is_some(), "{}", finding.kind);
        }
    }
}
