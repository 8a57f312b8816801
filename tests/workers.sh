#!/usr/bin/env bash
# Two workers: the kernel spreads flows over both, whatever their SA, but each SA's packets still
# pass a single worker in order. Four tunnels with file transfers in both directions. Needs root.
# usage: workers.sh CONVOY PORT
set -euo pipefail
convoy=$(realpath "$1") PORT=$2 WORKERS=2 TUNNELS=4
source "$(dirname "$0")/../demo/sites.sh"
head -c 4000000 /dev/urandom >"$work/file"
for site in "$a 1" "$b 2"; do
  read -r ns host <<<"$site"
  serve_files "$ns" "$work" 8000
done
transfers=()
for t in 0 1 2 3; do
  for copy in 1 2 3; do
    ip netns exec $a curl -s -m $PATIENCE -o "$work/to-a-$t-$copy" "http://10.2.$t.1:8000/file" & transfers+=($!)
    ip netns exec $b curl -s -m $PATIENCE -o "$work/to-b-$t-$copy" "http://10.1.$t.1:8000/file" & transfers+=($!)
  done
done
for transfer in "${transfers[@]}"; do wait "$transfer" || fail "a transfer failed: curl says $?"; done
for copy in "$work"/to-?-?-?; do cmp "$work/file" "$copy"; done
ask() { "$convoy" show "$1" --json --control "$work/site-1.sock"; }
ask sa >"$work/sa.json"
ask stats >"$work/stats.json"
python3 - "$work" <<'CHECK' || fail "the workers did not share the work as they should"
import json, sys
sas = json.load(open(sys.argv[1] + "/sa.json"))
stats = json.load(open(sys.argv[1] + "/stats.json"))
by_worker = {w: sum(sa["packets"] for sa in sas if sa["worker"] == w) for w in (0, 1)}
assert len(sas) == 8 and all(sa["packets"] > 100 for sa in sas), sas
assert all(by_worker.values()), by_worker
assert stats["handed_over"] > 0, stats["handed_over"]
# Reordering within an SA would show up here.
assert not any(sa["drops"].get("replayed") for sa in sas), sas
print(f"packets by worker {by_worker}, handed over {stats['handed_over']}, dropped {stats['drops']}")
CHECK
end_well "${gateways[0]}" "the gateway"
grep -q stopped "$work/a.log" || fail "the gateway did not stop"
echo "two workers over $PORT: 24 files of 4,000,000 bytes the same"
