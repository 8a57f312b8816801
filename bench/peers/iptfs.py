"""Measures what AGGFRAG mode (IP-TFS) gains: convoy with it beside convoy in tunnel mode, in turns,
over several kinds of path, and beside wireguard-go.

Uses the namespaces of peers.py: one core per site. Prints Markdown and writes the medians as CSV:
thousands of inner packets a second, Gbit/s of TCP, us of CPU time of both gateways a packet, and ns
a byte of TCP, the share of packets lost, outer packets and their bytes for each inner packet, and
percentiles of pings with nothing else under way.
"""

import argparse
import csv
import pathlib
import re
import statistics
import subprocess
import sys

import peers
from kinds import Convoy, WireGuard
from sites import INNER, LINKS, NAMESPACES, Sites, inside, run

MTU = 1400
SECONDS = 1.5
STEADY_RATE = 40_000
# Payloads without IP and UDP headers, sent in turn. IMIX: seven packets of 64 bytes, four of 576
# and one that fills the inner MTU. Voice: 1,000 calls of 160 bytes and RTP's 12 every 20 ms. DNS:
# queries, and answers that are longer. HDTV: seven packets of a transport stream and RTP's header,
# and packets that fill an Ethernet frame.
WORKLOADS = {
    "64 bytes": ("36", STEADY_RATE),
    "half 64, half 1,400 bytes": ("36,1372", STEADY_RATE),
    "IMIX": ("36,548,36,36,548,36,36,548,36,36,548,1372", STEADY_RATE),
    "voice, 1,000 calls": ("172", 50_000),
    "DNS": ("36,44,120,52,280,40,90,200", STEADY_RATE),
    "HDTV's RTP": ("1328", STEADY_RATE),
    "HDTV's RTP, 1,500 bytes": ("1472", STEADY_RATE),
}
# Workloads with a longer MTU inside than the others.
MTUS = {"HDTV's RTP, 1,500 bytes": 1500}
MODES = {
    "tunnel": {"mode": "tunnel"},
    "iptfs": {"mode": "iptfs"},
    "iptfs, 1 ms": {"mode": "iptfs", "iptfs": "init_delay = 1000"},
}
# Ethernet's preamble, header, checksum and gap around an IP packet, as tc counts them: veth has 14
# of these 38 bytes.
ETHERNET = "24"
PINGS = 300


def no_path(sites: Sites) -> None:
    """The veth pair as it is."""


def without_offloads(sites: Sites) -> None:
    """Each outer packet goes by itself, as on a link that does not take bundles."""
    for site, device in enumerate(LINKS):
        run("ip", "netns", "exec", NAMESPACES[site], "ethtool", "-K", device, "gso", "off", "gro", "off", "tso", "off", "tx-udp-segmentation", "off")


def limited(rate: str):
    def limit(sites: Sites) -> None:
        without_offloads(sites)
        for site, device in enumerate(LINKS):
            # Twice: the inner one counts what Ethernet adds.
            command = ("tc", "qdisc", "add", "dev", device, "root", "handle", "1:", "stab", "overhead", ETHERNET, "mpu", "84", "linklayer", "ethernet")
            run("ip", "netns", "exec", NAMESPACES[site], *command, "tbf", "rate", rate, "burst", "32kb", "latency", "20ms")
    return limit


# Name: the outside port, and what is done to the link.
PATHS = {
    "udp": ("udp", no_path),
    "udp, no offloads of the link": ("udp", without_offloads),
    "raw": ("raw", no_path),
    "af_packet": ("af_packet", no_path),
    "af_xdp": ("af_xdp", no_path),
    "udp, 25 Mbit/s": ("udp", limited("25mbit")),
    "udp, 100 Mbit/s": ("udp", limited("100mbit")),
    "udp, 1 Gbit/s": ("udp", limited("1gbit")),
}
LIMITED = ("udp, 25 Mbit/s", "udp, 100 Mbit/s", "udp, 1 Gbit/s")
# Workloads that such links carry.
SATURATING = ("64 bytes", "IMIX", "half 64, half 1,400 bytes")
# Long enough that what stands in queues at the end does not count.
LIMITED_SECONDS = 4.0


def sent_by(site: int, device: str) -> tuple[int, int]:
    """Packets and bytes that a device of a site has sent."""
    words = run("ip", "netns", "exec", NAMESPACES[site], "cat", *(f"/sys/class/net/{device}/statistics/tx_{what}" for what in ("packets", "bytes")))
    packets, sent = (int(word) for word in words.split())
    return packets, sent


def outer(sites: Sites) -> tuple[int, int]:
    """Packets and bytes that the first site has sent on the link."""
    return sent_by(0, LINKS[0])


def gateway_device(site: int) -> str:
    """The device by which a site reaches the other's network."""
    words = run("ip", "-n", NAMESPACES[site], "-o", "route", "get", INNER[1 - site]).split()
    return words[words.index("dev") + 1]


def latencies(sites: Sites) -> tuple[float, float]:
    """Median and 99th percentile of pings with nothing else under way, in us."""
    said = run(*inside(0, "ping", "-c", str(PINGS), "-i", "0.003", "-s", "36", "-I", INNER[0], INNER[1]))
    times = sorted(float(found) * 1000 for found in re.findall(r"time=([0-9.]+) ms", said))
    return times[len(times) // 2], times[len(times) * 99 // 100]


def workload(sites: Sites, blast: str, name: str, path: str, seconds: float) -> dict[str, float]:
    sizes, rate = WORKLOADS[name]
    payloads = sizes.split(",")
    values: dict[str, float] = {}
    packets, sent_bytes = outer(sites)
    if path in LIMITED:
        return saturated(sites, blast, payloads)
    sent, received, us_packet = peers.udp(sites, blast, rate, seconds, payloads)
    later, later_bytes = outer(sites)
    values["kpps"] = received / seconds / 1e3
    values["us_packet"] = us_packet
    values["loss"] = 1 - received / max(sent, 1)
    values["outer"] = (later - packets) / max(sent, 1)
    values["outer_bytes"] = (later_bytes - sent_bytes) / max(sent, 1)
    return values


def saturated(sites: Sites, blast: str, payloads: list[str]) -> dict[str, float]:
    """What a link carries of more than it can."""
    packets, sent_bytes = outer(sites)
    sent, received, us_packet = peers.udp(sites, blast, 1_000_000, LIMITED_SECONDS, payloads)
    later, later_bytes = outer(sites)
    return {
        # The receiver waits for so much longer, while queues run empty.
        "kpps": received / (LIMITED_SECONDS + 0.4) / 1e3,
        "us_packet": us_packet,
        "loss": 1 - received / max(sent, 1),
        "outer": (later - packets) / max(received, 1),
        "outer_bytes": (later_bytes - sent_bytes) / max(received, 1),
    }


def flood(sites: Sites, blast: str, seconds: float) -> dict[str, float]:
    """As many 64-byte packets as the sender makes."""
    packets, _ = outer(sites)
    sent, received, us_packet = peers.udp(sites, blast, 1_000_000, seconds)
    later, _ = outer(sites)
    return {"kpps": received / seconds / 1e3, "us_packet": us_packet, "outer": (later - packets) / max(received, 1), "loss": 1 - received / max(sent, 1)}


def set_mtu(sites: Sites, mtu: int) -> None:
    for site in (0, 1):
        sites.ip(site, "link", "set", gateway_device(site), "mtu", str(mtu))


def transfer(sites: Sites) -> tuple[dict[str, float], dict[str, float]]:
    """One flow of TCP, and the acknowledgements that its receiver sends meanwhile."""
    counters = ((1, gateway_device(1)), (1, LINKS[1]))
    before = [sent_by(*counter) for counter in counters]
    gbit, ns_byte, _ = peers.tcp(sites, 1)
    inner, outside = ([now - then for now, then in zip(sent_by(*counter), old)] for counter, old in zip(counters, before))
    acknowledgements = max(inner[0], 1)
    return {"gbit": gbit, "ns_byte": ns_byte}, {
        "kpps": inner[0] / peers.TCP_SECONDS / 1e3,
        "outer": outside[0] / acknowledgements,
        "outer_bytes": outside[1] / acknowledgements,
    }


def measure_mode(sites: Sites, path: str, blast: str, seconds: float, only: str) -> dict[str, dict[str, float]]:
    """The values of each workload between gateways that are up."""
    found = {}
    is_limited = path in LIMITED
    for name in WORKLOADS:
        if re.search(only, name) and (not is_limited or name in SATURATING):
            set_mtu(sites, MTUS.get(name, MTU))
            found[name] = workload(sites, blast, name, path, seconds)
    set_mtu(sites, MTU)
    if re.search(only, "64 bytes, flood") and not is_limited:
        found["64 bytes, flood"] = flood(sites, blast, seconds)
    if re.search(only, "TCP, one flow") and not is_limited:
        found["TCP, one flow"], found["TCP, its acknowledgements"] = transfer(sites)
    if re.search(only, "ping"):
        p50, p99 = latencies(sites)
        found["ping"] = {"p50_us": p50, "p99_us": p99}
    return found


def measure_path(binary: str, wireguard: str | None, path: str, folder: pathlib.Path, blast: str, seconds: float, only: str) -> dict:
    """The values of each workload in each mode."""
    port, prepare = PATHS[path]
    kinds = {name: Convoy(binary, port, **mode) for name, mode in MODES.items()}
    if wireguard and port == "udp":
        kinds["wireguard-go"] = WireGuard([wireguard, "-f"])
    found: dict = {}
    for number, (mode, kind) in enumerate(kinds.items()):
        here = folder / str(number)
        here.mkdir(parents=True)
        sites = Sites(here)
        try:
            prepare(sites)
            kind.start(sites, MTU)
            sites.wait("an answered ping", sites.answers, 20)
            values = measure_mode(sites, path, blast, seconds, only)
            found.update({(name, mode): row for name, row in values.items()})
        finally:
            sites.remove()
    return found


COLUMNS = ("kpps", "gbit", "us_packet", "ns_byte", "loss", "outer", "outer_bytes", "p50_us", "p99_us")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--convoy", required=True, help="the program")
    parser.add_argument("--wireguard", help="wireguard-go's program")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--paths", default=".", help="a pattern of their names")
    parser.add_argument("--only", default=".", help="a pattern of workloads")
    parser.add_argument("--csv", type=pathlib.Path)
    options = parser.parse_args()
    paths = [path for path in PATHS if re.search(options.paths, path)]
    results: dict[tuple[str, str, str], list[dict[str, float]]] = {}
    with peers.workplace() as (work, blast):
        steps = [(number, path) for number in range(options.rounds) for path in paths]
        for done, (number, path) in enumerate(steps):
            print(f"[{done + 1}/{len(steps)}] round {number + 1}: {path}", file=sys.stderr, flush=True)
            found = measure_path(options.convoy, options.wireguard, path, work / str(done), blast, options.seconds, options.only)
            for (name, mode), values in found.items():
                results.setdefault((path, name, mode), []).append(values)
    medians = {
        key: {column: statistics.median(values[column] for values in rounds) for column in rounds[0]} for key, rounds in results.items()
    }
    print("| path | workload | mode | " + " | ".join(COLUMNS) + " |\n" + "| --- " * (3 + len(COLUMNS)) + "|")
    for (path, name, mode), values in medians.items():
        cells = [f"{values[column]:.3g}" if column in values else "" for column in COLUMNS]
        print(f"| {path} | {name} | {mode} | " + " | ".join(cells) + " |")
    if options.csv:
        options.csv.parent.mkdir(parents=True, exist_ok=True)
        with options.csv.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["path", "workload", "mode", *COLUMNS])
            for (path, name, mode), values in medians.items():
                writer.writerow([path, name, mode, *(f"{values[column]:.4g}" if column in values else "" for column in COLUMNS)])


if __name__ == "__main__":
    main()
