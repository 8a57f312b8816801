#!/usr/bin/env python3
"""Counts how often a key occurs in the memory of processes: as bytes and as in the configuration.

Prints the count; where each copy stands goes to standard error. Needs root.
usage: memory.py KEY PROCESS...    with the key in hexadecimal, of which the first 16 bytes are looked for
"""

import sys

STEP = 1 << 24


def readable(process):
    """The readable parts of a process's memory: start, end, mapped file."""
    with open(f"/proc/{process}/maps", encoding="ascii") as maps:
        for line in maps:
            fields = line.split()
            if "r" in fields[1] and "[v" not in line:
                start, end = (int(at, 16) for at in fields[0].split("-"))
                yield start, end, fields[5] if len(fields) > 5 else "anonymous"


def copies(process, needle):
    """The addresses at which a process has the needle, and the mapped files."""
    with open(f"/proc/{process}/mem", "rb", 0) as memory:
        for start, end, name in readable(process):
            for at in range(start, end, STEP):
                memory.seek(at)
                try:
                    # A copy may cross the boundary of two steps.
                    text = memory.read(min(end, at + STEP + len(needle) - 1) - at)
                except OSError:
                    continue
                place = text.find(needle)
                while place >= 0:
                    yield at + place, name
                    place = text.find(needle, place + 1)


key, processes = sys.argv[1], sys.argv[2:]
count = 0
for process in processes:
    for needle in (bytes.fromhex(key)[:16], key[:32].encode()):
        for address, name in copies(process, needle):
            count += 1
            print(f"    process {process}: {name} {address:#x}", file=sys.stderr)
print(count)
