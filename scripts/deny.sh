#!/usr/bin/env bash
# Checks licences and sources of all dependencies with cargo-deny, which is built once from its
# crate. Checks advisories only if the RustSec database can be reached: CI can only reach package
# registries, none of which is known to provide it, so CI does not check advisories.
# no package there is known to bring it: CI does not check advisories.
set -euo pipefail
command -v cargo-deny >/dev/null || cargo install --locked --quiet cargo-deny
if ! cargo deny --log-level error check licenses bans sources; then exit 1; fi
if cargo deny --log-level error fetch db 2>/dev/null; then
  cargo deny --log-level error check advisories
else
  echo "ADVISORIES WERE NOT CHECKED: github.com/rustsec/advisory-db cannot be reached from here; run scripts/deny.sh where it can" >&2
fi
