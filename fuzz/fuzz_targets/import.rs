//! Any text is a configuration of another gateway, or an error with its place.
#![no_main]

use std::path::Path;

use convoy_config::import::{ImportFormat, ImportSource, import};
use convoy_config::{Config, Nowhere};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for format in ImportFormat::ALL {
        let source = ImportSource::new(Path::new("/nonexistent/fuzz.conf"), text);
        match import(&source, Some(format), &Nowhere) {
            Ok(imported) => {
                if let Err(errors) = Config::parse("convoy.toml", &imported.convoy) {
                    assert!(!errors.to_string().is_empty());
                }
            }
            Err(error) => assert!(error.to_string().starts_with("/nonexistent/fuzz.conf")),
        }
    }
});
