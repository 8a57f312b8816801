//! The forms of swanctl.conf that strongSwan documents.

use std::path::Path;

use super::*;

fn read_text(text: &str) -> Result<BraceSection, Finding> {
    read(&ImportSource::new(Path::new("swanctl.conf"), text))
}

fn value(section: &BraceSection, path: &str, key: &str) -> Option<String> {
    Some(section.at(path)?.entry(key)?.value.clone())
}

#[test]
fn values_end_at_comments_braces_and_lines_and_quotes_keep_them() {
    let text = "connections { # ours\n site { version = 2 # IKEv2\n local { id = a.example }\n remote{id=\"C=DE, CN=b # {}\"\n} } }\n";
    let whole = read_text(text).expect("good");
    assert_eq!(value(&whole, "connections.site", "version").as_deref(), Some("2"));
    assert_eq!(value(&whole, "connections.site.local", "id").as_deref(), Some("a.example"));
    assert_eq!(value(&whole, "connections.site.remote", "id").as_deref(), Some("C=DE, CN=b # {}"));
}

#[test]
fn section_takes_what_it_refers_to_and_its_own_keys_hold() {
    let text = "base { version = 2\n mobike = no\n children { net { mode = tunnel } } }\n\
        connections { site : base { mobike = yes\n children { net { local_ts = 10.1.0.0/24 } } } }\n\
        connections { other : connections.site { mobike = } }\n";
    let whole = read_text(text).expect("good");
    assert_eq!(value(&whole, "connections.site", "version").as_deref(), Some("2"));
    assert_eq!(value(&whole, "connections.site", "mobike").as_deref(), Some("yes"));
    assert_eq!(value(&whole, "connections.site.children.net", "mode").as_deref(), Some("tunnel"));
    assert_eq!(value(&whole, "connections.other.children.net", "local_ts").as_deref(), Some("10.1.0.0/24"));
    assert_eq!(value(&whole, "connections.other", "mobike"), None, "an empty value removes it");
}

#[test]
fn what_is_not_in_this_form_is_an_error_with_its_line() {
    for (text, expected) in [
        ("connections {\n site {\n", "swanctl.conf:2: site: the section is not closed"),
        ("connections { }\n}\n", "swanctl.conf:2: }: it closes no section"),
        ("connections {\n version\n}\n", "swanctl.conf:2: version: `= value` or `{` is expected"),
        ("a = \"b\n", "swanctl.conf:1: a second quote"),
        ("connections = {\n}", "swanctl.conf:1: a { in a value"),
        ("a : b {\n}\n", "swanctl.conf:1: a: there is no section \"b\""),
        ("a : b { }\nb : a { }\n", "references lead to too many sections or in a circle"),
        ("= 3\n", "swanctl.conf:1: a key or the name of a section is expected"),
        ("include none.conf\n", "swanctl.conf:1: include: \"none.conf\": it cannot be read"),
    ] {
        let reported = read_text(text).expect_err(text).to_string();
        assert!(reported.contains(expected), "{reported}");
    }
    let deep = "a {".repeat(10_000);
    assert!(read_text(&deep).expect_err("too deep").to_string().contains("at most 32 deep"));
    let wide: String =
        (0..30).map(|at| format!("s{at} : s{next}, s{next} {{ x {{ }} }}\n", next = at + 1)).collect();
    assert!(read_text(&format!("{wide}s30 {{ }}")).is_err(), "references that double");
}

#[test]
fn included_file_adds_to_the_section_in_which_it_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("conf.d")).expect("made");
    std::fs::write(folder.path().join("conf.d/site.conf"), "site { version = 2 }").expect("written");
    let path = folder.path().join("swanctl.conf");
    let whole = read(&ImportSource::new(&path, "connections {\n include conf.d/*.conf\n}\n")).expect("good");
    assert_eq!(value(&whole, "connections.site", "version").as_deref(), Some("2"));
    let reported =
        read(&ImportSource::new(&path, "include swanctl.conf\n")).expect_err("missing").to_string();
    assert!(reported.contains("swanctl.conf:1: include"), "{reported}");
    std::fs::write(&path, "include swanctl.conf\n").expect("written");
    let reported = read(&ImportSource::read(&path).expect("there")).expect_err("a circle").to_string();
    assert!(reported.contains("more than 10 files include each other"), "{reported}");
}
