# shellcheck shell=bash disable=SC2154
# Two hosts, each with /etc/convoy, /etc/swanctl/conf.d and /run of its own in place of this
# machine's, so that a gateway and charon run from files in the places that the pages name. Sourced
# after lib.sh of this folder, with $here, the folder of the tests, set.
namespaces
mkdir -p /etc/convoy /etc/swanctl/conf.d /var/lib/convoy
# Each site has folders of its own in place of those of this machine.
for side in a b; do
  mkdir -p "$work/$side"/{home,run/convoy,state,etc/convoy,etc/swanctl/conf.d,strongswan.d/charon}
  cp -r /etc/strongswan.d/. "$work/$side/strongswan.d/"
  cp "$here/../charon/convoy.conf" "$work/$side/strongswan.d/charon/"
  cp "$here/../charon/charon.conf" "$work/$side/strongswan.d/convoy.conf"
done
# at SIDE COMMAND...
at() {
  local side=$1 ns=$A; [ "$1" = a ] || ns=$B
  shift
  unshare -m ip netns exec $ns sh -c "mount --make-rprivate /
    mount --bind $work/$side/etc/convoy /etc/convoy; mount --bind $work/$side/etc/swanctl/conf.d /etc/swanctl/conf.d
    mount --bind $work/$side/strongswan.d /etc/strongswan.d; mount --bind $work/plugins $libraries
    mount --bind $work/$side/state /var/lib/convoy; mount --bind $work/$side/run /run
    cd $work/$side/home; exec \"\$@\"" sh "$@"
}
# gateways: starts both from what stands in their /etc/convoy.
gateways() {
  local side
  for side in a b; do
    at $side "$convoy" check >"$work/check" 2>&1 || fail "$side: $(cat "$work/check")"
    ! grep -q warning: "$work/check" || fail "a warning at $side: $(cat "$work/check")"
    : >"$work/$side/convoy.log" # else `ready` of the gateway before may be found
    at $side "$convoy" run >"$work/$side/convoy.log" 2>&1 &
    wait_until "the gateway of $side does not start" grep -q ' ready' "$work/$side/convoy.log"
  done
}
end_all() {
  local ns
  for ns in $A $B; do ip netns pids $ns | xargs -r kill 2>/dev/null || true; done # some may have ended
  wait
  rm -f "$work"/?/etc/convoy/* "$work"/?/etc/swanctl/conf.d/*
  rm -rf "$work"/?/home/* "$work"/?/run/charon.* "$work"/?/run/convoy-charon
}
# charons: starts both, and loads what stands in their /etc/swanctl, b first.
charons() {
  local side
  for side in a b; do
    for_charon "$work/$side/run" "$work/$side/run/convoy-charon"
    at $side $unprivileged /usr/lib/ipsec/charon >"$work/$side/log" 2>&1 &
    wait_until "charon of $side does not start" test -S "$work/$side/run/convoy-charon/vici"
  done
  for side in b a; do at $side swanctl --load-all --noprompt >"$work/load" 2>&1 || fail "$side does not load: $(cat "$work/load")"; done
}
# modes: of all files that have keys, one mode a line.
modes() { find "$work/a" "$work/b" \( -name convoy.toml -o -name convoy.conf -path '*/swanctl/*' \) -printf '%m\n' | sort -u; }
