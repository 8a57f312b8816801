# shellcheck shell=bash disable=SC2034,SC2154
# The ways of setting up that setups.sh counts and times: each sets `what`, makes its machines, and
# follows its guide until `reached`. Sourced after machines.sh.
ways=(static ipv6 nat psk certificates road_warrior bgp cluster)
# What the guides install, for the cache of the machines' Debian.
archives=("./convoy_*.deb ./convoy-charon_*.deb strongswan-pki libcharon-extauth-plugins libcharon-extra-plugins" frr "etcd-server openssl")

# two_sites ADDRESS_A ADDRESS_B: the machines a and b with a cable between them.
two_sites() {
  add_namespace site-a site-b
  cable site-a wan0 "$1" site-b wan0 "$2"
  machine "site-a@${1%/*}" "site-b@${2%/*}"
}
way_static() {
  what="static keys"
  two_sites 192.0.2.1/24 192.0.2.2/24
  for site in site-a site-b; do follows $site guide/first-tunnel.md install; done
  follows site-a guide/first-tunnel.md init
  follows site-a guide/first-tunnel.md copy
  for site in site-a site-b; do follows $site guide/first-tunnel.md run; done
  reached site-a -I 10.1.0.1 10.2.0.1
}
way_ipv6() {
  what="static keys, IPv6 alone"
  two_sites 2001:db8::1/64 2001:db8::2/64
  for site in site-a site-b; do follows $site guide/first-tunnel.md install; done
  follows site-a guide/first-tunnel.md init-ipv6
  for site in site-a site-b; do follows $site guide/first-tunnel.md run; done
  reached site-a -I fd00:1::1 fd00:2::1
}
way_nat() {
  what="static keys, one gateway behind a NAT"
  add_namespace site-a site-b setups-nat
  cable site-a wan0 10.0.0.2/24 setups-nat lan 10.0.0.1/24
  cable setups-nat wan 192.0.2.1/24 site-b wan0 198.51.100.1/24
  ip -n site-a route add default via 10.0.0.1
  ip -n setups-nat route add 198.51.100.0/24 dev wan
  ip -n site-b route add default dev wan0
  forward setups-nat
  in_ns setups-nat nft -f - <<'END'
table ip nat { chain out { type nat hook postrouting priority srcnat; oifname "wan" masquerade random; }; }
END
  machine site-a@10.0.0.2 site-b@198.51.100.1
  for site in site-a site-b; do follows $site guide/first-tunnel.md install; done
  follows site-b guide/nat.md init
  follows site-a guide/nat.md fetch
  for site in site-a site-b; do follows $site guide/first-tunnel.md run; done
  reached site-a -I 10.101.1.1 10.102.1.1
}
way_psk() {
  what="pre-shared keys by strongSwan"
  two_sites 192.0.2.1/24 192.0.2.2/24
  for site in site-a site-b; do follows $site guide/strongswan.md install; done
  follows site-a guide/strongswan.md init
  for site in site-a site-b; do follows $site guide/strongswan.md start; done
  reached site-a -I 10.1.0.1 10.2.0.1
}
way_certificates() {
  what="certificates by strongSwan"
  two_sites 192.0.2.1/24 192.0.2.2/24
  for site in site-a site-b; do follows $site guide/strongswan.md install; done
  follows site-a guide/strongswan.md ca
  follows site-a guide/strongswan.md init '/^scp/d'
  follows site-a guide/strongswan.md pubkey
  follows site-a guide/strongswan.md init '/^convoy/d'
  for site in site-a site-b; do follows $site guide/strongswan.md start; done
  reached site-a -I 10.1.0.1 10.2.0.1
  enter site-a journalctl -q -o cat -u strongswan | contains "authentication of 'site-b' with ECDSA" || fail "site-b has no certificate"
}
# The client is Debian's strongSwan with its ESP in userspace, which has no ESN: this machine's
# kernel may have no ESP.
way_road_warrior() {
  what="a road warrior with a certificate"
  add_namespace gateway laptop
  cable gateway wan0 192.0.2.1/24 laptop wan0 192.0.2.9/24
  machine gateway@192.0.2.1 laptop@laptop
  local page=guide/road-warriors.md
  follows gateway guide/strongswan.md install
  follows gateway $page packages
  writes gateway /etc/convoy/convoy.toml 600 $page convoy.toml
  writes gateway /etc/swanctl/conf.d/road-warriors.conf 600 $page gateway.conf
  for step in ca install client; do follows gateway $page $step; done
  follows gateway guide/strongswan.md start
  follows gateway $page client-copy
  follows laptop $page client-install
  enter laptop sh -c 'apt-get -q install libcharon-extra-plugins >/dev/null 2>&1
    sed -i "s/load = no/load = yes/" /etc/strongswan.d/charon/kernel-libipsec.conf' || fail "no ESP for the laptop"
  writes laptop /etc/swanctl/conf.d/office.conf 600 $page certificate.conf sed 's/-esn-noesn//'
  types laptop "systemctl restart strongswan"
  reached laptop 10.1.0.1
}
# Of the page's two peers, gateway a has the first one.
way_bgp() {
  what="BGP over a tunnel with an interface of its own"
  add_namespace site-a site-b setups-hosts
  cable site-a wan0 192.0.2.1/24 site-b wan0 192.0.2.2/24
  cable site-a lan0 10.1.0.1/24 setups-hosts host-a ""
  cable site-b lan0 10.2.0.1/24 setups-hosts host-b ""
  machine site-a@192.0.2.1 site-b@192.0.2.2
  for site in site-a site-b; do
    follows $site guide/interfaces.md install
    writes $site /etc/convoy/convoy.toml 600 guide/interfaces.md configuration ${site/site-/bgp_}
    writes $site /etc/frr/frr.conf 640 guide/interfaces.md frr.conf ${site/site-/bgp_}
    follows $site guide/interfaces.md start
  done
  reached site-a -I 10.1.0.1 10.2.0.1
}
bgp_a() { sed '/169\.254\.2\.2/d'; }
bgp_b() {
  bgp_a | sed -E 's/192\.0\.2\.1"/LEFT"/; s/192\.0\.2\.2"/192.0.2.1"/; s/LEFT"/192.0.2.2"/; s/ipsec-b/ipsec-a/; s/name = "b"/name = "a"/
    s#169\.254\.1\.1/#169.254.1.2/#; s#fd00:ab::1/#fd00:ab::2/#; s/0x1001/LEFT/; s/0x1002/0x1001/; s/LEFT/0x1002/
    s/^key_in/LEFT/; s/^key_out/key_in/; s/^LEFT/key_out/; s/bgp 65001/bgp 65002/; s/10\.1\.0\./10.2.0./
    s/neighbor 169\.254\.1\.2/neighbor 169.254.1.1/; s/remote-as 65002/remote-as 65001/'
}
way_cluster() {
  local page=operation/high-availability.md name host
  what="two gateways that share a tunnel, until a failover"
  add_namespace setups-net gw-1 gw-2 etcd-1 etcd-2 etcd-3 site-b
  for name in wan lan mgmt; do
    ip -n setups-net link add $name type bridge
    ip -n setups-net link set $name up
  done
  for host in 1 2; do
    plug gw-$host eth0 wan 192.0.2.1$host/24
    plug gw-$host eth1 lan 10.1.0.1$host/24
    plug gw-$host eth2 mgmt 10.9.0.$host/24
  done
  for host in 1 2 3; do plug etcd-$host eth0 mgmt 10.9.0.$((host + 2))/24; done
  plug site-b eth0 wan 192.0.2.2/24
  machine gw-1@10.9.0.1 gw-2@10.9.0.2 etcd-1@10.9.0.3 etcd-2@10.9.0.4 etcd-3@10.9.0.5 site-b@192.0.2.2
  follows gw-1 $page certificates
  follows gw-1 $page etcd-files
  for host in 1 2 3; do follows etcd-$host $page etcd; done
  for name in gw-1 gw-2 site-b; do follows $name guide/first-tunnel.md install; done
  follows gw-1 $page tunnel
  writes gw-1 /etc/convoy/convoy.toml 600 $page cluster
  follows gw-1 $page gateways
  for name in gw-1 gw-2 site-b; do follows $name $page start; done
  reached site-b -I 10.2.0.1 10.1.0.10
  failover
}
plug() { # namespace device bridge address
  cable "$1" "$2" "$4" setups-net "$1-$2" ""
  ip -n setups-net link set "$1-$2" master "$3"
}
is_led() { enter "$1" convoy show cluster --json | grep -q '"is_led": *true'; } # gateway
# Once both gateways are there, stops the leader while 50 pings a second pass.
failover() {
  local pings leader=gw-1 other=gw-2
  wait_until "gw-2 does not stand by" eval "enter gw-2 journalctl -q -o cat -u convoy | contains ' ready\$'"
  is_led gw-1 || leader=gw-2 other=gw-1
  wait_until "no gateway leads" is_led $leader
  enter site-b ping -D -i 0.02 -I 10.2.0.1 10.1.0.10 >"$work/pings" 2>&1 & pings=$!
  sleep 1
  follows $leader operation/high-availability.md stop
  wait_until "$other does not lead" is_led $other
  reached site-b -I 10.2.0.1 10.1.0.10
  sleep 1
  enter site-b pkill -INT -x ping
  wait $pings || true
  ok "$leader is stopped under ping: at most $(sed -n 's/^\[\([0-9.]*\)\] .*bytes from.*/\1/p' "$work/pings" |
    awk 'NR > 1 && $1 - last > most { most = $1 - last } { last = $1 } END { printf "%.2f", most }') s without an answer"
}
