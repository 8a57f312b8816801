#!/usr/bin/env bash
# The metrics of a gateway that carries traffic: Prometheus' own parser reads them, and malicious
# clients cost little. Needs root.
# usage: metrics.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
cd "$(dirname "$0")/.."
python=$PWD/target/test-venv/bin/python
source demo/sites.sh

pings "$work/ping.log" $a 5 10.2.0.1 || fail "not all pings were answered"
# Other SPIs and keys for the same tunnel, so that its SAs are replaced as by rekeying.
cat >"$work/rekey.sed" <<'SED'
s/^spi_in = 4097/spi_in = 8193/; s/^spi_out = 4098/spi_out = 8194/
s/^\(key_[a-z]* = "\)\(.*\)\(.\)"$/\1\3\2"/
SED
ip netns exec $a "$python" tests/metrics.py "${gateways[0]}" "$work/site-1.toml" "$work/rekey.sed" || fail "see above"
stop_gateways
echo "metrics: read by Prometheus' parser; hostile clients are cut off"
