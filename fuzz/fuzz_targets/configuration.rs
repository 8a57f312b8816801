//! Any text is a configuration or a list of errors.
#![no_main]

use convoy_config::Config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(errors) = Config::parse("fuzz.toml", text) {
        assert!(!errors.to_string().is_empty());
    }
});
