"""Writes the configurations of two gateways with many tunnels with static keys between them.

usage: many.py FOLDER TUNNELS [LINE ...]

FOLDER/1.toml and FOLDER/2.toml have each LINE in [gateway]. Tunnel t of site s connects the host 10.s.(t / 256).(t % 256).
"""

import os
import sys

folder, tunnels, lines = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
os.umask(0o077)
keys = [(os.urandom(20).hex(), os.urandom(20).hex()) for _ in range(tunnels)]


def network(end, tunnel):
    return f"10.{end}.{tunnel >> 8}.{tunnel & 255}/32"


def spi(end, tunnel):
    return end << 20 | tunnel


for site, peer in (1, 2), (2, 1):
    with open(f"{folder}/{site}.toml", "w") as out:
        out.write(f'''[gateway]
control = "{folder}/{site}.sock"
state = ""
metrics = "127.0.0.1:9464"
{chr(10).join(lines)}
[[port]]
name = "inside"
kind = "tun"
device = "convoy0"
address = ["10.{site}.0.1/32"]
[[port]]
name = "outside"
kind = "udp"
address = ["192.0.2.{site}"]
''')
        for tunnel, pair in enumerate(keys):
            out.write(f'''[[tunnel]]
name = "tunnel-{tunnel}"
local = "192.0.2.{site}"
remote = "192.0.2.{peer}"
local_ts = ["{network(site, tunnel)}"]
remote_ts = ["{network(peer, tunnel)}"]
esp_proposal = "aes128gcm16"
encap = "udp"
[tunnel.manual]
spi_in = {spi(site, tunnel)}
spi_out = {spi(peer, tunnel)}
key_in = "{pair[site - 1]}"
key_out = "{pair[peer - 1]}"
''')
