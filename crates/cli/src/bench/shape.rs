//! Compares the gains of the schemes on two gateways.

use std::fmt::Write as _;

/// Gain of a scheme at one length: its throughput relative to the scheme `none`.
pub(super) struct Compared {
    pub(super) scheme: &'static str,
    pub(super) length: u16,
    /// On the measured gateway; `None` without a settled search.
    pub(super) here: Option<f64>,
    /// On the simulated gateway.
    pub(super) there: f64,
}

#[derive(Clone, Copy, PartialEq)]
enum Change {
    Faster,
    Equal,
    Slower,
}

impl Change {
    /// Rates within the tolerance count as equal.
    fn of(factor: f64, tolerance: f64) -> Self {
        match factor {
            factor if factor > 1.0 + tolerance => Self::Faster,
            factor if factor < 1.0 - tolerance => Self::Slower,
            _ => Self::Equal,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Equal => "as fast as without",
            Self::Slower => "slower",
        }
    }
}

/// Says where both gateways agree and where not. They agree where both become faster, both slower,
/// or neither.
pub(super) fn sentence(all: &[Compared], tolerance: f64) -> String {
    let change = |factor| Change::of(factor, tolerance);
    let (mut same, mut other, mut unknown) = (String::new(), String::new(), 0);
    for Compared { scheme, length, here, there } in all {
        let Some(here) = here else {
            unknown += 1;
            continue;
        };
        let (change_here, change_there) = (change(*here), change(*there));
        if change_here == change_there {
            let words = change_here.words();
            let _ = write!(
                same,
                ", {scheme} at {length} bytes ({words}: here {here:.2}, there {there:.2} times)"
            );
        } else {
            let (words, others) = (change_here.words(), change_there.words());
            let _ = write!(
                other,
                ", {scheme} at {length} bytes (here {words}, {here:.2} times; there {others}, {there:.2} times)"
            );
        }
    }
    let listed = |list: &str| if list.is_empty() { "nowhere".to_owned() } else { list[2..].to_owned() };
    let mut text = format!(
        "This gateway and the simulated IXP425 have the same shape by what is off the worker's core: {}. They differ: {}.",
        listed(&same),
        listed(&other)
    );
    if unknown > 0 {
        let _ = write!(
            text,
            " At {unknown} of {} points the search was unfinished, so the effect of the scheme is unknown here.",
            all.len()
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_tells_what_both_gain_from_what_only_one_does() {
        let point = |scheme, length, here, there| Compared { scheme, length, here, there };
        let all = [
            point("packet I/O", 64, Some(1.5), 1.2),
            point("packet I/O", 1450, Some(0.8), 1.2),
            point("cryptography", 64, Some(1.04), 1.0),
            point("both", 64, None, 2.0),
        ];
        let text = sentence(&all, 0.05);
        let (same, other) = text.split_once("They differ").expect("both are told");
        assert!(same.contains("packet I/O at 64 bytes (faster: here 1.50, there 1.20 times)"), "{text}");
        assert!(same.contains("cryptography at 64 bytes (as fast as without"), "{text}");
        assert!(
            other.contains("packet I/O at 1450 bytes (here slower, 0.80 times; there faster, 1.20"),
            "{text}"
        );
        assert!(text.contains("At 1 of 4 points"), "{text}");
    }

    #[test]
    fn nothing_in_common_is_said_as_that() {
        let all = [Compared { scheme: "both", length: 64, here: Some(0.5), there: 4.0 }];
        assert!(sentence(&all, 0.1).contains("off the worker's core: nowhere. They differ: both at 64"));
    }
}
