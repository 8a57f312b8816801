#!/usr/bin/env bash
# Builds the wheel of the simulator's Python module into OUT and prints its path. Linked by zig
# against glibc 2.17, whatever this machine has, it runs on every Linux of this processor with
# CPython 3.10 or later; maturin refuses to call it manylinux_2_17 if it needs anything else.
# usage: wheel.sh OUT [PROFILE]
set -euo pipefail
out=$(realpath -m "$1") profile=${2:-release}
cd "$(dirname "$0")/.."
venv=target/wheel-venv requirements=python/requirements-wheel.txt
if ! cmp -s $requirements $venv/installed.txt; then
  rm -rf $venv
  python3 -m venv $venv
  $venv/bin/pip install -q --disable-pip-version-check --only-binary :all: -r $requirements >&2
  cp $requirements $venv/installed.txt
fi
linker=$PWD/$venv/bin/zig-cc
printf '#!/bin/sh\nexec "%s" -m ziglang cc -target %s-linux-gnu.2.17 "$@"\n' "$PWD/$venv/bin/python" "$(uname -m)" >"$linker"
chmod +x "$linker"
mkdir -p "$out"
rm -f "$out"/convoy_sim-*.whl # of other versions
# Only the module itself is linked by zig, so that crates compiled for the gateway serve here too;
# maturin's --zig would compile all of them again.
"$venv/bin/maturin" build --profile "$profile" --locked --manifest-path python/Cargo.toml \
  --interpreter "$venv/bin/python" --compatibility manylinux_2_17 --auditwheel check --out "$out" -- -C "linker=$linker" >&2
ls "$out"/convoy_sim-*.whl
