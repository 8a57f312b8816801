"""Traces for all three simulators, with the six columns of the Internet Traffic Archive's TCP
traces.

A line is `timestamp source destination source-port destination-port payload-bytes`; the SA is the destination.

usage: traces.py FILE --packets N [--sas 100] [--shortest 0] [--longest 1960] [--seed 1]
"""

import argparse
import random
from pathlib import Path
from typing import Iterable, NamedTuple

# TCP and IPv4 headers, which the model adds to every payload (header_bytes of
# platforms/pci-accelerators.toml).
HEADER_BYTES = 40


class Arrival(NamedTuple):
    """A packet of a trace: its bytes to process, and its SA."""

    size_bytes: int
    sa: str


def read(path: Path, packets: int | None = None) -> list[Arrival]:
    """The first packets of a trace; ValueError gives file, line and what was expected."""
    arrivals: list[Arrival] = []
    with open(path, encoding="ascii") as lines:
        for number, line in enumerate(lines, 1):
            if len(arrivals) == packets:
                break
            columns = line.split()
            if not columns or line.startswith("#"):
                continue
            if len(columns) != 6 or not columns[5].isdigit():
                raise ValueError(f"{path}:{number}: expected six columns, the last of them bytes, and got {line!r}")
            arrivals.append(Arrival(int(columns[5]) + HEADER_BYTES, columns[2]))
    if not arrivals or packets is not None and len(arrivals) < packets:
        raise ValueError(f"{path}: expected {packets or 'some'} packets, and it has {len(arrivals)}")
    return arrivals


def write(path: Path, payloads: Iterable[tuple[int, int]]) -> None:
    """Writes (payload bytes, SA) as a trace. The timestamps only keep the lines in order."""
    with open(path, "w", encoding="ascii") as lines:
        for number, (payload_bytes, sa) in enumerate(payloads):
            lines.write(f"{number / 1e6:.6f} 1 {sa} 1024 80 {payload_bytes}\n")


def uniform(packets: int, sas: int, shortest: int, longest: int, seed: int) -> Iterable[tuple[int, int]]:
    """The paper's `uniform` pattern: all sizes and SAs are equally likely."""
    generator = random.Random(seed)
    for _ in range(packets):
        yield generator.randint(shortest, longest), generator.randrange(sas)


def main() -> None:
    """Writes one trace."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--packets", type=int, required=True)
    parser.add_argument("--sas", type=int, default=100, help="equally likely ones")
    parser.add_argument("--shortest", type=int, default=0, help="payload, in bytes")
    parser.add_argument("--longest", type=int, default=1960, help="payload, in bytes")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    write(given.file, uniform(given.packets, given.sas, given.shortest, given.longest, given.seed))


if __name__ == "__main__":
    main()
