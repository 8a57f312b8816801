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
    PutIn(&'static str),
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

    /// A value or a rule of the model says what the claim says, whatever else is simulated: this
    /// one.
    pub(super) const fn put_in(why: &'static str) -> Self {
        Self { value: Value::PutIn(why), ..Self::MODEL }
    }

    /// Whether the runs of a simulation could contradict the claim.
    pub(super) const fn can_fail(&self) -> bool {
        matches!(self.value, Value::Follows)
    }

    /// What the claim is taken to count, and from when.
    pub(super) const fn read_as(self, reading: &'static str) -> Self {
        Self { reading, ..self }
    }

    /// `follows`; or `fitted`, `chosen` or `put in`, with the value or the reason.
    pub(super) fn describe(&self) -> String {
        match self.value {
            Value::Follows => FOLLOWS.to_owned(),
            Value::Fitted(value) => format!("{FITTED}: {value}"),
            Value::Chosen(value) => format!("{CHOSEN}: {value}"),
            Value::PutIn(why) => format!("{PUT_IN}: {why}"),
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
const PUT_IN: &str = "put in";

/// Why claims are by construction: how many of these bases, given what [`Basis::describe`] says of
/// them, are of each kind.
pub(super) fn counted<'a>(bases: impl Iterator<Item = &'a str> + Clone) -> String {
    let of = |word: &str| bases.clone().filter(|basis| basis.starts_with(word)).count();
    format!(
        "to {} a value was fitted, for {} one was chosen, {} are put in by the model",
        of(FITTED),
        of(CHOSEN),
        of(PUT_IN)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basis_says_what_was_fitted_chosen_or_put_in() {
        let fitted = Basis::fitted("the CPU's time").read_as("packets, not bytes");
        assert_eq!(
            (fitted.describe().as_str(), fitted.reading()),
            ("fitted: the CPU's time", "packets, not bytes")
        );
        let put_in = Basis::put_in("one number with row 7");
        assert_eq!(put_in.describe(), "put in: one number with row 7");
        let all = [Basis::MODEL, fitted, Basis::chosen("a latency"), put_in, put_in];
        let all = all.map(|basis| basis.describe());
        assert_eq!(
            counted(all.iter().map(String::as_str)),
            "to 1 a value was fitted, for 1 one was chosen, 2 are put in by the model"
        );
    }
}
