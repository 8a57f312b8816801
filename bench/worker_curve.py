#!/usr/bin/env python3
"""The expected throughput of several workers, in times of one worker's, for docs/internals/workers.md.

It comes from what two workers measured (docs/results/cycles.md): a packet that is handed over costs
SHARE more, and flows are dealt to workers by a hash, so that the busiest worker has more than its
part. Memory bandwidth, clock rates under load and what ports cost are not in it.
"""

import random
import statistics

WORKERS = (1, 2, 4, 8, 16)
FLOWS = (16, 100, 1_000, 10_000)
# What handing a packet over adds to its cost, of 64 and of 1,450 bytes: with 100 tunnels two
# workers carried 1.54 and 1.10 times one's while half of the packets were handed over.
HANDED_OVER = (2 * (2 / 1.54 - 1), 2 * (2 / 1.10 - 1))
DEALS = 1_000


def dealt(workers: int, flows: int, rng: random.Random) -> float:
    """How many workers' rate flows of one rate reach before the busiest worker has enough."""
    gains = []
    for _ in range(DEALS if flows < 10_000 else DEALS // 20):
        counts = [0] * workers
        for _ in range(flows):
            counts[rng.randrange(workers)] += 1
        gains.append(flows / max(counts))
    return statistics.median(gains)


def row(name: str, gains: list[float]) -> None:
    print(f"| {name} | " + " | ".join(f"{gain:.1f}" for gain in gains) + " |")


def main() -> None:
    rng = random.Random(1)
    print("| workers | " + " | ".join(map(str, WORKERS)) + " |\n| --- |" + " --: |" * len(WORKERS))
    for flows in FLOWS:
        row(f"SAs of all workers, {flows:,} flows", [dealt(workers, flows, rng) for workers in WORKERS])
    for length, share in zip((64, 1450), HANDED_OVER):
        gains = [workers / (1 + share * (workers - 1) / workers) for workers in WORKERS]
        row(f"100 tunnels with SAs of one worker, {length:,} bytes", gains)


if __name__ == "__main__":
    main()
