//! What a misspelt word was meant to be.

/// As much alike, by Jaro's measure, as a misspelling is to its word; cargo and clap take the same.
const ALIKE: f64 = 0.7;

/// How much alike two words are, from 0 to 1. One slip of the fingers is a misspelling also of a
/// short word.
fn likeness(word: &str, other: &str) -> f64 {
    let is_slip = word.len() > 2 && strsim::osa_distance(word, other) == 1;
    if is_slip { 1.0 } else { strsim::jaro(word, other) }
}

/// The known word that is most like this one, if any is.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let word = word.to_lowercase();
    let alike = known.iter().map(|other| (likeness(&word, other), *other));
    // Of several that are alike the first.
    let best = alike.fold(None, |best: Option<(f64, &str)>, next| match best {
        Some(best) if best.0 >= next.0 => Some(best),
        _ => Some(next),
    });
    best.filter(|(alike, _)| *alike > ALIKE).map(|(_, word)| word)
}

/// Says that there is no such `thing` (a key, a table), which one was meant, or else what there is.
pub fn unknown(thing: &str, word: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(meant) => format!("there is no such {thing}; did you mean {meant:?}?"),
        None => format!("there is no such {thing}; there are {}", known.join(", ")),
    }
}

/// The same of a value, which is named.
pub fn unknown_value(word: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(meant) => format!("unknown {word:?}; did you mean {meant:?}? There are {}", known.join(", ")),
        None => format!("unknown {word:?}; there are {}", known.join(", ")),
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
