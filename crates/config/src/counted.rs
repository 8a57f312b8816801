//! Counts in messages.

use std::fmt::Display;

/// A count with its noun, as `1 tunnel` or `2 tunnels`.
pub fn counted<T: Display + PartialEq + From<u8>>(count: T, noun: &str) -> String {
    let ending = if count == T::from(1) { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noun_follows_the_count() {
        let texts = [0, 1, 2].map(|count: usize| counted(count, "tunnel"));
        assert_eq!(texts, ["0 tunnels", "1 tunnel", "2 tunnels"]);
        assert_eq!(counted(1u16, "other network"), "1 other network");
    }
}
