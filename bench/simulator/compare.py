"""Runs the three simulators on the same packets and compares their results, which must be equal,
and their speed.

Speed is packets per second of processor time, the best of three runs, since machines are shared. It
is given for the whole process, with the trace read from its file, and for the queue alone: for the
baselines without the reading, for convoy as a whole process that draws as many packets from the
same pattern.

usage: compare.py TRACE --packets N --slow-packets N --systemc PROGRAM [--convoy "COMMAND sim run"]
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import runs
import simpy_model

TIMES = 3
# Packets that convoy draws, relative to the trace: enough to make its start negligible.
DRAWN = 10
# The paper's platform, and one with two accelerators and buffers that uses all of the model.
SETTINGS = {
    "W = 30, one accelerator": simpy_model.Setting(),
    "W = 1, one accelerator": simpy_model.Setting(window=1),
    "W = 30, two accelerators, prefetch": simpy_model.Setting(accelerators=2, prefetch=True),
}

Runner = Callable[[simpy_model.Setting, int], dict]


@dataclass
class Measured:
    """A simulator's report, and its best packets per second of processor time."""

    report: dict
    whole_per_s: float
    queue_per_s: float


def fastest(runner: Runner, setting: simpy_model.Setting, packets: int) -> Measured:
    """Repeats a run."""
    reports = [runner(setting, packets) for _ in range(TIMES)]
    whole_per_s = max(packets / report["process_s"] for report in reports)
    queue_per_s = max(report.get("packets_per_second", 0) for report in reports)
    return Measured(reports[0], whole_per_s, queue_per_s)


def runners(trace: Path, systemc: str, convoy: list[str]) -> dict[str, Runner]:
    """The commands of the simulators, the reference first."""
    simpy = [sys.executable, simpy_model.__file__]
    found: dict[str, Runner] = {}
    for name, command in {"SystemC": [systemc], "SimPy": simpy}.items():
        found[name] = lambda setting, packets, command=command: runs.run(
            [*command, "--trace", str(trace), "--packets", str(packets), *runs.options(setting)]
        )
    if convoy:
        found["convoy"] = lambda setting, packets: runs.convoy(convoy, setting, trace, packets)
    return found


def show(name: str, measured: Measured) -> None:
    """One line of the table."""
    report = measured.report
    share = " ".join(f"{one:.4f}" for one in report["share"])
    print(
        f"  {name:8} {report['packets']:>8} {measured.whole_per_s:>12,.0f} {measured.queue_per_s:>12,.0f}"
        f" {report['throughput_mbps']:>10.4f} {report['latency_ms']:>10.6f} {report['bus_conflicts']:>9.4f}  {share}"
    )


def compare(by_name: dict[str, Runner], setting: simpy_model.Setting, packets: int, drawn: Runner | None) -> bool:
    """The rows of the table for this many packets, and whether the reports are equal."""
    is_same, reference = True, None
    for name, runner in by_name.items():
        measured = fastest(runner, setting, packets)
        if name == "convoy" and drawn:
            measured.queue_per_s = fastest(drawn, setting, DRAWN * packets).whole_per_s
        show(name, measured)
        reference = reference or measured.report
        for what in runs.differences(reference, measured.report):
            print(f"  differs from {next(iter(by_name))}: {what}")
            is_same = False
    return is_same


def main() -> None:
    """Prints a table for each setting; fails if reports differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--packets", type=int, default=500_000)
    parser.add_argument("--slow-packets", type=int, default=50_000, help="of SimPy, and where all are compared")
    parser.add_argument("--systemc", required=True, help="the program made of systemc_model.cpp")
    parser.add_argument("--convoy", default="", help="the words in front of convoy's platform file")
    given = parser.parse_args()
    convoy = given.convoy.split()
    by_name = runners(given.trace, given.systemc, convoy)
    fast = {name: runner for name, runner in by_name.items() if name != "SimPy"}
    drawn = (lambda setting, packets: runs.convoy_drawn(convoy, setting, given.trace, packets)) if convoy else None
    is_same = True
    for title, setting in SETTINGS.items():
        columns = "packets  packets/s, whole  and queue     Mbit/s latency ms conflicts  share, CPU first"
        print(f"{title}\n  {'':8}  {columns}")
        is_same &= compare(by_name, setting, given.slow_packets, drawn)
        is_same &= compare(fast, setting, given.packets, drawn)
    if not is_same:
        sys.exit("the simulators differ")
    print(f"{', '.join(by_name)}: the same shares, lengths, throughput, latency, sojourn and bus conflicts")


if __name__ == "__main__":
    try:
        main()
    except (OSError, RuntimeError) as error:
        sys.exit(str(error))
