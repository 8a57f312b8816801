#!/usr/bin/env python3
"""Writes the configurations of two gateways of a cluster (g1.toml, g2.toml) and of their peer
(peer.toml), which share tunnels with static keys: tunnel I covers 10.2.X.Y/32, where X.Y is I.
usage: configure.py FOLDER TUNNELS LEASE_S [ENDPOINT...]
   or: configure.py --tunnel NUMBER, which prints one for a gateway of the cluster, with other keys
Optional variables: PROPOSAL (aes128gcm16), STATE (FOLDER/state-NUMBER), the state file of the
cluster's gateways, and CLUSTER and PEER, more lines of [cluster] and of the peer's [gateway]."""
import os
import sys

KEY_BYTES = {"aes128gcm16": 20, "aes128-sha256": 48}


def key(proposal):
    return os.urandom(KEY_BYTES[proposal]).hex()


def tunnel(number, proposal, keys, is_peer):
    ends, networks = ("192.0.2.10", "192.0.2.2"), ("10.1.0.0/24", f"10.2.{number >> 8}.{number & 255}/32")
    spis = (0x100000 + number, 0x200000 + number)
    local, remote = (1, 0) if is_peer else (0, 1)
    return f"""[[tunnel]]
name = "tunnel-{number}"
local = "{ends[local]}"
remote = "{ends[remote]}"
local_ts = ["{networks[local]}"]
remote_ts = ["{networks[remote]}"]
esp_proposal = "{proposal}"
encap = "udp"
[tunnel.manual]
spi_in = {spis[local]}
spi_out = {spis[remote]}
key_in = "{keys[local]}"
key_out = "{keys[remote]}"
"""


def gateway(folder, number, lease_s, endpoints, more):
    state = os.environ.get("STATE", f"{folder}/state-{number}")
    return f"""[gateway]
control = "{folder}/g{number}.sock"
state = "{state}"
user = "root"
[cluster]
name = "test"
member = "g{number}"
endpoints = [{", ".join(f'"{endpoint}"' for endpoint in endpoints)}]
ca = "{folder}/ca.pem"
certificate = "{folder}/member.pem"
key = "{folder}/member.key"
secret = "{folder}/cluster.key"
addresses = ["10.1.0.10/24 dev lan", "192.0.2.10/24 dev wan"]
priority = {100 - number}
lease_s = {lease_s}
{more}
[[port]]
name = "inside"
kind = "tun"
device = "convoy0"
[[port]]
name = "outside"
kind = "udp"
address = ["0.0.0.0"]
"""


def peer(folder, more):
    return f"""[gateway]
control = "{folder}/peer.sock"
state = ""
user = "root"
{more}
[[port]]
name = "inside"
kind = "tun"
device = "convoy0"
address = ["10.2.0.1/32"]
[[port]]
name = "outside"
kind = "udp"
address = ["192.0.2.2"]
"""


def main(folder, tunnels, lease_s, *endpoints):
    proposal = os.environ.get("PROPOSAL", "aes128gcm16")
    numbers = range(1, int(tunnels) + 1)
    keys = {number: (key(proposal), key(proposal)) for number in numbers}
    tunnels_of = {is_peer: "".join(tunnel(number, proposal, keys[number], is_peer) for number in numbers) for is_peer in (False, True)}
    os.umask(0o077)
    files = {f"g{number}": gateway(folder, number, lease_s, endpoints, os.environ.get("CLUSTER", "")) for number in (1, 2)}
    files["peer"] = peer(folder, os.environ.get("PEER", ""))
    for name, text in files.items():
        with open(f"{folder}/{name}.toml", "w") as file:
            file.write(text + tunnels_of[name == "peer"])
    with open(f"{folder}/cluster.key", "w") as file:
        file.write(os.urandom(32).hex() + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "--tunnel":
        print(tunnel(int(sys.argv[2]), "aes128gcm16", (key("aes128gcm16"), key("aes128gcm16")), False))
    else:
        main(*sys.argv[1:])
