"""Measures where two convoy gateways spend a packet's time at a moderate rate: which system calls
their workers make, how often, and for how long they run in them.

Uses the namespaces and the traffic of peers.py. The kernel records its events `raw_syscalls` and
`sched_switch` for a moment. The time in a call is the time for which the thread runs, without
sleeping or waiting for its core. Prints a table, with the CPU time of the gateways without
recording. Needs root.
"""

import argparse
import pathlib
import re
import subprocess
import time
from collections import defaultdict

import peers
from kinds import Convoy
from sites import INNER, Sites, inside

RECORD_SECONDS = 0.6
WORKER = "worker 0"
OUTSIDE = "outside system calls"
TRACING = pathlib.Path("/sys/kernel/tracing/instances/convoy-calls")
LINE = re.compile(r"-(?P<tid>\d+)\s+\[\d+\] \S+\s+(?P<time>[\d.]+): (?P<event>\w+): (?P<rest>.*)")
SWITCH = re.compile(r"prev_pid=(?P<prev>\d+) .* next_pid=(?P<next>\d+) ")


def names_of_calls() -> dict[int, str]:
    """The names of this machine's system calls."""
    program = "#include <sys/syscall.h>\n"
    lines = subprocess.run(("cc", "-E", "-dM", "-"), input=program, capture_output=True, text=True, check=True).stdout
    return {int(number): name for name, number in re.findall(r"#define __NR_(\w+) (\d+)", lines)}


class Thread:
    """The activity of one worker, reconstructed from events."""

    def __init__(self) -> None:
        self.count: dict[str, int] = defaultdict(int)
        self.ran: dict[str, float] = defaultdict(float)
        self.runs_since: float | None = None
        self.call = OUTSIDE

    def note(self, at: float) -> None:
        """Adds the time since the last event to the call during which it passed."""
        if self.runs_since is not None:
            self.ran[self.call] += at - self.runs_since
            self.runs_since = at

    def enter(self, at: float, call: str) -> None:
        self.note(at)
        self.call, self.runs_since = call, at
        self.count[call] += 1

    def leave(self, at: float) -> None:
        self.note(at)
        self.call, self.runs_since = OUTSIDE, at

    def switch(self, at: float, is_in: bool) -> None:
        if is_in:
            self.runs_since = at
        else:
            self.note(at)
            self.runs_since = None


def worker_of(sites: Sites, site: int) -> int:
    """The thread of the site's only worker."""
    for path in pathlib.Path(f"/proc/{sites.gateways[site].pid}/task").glob("*/comm"):
        if path.read_text().strip() == WORKER:
            return int(path.parent.name)
    raise RuntimeError(f"site {site} has no thread {WORKER!r}")


def ran_ns(thread: int) -> int:
    return int(pathlib.Path(f"/proc/{thread}/schedstat").read_text().split()[0])


class Recording:
    """Kernel events of some threads, recorded in a separate buffer until `end`."""

    def __init__(self, workers: list[int]) -> None:
        TRACING.mkdir(exist_ok=True)
        self.write("tracing_on", "0")
        self.write("buffer_size_kb", "32768")
        self.write("trace_clock", "mono")
        common = " || ".join(f"common_pid == {worker}" for worker in workers)
        switched = " || ".join(f"{which}_pid == {worker}" for worker in workers for which in ("prev", "next"))
        for event, threads in (("raw_syscalls/sys_enter", common), ("raw_syscalls/sys_exit", common), ("sched/sched_switch", switched)):
            self.write(f"events/{event}/filter", threads)
            self.write(f"events/{event}/enable", "1")
        self.write("tracing_on", "1")

    def write(self, name: str, value: str) -> None:
        (TRACING / name).write_text(value)

    def end(self) -> str:
        self.write("tracing_on", "0")
        text = (TRACING / "trace").read_text(errors="replace")
        TRACING.rmdir()
        return text


def read(text: str, threads: dict[int, Thread], names: dict[int, str]) -> None:
    """Passes the recorded events to the threads."""
    for line in text.splitlines():
        if not (found := LINE.search(line)):
            continue
        tid, at, event, rest = int(found["tid"]), float(found["time"]) * 1e9, found["event"], found["rest"]
        if event == "sched_switch" and (switch := SWITCH.search(rest)):
            for which, is_in in (("prev", False), ("next", True)):
                if thread := threads.get(int(switch[which])):
                    thread.switch(at, is_in)
        elif thread := threads.get(tid):
            if event == "sys_enter":
                number = int(rest.split()[1])
                thread.enter(at, names.get(number, f"call {number}"))
            elif event == "sys_exit":
                thread.leave(at)


def spent_us(workers: list[int], rate: float) -> tuple[list[float], float]:
    """The CPU time that each worker takes per packet from now on, in us, and the seconds over which
    it was measured."""
    before, began = [ran_ns(worker) for worker in workers], time.monotonic()
    time.sleep(RECORD_SECONDS)
    took = time.monotonic() - began
    return [(ran_ns(worker) - earlier) / 1e3 / (rate * took) for worker, earlier in zip(workers, before)], took


def measure(convoy: str, moderation_us: int, rate: float, folder: pathlib.Path, blast: str) -> list[str]:
    """The rows of the table for both sites."""
    sites = Sites(folder)
    try:
        Convoy(convoy, "udp", settings=f"moderation_us = {moderation_us}").start(sites, peers.MTU)
        sites.wait("an answered ping", sites.answers, 20)
        # Engines are measured in the background after a start.
        time.sleep(1)
        workers = [worker_of(sites, site) for site in (0, 1)]
        threads = {worker: Thread() for worker in workers}
        seconds = 1 + 2 * RECORD_SECONDS + 1
        load = subprocess.Popen(inside(0, blast, "send", INNER[1], "9", str(peers.PAYLOAD), str(rate), str(seconds)), stdout=subprocess.DEVNULL)
        time.sleep(1)
        alone, _ = spent_us(workers, rate)
        recording = Recording(workers)
        try:
            recorded, took = spent_us(workers, rate)
        finally:
            # Stop recording in any case: the kernel would continue for ever.
            text = recording.end()
        read(text, threads, names_of_calls())
        load.wait()
        packets, rows = rate * took, []
        for name, worker, all_us, alone_us in zip(("sender's gateway", "receiver's gateway"), workers, recorded, alone):
            thread = threads[worker]
            for call in sorted(thread.count, key=lambda call: -thread.ran[call]):
                count, ran = thread.count[call], thread.ran[call] / 1e3
                if ran / packets >= 0.001:
                    rows.append(f"| {name}: `{call}` | {count / packets:.3f} | {ran / count:.2f} | {ran / packets:.2f} |")
            rest = all_us - sum(thread.ran.values()) / 1e3 / packets
            rows.append(f"| {name}: {OUTSIDE} | | | {thread.ran[OUTSIDE] / 1e3 / packets:.2f} |")
            rows.append(f"| {name}: what the kernel counts beyond these, as from a wake until the thread runs | | | {rest:.2f} |")
            rows.append(f"| {name}: all while recorded (else) | | | {all_us:.2f} ({alone_us:.2f}) |")
        return rows
    finally:
        sites.remove()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--convoy", required=True, help="the program")
    parser.add_argument("--moderation", default="0,500", help="values of moderation_us, separated by commas")
    parser.add_argument("--rate", type=float, default=peers.STEADY_RATE, help="packets a second")
    options = parser.parse_args()
    with peers.workplace() as (work, blast):
        for moderation_us in map(int, options.moderation.split(",")):
            folder = work / str(moderation_us)
            folder.mkdir()
            print(f"\nmoderation_us = {moderation_us}, {options.rate:,.0f} packets a second\n")
            print("| | calls a packet | us a call | us a packet |\n| --- | --- | --- | --- |")
            print("\n".join(measure(options.convoy, moderation_us, options.rate, folder, blast)))


if __name__ == "__main__":
    main()
