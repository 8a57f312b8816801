//! What a paper leaves open: the cases of its parameters, and in which of them a claim is shown.

/// One case of the open parameters of a paper: convoy's choice, or the same with one change or two.
pub(super) struct Case<P> {
    /// Description of the changes; empty for convoy's choice, which is the first case.
    pub(super) name: String,
    /// Places of the cases that make one of the changes each, if there are two.
    pub(super) pair: Option<(usize, usize)>,
    /// The platforms of this case.
    pub(super) platforms: P,
}

/// Another value of an open parameter: the parameter, a description of the value, and the change.
pub(super) type Change<P> = (&'static str, &'static str, fn(&mut P));

/// convoy's choice, and each change alone.
pub(super) fn one_at_a_time<P: Clone>(base: &P, changes: &[Change<P>]) -> Vec<Case<P>> {
    let chosen = Case { name: String::new(), pair: None, platforms: base.clone() };
    let alone = changes.iter().map(|(_, name, change)| {
        let mut platforms = base.clone();
        change(&mut platforms);
        Case { name: (*name).to_owned(), pair: None, platforms }
    });
    std::iter::once(chosen).chain(alone).collect()
}

/// convoy's choice, each change alone, and every two changes of different parameters.
pub(super) fn one_and_two_at_a_time<P: Clone>(base: &P, changes: &[Change<P>]) -> Vec<Case<P>> {
    let mut cases = one_at_a_time(base, changes);
    for (first, (parameter, name, change)) in changes.iter().enumerate() {
        for (second, (other, other_name, other_change)) in changes.iter().enumerate().skip(first + 1) {
            if parameter != other {
                let mut platforms = base.clone();
                change(&mut platforms);
                other_change(&mut platforms);
                let name = format!("{name} and {other_name}");
                cases.push(Case { name, pair: Some((first + 1, second + 1)), platforms });
            }
        }
    }
    cases
}

/// Names of the cases with one change, and the number of those with two.
pub(super) fn described<P>(cases: &[Case<P>]) -> String {
    let pairs = cases.iter().filter(|case| case.pair.is_some()).count();
    let alone = cases.iter().filter(|case| case.pair.is_none() && !case.name.is_empty());
    let names = alone.map(|case| case.name.as_str()).collect::<Vec<_>>().join("; ");
    if pairs == 0 { names } else { format!("{names}; and {pairs} pairs of these") }
}

/// The largest number of claims that a case shows, and the cases that show it; pairs only if no
/// single change shows as many.
pub(super) fn best<P>(cases: &[Case<P>], shown: &[usize]) -> (usize, Vec<String>) {
    let most = shown.iter().copied().max().unwrap_or(0);
    let those = cases.iter().zip(shown).filter(|(_, shown)| **shown == most);
    let (pairs, alone): (Vec<_>, Vec<_>) = those.map(|(case, _)| case).partition(|case| case.pair.is_some());
    let name = |case: &Case<P>| {
        if case.name.is_empty() { "convoy's choice".to_owned() } else { case.name.clone() }
    };
    (most, if alone.is_empty() { pairs } else { alone }.into_iter().map(name).collect())
}

/// Description of the cases in which a claim is shown. A pair is named only if its result is that
/// of neither of its changes.
pub(super) fn range<P>(cases: &[Case<P>], shown: &[bool]) -> String {
    let of = |place: usize| shown.get(place).copied().unwrap_or_default();
    let pairs = |wanted: bool| {
        let unlike = cases.iter().zip(shown).filter(|(case, shown)| {
            let alone = case.pair.map(|(first, second)| [of(first), of(second)]);
            **shown == wanted && alone.is_some_and(|alone| !alone.contains(*shown))
        });
        unlike.map(|(case, _)| case.name.as_str()).collect::<Vec<_>>().join("; ")
    };
    let mut text = alone(cases, shown);
    for (wanted, start) in [(true, "shown"), (false, "not shown")] {
        let names = pairs(wanted);
        if !names.is_empty() {
            text.push_str(&format!(". Unlike each alone, {start} with {names}"));
        }
    }
    text
}

/// Description of the cases with at most one change in which a claim is shown.
fn alone<P>(cases: &[Case<P>], shown: &[bool]) -> String {
    let named = |wanted: bool| {
        let those = cases
            .iter()
            .zip(shown)
            .filter(|(case, shown)| **shown == wanted && case.pair.is_none() && !case.name.is_empty());
        those.map(|(case, _)| case.name.as_str()).collect::<Vec<_>>()
    };
    let (holding, failing) = (named(true), named(false));
    let (with, without) = (holding.join("; "), failing.join("; "));
    match (shown[0], holding.len(), failing.len()) {
        (true, _, 0) => "everywhere".to_owned(),
        (false, 0, _) => "nowhere".to_owned(),
        (true, 0, _) => "only with convoy's choice".to_owned(),
        (true, holding, failing) if holding >= failing => format!("not with {without}"),
        (true, ..) => format!("with convoy's choice and {with}, and with no other"),
        (false, holding, failing) if holding <= failing => format!("with {with}"),
        (false, ..) => format!("not with convoy's choice and {without}, but with all others"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_names_the_fewer_cases_that_say_something() {
        let cases = one_at_a_time(&(), &[("speed", "slow", |_| {}), ("speed", "fast", |_| {})]);
        let range = |shown: [bool; 3]| range(&cases, &shown);
        assert_eq!(range([true; 3]), "everywhere");
        assert_eq!(range([false; 3]), "nowhere");
        assert_eq!(range([true, false, true]), "not with slow");
        assert_eq!(range([true, false, false]), "only with convoy's choice");
        assert_eq!(range([false, false, true]), "with fast");
    }

    #[test]
    fn only_values_of_different_parameters_make_a_pair() {
        let changes: [Change<u32>; 3] =
            [("a", "one", |it| *it += 1), ("a", "two", |it| *it += 2), ("b", "ten", |it| *it += 10)];
        let cases = one_and_two_at_a_time(&0, &changes);
        let all: Vec<(&str, u32)> = cases.iter().map(|case| (case.name.as_str(), case.platforms)).collect();
        assert_eq!(
            all,
            [("", 0), ("one", 1), ("two", 2), ("ten", 10), ("one and ten", 11), ("two and ten", 12)]
        );
        assert_eq!(described(&cases), "one; two; ten; and 2 pairs of these");
        assert_eq!(
            range(&cases, &[false, false, false, false, true, false]),
            "nowhere. Unlike each alone, shown with one and ten"
        );
        assert_eq!(range(&cases, &[true, false, true, true, false, true]), "not with one");
    }
}
