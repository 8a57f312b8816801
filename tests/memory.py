#!/usr/bin/env python3
"""Counts how often keys occur in the memory of processes: as bytes and as in the configuration.

Prints the count of each key; where each copy stands goes to standard error. Needs root.
usage: memory.py KEY[,KEY...] PROCESS...    with keys in hexadecimal, of each of which the first 16 bytes are looked for
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


def copies(process, needles):
    """The needles that a process has, with the address and the mapped file of each copy."""
    longest = max(map(len, needles))
    with open(f"/proc/{process}/mem", "rb", 0) as memory:
        for start, end, name in readable(process):
            for at in range(start, end, STEP):
                memory.seek(at)
                try:
                    # A copy may cross the boundary of two steps.
                    text = memory.read(min(end, at + STEP + longest - 1) - at)
                except OSError:
                    continue
                for needle in needles:
                    place = text.find(needle)
                    while 0 <= place < STEP:
                        yield needle, at + place, name
                        place = text.find(needle, place + 1)


keys, processes = sys.argv[1].split(","), sys.argv[2:]
counts = dict.fromkeys(keys, 0)
forms = {form: key for key in keys for form in (bytes.fromhex(key)[:16], key[:32].encode())}
for process in processes:
    for needle, address, name in copies(process, list(forms)):
        counts[forms[needle]] += 1
        print(f"    process {process}: {name} {address:#x}", file=sys.stderr)
print(*counts.values())
