"""Builds the benchmark, runs it under callgrind, and extracts the cost of each case."""

import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import callgrind
import stages

ROOT = Path(__file__).resolve().parents[2]
# Engine, proposal, headers, inner bytes, SAs. One process of the benchmark measures several
# windows, loads and both directions for each.
RUNS = [
    *(("multibuffer", proposal, "ipv4", 64, sas) for proposal in ("aes128gcm16", "aes128-sha1") for sas in (10_000, 100, 1)),
    *(("software", "aes128gcm16", "ipv4", 64, sas) for sas in (100, 1)),
    *(("multibuffer", "aes128gcm16", headers, 64, sas) for headers in ("ipv6", "ipv6-in-ipv4", "ipv4-in-udp", "ipv6-in-udp") for sas in (100, 1)),
    *(("multibuffer", "aes128gcm16", headers, 1450, 1) for headers in ("ipv4", "ipv4-iptfs")),
    ("multibuffer", "aes128gcm16", "ipv4-iptfs", 64, 1),
]
# Fields of a dump's title, in order; see count.rs.
TITLE = ("engine", "proposal", "headers", "bytes", "sas", "window", "at_hand", "way", "packets")


def program():
    """Builds the benchmark in the same way as `cargo bench`."""
    command = [*shlex.split(os.environ.get("CARGO", "cargo")), "bench", "--no-run", "--locked", "-p", "convoy-workbench", "--bench", "throughput",
               "--message-format=json-render-diagnostics"]
    messages = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    built = [message["executable"] for message in map(json.loads, messages) if message.get("executable")]
    return built[-1]


def output(*command):
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def tools(library):
    """What changes counts, apart from convoy."""
    return {
        "rustc": output(os.environ.get("RUSTC", "rustc"), "--version").split()[1],
        "libc": " ".join(platform.libc_ver()),
        "valgrind": output("valgrind", "--version").removeprefix("valgrind-"),
        "library": library,
    }


def count(program, run, folder):
    """The dumps of one process, and its output: whether Intel's library was used."""
    command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--collect-atstart=no", "--dump-instr=yes",
               f"--callgrind-out-file={folder}/dump", program, "count", *map(str, run)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}:\n{done.stderr[-2000:]}")
    dumps = sorted(Path(folder).glob("dump.*"), key=lambda path: int(path.suffix[1:]))
    return [callgrind.read(dump.read_text().splitlines()) for dump in dumps], done.stdout.strip()


def case_of(profile, source):
    words = dict(zip(TITLE, profile.case.split(), strict=True))
    case = {name: word if name in ("engine", "proposal", "headers", "way") else int(word) for name, word in words.items()}
    parts = stages.attribute(profile, source)
    share = {stage: round(parts[stage] / case["packets"], 1) for stage in stages.STAGES}
    return {
        "case": "{engine} {proposal}, {headers}, {bytes} B, {sas} SAs, window {window}, {at_hand} at hand, {way}".format(**case),
        **case,
        # Counts convoy's own instructions only: those of Intel's library depend on its version, and
        # those of upkeep on the duration of the run.
        "instructions": round(sum(share.values()) - share[stages.CIPHER] - share[stages.UPKEEP], 1),
        "cipher": share[stages.CIPHER],
        "clock_readings": round(stages.clock_readings(profile, source) / case["packets"], 3),
        "stages": share,
    }


def measure():
    """All cases, with as many processes in parallel as there are cores."""
    if platform.machine() != "x86_64":
        raise SystemExit(f"instructions are counted on x86-64 alone; this is {platform.machine()}")
    path = program()
    source = stages.Source(path)
    cases, libraries = [], set()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        folders = [Path(folder) / str(number) for number in range(len(RUNS))]
        for each in folders:
            each.mkdir()
        for run, (profiles, library) in zip(RUNS, pool.map(lambda run, folder: count(path, run, folder), RUNS, folders)):
            print("counted", *run, file=sys.stderr)
            cases += [case_of(profile, source) for profile in profiles]
            libraries.add(library)
    cases.sort(key=lambda case: (case["engine"], case["proposal"], case["headers"], case["bytes"], case["sas"], case["window"], -case["at_hand"], case["way"] != "out"))
    return {"tools": tools(", ".join(sorted(libraries))), "cases": cases}
