"""Measures how many system calls gathering packets saves: convoy with a window of 1, 32 and 64
packets, and with whole bursts.

Uses two gateways in the namespaces of peers.py, in turns. The kernel's tracepoints count the system
calls, so packets per call hardly depend on other load of the machine, unlike CPU time. Prints a
table of medians over the rounds.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys

import peers
from kinds import Convoy
from sites import INNER, Sites, inside

# By default the engines of the worker's core take whole bursts; a window only gathers packets if
# they may wait for it.
SETTINGS = {
    "window 1": "window = 1",
    "window 32, waiting up to 50 us": "window = 32\nmax_wait_us = 50",
    "window 64, waiting up to 50 us": "window = 64\nmax_wait_us = 50",
    "whole bursts (the default)": "",
}
UDP_RATE = 40_000
UDP_SECONDS = 2.0
# Payloads without IP and UDP headers. IMIX consists of seven packets of 64 bytes, four of 576 and
# one that fills the inner MTU.
SMALL = ["36"]
IMIX = ["36", "548", "36", "36", "548", "36", "36", "548", "36", "36", "548", "1372"]
SENDS = ("sendmmsg", "sendmsg", "sendto")
WRITES = ("write", "writev")
CALLS = SENDS + WRITES + ("read", "readv", "recvmmsg", "recvmsg", "recvfrom", "epoll_pwait", "epoll_pwait2", "epoll_wait")
COLUMNS = ("packets a send outside", "packets a write inside", "calls of both a packet", "CPU of both, ns a packet")


def counted(processes: list[int], action) -> dict[str, int]:
    """The number of system calls of all processes while the action runs."""
    events = ",".join(f"syscalls:sys_enter_{call}" for call in CALLS)
    watched = ",".join(str(process) for process in processes)
    watcher = subprocess.Popen(
        ["perf", "stat", "-x", ";", "-e", events, "-p", watched], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        # perf counts nothing until it has started.
        subprocess.run(["sleep", "0.3"], check=True)
        action()
    finally:
        watcher.send_signal(2)
        _, said = watcher.communicate()
    lines = [line.split(";") for line in said.splitlines() if ":sys_enter_" in line]
    if len(lines) != len(CALLS):
        raise RuntimeError(f"perf did not count: {said}")
    return {line[2].rpartition("sys_enter_")[2]: int(line[0]) for line in lines}


def measure(binary: str, scheduler: str, folder: pathlib.Path, blast: str) -> dict[str, tuple[float, ...]]:
    sites = Sites(folder)
    try:
        Convoy(binary, "udp", scheduler=scheduler).start(sites, peers.MTU)
        sites.wait("an answered ping", sites.answers, 20)
        traffics = {
            "64-byte UDP": lambda: peers.udp(sites, blast, UDP_RATE, UDP_SECONDS, SMALL),
            "IMIX": lambda: peers.udp(sites, blast, UDP_RATE, UDP_SECONDS, IMIX),
            "TCP, one flow": lambda: peers.tcp(sites, 1),
        }
        return {name: ratios(sites, binary, folder, traffic) for name, traffic in traffics.items()}
    finally:
        sites.remove()


def ratios(sites: Sites, binary: str, folder: pathlib.Path, traffic) -> tuple[float, ...]:
    def packets() -> int:
        return sum(peers.sent_packets(binary, folder, site, port) for site in (0, 1) for port in ("inside", "outside"))

    before, cpu = packets(), sites.cpu_seconds()
    calls = counted(sites.processes(), traffic)
    # Each packet is sent outside once and inside once.
    carried, spent = (packets() - before) / 2, sites.cpu_seconds() - cpu
    sends, writes = (sum(calls[call] for call in of) for of in (SENDS, WRITES))
    return carried / sends, carried / writes, sum(calls.values()) / carried, spent * 1e9 / carried


def shown(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--convoy", required=True, help="the program")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    results: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    with peers.workplace() as (work, blast):
        steps = [(number, name) for number in range(options.rounds) for name in SETTINGS]
        for done, (number, name) in enumerate(steps):
            print(f"[{done + 1}/{len(steps)}] round {number + 1}: {name}", file=sys.stderr, flush=True)
            folder = work / str(done)
            folder.mkdir()
            for traffic, values in measure(options.convoy, SETTINGS[name], folder, blast).items():
                results.setdefault((traffic, name), []).append(values)
    print("| | | " + " | ".join(COLUMNS) + " |\n" + "| --- " * (2 + len(COLUMNS)) + "|")
    for (traffic, name), rounds in sorted(results.items(), key=lambda item: item[0][0]):
        cells = []
        for column in zip(*rounds):
            low, high = min(column), max(column)
            cells.append(" ".join((shown(statistics.median(column)), f"({shown(low)} to {shown(high)})")))
        print(f"| {traffic} | {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
