//! A rule in a subset of Snort's form.

use std::str::FromStr;

/// A rule: a packet hits it that has all contents, in any order and anywhere behind the beginning
/// of its IP header, and whose protocol and destination port fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// Its number, by which its hits are counted.
    pub sid: u32,
    /// The IP protocol; 0 is any.
    pub protocol: u8,
    /// The destination port; 0 is any.
    pub port: u16,
    /// At least one, and none is empty.
    pub contents: Vec<Vec<u8>>,
}

/// Why a text is no rule for the card.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The part before the options.
    #[error(
        "expected alert PROTOCOL any any -> any PORT (content:\"...\"; sid:1;), with tcp, udp or ip, and a port or any"
    )]
    Form,
    /// An option that the card does not have, or that is not closed.
    #[error(
        "the card does not know the option {0:?}; it knows content:\"...\"; msg:\"...\"; sid:N; (each with its ;)"
    )]
    Option(String),
    /// A content.
    #[error("content {0:?} must be a text, with bytes as |0d 0a|, and not empty or negated")]
    Content(String),
    /// Without a content.
    #[error("a rule needs content:\"...\";")]
    NoContent,
    /// Without a number.
    #[error("a rule needs sid:N; with a number from 1 on, by which its hits are counted")]
    NoSid,
}

impl FromStr for Signature {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let (head, options) = text.trim().split_once('(').ok_or(RuleError::Form)?;
        let options = options.strip_suffix(')').ok_or(RuleError::Form)?;
        let words: Vec<&str> = head.split_whitespace().collect();
        let ["alert", protocol, "any", "any", "->", "any", port] = words[..] else {
            return Err(RuleError::Form);
        };
        let protocol = match protocol {
            "ip" => 0,
            "tcp" => 6,
            "udp" => 17,
            _ => return Err(RuleError::Form),
        };
        let port = match port {
            "any" => 0,
            number => number.parse().ok().filter(|port| *port != 0).ok_or(RuleError::Form)?,
        };
        let mut rule = Self { sid: 0, protocol, port, contents: Vec::new() };
        let mut rest = options.trim_start();
        while !rest.is_empty() {
            let (name, value, after) = option(rest).ok_or_else(|| RuleError::Option(rest.to_owned()))?;
            match name {
                "content" => rule.contents.push(content(value)?),
                "sid" => rule.sid = value.parse().map_err(|_| RuleError::NoSid)?,
                "msg" => {}
                other => return Err(RuleError::Option(other.to_owned())),
            }
            rest = after.trim_start();
        }
        match rule {
            Self { contents, .. } if contents.is_empty() => Err(RuleError::NoContent),
            Self { sid: 0, .. } => Err(RuleError::NoSid),
            rule => Ok(rule),
        }
    }
}

/// Splits `name:value;` from what follows. A value in quotes may contain `;`.
fn option(text: &str) -> Option<(&str, &str, &str)> {
    let end = text.find([':', ';'])?;
    let name = text[..end].trim();
    // An option without a value is none that the card knows.
    let Some(value) = text[end..].strip_prefix(':') else { return Some((name, "", &text[end + 1..])) };
    let value = value.trim_start();
    let mut is_quoted = false;
    let mut is_escaped = false;
    for (at, letter) in value.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ';' if !is_quoted => return Some((name, value[..at].trim_end(), &value[at + 1..])),
            _ => {}
        }
    }
    None
}

/// The bytes of a content: text in quotes, with hexadecimal numbers between `|`.
fn content(quoted: &str) -> Result<Vec<u8>, RuleError> {
    let wrong = || RuleError::Content(quoted.to_owned());
    let text = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).ok_or_else(wrong)?;
    let parts: Vec<&str> = text.split('|').collect();
    if parts.len().is_multiple_of(2) {
        return Err(wrong());
    }
    let mut bytes = Vec::new();
    for (part, is_hex) in parts.into_iter().zip([false, true].into_iter().cycle()) {
        if is_hex {
            bytes.extend(hexadecimal(part).ok_or_else(wrong)?);
        } else {
            bytes.extend_from_slice(plain(part).as_bytes());
        }
    }
    if bytes.is_empty() { Err(wrong()) } else { Ok(bytes) }
}

/// A text without the backslashes before its letters.
fn plain(text: &str) -> String {
    let mut letters = text.chars();
    let mut plain = String::new();
    while let Some(letter) = letters.next() {
        plain.extend(if letter == '\\' { letters.next() } else { Some(letter) });
    }
    plain
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> =
        text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    digits.chunks(2).map(|pair| Some((pair[0] << 4 | *pair.get(1)?) as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_has_its_protocol_port_contents_and_number() {
        let text = r#"alert tcp any any -> any 80 (msg:"a \"b\"; c"; content:"GET |0d 0A|\;x"; content:"\\" ; sid:7;)"#;
        let contents = vec![b"GET \r\n;x".to_vec(), b"\\".to_vec()];
        assert_eq!(text.parse(), Ok(Signature { sid: 7, protocol: 6, port: 80, contents }));
        let text = "  alert ip  any any -> any any (content:\"é\";sid:1;)";
        let contents = vec!["é".as_bytes().to_vec()];
        assert_eq!(text.parse(), Ok(Signature { sid: 1, protocol: 0, port: 0, contents }));
    }

    #[test]
    fn what_the_card_cannot_do_is_refused() {
        let with = |options: &str| format!("alert udp any any -> any any ({options})").parse::<Signature>();
        assert_eq!(with("content:\"x\";"), Err(RuleError::NoSid));
        assert_eq!(with("content:\"x\"; sid:0;"), Err(RuleError::NoSid));
        assert_eq!(with("sid:1;"), Err(RuleError::NoContent));
        assert_eq!(with("content:\"x\"; nocase; sid:1;"), Err(RuleError::Option("nocase".to_owned())));
        assert_eq!(with("pcre:\"/x/\"; sid:1;"), Err(RuleError::Option("pcre".to_owned())));
        assert_eq!(with("content:\"x; sid:1;"), Err(RuleError::Option("content:\"x; sid:1;".to_owned())));
        for content in ["\"\"", "!\"x\"", "\"|9|\"", "\"|90\"", "\"|zz|\"", "x"] {
            let refused = with(&format!("content:{content}; sid:1;"));
            assert_eq!(refused, Err(RuleError::Content(content.to_owned())));
        }
        for head in [
            "alert icmp any any -> any any",
            "drop tcp any any -> any any",
            "alert tcp 10.0.0.1 any -> any any",
            "alert tcp any any <> any any",
            "alert tcp any any -> any 0",
            "alert tcp any any -> any 1:2",
            "",
        ] {
            assert_eq!(format!("{head} (content:\"x\"; sid:1;)").parse::<Signature>(), Err(RuleError::Form));
        }
        assert_eq!("alert tcp any any -> any any".parse::<Signature>(), Err(RuleError::Form));
    }
}
