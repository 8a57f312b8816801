"""What a second worker costs over the kernel's ports: CPU time per packet with one and two workers, in turns.

Two cores carry two gateways, the senders and the receivers, so that a second worker cannot double
the rate here. It can where cores are free, as long as a packet costs no more with two workers.

usage: workers.py --convoy CONVOY [--rounds N] [--ports udp,raw,...]    root, on an idle machine
"""

import argparse
import contextlib
import pathlib
import statistics
import subprocess
from collections.abc import Iterator

from kinds import ESP_PROPOSAL
from peers import workplace
from sites import INNER, LINKS, NAMESPACES, OUTER, Sites, hex_key, run

# Each worker has this rate, as what a packet costs depends on how many are there when it wakes.
WORKER_RATE, SECONDS, FLOWS, PAYLOAD, PORT = 20_000.0, 3.0, 64, 64, 9000
# Tunnels, and the workers of which each has SAs.
CASES = ((1, 1, 1), (2, 1, 1), (2, 1, 2), (1, 100, 1), (2, 100, 1), (2, 100, 2))


def anywhere(site: int, *command: str) -> tuple[str, ...]:
    """A command in the site's namespace, on any core."""
    return ("ip", "netns", "exec", NAMESPACES[site], *command)


def configuration(sites: Sites, site: int, port: str, workers: int, tunnels: int, resources: int, keys: list[list[str]]) -> str:
    """A gateway's. Tunnel N is to the network 10.2.N.0/24 of the second site."""
    selectors = [("10.1.0.0/16", f"10.2.{number}.0/24") for number in range(tunnels)]
    interface = f'interface = "{LINKS[site]}"' if port.startswith("af_") else ""
    text = f"""
[gateway]
control = "{sites.folder}/site-{site}.sock"
state = ""
workers = {workers}
[[port]]
name = "inside"
kind = "tun"
device = "convoy0"
mtu = 1400
address = ["{INNER[site]}/32"]
[[port]]
name = "outside"
kind = "{port}"
{interface}
address = ["{OUTER[site]}"]
"""
    for number in range(tunnels):
        text += f"""
[[tunnel]]
name = "n{number}"
local = "{OUTER[site]}"
remote = "{OUTER[1 - site]}"
local_ts = ["{selectors[number][site]}"]
remote_ts = ["{selectors[number][1 - site]}"]
esp_proposal = "{ESP_PROPOSAL}"
encap = "{'none' if port == 'raw' else 'udp'}"
[tunnel.manual]
spi_in = {0x10000 + 1000 * number + 100 * site}
spi_out = {0x10000 + 1000 * number + 100 * (1 - site)}
key_in = "{keys[number][site]}"
key_out = "{keys[number][1 - site]}"
resources = {resources}
"""
    return text


@contextlib.contextmanager
def gateways(convoy: str, port: str, case: tuple[int, int, int], folder: pathlib.Path) -> Iterator[Sites]:
    workers, tunnels, resources = case
    sites = Sites(folder)
    try:
        keys = [[hex_key(20), hex_key(20)] for _ in range(tunnels)]
        for site in (0, 1):
            path = folder / f"site-{site}.toml"
            path.write_text(configuration(sites, site, port, workers, tunnels, resources, keys))
            path.chmod(0o600)
            # Sites are pinned to a core each; workers are not to share one.
            sites.start(site, "taskset", "-c", "0-1", convoy, "run", "-c", str(path))
        sites.wait("an answered ping", sites.answers, 20)
        sites.ip(1, "route", "add", "local", "10.2.0.0/16", "dev", "lo")
        yield sites
    finally:
        sites.remove()


def us_a_packet(sites: Sites, blast: str, workers: int, tunnels: int) -> float:
    """CPU time of both gateways for each packet that came."""
    rate = WORKER_RATE * workers
    receiver = subprocess.Popen(anywhere(1, blast, "receive", str(PORT), str(SECONDS + 0.4)), stdout=subprocess.PIPE, text=True)
    receiver.stdout.readline()
    before = sites.cpu_seconds()
    run(*anywhere(0, blast, "send", "10.2.0.1", str(PORT), str(PAYLOAD), str(rate), str(SECONDS), str(FLOWS), str(tunnels)))
    received = int(receiver.communicate()[0])
    if received < 0.99 * rate * SECONDS:
        print(f"only {received} of {rate * SECONDS:.0f} packets came")
    return (sites.cpu_seconds() - before) * 1e6 / max(received, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--convoy", required=True, help="the program")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ports", default="udp,raw,af_packet")
    options = parser.parse_args()
    print("| port | tunnels | SAs of each tunnel | one worker, us | two, us | times the CPU |\n| --- | --: | --- | --: | --: | --: |")
    with workplace() as (folder, blast):
        for port in options.ports.split(","):
            results: dict[tuple[int, int, int], list[float]] = {case: [] for case in CASES}
            for _ in range(options.rounds):
                for case, values in results.items():
                    with gateways(options.convoy, port, case, folder) as sites:
                        us_a_packet(sites, blast, *case[:2])
                        values.append(us_a_packet(sites, blast, *case[:2]))
            medians = {case: statistics.median(values) for case, values in results.items()}
            for workers, tunnels, resources in CASES:
                if workers == 2:
                    one, two = medians[1, tunnels, 1], medians[workers, tunnels, resources]
                    whose = "both workers'" if resources == 2 else "one worker's"
                    print(f"| `{port}` | {tunnels} | {whose} | {one:.2f} | {two:.2f} | {two / one:.2f} |", flush=True)


if __name__ == "__main__":
    main()
