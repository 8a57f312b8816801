//! Which tunnels a browser asks for.

use convoy_report::snapshot::PeerState;

/// The longest query, in bytes.
const QUERY_BYTES: usize = 512;
/// The longest filter, in characters.
const FILTER: usize = 100;
/// The highest page.
const PAGES: usize = 1_000_000;
/// Tunnels in one answer, at most.
const MOST_ROWS: usize = 100;
/// Tunnels in one answer without a number.
const ROWS: usize = 50;

/// States that are selected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum States {
    #[default]
    All,
    /// All but `up` and `removed`.
    NotUp,
    One(PeerState),
}

impl States {
    pub(super) fn has(self, state: PeerState) -> bool {
        match self {
            Self::All => true,
            Self::NotUp => ![PeerState::Up, PeerState::Removed].contains(&state),
            Self::One(wanted) => wanted == state,
        }
    }
}

/// The order of the tunnels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TunnelSort {
    /// Those that carry nothing first.
    #[default]
    State,
    Name,
    /// The most bits per second in both directions first.
    Rate,
    In,
    Out,
    /// The most dropped packets per second first, then the most in all.
    Dropped,
    /// The longest round trip first.
    RoundTrip,
    /// The longest time since the last packet from the peer first.
    Heard,
}

impl TunnelSort {
    const WORDS: [(&'static str, Self); 8] = [
        ("state", Self::State),
        ("name", Self::Name),
        ("rate", Self::Rate),
        ("in", Self::In),
        ("out", Self::Out),
        ("dropped", Self::Dropped),
        ("round-trip", Self::RoundTrip),
        ("heard", Self::Heard),
    ];
}

/// A query of a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    /// In lower case; a part of the tunnel's name or its peer's address.
    pub(super) filter: String,
    pub(super) states: States,
    pub(super) sort: TunnelSort,
    pub(super) is_reversed: bool,
    /// From 1.
    pub(super) page: usize,
    /// Tunnels on a page.
    pub(super) rows: usize,
}

impl Default for Query {
    fn default() -> Self {
        Self {
            filter: String::new(),
            states: States::default(),
            sort: TunnelSort::default(),
            is_reversed: false,
            page: 1,
            rows: ROWS,
        }
    }
}

impl Query {
    /// Reads what follows the question mark. Never panics, whatever the text.
    ///
    /// # Errors
    /// What is wrong with it, in words for the client.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > QUERY_BYTES {
            return Err(format!("the query is longer than {QUERY_BYTES} bytes"));
        }
        let (mut query, mut seen) = (Self::default(), Vec::new());
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if seen.contains(&key) {
                return Err(format!("{key:?} stands there twice"));
            }
            seen.push(key);
            query.set(key, &decoded(value)?)?;
        }
        Ok(query)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "filter" if value.chars().count() > FILTER => {
                return Err(format!("filter is longer than {FILTER} characters"));
            }
            "filter" => self.filter = value.to_lowercase(),
            "state" => self.states = states(value)?,
            "sort" => self.sort = one_of(key, value, &TunnelSort::WORDS)?,
            "reverse" => self.is_reversed = one_of(key, value, &[("true", true), ("false", false)])?,
            "page" => self.page = number(key, value, PAGES)?,
            "rows" => self.rows = number(key, value, MOST_ROWS)?,
            _ => {
                return Err(format!(
                    "{key:?} is unknown; there are filter, state, sort, reverse, page, rows"
                ));
            }
        }
        Ok(())
    }
}

fn states(value: &str) -> Result<States, String> {
    let states = PeerState::ALL.map(|state| (state.word(), States::One(state)));
    let words: Vec<_> = [("all", States::All), ("not-up", States::NotUp)].into_iter().chain(states).collect();
    one_of("state", value, &words)
}

fn one_of<T: Copy>(key: &str, value: &str, words: &[(&str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| *word == value).map(|(_, meaning)| *meaning);
    let all = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
    found.ok_or_else(|| format!("{key} is {value:?}, but must be one of {}", all()))
}

fn number(key: &str, value: &str, most: usize) -> Result<usize, String> {
    let is_digits = value.bytes().all(|byte| byte.is_ascii_digit());
    let number = value.parse().ok().filter(|number| is_digits && (1..=most).contains(number));
    number.ok_or_else(|| format!("{key} is {value:?}, but must be a number from 1 to {most}"))
}

/// A value without its `%` escapes.
fn decoded(value: &str) -> Result<String, String> {
    let wrong = || format!("{value:?} is not UTF-8 with % escapes");
    let (mut bytes, mut rest) = (Vec::with_capacity(value.len()), value.bytes());
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
                let (high, low) = (digit().ok_or_else(wrong)?, digit().ok_or_else(wrong)?);
                (high * 16 + low) as u8
            }
            other => other,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_query_selects_sorts_and_pages() {
        assert_eq!(Query::parse(""), Ok(Query::default()));
        let text = "filter=S%C3%BCd+1&state=not-up&sort=rate&reverse=true&page=7&rows=100";
        let query = Query {
            filter: "süd 1".to_owned(),
            states: States::NotUp,
            sort: TunnelSort::Rate,
            is_reversed: true,
            page: 7,
            rows: 100,
        };
        assert_eq!(Query::parse(text), Ok(query));
        let one = Query::parse("state=no-peer").expect("good");
        assert!(one.states.has(PeerState::NoPeer) && !one.states.has(PeerState::Up));
    }

    #[test]
    fn a_bad_query_is_refused_in_words() {
        let refused = |text: &str| Query::parse(text).expect_err(text);
        assert_eq!(refused("page=0"), "page is \"0\", but must be a number from 1 to 1000000");
        assert_eq!(refused("rows=101"), "rows is \"101\", but must be a number from 1 to 100");
        assert_eq!(refused("page=%2B1"), "page is \"+1\", but must be a number from 1 to 1000000");
        assert_eq!(
            refused("sort=colour"),
            "sort is \"colour\", but must be one of state, name, rate, in, out, dropped, round-trip, heard"
        );
        assert!(
            refused("state=%22%3C").starts_with("state is \"\\\"<\", but must be one of all, not-up, up,")
        );
        assert!(refused("keys=1").starts_with("\"keys\" is unknown; there are filter,"));
        assert_eq!(refused("page=1&page=2"), "\"page\" stands there twice");
        for escaped in ["%", "%4", "%zz", "%ff", "%+1"] {
            let text = format!("filter={escaped}");
            assert!(refused(&text).contains("is not UTF-8 with % escapes"), "{escaped}");
        }
        assert_eq!(refused(&"a".repeat(513)), "the query is longer than 512 bytes");
        let filter = format!("filter={}", "a".repeat(101));
        assert_eq!(refused(&filter), "filter is longer than 100 characters");
    }

    proptest! {
        #[test]
        fn whatever_a_query_is_it_is_read_or_refused(text in ".{0,200}") {
            let _ = Query::parse(&text);
            let _ = Query::parse(&format!("filter={text}"));
        }
    }
}
