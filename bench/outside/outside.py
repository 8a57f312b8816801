"""Measures gateways of every kind with one tester: `convoy-lab bench throughput` through two sites that
each have a gateway.

The sites, and how each kind of gateway is started, come from bench/peers. The tester uses UDP
sockets in the sites' namespaces, or acts as a host connected to each site (`--ends af_packet` or
`af_xdp`). Prints the rates, and writes the complete reports of each kind as JSON. The time is
divided among the tests. `~` marks a rate whose search had not finished by then, `≥` one that the
tester itself could not exceed.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "peers"))

from kinds import Convoy, StrongSwan, WireGuard  # noqa: E402
from sites import INNER, NAMESPACES, NETWORKS, OUTER, Sites, run  # noqa: E402

MTU = 1400
ENDS = ("udp", "af_packet", "af_xdp")
# A site's interface to its host.
LAN = "lan0"
# Approximate time that a gateway takes to start, and the shortest time for a test of it, in
# seconds.
START_SECONDS, LEAST_SECONDS = 3.0, 5.0


class Hosts:
    """A host connected to each site, over a link whose addresses are not in the tunnel's
    networks."""

    NAMES = ("convoy-outside-a", "convoy-outside-b")
    ADDRESSES = ("10.1.0.10", "10.2.0.10")

    def __init__(self, sites: Sites) -> None:
        self.remove()
        for site, name in enumerate(self.NAMES):
            gate, own = f"10.{site + 1}.9.1", f"10.{site + 1}.9.2"
            run("ip", "netns", "add", name)
            run("ip", "link", "add", LAN, "netns", NAMESPACES[site], "type", "veth", "peer", "name", "eth0", "netns", name)
            sites.ip(site, "addr", "add", f"{gate}/24", "dev", LAN)
            sites.ip(site, "link", "set", LAN, "up")
            run("ip", "-n", name, "addr", "add", f"{own}/24", "dev", "eth0")
            run("ip", "-n", name, "addr", "add", f"{self.ADDRESSES[site]}/32", "dev", "eth0")
            run("ip", "-n", name, "link", "set", "eth0", "up")
            run("ip", "-n", name, "route", "add", "default", "via", gate)
            sites.ip(site, "route", "add", f"{self.ADDRESSES[site]}/32", "via", own)
            run("ip", "netns", "exec", NAMESPACES[site], "sysctl", "-qw", "net.ipv4.ip_forward=1")

    def answer(self) -> bool:
        command = ("ip", "netns", "exec", self.NAMES[0], "ping", "-c", "1", "-W", "1", "-I", self.ADDRESSES[0], self.ADDRESSES[1])
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def remove(self) -> None:
        for name in self.NAMES:
            run("ip", "netns", "del", name, check=False)


class Plain:
    """No gateway: the kernel forwards between the sites, which shows the tester's own limit."""

    def start(self, sites: Sites, mtu: int) -> None:
        for site in (0, 1):
            sites.ip(site, "addr", "add", f"{INNER[site]}/32", "dev", "lo")
            sites.ip(site, "route", "add", NETWORKS[1 - site], "via", OUTER[1 - site], "src", INNER[site], "mtu", str(mtu))


def kinds(options: argparse.Namespace) -> dict[str, object]:
    """The requested kinds, or all kinds that support these ends."""
    folder = options.bin / "bin"
    every: dict[str, object] = {
        "no gateway": Plain(),
        "convoy udp": Convoy(options.convoy, "udp"),
        "convoy raw": Convoy(options.convoy, "raw"),
        "strongSwan kernel-libipsec": StrongSwan(),
        "wireguard-go": WireGuard([str(folder / "wireguard"), "-f"]),
        "boringtun": WireGuard([str(folder / "boringtun-cli"), "--foreground", "--disable-drop-privileges"]),
        "gotatun": WireGuard([str(folder / "gotatun"), "--foreground", "--disable-drop-privileges"]),
    }
    if options.ends != "udp":
        # A gateway that takes over the interface to its host.
        for port in ("af_packet", "af_xdp"):
            every[f"convoy {port} on both sides"] = Convoy(options.convoy, port, inside=LAN)
    wanted = options.only.split(",") if options.only else list(every)
    unknown = [name for name in wanted if name not in every]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(every)}")
    return {name: every[name] for name in wanted}


def measure(kind, folder: pathlib.Path, options: argparse.Namespace, seconds: float) -> dict:
    """The report of `convoy-lab bench throughput` through one kind of gateway; takes at most `seconds`
    once the gateway works."""
    sites = Sites(folder)
    hosts = Hosts(sites) if options.ends != "udp" else None
    try:
        kind.start(sites, MTU)
        sites.wait("an answered ping", hosts.answer if hosts else sites.answers, 20)
        if hosts:
            ends = [f"{options.ends}:{name}/eth0={address}" for name, address in zip(hosts.NAMES, hosts.ADDRESSES)]
        else:
            ends = [f"udp:{NAMESPACES[site]}/{INNER[site]}" for site in (0, 1)]
        command = [options.convoy, "bench", "throughput", "--near", ends[0], "--far", ends[1], "--json"]
        command += ["--lengths", options.lengths, "--most", str(options.most), "--trial", str(options.trial)]
        command += ["--within", str(max(seconds, LEAST_SECONDS)), *options.more]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return json.loads(done.stdout)
    finally:
        sites.remove()
        if hosts:
            hosts.remove()


def mark(found: list[dict]) -> str:
    """Notes about rates that were measured in several rounds."""
    if not all(rate["is_settled"] for rate in found):
        return "~ "
    return "≥ " if any(rate["is_limited_by_tester"] for rate in found) else ""


def cell(values: list[float], scale: float, sign: str = "") -> str:
    """The median, with the lowest and highest value if there are several."""
    if not values:
        return f"{sign}none"
    middle = f"{sign}{statistics.median(values) / scale:.3g}"
    return middle if len(values) == 1 else f"{middle} ({min(values) / scale:.3g} to {max(values) / scale:.3g})"


def table(results: dict[str, list[dict]]) -> str:
    lines = [
        "| | bytes | NDR, kpps | PDR, kpps | flooded, kpps | p50 at half of the rate, us | p99, us | n |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, told in results.items():
        reports = [report for one in told for round_reports in one["rounds"] for report in round_reports]
        for length in dict.fromkeys(report["lengths"] for report in reports):
            of_length = [report for report in reports if report["lengths"] == length]

            def values(read) -> list[float]:
                return [value for value in map(read, of_length) if value is not None]

            def latency(quantile: str) -> list[float]:
                at_half = [at for report in of_length for at in report["latency"] if at["part"] == 0.5]
                return [at["latency"][quantile] for at in at_half]

            cells = [
                cell(values(lambda report: report["ndr"]["packets_per_second"]), 1e3, mark([report["ndr"] for report in of_length])),
                cell(values(lambda report: report["pdr"]["packets_per_second"]), 1e3, mark([report["pdr"] for report in of_length])),
                cell(values(lambda report: report["most_received_per_second"]), 1e3),
                cell(latency("p50_us"), 1),
                cell(latency("p99_us"), 1),
            ]
            lines.append(f"| {name} | {length} | {' | '.join(cells)} | {len(of_length)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--convoy", required=True, help="the program")
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("target/peers"), help="folder of bench/peers/install.sh")
    parser.add_argument("--only", help="kinds, separated by commas")
    parser.add_argument("--ends", choices=ENDS, default="udp", help="the tester's ends: in the sites, or hosts behind them")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=14, help="what all tests take at most, about")
    parser.add_argument("--trial", type=float, default=0.2, help="length of a trial, in seconds")
    parser.add_argument("--lengths", default="64,512,1280", help="packet lengths; none is longer than 1400 bytes")
    parser.add_argument("--most", type=float, default=1_000_000, help="the highest rate to try, in packets/s")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("more", nargs="*", help="more options of convoy-lab bench throughput, after --")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("run this as root: it makes network namespaces")
    chosen = kinds(options)
    results: dict[str, list[dict]] = {name: [] for name in chosen}
    with tempfile.TemporaryDirectory() as work:
        steps = [(number, name) for number in range(options.rounds) for name in chosen]
        end = time.monotonic() + options.minutes * 60
        for done, (number, name) in enumerate(steps):
            left = end - time.monotonic()
            print(f"[{done + 1}/{len(steps)}] round {number + 1}: {name}, at most about {left / 60:.0f} min left", file=sys.stderr, flush=True)
            folder = pathlib.Path(work) / str(done)
            folder.mkdir()
            results[name].append(measure(chosen[name], folder, options, left / (len(steps) - done) - START_SECONDS))
    print(table(results))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
