"""Cycles per packet by stage, from perf samples of the running path and the ticks that the path
counts itself.

No hardware counters are needed: perf's clock shows each instruction's share of the time.
"""

import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import measure
import stages

# Proposal, inner bytes, SAs.
RUNS = [("aes128gcm16", 64, sas) for sas in (1, 100, 10_000)]
SECONDS = 10
# The C library, most of whose time is copying memory; samples do not show its callers.
LIBRARY = "libc"
STAGES = [*stages.STAGES[:-1], LIBRARY, stages.REST]
# Samples do not show callers, so code that several stages use counts for its most frequent user.
USUAL = [("classify", re.compile("/crates/ipsec/")), ("worker's round", re.compile("/crates/dataplane/"))]
MAPPED = re.compile(r"PERF_RECORD_MMAP2 .*\[(0x[0-9a-f]+)\((0x[0-9a-f]+)\) @ (0x[0-9a-f]+|0) .*\]: r-xp (\S+)")
# File offset, address and size of a loaded segment.
SEGMENT = re.compile(r"LOAD\s+(0x[0-9a-f]+) (0x[0-9a-f]+) 0x[0-9a-f]+ (0x[0-9a-f]+)")


def samples(text):
    """The code mappings (start, end, file offset, file), and the samples (thread name, address,
    object)."""
    mapped, taken = [], []
    for line in text.splitlines():
        if found := MAPPED.search(line):
            start, size, offset = (int(number, 16) for number in found.groups()[:3])
            mapped.append((start, start + size, offset, found[4]))
        elif "PERF_RECORD" not in line and (words := line.split()) and len(words) >= 3:
            taken.append((words[0], int(words[1], 16), words[2].strip("()")))
    return mapped, taken


def to_program(address, mapped, program, segments):
    """An address of the running program as in the debug information; None if it belongs to another
    object."""
    for start, end, offset, file in mapped:
        if file == program and start <= address < end:
            place = address - start + offset
            return next((place - begin + base for begin, base, size in segments if begin <= place < begin + size), None)
    return None


def segments_of(program):
    text = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True, check=True).stdout
    return [tuple(int(number, 16) for number in found) for found in SEGMENT.findall(text)]


def stage_of(frames):
    usual = (stage for stage, files in USUAL for file, _ in frames if files.search(file))
    return stages.stage_of(frames) or next(usual, stages.REST)


def stages_of(text, source, segments):
    """The samples of each direction, by stage."""
    mapped, taken = samples(text)
    ways = {"out": Counter(), "in": Counter()}
    own = {address: to_program(address, mapped, source.program, segments) for _, address, _ in taken}
    source.learn(address for address in own.values() if address is not None)
    for way, address, object_ in taken:
        if way not in ways or "kernel" in object_:
            continue
        if own[address] is not None:
            stage = stage_of(source.frames[own[address]])
        elif stages.CIPHER_OBJECTS.search(object_):
            stage = stages.CIPHER
        elif "vdso" in object_:
            stage = "clock"
        else:
            stage = LIBRARY
        ways[way][stage] += 1
    return ways


def case(program, source, segments, run, folder):
    data = f"{folder}/perf.data"
    record = ["perf", "record", "-q", "-e", "cpu-clock:u", "-F", "10000", "-o", data, program, "sample", *map(str, run), str(SECONDS)]
    done = subprocess.run(record, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(record)}:\n{done.stderr[-2000:]}")
    ticks = dict(zip(("out", "in"), map(float, done.stdout.split()[-2:]), strict=True))
    text = subprocess.run(["perf", "script", "-i", data, "--show-mmap-events", "-F", "comm,ip,dso"],
                          capture_output=True, text=True, check=True).stdout
    for way, counts in stages_of(text, source, segments).items():
        whole = counts.total()
        if not whole:
            raise SystemExit(f"perf took no samples of {run}; is the event cpu-clock there?")
        yield {"proposal": run[0], "bytes": run[1], "sas": run[2], "way": way, "samples": whole, "ticks": ticks[way],
               "stages": {stage: round(counts[stage] / whole * ticks[way], 1) for stage in STAGES}}


def measure_cycles():
    program = measure.program()
    source, segments = stages.Source(program), segments_of(program)
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        for run in RUNS:
            cases += case(program, source, segments, run, folder)
    return {"tools": measure.tools(""), "cases": cases}
