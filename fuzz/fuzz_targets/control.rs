//! Any bytes on the control socket are a request or a refusal.
#![no_main]

use convoy_gateway::control::parse_request;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| {
    let _ = parse_request(line);
});
