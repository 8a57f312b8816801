//! The document with its style and script, and the headers that keep a browser to them.

use std::sync::Arc;

use data_encoding::BASE64;
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use sha2::{Digest, Sha256};

use super::super::page::ServedPage;

const HTML: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = concat!(include_str!("parts.js"), "\n", include_str!("page.js"));
/// Where the style and the script stand in the document.
const PLACES: [&str; 2] = ["/* page.css */", "/* page.js */"];

/// What every answer to a browser has. `no-store`, since state of a minute ago must not look like
/// that of now.
const HEADERS: &[(&str, &str)] = &[
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("x-frame-options", "DENY"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cache-control", "no-store"),
];
/// The policy of an answer that is no document.
const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'";

/// The document.
#[derive(Debug)]
pub(crate) struct Document {
    text: Arc<ServedPage>,
    policy: HeaderValue,
}

impl Document {
    pub(crate) fn new() -> Self {
        let policy = HeaderValue::try_from(policy()).expect("a policy is of visible ASCII");
        Self { text: Arc::new(ServedPage::from(text())), policy }
    }

    /// Its text.
    pub(crate) fn text(&self) -> &Arc<ServedPage> {
        &self.text
    }
}

/// Adds what keeps a browser from using an answer for anything else: for the document, its policy.
pub(crate) fn protect(headers: &mut HeaderMap, document: Option<&Arc<Document>>) {
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let policy = document.map_or(HeaderValue::from_static(NOTHING), |document| document.policy.clone());
    headers.insert(HeaderName::from_static("content-security-policy"), policy);
}

fn text() -> String {
    HTML.replace(PLACES[0], STYLE).replace(PLACES[1], SCRIPT)
}

/// Allows this style, this script and questions to this server alone. No string becomes markup
/// (`trusted-types`), whatever a tunnel is named.
fn policy() -> String {
    let hash = |text: &str| format!("'sha256-{}'", BASE64.encode(&Sha256::digest(text)));
    format!(
        "default-src 'none'; style-src {}; script-src {}; connect-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
        hash(STYLE),
        hash(SCRIPT),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What stands between a tag and its end in the document as it is served.
    fn between(tag: &str) -> String {
        let text = text();
        let rest = text.split_once(&format!("<{tag}>")).expect("the tag, without attributes").1;
        rest.split_once(&format!("</{tag}>")).expect("its end").0.to_owned()
    }

    #[test]
    fn policy_has_the_hashes_of_the_style_and_the_script_as_served() {
        for (tag, directive) in [("style", "style-src"), ("script", "script-src")] {
            let hash = BASE64.encode(&Sha256::digest(between(tag)));
            assert!(policy().contains(&format!("{directive} 'sha256-{hash}';")), "{tag}: {}", policy());
            assert_eq!(text().matches(&format!("<{tag}")).count(), 1, "{tag}: another would be blocked");
        }
        assert!(PLACES.iter().all(|place| HTML.contains(place) && !text().contains(place)));
    }

    #[test]
    fn document_has_no_inline_handler_and_names_no_other_place() {
        for what in ["http:", "https:", "url(", "@import", " style=", "javascript:"] {
            let text = text().replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains(what), "{what}");
        }
        let markup = HTML.to_lowercase();
        assert!(!markup.split_whitespace().any(|word| word.starts_with("on") && word.contains("=\"")));
        for what in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("] {
            assert!(!SCRIPT.contains(what), "{what}");
        }
    }

    #[test]
    fn every_answer_to_a_browser_is_protected() {
        let mut headers = HeaderMap::new();
        protect(&mut headers, None);
        assert_eq!(headers["content-security-policy"], NOTHING);
        assert_eq!(headers["x-content-type-options"], "nosniff");
        protect(&mut headers, Some(&Arc::new(Document::new())));
        let policy = headers["content-security-policy"].to_str().expect("visible ASCII");
        assert!(policy.starts_with("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
        assert!(!policy.contains("unsafe"), "{policy}");
    }
}
