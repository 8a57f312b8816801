#!/usr/bin/env bash
# Checks that everything but the card compiles with the given Rust release, which rustup installs if
# necessary.
# usage: msrv.sh VERSION
set -euo pipefail
version=$1
command -v rustup >/dev/null || { echo "Rust $version is checked by rustup, which is not here: https://rustup.rs" >&2; exit 1; }
rustup run "$version" rustc --version 2>/dev/null ||
  rustup toolchain install --profile minimal --no-self-update "$version"
# Warnings of an old compiler are allowed. The release profile compiles procedural macros without
# optimisation, which halves the time.
RUSTUP_TOOLCHAIN=$version RUSTFLAGS='' cargo check --workspace --locked --release
