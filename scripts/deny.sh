#!/usr/bin/env bash
# Licences, advisories and sources of all dependencies, by cargo-deny. It is built once, from its crate.
set -euo pipefail
command -v cargo-deny >/dev/null || cargo install --locked --quiet cargo-deny
# The advisory database is a repository of its own; where it cannot be reached, licences, bans and
# sources are still checked, and this says so.
if ! cargo deny --log-level error check licenses bans sources; then exit 1; fi
if cargo deny --log-level error fetch db 2>/dev/null; then
  cargo deny --log-level error check advisories
else
  echo "advisories were not checked: the advisory database cannot be reached from here" >&2
fi
