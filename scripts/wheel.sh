#!/usr/bin/env bash
# Builds the wheel of the simulator's Python module into OUT and prints its path. Linked by zig
# against glibc 2.17, whatever this machine has, it runs on every Linux of this processor with
# CPython 3.10 or later; maturin refuses to call it manylinux_2_17 if it needs anything else.
# usage: wheel.sh OUT
set -euo pipefail
out=$(realpath -m "$1")
cd "$(dirname "$0")/.."
venv=target/wheel-venv requirements=python/requirements-wheel.txt
if ! cmp -s $requirements $venv/installed.txt; then
  rm -rf $venv
  python3 -m venv $venv
  $venv/bin/pip install -q --disable-pip-version-check --only-binary :all: -r $requirements >&2
  cp $requirements $venv/installed.txt
fi
mkdir -p "$out"
rm -f "$out"/convoy_sim-*.whl # of other versions
# zig is found as a module of the Python that comes first on the path.
PATH="$PWD/$venv/bin:$PATH" maturin build --release --locked --manifest-path python/Cargo.toml \
  --zig --compatibility manylinux_2_17 --auditwheel check --out "$out" >&2
ls "$out"/convoy_sim-*.whl
