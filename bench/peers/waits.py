"""Measures what it costs when a worker waits, and what gathering packets (`moderation_us`) saves in
CPU time and costs in latency.

Uses two convoy gateways in the namespaces of peers.py, in turns: 64-byte UDP at a steady rate,
pings at the same time, and the highest rate with little loss. Prints a table of medians over the
rounds.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys
import time

import peers
from kinds import Convoy
from sites import INNER, Sites, inside, run

STEADY_SECONDS = 2.0
# A port without a listener, so that only the pings are answered.
DISCARD_PORT = "9"
PINGS, PING_GAP = 500, 0.003
COLUMNS = (
    "CPU of both, us a packet", "sleeps of both a packet", "ping meanwhile, us: median", "99th percentile", "without other traffic: median",
    "highest rate, kpps", "CPU there, us a packet",
)


def sleeps(sites: Sites) -> int:
    """The number of voluntary context switches of both gateways' threads."""
    total = 0
    for process in sites.processes():
        for path in pathlib.Path(f"/proc/{process}/task").glob("*/status"):
            total += int(path.read_text().split("\nvoluntary_ctxt_switches:")[1].split()[0])
    return total


def pings(sites: Sites) -> list[float]:
    """Round-trip times in us, in ascending order."""
    said = run(*inside(0, "ping", "-c", str(PINGS), "-i", str(PING_GAP), "-I", INNER[0], INNER[1]))
    return sorted(float(line.split("time=")[1].split()[0]) * 1e3 for line in said.splitlines() if "time=" in line)


def measure(kind: Convoy, rate: float, folder: pathlib.Path, blast: str) -> tuple[float, ...]:
    sites = Sites(folder)
    try:
        kind.start(sites, peers.MTU)
        sites.wait("an answered ping", sites.answers, 20)
        # Engines are measured in the background after a start.
        time.sleep(1)
        before = sleeps(sites)
        sent, received, us_packet = peers.udp(sites, blast, rate, STEADY_SECONDS)
        slept = sleeps(sites) - before
        if received < sent * (1 - peers.LOSS):
            print(f"{sent - received} of {sent} packets were lost at the steady rate", file=sys.stderr)
        quiet = pings(sites)
        seconds = PINGS * PING_GAP + 1
        load = subprocess.Popen(
            inside(0, blast, "send", INNER[1], DISCARD_PORT, str(peers.PAYLOAD), str(rate), str(seconds)), stdout=subprocess.DEVNULL
        )
        time.sleep(0.2)
        loaded = pings(sites)
        load.wait()
        kpps, us_there = peers.highest_rate(sites, blast)
        percentile = loaded[len(loaded) * 99 // 100]
        medians = statistics.median(loaded), percentile, statistics.median(quiet)
        return us_packet, slept / max(received, 1), *medians, kpps, us_there
    finally:
        sites.remove()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--convoy", required=True, help="the program")
    parser.add_argument("--moderation", default="0,100,200,300,500", help="values of moderation_us, separated by commas")
    parser.add_argument("--rate", type=float, default=peers.STEADY_RATE, help="packets a second")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    times = options.moderation.split(",")
    results: dict[str, list[tuple[float, ...]]] = {time_us: [] for time_us in times}
    with peers.workplace() as (work, blast):
        steps = [(number, time_us) for number in range(options.rounds) for time_us in times]
        for done, (number, time_us) in enumerate(steps):
            print(f"[{done + 1}/{len(steps)}] round {number + 1}: moderation_us = {time_us}", file=sys.stderr, flush=True)
            folder = work / str(done)
            folder.mkdir()
            kind = Convoy(options.convoy, "udp", settings=f"moderation_us = {time_us}")
            results[time_us].append(measure(kind, options.rate, folder, blast))
    print("| moderation_us | " + " | ".join(COLUMNS) + " |\n" + "| --- " * (1 + len(COLUMNS)) + "|")
    for time_us, rounds in results.items():
        columns = [(statistics.median(column), min(column), max(column)) for column in zip(*rounds)]
        cells = [f"{median:.3g} ({low:.3g} to {high:.3g})" for median, low, high in columns]
        print(f"| {time_us} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
