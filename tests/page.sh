#!/usr/bin/env bash
# The page of a gateway in a headless Chromium: a tunnel that is up, whose path is cut, a gateway
# that hangs and ends, two widths, nothing asked of other places; the server's refusals; and what an
# answer of ten thousand tunnels costs. Needs root, and `scripts/install.sh browser`.
# usage: page.sh CONVOY
# Optional variables: MANY (10000; 0 leaves them out), PICTURES (a folder for the screenshots)
set -euo pipefail
convoy=$(realpath "$1")
cd "$(dirname "$0")/.."
source demo/sites.sh
python=$(command -v python3)
url=http://127.0.0.1:9464
status_of() { in_ns $a curl -s -o "$work/body" -w '%{http_code}' "$@"; }
is() { local expected=$1 status; shift; status=$(status_of "$@"); [ "$status" = "$expected" ] || fail "$*: $status instead of $expected: $(cat "$work/body")"; }

is 404 $url/
is 404 $url/status.json
is 200 $url/metrics
ok "without metrics_page, / and /status.json are not found"

stop_gateways
# A name that would be markup if the page took it for any.
name='<b>site</b> <img src=x onerror=alert(1)>'
EXTRA='metrics_page = true'
configure
sed -i "s|^name = \"site-2\"|name = \"$name\"|" "$work/site-1.toml"
printf '[tunnel.monitor]\nping = "10.2.0.1"\ninterval_ms = 100\nlost_after_ms = 300\n' >>"$work/site-1.toml"
begin_gateways
is 200 $url/metrics
for asked in / '/status.json?state=up&rows=10'; do is 200 "$url$asked"; done
for asked in page=0 rows=1000 state=well sort=colour keys=1 filter=%zz "filter=$(printf 'a%.0s' {1..600})"; do
  is 400 "$url/status.json?$asked"
  [ -s "$work/body" ] || fail "no words about $asked"
done
is 405 -X POST $url/
is 403 -H "Host: rebound.example" $url/status.json
in_ns $a curl -si $url/ | contains -i "content-security-policy: default-src 'none'" || fail "no policy"
ok "bad queries are refused in words; other methods and names of the host as well"

in_ns $a ping -q -i 0.05 -c 4000 -I 10.1.0.1 10.2.0.1 >"$work/ping.log" 2>&1 &
# To no tunnel, so that there are drops to show.
in_ns $a ping -q -c 3 -i 0.2 -W 1 -I 10.1.0.1 -m 1 10.1.0.77 >/dev/null 2>&1 || true
status=0
in_ns $a "$python" tests/page.py "$work" "${gateways[0]}" "$name" >"$work/page.out" || status=$?
cat "$work/page.out"
[ -z "${PICTURES:-}" ] || cp "$work"/page-*.png "$PICTURES"
[ $status = 0 ] || fail "the page in Chromium: see above"
kill_and_wait "${gateways[@]}"

[ "${MANY:-10000}" != 0 ] || exit 0
python3 tests/many.py "$work" "${MANY:-10000}" 'metrics_page = true'
PATIENCE=300
run_gateway many.log $a "$work/1.toml"
# Asks again if a busy gateway had no snapshot in time.
answered() {
  in_ns $a curl -s -o "$work/body" -w '%{http_code} %{time_total}' "$url/status.json?$1" >"$work/curl" || true
  grep '^200 ' "$work/curl"
}
for query in "" "rows=100&sort=rate&page=50" "filter=9999"; do
  times=()
  for _ in {1..5}; do
    wait_until "no answer to $query" answered "$query"
    times+=("$(cut -d ' ' -f 2 "$work/curl")")
    sleep 0.5 # a snapshot each
  done
  echo "${MANY:-10000} tunnels, ${query:-no query}: $(stat -c %s "$work/body") bytes in ${times[*]} s"
  [ "$(stat -c %s "$work/body")" -lt 200000 ] || fail "an answer is too long"
done
python3 -c 'import json, sys
answer = json.load(open(sys.argv[1]))
assert answer["tunnels"] == int(sys.argv[2]) and [row["tunnel"] for row in answer["rows"]] == ["tunnel-9999"], answer' \
  "$work/body" "${MANY:-10000}"
end_well "$started" "the gateway of many tunnels"
ok "answers of ${MANY:-10000} tunnels stay below 200 kB"
