//! What kinds of file are imported, and how each is recognised.

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportFormat {
    /// strongSwan's swanctl.conf.
    Swanctl,
    /// ipsec.conf of strongSwan's starter and of libreswan.
    Ipsec,
    /// A file of WireGuard's wg-quick.
    WireGuard,
    /// The text of AWS' site-to-site VPN for a generic device.
    Aws,
}

impl ImportFormat {
    /// All.
    pub const ALL: [Self; 4] = [Self::Swanctl, Self::Ipsec, Self::WireGuard, Self::Aws];

    /// The word of the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Swanctl => "swanctl",
            Self::Ipsec => "ipsec",
            Self::WireGuard => "wireguard",
            Self::Aws => "aws",
        }
    }

    /// The words of all.
    pub fn words() -> Vec<&'static str> {
        Self::ALL.into_iter().map(Self::word).collect()
    }

    /// The format that a word stands for.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.word() == word)
    }

    /// The format of a text, by the first line that only one of them has.
    pub fn of(text: &str) -> Option<Self> {
        text.lines().map(str::trim).find_map(Self::of_line)
    }

    /// The format of a file that only includes others, by its usual name.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        match name.rsplit('/').next() {
            Some("swanctl.conf") => Some(Self::Swanctl),
            Some("ipsec.conf") => Some(Self::Ipsec),
            _ => None,
        }
    }

    fn of_line(line: &str) -> Option<Self> {
        let lower = line.to_lowercase();
        let first = lower.split(|one: char| one.is_whitespace() || one == '{').next().unwrap_or_default();
        if lower.starts_with('#') && !lower.starts_with("#1:") {
            None
        } else if lower == "[interface]" || lower == "[peer]" {
            Some(Self::WireGuard)
        } else if lower.starts_with("ipsec tunnel #") || lower.contains("your vpn connection id") {
            Some(Self::Aws)
        } else if line.contains('{') || ["connections", "secrets", "pools", "authorities"].contains(&first) {
            Some(Self::Swanctl)
        } else if ["conn", "config", "ca"].contains(&first) && !line.contains('=') {
            Some(Self::Ipsec)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_recognised_by_its_first_line_that_only_one_format_has() {
        for (text, expected) in [
            ("# a comment\nconnections {\n", Some(ImportFormat::Swanctl)),
            ("include conf.d/*.conf\nbase { }\n", Some(ImportFormat::Swanctl)),
            ("# ipsec.conf\nconfig setup\n\tuniqueids=no\n", Some(ImportFormat::Ipsec)),
            ("version 2.0\n\nconn net\n", Some(ImportFormat::Ipsec)),
            ("\n[Interface]\nAddress = 10.9.0.1/24\n", Some(ImportFormat::WireGuard)),
            ("Amazon Web Services\n\nYour VPN Connection ID : vpn-1\n", Some(ImportFormat::Aws)),
            ("hello\n", None),
        ] {
            assert_eq!(ImportFormat::of(text), expected, "{text}");
        }
    }
}
