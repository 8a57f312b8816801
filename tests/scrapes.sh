#!/usr/bin/env bash
# Scrapers at a gateway with many tunnels with static keys: measures round trips of pings meanwhile,
# and the gateway's memory. Fails if a ping is lost or memory grows by more than GROWTH MB. Needs
# root.
# usage: scrapes.sh CONVOY
# Optional variables: TUNNELS (10000), SCRAPERS ("1 16", how many at a time), SECONDS_EACH (10) and
# GROWTH (200). Without scrapers and with 45 seconds, pings show the cost of NAT keep-alives.
set -euo pipefail
convoy=$(realpath "$1") tunnels=${TUNNELS:-10000} scrapers=${SCRAPERS-1 16} seconds=${SECONDS_EACH:-10}
cd "$(dirname "$0")/.."
source tests/lib.sh
need_root
work_dir
a=convoy-a b=convoy-b pids=()
add_namespace $a $b
cable $a va 192.0.2.1/24 $b vb 192.0.2.2/24
python3 tests/many.py "$work" "$tunnels"
PATIENCE=300
for side in "$a 1" "$b 2"; do
  read -r ns site <<<"$side"
  start "$site.log" "$ns" "$convoy" run -c "$work/$site.toml"
  pids+=("$started")
done
for site in 1 2; do wait_for_line ' ready' "$work/$site.log" "the gateway $site does not start"; done
gateway=${pids[0]}
memory() { awk -v key="$1:" '$1 == key { print int($2 / 1024) }' "/proc/$gateway/status"; }
# rtts LABEL: prints the round-trip times, in ms.
rtts() {
  ip netns exec $a ping -n -i 0.005 -c $((seconds * 200)) -W 2 -I 10.1.0.1 10.2.0.1 >"$work/ping.log" || fail "no ping is answered: $(tail -n 3 "$work/ping.log")"
  sed -n 's/.* time=\([0-9.]*\) ms/\1/p' "$work/ping.log" | sort -n | awk -v label="$1" '
    { times[NR] = $1 } END { printf "%-12s n %d  median %.2f  p99 %.2f  max %.2f ms\n", label, NR, times[int(NR / 2)], times[int(NR * .99)], times[NR] }'
}
ip netns exec $a ping -n -c 3 -I 10.1.0.1 10.2.0.1 >/dev/null
# It waits for a second, in which a busy machine may do nothing.
completes() { "$convoy" complete -- show --control "$work/1.sock" tunnel tunnel-0 | contains '^tunnel-0'; }
wait_until "no tunnel's name is completed" completes
rtts "no scrape"
before=$(memory VmRSS)
for count in $scrapers; do
  scraping=()
  rm -f "$work/scrapes"
  for _ in $(seq "$count"); do
    (while :; do ip netns exec $a curl -s --max-time 10 -o "$work/page.$BASHPID" http://127.0.0.1:9464/metrics && echo >>"$work/scrapes"; done) & scraping+=($!)
  done
  rtts "$count scraping"
  kill "${scraping[@]}" 2>/dev/null
  wait "${scraping[@]}" 2>/dev/null || true
  echo "             $(wc -l <"$work/scrapes") pages of $(du -m "$work"/page.* | sort -n | tail -1 | cut -f1) MB"
done
grown=$(($(memory VmHWM) - before))
echo "memory: $before MB before, $grown MB more at most"
[ "$grown" -le "${GROWTH:-200}" ] || fail "scrapers cost too much memory"
