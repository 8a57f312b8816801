# shellcheck shell=bash disable=SC2034,SC2154
# A router between A and B that can be a NAT, and certificates. Sourced after lib.sh, with $R set.
routed() {
  local ns side dev address gateway
  add_namespace "$A" "$B" "$R"
  for side in "$A va 192.0.2.1 192.0.2.254" "$B vb 198.51.100.2 198.51.100.254"; do
    read -r ns dev address gateway <<<"$side"
    cable "$ns" "$dev" "$address/24" "$R" "$dev" "$gateway/24"
    ip -n "$ns" route add default via "$gateway"
  done
  ip -n "$B" addr add 10.2.0.1/24 dev lo
  ip netns exec "$R" sysctl -qw net.ipv4.ip_forward=1
  rules 'add table ip watch
    add chain ip watch pre { type filter hook prerouting priority -300; }
    add rule ip watch pre ip daddr 10.0.0.0/8 counter'
}
rules() { ip netns exec "$R" nft "$1"; }
in_clear() { ip netns exec "$R" nft list chain ip watch pre | sed -n 's/.*counter packets \([0-9]*\) .*/\1/p'; }
# nat DEVICE: packets that leave the router there get its address and other ports.
nat() {
  rules "add table ip nat
    add chain ip nat post { type nat hook postrouting priority 100; }
    add rule ip nat post oifname $1 ip protocol udp masquerade to :20000-29999"
}
# rebind DEVICE: the NAT forgets mappings that were unused for a second, and uses other ports from
# then on.
rebind() {
  rules "flush chain ip nat post
    add rule ip nat post oifname $1 ip protocol udp masquerade to :30000-39999"
  ip netns exec "$R" sysctl -qw net.netfilter.nf_conntrack_udp_timeout=1 net.netfilter.nf_conntrack_udp_timeout_stream=1
  ip netns exec "$A" ping -q -c 1 -I 10.1.0.1 10.2.0.1 >/dev/null
  sleep 1.3
  remember
}
remember() { ip netns exec "$R" sysctl -qw net.netfilter.nf_conntrack_udp_timeout=30 net.netfilter.nf_conntrack_udp_timeout_stream=120; }
no_nat() { rules "delete table ip nat"; }

# certificates KIND...: a CA of each kind (rsa, ecdsa), and a certificate for each side.
certificates() {
  local kind side key
  for side in a b; do mkdir -p "$work/$side/x509" "$work/$side/x509ca" "$work/$side/private"; done
  for kind in "$@"; do
    key="-newkey rsa:2048"; [ "$kind" = rsa ] || key="-newkey ec -pkeyopt ec_paramgen_curve:P-256"
    # shellcheck disable=SC2086 # several words
    openssl req -x509 $key -nodes -days 1 -subj "/CN=ca-$kind" -keyout "$work/ca.key" -out "$work/ca-$kind.pem" 2>"$work/openssl"
    for side in a b; do
      # shellcheck disable=SC2086
      openssl req $key -nodes -subj "/CN=$side.example" -keyout "$work/$side/private/$side-$kind.pem" -out "$work/request" 2>>"$work/openssl"
      openssl x509 -req -in "$work/request" -days 1 -CA "$work/ca-$kind.pem" -CAkey "$work/ca.key" -CAcreateserial \
        -extfile <(echo "subjectAltName=DNS:$side.example") -out "$work/$side/x509/$side-$kind.pem" 2>>"$work/openssl"
      cp "$work/ca-$kind.pem" "$work/$side/x509ca/"
    done
  done
}
