#!/usr/bin/env bash
# Licences and sources of all dependencies, by cargo-deny, which is built once, from its crate; and
# advisories, but only where the RustSec database can be reached. CI reaches registries alone, and
# no package there is known to bring it: CI does not check advisories.
set -euo pipefail
command -v cargo-deny >/dev/null || cargo install --locked --quiet cargo-deny
if ! cargo deny --log-level error check licenses bans sources; then exit 1; fi
if cargo deny --log-level error fetch db 2>/dev/null; then
  cargo deny --log-level error check advisories
else
  echo "ADVISORIES WERE NOT CHECKED: github.com/rustsec/advisory-db cannot be reached from here; run scripts/deny.sh where it can" >&2
fi
