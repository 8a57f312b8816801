//! Suggestions for misspelt words.

/// Minimum Jaro similarity of a misspelling; cargo and clap use the same.
const LEAST_SIMILARITY: f64 = 0.7;

/// The similarity of two words, from 0 to 1. One typing error also counts as a misspelling of a
/// short word.
fn similarity(word: &str, other: &str) -> f64 {
    let is_slip = word.len() > 2 && strsim::osa_distance(word, other) == 1;
    if is_slip { 1.0 } else { strsim::jaro(word, other) }
}

/// The most similar known word, if any is similar.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let word = word.to_lowercase();
    let alike = known.iter().map(|other| (similarity(&word, other), *other));
    // Of several equally similar words, take the first.
    let best = alike.fold(None, |best: Option<(f64, &str)>, next| match best {
        Some(best) if best.0 >= next.0 => Some(best),
        _ => Some(next),
    });
    best.filter(|(alike, _)| *alike > LEAST_SIMILARITY).map(|(_, word)| word)
}

/// The message that a `thing` (a key, a table) is unknown, with a suggestion or a list.
pub fn unknown(thing: &str, word: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(meant) => format!("unknown {thing}; did you mean {meant:?}?"),
        None => format!("unknown {thing}; expected one of {}", known.join(", ")),
    }
}

/// The same message for an unknown value, which is quoted.
pub fn unknown_value(word: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(meant) => {
            format!("unknown {word:?}; did you mean {meant:?}? Possible values: {}", known.join(", "))
        }
        None => format!("unknown {word:?}; possible values: {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_word_is_recognised_and_another_is_not() {
        for (word, meant) in [
            ("devise", Some("device")),
            ("adress", Some("address")),
            ("Kind", Some("kind")),
            ("udp-port", Some("udp_port")),
            ("quantum", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, &["name", "kind", "device", "address", "udp_port"]), meant, "{word}");
        }
        assert_eq!(nearest("upd", &["auto", "udp", "none"]), Some("udp"));
        assert_eq!(nearest("aes128gcm17", &["aes128gcm16", "aes128gcm12"]), Some("aes128gcm16"));
    }
}
