"""Measures TCP through AGGFRAG mode (IP-TFS) by the inside interface's MTU and the loss on the path,
beside tunnel mode with the MTU that fits the path, in turns.

Uses the namespaces of peers.py. Prints Markdown with medians over the rounds.
"""

import argparse
import statistics
import sys

import iptfs
import peers
from kinds import Convoy
from sites import NAMESPACES, Sites, run

# Mode and MTU inside; 1,438 is the longest packet that tunnel mode carries whole over 1,500 bytes.
KINDS = (("tunnel", 1438), ("iptfs", 1400), ("iptfs", 1434), ("iptfs", 9000), ("iptfs", 65_535))
LOSSES = ("0", "0.01", "0.1", "1")


def measure(binary: str, mode: str, mtu: int, loss: str, folder) -> tuple[float, float]:
    """Gbit/s, and ns of CPU time of both gateways a byte."""
    sites = Sites(folder)
    try:
        # Each outer packet goes by itself, so that each is lost by itself.
        iptfs.without_offloads(sites)
        for name in NAMESPACES:
            run("ip", "netns", "exec", name, "nft", "add table ip loss")
            run("ip", "netns", "exec", name, "nft", "add chain ip loss input { type filter hook input priority -300; }")
            if share := round(float(loss) * 100):
                run("ip", "netns", "exec", name, "nft", f"add rule ip loss input udp dport 4500 numgen random mod 10000 < {share} drop")
        Convoy(binary, "udp", mode=mode).start(sites, mtu)
        sites.wait("an answered ping", sites.answers, 20)
        gbit, ns_byte, _ = peers.tcp(sites, 1)
        return gbit, ns_byte
    finally:
        sites.remove()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--convoy", required=True, help="the program")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found: dict[tuple[str, int, str], list[tuple[float, float]]] = {}
    with peers.workplace() as (work, _):
        steps = [(number, loss, kind) for number in range(options.rounds) for loss in LOSSES for kind in KINDS]
        for done, (number, loss, (mode, mtu)) in enumerate(steps):
            print(f"[{done + 1}/{len(steps)}] round {number + 1}: {mode}, MTU {mtu}, loss {loss} %", file=sys.stderr, flush=True)
            folder = work / str(done)
            folder.mkdir()
            found.setdefault((mode, mtu, loss), []).append(measure(options.convoy, mode, mtu, loss, folder))
    print("| mode | MTU inside | " + " | ".join(f"loss {loss} %" for loss in LOSSES) + " |\n" + "| --- " * (2 + len(LOSSES)) + "|")
    for mode, mtu in KINDS:
        cells = []
        for loss in LOSSES:
            gbit, ns_byte = (statistics.median(values) for values in zip(*found[mode, mtu, loss]))
            cells.append(f"{gbit:.2f} Gbit/s, {ns_byte:.2f} ns/B")
        print(f"| {mode} | {mtu} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
