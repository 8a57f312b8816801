//! Compares the gains of the schemes on two gateways.

use std::fmt::Write as _;

/// Gain of a scheme at one length: its throughput relative to the scheme `none`.
pub(super) struct Compared {
    pub(super) scheme: &'static str,
    pub(super) length: u16,
    /// On this machine; `None` without a rate to compare.
    pub(super) here: Option<f64>,
    /// On the simulated gateway.
    pub(super) there: f64,
}

/// Which rates of this machine are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShapeBasis {
    /// Those measured.
    Measured,
    /// Those derived for a core of its own for each thread.
    Derived,
}

impl ShapeBasis {
    fn words(self) -> &'static str {
        match self {
            Self::Measured => "measured rates",
            Self::Derived => "derived rates",
        }
    }

    /// Why a point may have none.
    fn why_unknown(self) -> &'static str {
        match self {
            Self::Measured => "the search was unfinished or the tester was the limit",
            Self::Derived => "no packet arrived or the kernel counts no CPU time",
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum ShapeChange {
    Faster,
    Equal,
    Slower,
}

impl ShapeChange {
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
pub(super) fn sentence(all: &[Compared], tolerance: f64, basis: ShapeBasis) -> String {
    let change = |factor| ShapeChange::of(factor, tolerance);
    let (mut same, mut other) = (Vec::new(), Vec::new());
    for Compared { scheme, length, here, there } in all {
        let Some(here) = here else { continue };
        let (words, others) = (change(*here).words(), change(*there).words());
        if words == others {
            let point =
                format!("{scheme} at {length} bytes ({words}: here {here:.2}, there {there:.2} times)");
            same.push(point);
        } else {
            other.push(format!(
                "{scheme} at {length} bytes (here {words}, {here:.2} times; there {others}, {there:.2} times)"
            ));
        }
    }
    let compared = same.len() + other.len();
    let unknown = all.len() - compared;
    let why = basis.why_unknown();
    if compared == 0 {
        return format!(
            "The shape of this gateway and that of the simulated IXP425 cannot be compared: {why} at all {unknown} points."
        );
    }
    let both = format!(
        "By {}, this gateway and the simulated IXP425, by what is off the worker's core,",
        basis.words()
    );
    let mut text = match (same.join(", "), other.join(", ")) {
        (same, other) if other.is_empty() => {
            format!("{both} change alike at all {compared} points that can be compared: {same}.")
        }
        (same, other) if same.is_empty() => {
            format!("{both} change differently at all {compared} points that can be compared: {other}.")
        }
        (alike, differently) => format!(
            "{both} change alike at {} of {compared} points: {alike}. They change differently at {}: {differently}.",
            same.len(),
            other.len()
        ),
    };
    if unknown > 0 {
        let _ = write!(text, " At {unknown} of {} points nothing can be compared: {why}.", all.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(scheme: &'static str, length: u16, here: Option<f64>, there: f64) -> Compared {
        Compared { scheme, length, here, there }
    }

    #[test]
    fn it_tells_what_both_gain_from_what_only_one_does() {
        let all = [
            point("packet I/O", 64, Some(1.5), 1.2),
            point("packet I/O", 1450, Some(0.8), 1.2),
            point("cryptography", 64, Some(1.04), 1.0),
            point("both", 64, None, 2.0),
        ];
        let text = sentence(&all, 0.05, ShapeBasis::Measured);
        let (same, other) = text.split_once("They change differently at 1:").expect("both are reported");
        assert!(same.starts_with("By measured rates") && same.contains("alike at 2 of 3 points"), "{text}");
        assert!(same.contains("packet I/O at 64 bytes (faster: here 1.50, there 1.20 times)"), "{text}");
        assert!(same.contains("cryptography at 64 bytes (as fast as without"), "{text}");
        assert!(
            other.contains("packet I/O at 1450 bytes (here slower, 0.80 times; there faster, 1.20"),
            "{text}"
        );
        assert!(text.contains("At 1 of 4 points nothing can be compared: the search"), "{text}");
    }

    #[test]
    fn agreement_and_difference_at_every_point_are_said_as_that() {
        let differs = sentence(&[point("both", 64, Some(0.5), 4.0)], 0.1, ShapeBasis::Derived);
        assert!(
            differs.contains("By derived rates") && differs.contains("differently at all 1"),
            "{differs}"
        );
        let agrees = sentence(&[point("both", 64, Some(3.0), 4.0)], 0.1, ShapeBasis::Derived);
        assert!(agrees.contains("alike at all 1") && !agrees.contains("differently"), "{agrees}");
    }

    #[test]
    fn without_any_rate_to_compare_nothing_is_said_of_shapes() {
        let text = sentence(&[point("both", 64, None, 4.0)], 0.1, ShapeBasis::Measured);
        assert!(text.contains("cannot be compared: the search was unfinished"), "{text}");
        assert!(!text.contains("alike") && !text.contains("nowhere"), "{text}");
    }
}
