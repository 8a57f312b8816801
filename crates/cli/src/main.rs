//! The `convoy` binary: the gateway, and what operates it.

use std::process::ExitCode;

fn main() -> ExitCode {
    convoy_cli::main()
}
