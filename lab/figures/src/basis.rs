//! What the result of a claim rests on, and how the claim is read.

/// What the result of a claim rests on besides the model, and how its words are read where they
/// allow more than one reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Basis {
    value: Value,
    reading: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Follows,
    Fitted(&'static str),
    Chosen(&'static str),
}

impl Basis {
    /// No value was fitted to the claim or chosen for it.
    pub(super) const MODEL: Self = Self { value: Value::Follows, reading: "" };

    /// This value of the model was fitted to the number that the claim states.
    pub(super) const fn fitted(value: &'static str) -> Self {
        Self { value: Value::Fitted(value), ..Self::MODEL }
    }

    /// This value is open, and was chosen within its evidence so that the claim holds.
    pub(super) const fn chosen(value: &'static str) -> Self {
        Self { value: Value::Chosen(value), ..Self::MODEL }
    }

    /// What the claim is taken to count, and from when.
    pub(super) const fn read_as(self, reading: &'static str) -> Self {
        Self { reading, ..self }
    }

    /// `follows`, or `fitted` or `chosen` with the value.
    pub(super) fn describe(&self) -> String {
        match self.value {
            Value::Follows => FOLLOWS.to_owned(),
            Value::Fitted(value) => format!("{FITTED}: {value}"),
            Value::Chosen(value) => format!("{CHOSEN}: {value}"),
        }
    }

    /// How the claim is read; empty if its words allow one reading only.
    pub(super) fn reading(&self) -> &'static str {
        self.reading
    }
}

const FOLLOWS: &str = "follows";
const FITTED: &str = "fitted";
const CHOSEN: &str = "chosen";

/// How many of the claims that are shown have each basis, given what [`Basis::describe`] says of
/// them.
pub(super) fn counted<'a>(shown: impl Iterator<Item = &'a str> + Clone) -> String {
    let of = |word: &str| shown.clone().filter(|basis| basis.starts_with(word)).count();
    format!(
        "follow from the model: {}; a value was fitted to their number: {}; an open value was chosen for them: {}",
        of(FOLLOWS),
        of(FITTED),
        of(CHOSEN)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_basis_says_what_was_fitted_or_chosen() {
        let fitted = Basis::fitted("the CPU's time").read_as("packets, not bytes");
        assert_eq!(
            (fitted.describe().as_str(), fitted.reading()),
            ("fitted: the CPU's time", "packets, not bytes")
        );
        let all =
            [Basis::MODEL, fitted, Basis::chosen("a latency"), Basis::MODEL].map(|basis| basis.describe());
        assert!(counted(all.iter().map(String::as_str)).starts_with("follow from the model: 2; a value was"));
    }
}
