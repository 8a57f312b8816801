//! Any bytes on the control socket either are a request or are refused.
#![no_main]

use convoy_gateway::control::parse_request;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| {
    let _ = parse_request(line);
});
