"""What is compared: how each kind of gateway is set up in the guest, between two hosts behind them.

    h1 10.1.0.10 --- 10.1.0.1 ga 192.0.2.1 === 192.0.2.2 gb 10.2.0.1 --- 10.2.0.10 h2
"""

import base64
import secrets

# The way between the gateways takes an inner packet of 1,500 bytes whole.
LINKS = """
set -e
mkdir -p /var; ln -sfn /run /var/run
for ns in h1 ga gb h2; do ip netns add $ns; ip -n $ns link set lo up; done
ip link add eth0 netns h1 type veth peer name lan netns ga
ip link add eth0 netns h2 type veth peer name lan netns gb
ip link add wan netns ga type veth peer name wan netns gb
for at in "h1 eth0" "h2 eth0" "ga lan" "gb lan" "ga wan" "gb wan"; do
  set -- $at
  [ $2 != wan ] || ip -n $1 link set wan mtu 1600
  ip netns exec $1 sysctl -qw net.ipv6.conf.$2.disable_ipv6=1
  ip -n $1 link set $2 up
done
ip -n h1 addr add 10.1.0.10/24 dev eth0
ip -n h2 addr add 10.2.0.10/24 dev eth0
ip -n h1 route add default via 10.1.0.1
ip -n h2 route add default via 10.2.0.1
ip -n ga addr add 10.1.0.1/24 dev lan
ip -n gb addr add 10.2.0.1/24 dev lan
ip -n ga addr add 192.0.2.1/24 dev wan
ip -n gb addr add 192.0.2.2/24 dev wan
"""
FORWARD = """
for ns in ga gb; do ip netns exec $ns sysctl -qw net.ipv4.ip_forward=1; done
ip -n ga route add 10.2.0.0/24 via 192.0.2.2
ip -n gb route add 10.1.0.0/24 via 192.0.2.1
"""
GATEWAYS = (("ga", "192.0.2.1", "192.0.2.2", 1, 2), ("gb", "192.0.2.2", "192.0.2.1", 2, 1))
SPIS = (0x1001, 0x1002)


def write(path: str, text: str) -> str:
    encoded = base64.b64encode(text.encode()).decode()
    return f"echo {encoded} | base64 -d >{path}; chmod 600 {path}\n"


def forwarding() -> str:
    """The floor: both gateways forward, and protect nothing."""
    return LINKS + FORWARD


def xfrm(encap: str) -> str:
    """Linux' own ESP by static keys, with AES-128-GCM and an anti-replay window of 64 packets."""
    script = LINKS + FORWARD
    keys = ["0x" + secrets.token_hex(20) for _ in SPIS]
    if encap:
        for name, *_ in GATEWAYS:
            script += f"ip netns exec {name} espinudp >/tmp/espinudp-{name} 2>&1 &\n"
    for name, local, remote, own, other in GATEWAYS:
        for source, to, spi, key in ((local, remote, SPIS[own - 1], keys[own - 1]), (remote, local, SPIS[other - 1], keys[other - 1])):
            script += f"ip -n {name} xfrm state add src {source} dst {to} proto esp spi {spi} mode tunnel replay-window 64 aead 'rfc4106(gcm(aes))' {key} 128 {encap}\n"
        for way, source, to, own_net, other_net in (("out", local, remote, own, other), ("fwd", remote, local, other, own), ("in", remote, local, other, own)):
            script += f"ip -n {name} xfrm policy add src 10.{own_net}.0.0/24 dst 10.{other_net}.0.0/24 dir {way} tmpl src {source} dst {to} proto esp mode tunnel\n"
    return script


def wireguard() -> str:
    """Linux' own WireGuard: ChaCha20-Poly1305 in UDP."""
    script = LINKS + "for ns in ga gb; do ip netns exec $ns sysctl -qw net.ipv4.ip_forward=1; done\n"
    for name, *_ in GATEWAYS:
        script += f"(umask 077; wg genkey >/convoy/run/{name}.key); wg pubkey </convoy/run/{name}.key >/tmp/{name}.pub\n"
    for (name, _, remote, _, other), peer in zip(GATEWAYS, ("gb", "ga")):
        script += (
            f"ip -n {name} link add wg0 mtu 1500 type wireguard\n"
            f"ip netns exec {name} wg set wg0 listen-port 51820 private-key /run/{name}.key "
            f"peer $(cat /tmp/{peer}.pub) endpoint {remote}:51820 allowed-ips 10.{other}.0.0/24\n"
            f"ip -n {name} link set wg0 up; ip -n {name} route add 10.{other}.0.0/24 dev wg0\n"
        )
    return script


def convoy(port: str) -> str:
    """Two convoys with static keys and the settings that they have by default."""
    keys = [secrets.token_hex(20) for _ in SPIS]
    script = LINKS
    for name, local, remote, own, other in GATEWAYS:
        inside = 'kind = "af_packet"\ninterface = "lan"' if port == "af_packet" else 'kind = "tun"\ndevice = "convoy0"\nmtu = 1500'
        outside = 'kind = "af_packet"\ninterface = "wan"' if port == "af_packet" else f'kind = "{port}"'
        encap = "udp" if port == "udp" else "none"
        script += write(f"/convoy/run/{name}.toml", f"""
[gateway]
control = "/run/{name}.sock"
state = ""
workers = 1
mtu = 1600
[[port]]
name = "inside"
{inside}
address = ["10.{own}.0.1{"" if port == "af_packet" else "/32"}"]
[[port]]
name = "outside"
{outside}
address = ["{local}"]
[[tunnel]]
name = "peer"
local = "{local}"
remote = "{remote}"
local_ts = ["10.{own}.0.0/24"]
remote_ts = ["10.{other}.0.0/24"]
esp_proposal = "aes128gcm16"
encap = "{encap}"
[tunnel.manual]
spi_in = {SPIS[other - 1]}
spi_out = {SPIS[own - 1]}
key_in = "{keys[other - 1]}"
key_out = "{keys[own - 1]}"
""")
        if port != "af_packet":
            script += f"ip netns exec {name} sysctl -qw net.ipv4.ip_forward=1\n"
        script += f"ip netns exec {name} chroot /convoy /bin/convoy run -c /run/{name}.toml >/tmp/{name}.log 2>&1 &\n"
    for name, *_ in GATEWAYS:
        script += f"for i in $(seq 600); do ! grep -q ready /tmp/{name}.log || break; sleep 0.1; done; grep -q ready /tmp/{name}.log || {{ cat /tmp/{name}.log; exit 1; }}\n"
    return script


SYSTEMS = {
    "forwarding": forwarding,
    "Linux ESP": lambda: xfrm(""),
    "Linux ESP in UDP": lambda: xfrm("encap espinudp 4500 4500 0.0.0.0"),
    "Linux WireGuard": wireguard,
    "convoy, udp": lambda: convoy("udp"),
    "convoy, af_packet": lambda: convoy("af_packet"),
}
