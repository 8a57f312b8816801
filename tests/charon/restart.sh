#!/usr/bin/env bash
# Measures how long traffic stops while the gateway is restarted under charon with the site.conf of
# docs/guide/strongswan.md, so with MOBIKE and charon's default retransmission times. charon sees
# the inside interface disappear and come back, and has to rekey. The median of TRIES restarts
# counts, and that of three if fewer took too long, because a busy machine may pause a core.
# LIMIT_MS is how much longer it may be than the gateway's absence. Needs root.
# usage: [LIMIT_MS=1500] [TRIES=3] restart.sh CONVOY PLUGIN [CASE...]
set -euo pipefail
convoy=$(readlink -f "$1") plugin=$(readlink -f "$2")
here=$(dirname "$(readlink -f "$0")")
A=convoy-restart-a B=convoy-restart-b
source "$here/lib.sh"
source "$here/page.sh"
cc -O2 -pthread -o "$work/flood" "$here/flood.c"
limit=${LIMIT_MS:-1500}
least=${TRIES:-3} # of each case

# strongSwan's default retransmission times, also at the peer.
CHARON_OPTIONS='retransmit_tries = 5
  retransmit_timeout = 4
  retransmit_base = 1.8'

# outside_v6, inside_v6: filters that turn the page's addresses into IPv6.
outside_v6() { sed 's/192\.0\.2\./2001:db8::/g'; }
inside_v6() { sed 's#10\.\([12]\)\.0\.1/32#fd00:\1::1/128#; s#10\.\([12]\)\.0\.0/24#fd00:\1::/64#g'; }
as_is() { cat; }
swap_ends() { sed 's/192\.0\.2\.1/192.0.2.2/; s/10\.1\./10.X./; s/10\.2\./10.1./; s/10\.X\./10.2./'; }
# in_side SIDE COMMAND...: with a separate /run and /etc/strongswan.d.
in_side() { (become "$@"); }
become() { # in_side, instead of this shell
  local side=$1 ns=$A; [ "$1" = a ] || ns=$B; shift
  exec unshare -m ip netns exec $ns sh -c "mount --make-rprivate /
    mount --bind $work/plugins $libraries
    mount --bind $work/$side/strongswan.d /etc/strongswan.d
    mount --bind $work/$side/run /run; exec \"\$@\"" sh "$@"
}
run_gateway() { # side
  become "$1" "$convoy" run -c "$work/$1/convoy.toml" >>"$work/$1/convoy.log" 2>&1 & gateway_pid=$!
}
is_ready() { in_side "$1" "$convoy" show stats; }
# convoy_side SIDE: gateway and charon of the page, with convoy.toml and swanctl.conf in the side's
# folder.
convoy_side() {
  local side=$1
  mkdir -p "$work/$side/run/convoy" "$work/$side/strongswan.d/charon"
  cp -r /etc/strongswan.d/. "$work/$side/strongswan.d/"
  cp "$here/../../charon/convoy.conf" "$work/$side/strongswan.d/charon/"
  cat >"$work/$side/strongswan.d/charon-logging.conf" <<CONF
charon { filelog { log { path = $work/$side/log
  time_format = %T
  time_add_ms = yes
  flush_line = yes
  default = 1
  ${LOG_LEVELS:-} } } }
CONF
  cp "$here/../../charon/charon.conf" "$work/$side/strongswan.d/convoy.conf"
  run_gateway "$side"
  wait_until "the gateway of $side does not start" is_ready "$side"
  for_charon "$work/$side" "$work/$side/run" "$work/$side/run/convoy-charon"
  become "$side" $unprivileged /usr/lib/ipsec/charon >"$work/$side/out" 2>&1 &
  wait_until "charon of $side does not start" test -S "$work/$side/run/convoy-charon/vici"
  SWANCTL_DIR=$work/$side in_side "$side" swanctl --load-all --noprompt >"$work/load" 2>&1 || fail "$side does not load: $(cat "$work/load")"
}
# What runs in both namespaces, and what waits for it.
end_all() {
  for ns in $A $B; do ip netns pids "$ns" 2>/dev/null | xargs -r kill 2>/dev/null || true; done
  wait
}
# sites PEER OUTSIDE INSIDE: A as on the page, B with `stock` strongSwan or `convoy`; OUTSIDE and
# INSIDE are address filters.
sites() {
  end_all; namespaces
  rm -rf "$work/a" "$work/b"; mkdir -p "$work/a" "$work/b"
  (umask 077
    block toml | $2 | $3 >"$work/a/convoy.toml"
    block toml | swap_ends | $2 | $3 >"$work/b/convoy.toml"
    block swanctl | $2 | $3 >"$work/a/swanctl.conf"
    peers_block | $2 | $3 >"$work/b/swanctl.conf")
  if [ "$1" = stock ]; then
    ip -n $B addr add 10.2.0.1/24 dev lo; ip -n $B addr add fd00:2::1/64 dev lo
    strongswan b "$stock"; start_charon b; load b
  else
    convoy_side b
  fi
  convoy_side a; gateway_a=$gateway_pid
}
flood() { # seconds
  ip netns exec $A "$work/flood" "$near" "$far" 100 "$1" >"$work/flood-a" 2>&1 & flood_a=$!
  ip netns exec $B "$work/flood" "$far" "$near" 100 "$1" >"$work/flood-b" 2>&1 & flood_b=$!
}
now_ms() { echo $(($(date +%s%N) / 1000000)); }
# restart_once SECONDS: stops A's gateway under traffic, starts it again after so many seconds, and
# sets gap and away (ms).
restart_once() {
  local down=$1 began a b
  flood $((down + 4))
  sleep 2.5
  began=$(now_ms)
  end_process "$gateway_a"
  sleep "$down"
  run_gateway a; gateway_a=$gateway_pid
  wait_until "the gateway does not start again" is_ready a
  away=$(($(now_ms) - began))
  wait "$flood_a"; wait "$flood_b"
  read -r -a a <"$work/flood-a"; read -r -a b <"$work/flood-b"
  gap=$((a[4] > b[4] ? a[4] : b[4]))
}
median() { printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"; }
restarts() { # what seconds
  local what=$1 seconds=$2 gaps=() aways=() beyond=$limit
  # One that took too long may have had no core: then the median of three counts.
  while [ ${#gaps[@]} -lt "$least" ] || { [ ${#gaps[@]} -lt 3 ] && [ $beyond -ge "$limit" ]; }; do
    restart_once "$seconds"
    gaps+=("$gap"); aways+=("$away")
    beyond=$(($(median "${gaps[@]}") - $(median "${aways[@]}")))
  done
  printf '%-58s no traffic for %s ms, gateway away for %s ms\n' "$what, ${seconds} s stopped" "${gaps[*]}" "${aways[*]}"
  [ $beyond -lt $limit ] || fail "$what: no traffic for ${gaps[*]} ms by a restart, for which the gateway was away for ${aways[*]} ms"
}
is_settled() { ! { ip -n $A -6 addr show tentative; ip -n $B -6 addr show tentative; } | contains .; }
answered() { pings "$work/ping" $A 1 -I "$near" "$far"; }
trial() { # what peer outside inside seconds...
  local what=$1; near=10.1.0.1 far=10.2.0.1
  [ "$4" = as_is ] || near=fd00:1::1 far=fd00:2::1
  sites "$2" "$3" "$4"
  wait_until "$what: no tunnel" answered
  # No address may be tentative, since the two charons tell each other about their addresses.
  wait_until "$what: addresses are tentative" is_settled; sleep 1
  for seconds in "${@:5}"; do restarts "$what" "$seconds"; done
}
stock_peer() { trial "strongSwan as the peer" stock as_is as_is 0 5; }
convoy_peer() { trial "convoy as the peer" convoy as_is as_is 0 5; }
stock_ipv6() { trial "strongSwan as the peer, IPv6" stock outside_v6 inside_v6 0; }
convoy_ipv6() { trial "convoy as the peer, IPv6" convoy outside_v6 inside_v6 0; }

cases=("${@:3}")
[ ${#cases[@]} -gt 0 ] || cases=(stock_peer convoy_peer stock_ipv6 convoy_ipv6)
for name in "${cases[@]}"; do $name; done
