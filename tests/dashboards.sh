#!/usr/bin/env bash
# The Prometheus rules and the Grafana dashboard of the packages: promtool's tests of each alert,
# and each query on a Prometheus that scrapes two gateways at work, where one tunnel of one has no
# keys and another a peer whose name does not resolve. Needs root.
# usage: dashboards.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
cd "$(dirname "$0")/.."
source tests/lib.sh
work_dir
rules=$PWD/packaging/prometheus/convoy.rules.yml dashboard=$PWD/packaging/grafana/convoy.json
optional=$PWD/packaging/prometheus/convoy-ml-kem.rules.yml
promtool check rules "$rules" "$optional" >/dev/null || fail "promtool refuses the rules"
promtool test rules tests/prometheus/alerts.yml || fail "alerts fire otherwise than they should"
for alert in $(sed -n 's/^ *- alert: //p' "$rules" "$optional"); do
  grep -q "alertname=\"$alert\"" tests/prometheus/alerts.yml || fail "no case has $alert fire"
  grep -q "\`$alert\`" docs/operation/monitoring.md || fail "docs/operation/monitoring.md does not have $alert"
done

# A card's counters need a port that has them, charon's metrics a socket for it, although no daemon
# connects, and the drops of a tunnel a gateway without charon that has no keys for it.
PORT=af_packet
source demo/sites.sh
stop_gateways
sed -i "s|^\[gateway\]|&\ncharon = \"$work/charon.sock\"|" "$work/site-1.toml"
printf '[[interface]]\nname = "ipsec-b"\nif_id = 42\n' >>"$work/site-1.toml"
sed -i 's|^metrics = .*|metrics = "192.0.2.2:9464"|' "$work/site-2.toml"
cat >>"$work/site-2.toml" <<CONF
[[tunnel]]
name = "without-peer"
local = "192.0.2.2"
remote = "absent.invalid"
local_ts = ["10.2.0.0/24"]
remote_ts = ["10.8.0.0/24"]
esp_proposal = "aes128gcm16"
[tunnel.manual]
spi_in = 0x2001
spi_out = 0x2002
key_in = "$("$convoy" genkey aes128gcm16)"
key_out = "$("$convoy" genkey aes128gcm16)"
CONF
printf '[[tunnel]]\nname = "without-keys"\nremote_ts = ["10.9.0.0/24"]\n' >>"$work/site-2.toml"
begin_gateways
start ping-a.log $a ping -i 0.1 10.2.0.1
start ping-b.log $b ping -i 0.1 10.9.0.1
{
  printf 'global: {scrape_interval: 500ms, evaluation_interval: 1s}\nrule_files: ["%s"]\n' "$rules"
  sed 's/"127.0.0.1:9464"/&, "192.0.2.2:9464"/' packaging/prometheus/convoy.scrape.yml
} >"$work/prometheus.yml"
promtool check config "$work/prometheus.yml" >/dev/null || fail "promtool refuses the scrape"
start prometheus.log $a prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/tsdb" --web.listen-address=127.0.0.1:9090
asks() { ip netns exec $a python3 tests/dashboards.py http://127.0.0.1:9090 "$1" ConvoyCharonDisconnected ConvoyPeerNameUnresolved ConvoyTunnelDown ConvoyTunnelWithoutSa; }
wait_until "prometheus does not start" in_ns $a curl -sf http://127.0.0.1:9090/-/ready
wait_until "queries are wrong" asks "$dashboard"
# The check itself: a metric that is not there, and a query that returns nothing.
sed 's/convoy_sa_info/convoy_sa_inof/; s/convoy_window_size_packets{/&worker=\\"9\\", /' "$dashboard" >"$work/wrong.json"
found() {
  ! asks "$work/wrong.json" 2>"$work/faults" && grep -q 'there is no metric convoy_sa_inof' "$work/faults" &&
    [ "$(grep -c 'returns nothing' "$work/faults")" = 2 ]
}
wait_until "the two faults alone are not found" found
stop_gateways
echo "ok: alerts, and queries on a real scrape"
