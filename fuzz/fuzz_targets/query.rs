//! Any text is a query of the page for browsers or is refused in words.
#![no_main]

use convoy_metrics::check_query;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(words) = check_query(text) {
        assert!(!words.is_empty());
    }
});
