//! What is the same for all formats.

use std::path::Path;

use super::*;
use convoy_settings::Nowhere;

#[test]
fn file_of_an_unknown_format_is_an_error_that_names_the_option() {
    let source = ImportSource::new(Path::new("file"), "hello\n");
    let error = import(&source, None, &Nowhere).err().expect("unknown").to_string();
    assert_eq!(
        error,
        "file: its format is not recognised; say it by --format: swanctl, ipsec, wireguard, aws"
    );
}

#[test]
fn no_text_makes_a_reader_panic() {
    let lines = [
        "conn a",
        " left=",
        " also=a",
        "[Peer]",
        "AllowedIPs = , ,/",
        "Endpoint = [::]:",
        "IPSec Tunnel #",
        "- : :",
        "#3: Outside IP Addresses",
        "  - Customer Gateway : ::",
        "connections { a : b, {",
        "}}",
        "x = \"\\",
        "include /",
        "include *",
        "\u{0}{\u{feff}",
        " leftsubnet={ ,",
        "conn %default",
        " leftprotoport=/",
        "children { net { remote_ts = [",
    ];
    for first in lines {
        for second in lines {
            for third in lines {
                let text = format!("{first}\n{second}\n{third}");
                for format in ImportFormat::ALL {
                    let source = ImportSource::new(Path::new("/nonexistent/file"), &text);
                    if let Err(error) = import(&source, Some(format), &Nowhere) {
                        assert!(!error.to_string().is_empty());
                    }
                }
            }
        }
    }
}
