"""Offers two gateways several times their capacity, ten times if the sender is fast enough; see
overload.sh."""

import pathlib
import re
import statistics
import subprocess
import sys
import time

TO = "10.2.0.1"
UDP_PORT = 9000
PAYLOAD = 36
SECONDS = 2
# The medians of these trials count: if a host pauses the cores for a moment, that affects one of
# them at most.
TRIALS = 3
# Goodput under overload as a fraction of the best; memory in kilobytes; time until a ping is
# answered in seconds.
LEAST_GOODPUT = 0.9
# The sender must have offered this multiple of the best goodput, or else there was no overload. It
# tries to offer ten times.
LEAST_OFFER = 3
# In kB. The packet memory is bounded and consists of huge pages of 2 MiB, two more of which may be
# touched under overload.
MOST_GROWTH = 2000 + 2 * 2048
LONGEST_PING = 0.2


def inside(namespace: str, *command: str) -> list[str]:
    return ["ip", "netns", "exec", namespace, *command]


def offer(blast: str, here: str, there: str, rate: float) -> tuple[float, float]:
    """Offers packets at a rate; returns how many per second were really sent, and how many were
    delivered."""
    receive = inside(there, blast, "receive", str(UDP_PORT), str(SECONDS))
    receiver = subprocess.Popen(receive, stdout=subprocess.PIPE, text=True)
    receiver.stdout.readline()
    sent = int(subprocess.check_output(inside(here, blast, "send", TO, str(UDP_PORT), str(PAYLOAD), str(rate), str(SECONDS))))
    came = int(receiver.communicate()[0]) / SECONDS
    print(f"offered {sent / SECONDS:8.0f} a second of {rate:8.0f} wanted: {came:8.0f} came")
    return sent / SECONDS, came


def resident(processes: list[str]) -> list[int]:
    texts = [pathlib.Path(f"/proc/{process}/status").read_text() for process in processes]
    return [int(re.search(r"VmRSS:\s+(\d+)", text)[1]) for text in texts]


def recovery(here: str) -> float:
    """Seconds until a ping is answered, with a ping sent every 10 ms from now on: the queues may
    still be full at first."""
    began = time.monotonic()
    subprocess.run(inside(here, "ping", "-i", "0.01", "-c", "1", "-w", "2", TO), check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def main(blast: str, here: str, there: str, *processes: str) -> bool:
    rate, peak = 2_000.0, 0.0
    while peak > 0.9 * rate or peak == 0:
        rate *= 1.5
        peak = max(peak, offer(blast, here, there, rate)[1])
    before = resident(list(processes))
    trials = [(*offer(blast, here, there, 10 * peak), recovery(here)) for _ in range(TRIALS)]
    offered, came, answered = (statistics.median(values) for values in zip(*trials))
    growth = max(after - was for after, was in zip(resident(list(processes)), before))
    pings = ", ".join(f"{seconds * 1000:.0f}" for *_, seconds in trials)
    print(f"overload: {offered / peak:.1f} times the best goodput offered, {came / peak:.2f} times carried, memory grew by {growth} kB, pings answered {pings} ms afterwards")
    return offered >= LEAST_OFFER * peak and came >= LEAST_GOODPUT * peak and growth <= MOST_GROWTH and answered <= LONGEST_PING


if __name__ == "__main__":
    sys.exit(not main(*sys.argv[1:]))
