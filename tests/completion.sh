#!/usr/bin/env bash
# Completion on the command lines of bash, and of zsh and fish where they are installed, by the
# scripts of the packages: commands, files, and the names that a running gateway knows, also while
# it hangs. Needs root.
# usage: completion.sh CONVOY
set -euo pipefail
convoy=$(realpath "$1")
cd "$(dirname "$0")/.."
# Addresses with colons, at which bash splits words.
TUNNELS=2 OUTER=6
source demo/sites.sh
"$lab" reference --of convoy --manuals "$work"
mkdir "$work/bin"
ln -s "$convoy" "$work/bin/convoy"
declare -A scripts=([bash]=convoy.bash [zsh]=_convoy [fish]=convoy.fish)
complete_by() { PATH=$work/bin:$PATH python3 tests/completion.py "$1" "$work/completions/${scripts[$1]}"; } # shell <lines

control="--control $work/site-1.sock"
cat >"$work/lines" <<LINES
convoy rel
convoy show $control tunn
convoy show $control tunnel s
convoy trace $control --count 3 --tunnel site-21
convoy show sa $control --peer=2001:
convoy check --deny
convoy check -c $work/site-1.to
LINES
cat >"$work/expected" <<LINES
convoy reload
convoy show $control tunnel
convoy show $control tunnel site-2 site-21
convoy trace $control --count 3 --tunnel site-21
convoy show sa $control --peer=2001:db8::2
convoy check --deny-warnings
convoy check -c $work/site-1.toml
LINES
shells=()
for shell in bash zsh fish; do
  if ! command -v $shell >/dev/null; then
    echo "=== $shell is not on this machine, so its completion is not tested"
    continue
  fi
  complete_by $shell <"$work/lines" >"$work/found" || fail "$shell: $(cat "$work/found")"
  diff "$work/expected" "$work/found" || fail "$shell completes otherwise"
  shells+=("$shell")
done

# Without an answer nothing is completed, nothing is printed, and the shell goes on.
kill -STOP "${gateways[0]}"
for socket in site-1.sock none.sock; do
  line="convoy show --control $work/$socket tunnel s"
  began=$SECONDS
  [ "$(complete_by bash <<<"$line")" = "$line" ] || fail "a name without a gateway at $socket"
  [ $((SECONDS - began)) -lt 10 ] || fail "completion waits for a gateway that hangs: $((SECONDS - began)) s"
done
kill -CONT "${gateways[0]}"
ok "completion in ${shells[*]}: commands, files, names of a running gateway, a gateway that hangs"
