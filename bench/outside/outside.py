"""One tester for every gateway: `convoy bench throughput` through two sites, each of which has a gateway of some kind.

The sites and how each kind is brought up are those of bench/peers. The tester has a UDP socket in either site's namespace. Prints
the rates, and writes each kind's whole reports as JSON.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "peers"))

from kinds import Convoy, StrongSwan, WireGuard  # noqa: E402
from sites import INNER, NAMESPACES, OUTER, Sites  # noqa: E402

MTU = 1400


class Plain:
    """No gateway: the kernel forwards from site to site, which is what the tester itself can do."""

    def start(self, sites: Sites, mtu: int) -> None:
        for site in (0, 1):
            sites.ip(site, "addr", "add", f"{INNER[site]}/32", "dev", "lo")
            sites.ip(site, "route", "add", f"{INNER[1 - site]}/32", "via", OUTER[1 - site], "src", INNER[site], "mtu", str(mtu))


def kinds(options: argparse.Namespace) -> dict[str, object]:
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
    wanted = options.only.split(",") if options.only else list(every)
    unknown = [name for name in wanted if name not in every]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(every)}")
    return {name: every[name] for name in wanted}


def measure(kind, folder: pathlib.Path, options: argparse.Namespace) -> dict:
    """The report of `convoy bench throughput` through one kind of gateway."""
    sites = Sites(folder)
    try:
        kind.start(sites, MTU)
        sites.wait("an answered ping", sites.answers, 20)
        ends = [f"udp:{NAMESPACES[site]}/{INNER[site]}" for site in (0, 1)]
        command = [options.convoy, "bench", "throughput", "--near", ends[0], "--far", ends[1], "--json"]
        command += ["--lengths", options.lengths, "--most", str(options.most), *options.more]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return json.loads(done.stdout)
    finally:
        sites.remove()


def cell(values: list[float], scale: float) -> str:
    """The median, and the least and greatest where there are several."""
    if not values:
        return "none"
    middle = f"{statistics.median(values) / scale:.3g}"
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
                cell(values(lambda report: report["ndr"]["packets_per_second"]), 1e3),
                cell(values(lambda report: report["pdr"]["packets_per_second"]), 1e3),
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
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lengths", default="64,512,1280", help="packet lengths; none is longer than 1400 bytes")
    parser.add_argument("--most", type=float, default=1_000_000, help="the highest rate to try, in packets/s")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("more", nargs="*", help="more options of convoy bench throughput, after --")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("run this as root: it makes network namespaces")
    chosen = kinds(options)
    results: dict[str, list[dict]] = {name: [] for name in chosen}
    with tempfile.TemporaryDirectory() as work:
        steps = [(number, name) for number in range(options.rounds) for name in chosen]
        for done, (number, name) in enumerate(steps):
            print(f"[{done + 1}/{len(steps)}] round {number + 1}: {name}", file=sys.stderr, flush=True)
            folder = pathlib.Path(work) / str(done)
            folder.mkdir()
            results[name].append(measure(chosen[name], folder, options))
    print(table(results))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
