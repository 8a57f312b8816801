//! Tests of the binary: exit status, output streams and messages.

mod bench;
mod demo;
#[path = "../../../../crates/cli/tests/commands/packets.rs"]
mod packets;
mod sim;
