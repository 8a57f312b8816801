#!/usr/bin/env bash
# With --log-format json, each line on stderr is a JSON object with the keys of the log, however a
# gateway starts, fails and ends. Needs root.
# usage: log-format.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
cd "$(dirname "$0")/.."
source demo/sites.sh
show_logs() { head -n 40 "$work"/*.json "$work"/?.log; }
run=("$convoy" run --log-format json)
await() { wait_for_line "$1" "$2" "${2##*/} lacks $1"; } # words file
begin() { # name file: starts $gateway in $a
  ip netns exec $a "${run[@]}" -c "$2" >"$work/$1.out" 2>"$work/$1.json" & gateway=$!
}
ends() { # status name argument...: what ends by itself
  local wanted=$1 name=$2 status=0; shift 2
  timeout "$PATIENCE" "$@" >"$work/$name.out" 2>"$work/$name.json" || status=$?
  [ $status = "$wanted" ] || fail "$name ends with $status"
}

# The gateway of site 1 starts with a warning and is asked by ping. Its configuration is read again:
# with errors, with a warning, and while it is not there.
end_well "${gateways[0]}" "the gateway"
cp -p "$work/site-1.toml" "$work/good.toml"
sed -i 's/^\[gateway\]/&\nguard = false/' "$work/site-1.toml"
cp -p "$work/site-1.toml" "$work/warned.toml"
sed 's/^encap = .*/encap = "tcp"\nreplay_window = 7/; s/aes128gcm16/aes128gcm17/' "$work/good.toml" >"$work/bad.toml"
chmod 600 "$work/bad.toml"
begin good "$work/site-1.toml"
await '"message":"ready"' "$work/good.json"
ip netns exec $a ping -q -c 3 -i 0.1 -W 5 10.2.0.1 >/dev/null || fail "no answer to a ping"
reload() { "$convoy" reload --control "$work/site-1.sock" >"$work/reload" 2>&1; }
cp -p "$work/bad.toml" "$work/site-1.toml"
! reload || fail "a configuration with errors was taken"
grep -q '^ *|' "$work/reload" || fail "convoy reload shows no excerpt of the file: $(cat "$work/reload")"
rm "$work/site-1.toml"
! reload || fail "a configuration that is not there was taken"
cp -p "$work/warned.toml" "$work/site-1.toml"
reload || fail "$(cat "$work/reload")"

# Another gateway beside it cannot have its address or its socket.
other="s#site-1.sock#second.sock#; s#site-1.state#second.state#; s/:9464/:9465/; s/convoy0/convoy1/"
(umask 077; sed "$other" "$work/good.toml" >"$work/second.toml")
ends 1 in-use ip netns exec $a "${run[@]}" -c "$work/second.toml"
ends 1 same-socket ip netns exec $a "${run[@]}" -c "$work/site-1.toml"
end_well "$gateway" "the gateway"

# Without the permission to open ports; the helper process cannot do its part either.
ends 1 no-permission ip netns exec $a setpriv --bounding-set -net_admin,-net_raw --inh-caps -net_admin,-net_raw \
  "${run[@]}" -c "$work/good.toml"
ends 2 errors ip netns exec $a "${run[@]}" -c "$work/bad.toml"
ends 2 missing "${run[@]}" -c "$work/nowhere.toml"
sed '/^\[\[port\]\]/,/^address/d' "$work/good.toml" >"$work/no-port.toml"
chmod 600 "$work/no-port.toml"
ends 2 no-port "${run[@]}" -c "$work/no-port.toml"
ends 2 usage "${run[@]}" --wrong
ends 2 unknown-command "$convoy" rnu --log-format=json
RUST_LOG=off ends 2 silent "${run[@]}" -c "$work/nowhere.toml"

# A helper process that writes a line itself, because the file is another user's, and is killed.
chown nobody "$work/good.toml"
begin helper "$work/good.toml"
await '"message":"ready"' "$work/helper.json"
kill -9 "$(pgrep -P "$gateway")"
status=0
wait "$gateway" || status=$?
[ $status = 1 ] || fail "a gateway whose helper was killed ends with $status"

python3 - "$work" <<'CHECK' || fail "what is on stderr"
import datetime, json, pathlib, sys
logs = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    logs[path.stem] = lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines and path.with_suffix(".out").read_text() == "", path
    for line in lines:
        where = f"{path.name}: {line}"
        assert isinstance(line, dict) and line["level"] in ("INFO", "WARN", "ERROR"), where
        datetime.datetime.strptime(line["timestamp"], "%Y-%m-%dT%H:%M:%S.%fZ")
        assert line["target"].startswith("convoy") and line["message"] and "\x1b" not in line["message"], where
def has(log, words, **fields):
    fit = [line for line in logs[log] if words in line["message"] and fields.items() <= line.items()]
    assert fit, (log, words, fields, logs[log])
    return fit[0]
def alone(log, words, **fields):
    assert len(logs[log]) == 1, logs[log]
    return has(log, words, level="ERROR", **fields)
def at(log, words, key, line, **fields):
    found = has(log, words, key=key, **fields)
    assert found["line"] == line and found["column"] > 0 and "\n" not in found["message"], found
folder = sys.argv[1]
number = lambda file, text: 1 + next(n for n, line in enumerate(open(f"{folder}/{file}")) if line.startswith(text))
for words in ("ready", "stopped", "engines", "port outside: udp"):
    has("good", words, level="INFO")
at("good", "without the guard", "gateway.guard", number("warned.toml", "guard"), level="WARN", file=f"{folder}/site-1.toml")
has("good", "reload: the configuration is unchanged", level="ERROR")
bad = {key: number("bad.toml", key) for key in ("esp_proposal", "encap", "replay_window")}
for key, line in bad.items():
    at("good", "reload: ", f"tunnel.{key}", line, level="ERROR", file=f"{folder}/site-1.toml")
    at("errors", f"tunnel.{key}", f"tunnel.{key}", line, level="ERROR", file=f"{folder}/bad.toml")
assert len(logs["errors"]) == len(bad), logs["errors"]
at("good", "reload: ", "gateway.guard", number("warned.toml", "guard"), level="WARN", file=f"{folder}/site-1.toml")
has("good", "No such file", level="ERROR", file=f"{folder}/site-1.toml")
has("good", "reload of tunnels: 0 added", level="INFO")
has("in-use", "listen on UDP 192.0.2.1:4500 (another program", level="ERROR")
has("same-socket", "another gateway", level="ERROR")
has("no-permission", "not permitted", level="ERROR")
for log in ("missing", "silent"):
    alone(log, "cannot be read", file=f"{folder}/nowhere.toml")
has("no-port", "there is no [[port]];", level="ERROR", file=f"{folder}/no-port.toml")
for log, words in (("usage", "unexpected argument '--wrong'"), ("unknown-command", "unrecognized subcommand 'rnu'")):
    message = alone(log, words)["message"]
    assert "Usage" not in message and "\n" not in message, message
has("helper", "a reload will not be able to read", level="WARN", target="convoy_host::helper::server")
has("helper", "the helper process ended (signal: 9 (SIGKILL))", level="ERROR")
print(f"{sum(map(len, logs.values()))} lines of {len(logs)} runs are JSON")
CHECK
echo "log-format: JSON alone from start, reloads and stop, errors of every kind, and a killed helper"
