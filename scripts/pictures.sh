#!/usr/bin/env bash
# Draws the pictures of README: `convoy top` and `convoy explain` of two gateways in network
# namespaces, with traffic in three of four tunnels, one of which is cut. Needs root.
# usage: pictures.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
cd "$(dirname "$0")/.."
venv=target/pictures-venv out=$PWD/docs/operation/figures
if ! cmp -s scripts/requirements-pictures.txt $venv/installed.txt; then
  rm -rf $venv
  python3 -m venv $venv
  $venv/bin/pip install -q --disable-pip-version-check -r scripts/requirements-pictures.txt
  cp scripts/requirements-pictures.txt $venv/installed.txt
fi
TUNNELS=4 WORKERS=2
source demo/sites.sh
end_tmux() { tmux -S "$work/tmux" kill-server 2>/dev/null || true; }
at_exit end_tmux
stop_gateways
# The tunnels that are measured: a monitor in front of the keys of each.
sed -i 's/^\[tunnel.manual\]/[tunnel.monitor]\necho = true\ninterval_ms = 200\n&/' "$work"/site-?.toml
begin_gateways
for t in 0 1 2; do start "server-$t.log" $b iperf3 -s -p 520$t; done
sleep 1
for t in 0 1 2; do
  start "flow-$t.log" $a iperf3 -c 10.2.$t.1 -B 10.1.$t.1 -p 520$t -u -b $((20 / (t + 1)))M -l 200 -t 60
done
draw() { # NAME TITLE COLUMNS
  $venv/bin/python scripts/terminal_svg.py "$2" "$3" >"$out/$1.svg"
}
mkdir -p "$out"
tmux -S "$work/tmux" -f /dev/null new-session -d -x 100 -y 21 "ip netns exec $a $convoy top --control $work/site-1.sock"
sleep 12
tmux -S "$work/tmux" capture-pane -e -p | draw top "convoy top" 100
in_ns $b nft "add table inet cut; add chain inet cut in { type filter hook prerouting priority -400; }; add rule inet cut in iifname vb drop"
sleep 3
{ echo "# convoy explain 10.1.0.1 10.2.0.1"; in_ns $a "$convoy" explain 10.1.0.1 10.2.0.1 --control "$work/site-1.sock" || true; } |
  draw explain "convoy explain" 120
