#!/usr/bin/env bash
# Fails if a crate depends on another that it does not use; installs cargo-machete from its crate if
# it is not there.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v cargo-machete >/dev/null || cargo install --locked --quiet cargo-machete
# With the metadata, as the names of some libraries are not those of their crates.
cargo machete --with-metadata
