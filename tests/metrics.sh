#!/usr/bin/env bash
# The metrics of a gateway that carries traffic: Prometheus' own parser reads them, and malicious
# clients cost little. Needs root.
# usage: metrics.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
cd "$(dirname "$0")/.."
python=$PWD/target/test-venv/bin/python
source demo/sites.sh
source tests/pings.sh

gateway=$(pgrep -f "^$convoy run -c $work/site-1.toml")
IN="ip netns exec $a" pings "$work/ping.log" 5 10.2.0.1 || { cat "$work"/*.log >&2; exit 1; }
# Other SPIs and keys for the same tunnel, so that its SAs are replaced as by rekeying.
cat >"$work/rekey.sed" <<'SED'
s/^spi_in = 4097/spi_in = 8193/; s/^spi_out = 4098/spi_out = 8194/
s/^\(key_[a-z]* = "\)\(.*\)\(.\)"$/\1\3\2"/
SED
ip netns exec $a "$python" tests/metrics.py "$gateway" "$work/site-1.toml" "$work/rekey.sed" || { cat "$work/a.log" >&2; exit 1; }
kill "${running[0]}" "${running[1]}"
wait "${running[0]}" && wait "${running[1]}" || { cat "$work"/?.log >&2; echo "a gateway did not stop well" >&2; exit 1; }
echo "metrics: read by Prometheus' parser; hostile clients are cut off"
