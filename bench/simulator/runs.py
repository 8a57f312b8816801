"""Runs the three simulators on one trace, and compares their reports."""

import json
import os
import resource
import subprocess
from pathlib import Path

import simpy_model

SUMS = ["packets", "throughput_mbps", "latency_ms", "sojourn_ms", "bus_conflicts"]
MEANS = ["share", "average_length", "average_length_scheduled", "packets_per_multipacket"]
# Relative tolerance for equal sums of floating-point numbers in another order.
TOLERANCE = 1e-9

PLATFORM = """\
name = "baseline"
[source]
rate_mbps = {line_mbps}
header_bytes = 40
[scheduler]
policy = "finishing-time"
full_queue = "{full_queue}"
depth_unit = "{depth_unit}"
window = {window}
[reference]
t_init_us = {init_us}
block_mbps = {block_mbps}
[[bus]]
name = "pci"
clock_mhz = {bus_mhz}
address_cycles = {address_cycles}
width_bytes = {width_bytes}
[[processor]]
name = "cpu"
kind = "cpu"
init_ratio = {init_ratio}
enc_ratio = {enc_ratio}
depth = {depth}
[[processor]]
name = "accelerator"
kind = "accelerator"
count = {accelerators}
bus = "pci"
depth = {depth}
prefetch = {buffers}
write_buffer = {buffers}
"""


def options(setting: simpy_model.Setting) -> list[str]:
    """A setting as options of the baselines' command lines."""
    words = []
    for name, value in vars(setting).items():
        flag = "--" + name.replace("_", "-")
        words += ([flag] if value else []) if isinstance(value, bool) else [flag, str(value)]
    return words


def children_s() -> float:
    """Processor time of all commands so far, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(command: list[str]) -> dict:
    """A command's JSON with `process_s`, its total processor time; RuntimeError with its output if
    that is not JSON."""
    began_s = children_s()
    environment = os.environ | {"SYSTEMC_DISABLE_COPYRIGHT_MESSAGE": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    process_s = children_s() - began_s
    if ended.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit status {ended.returncode}: {ended.stderr.strip()}")
    return json.loads(ended.stdout) | {"process_s": process_s}


def convoy(command: list[str], setting: simpy_model.Setting, trace: Path, packets: int) -> dict:
    """`convoy-lab sim run` on a trace."""
    return run_convoy(command, setting, trace, ["--trace", str(trace), "--packets", str(packets)])


def convoy_drawn(command: list[str], setting: simpy_model.Setting, trace: Path, packets: int) -> dict:
    """`convoy-lab sim run` on packets that it draws, in the paper's `uniform` pattern."""
    return run_convoy(command, setting, trace, ["--pattern", "uniform", "--packets", str(packets)])


def run_convoy(command: list[str], setting: simpy_model.Setting, trace: Path, packets: list[str]) -> dict:
    """`convoy-lab sim run`; its platform is written to a file beside the trace."""
    platform = trace.with_suffix(".toml")
    platform.write_text(PLATFORM.format(**vars(setting), buffers=str(setting.prefetch).lower()), encoding="utf-8")
    return run(
        [*command, str(platform), *packets]
        + ["--window", str(setting.window), "--accelerators", str(setting.accelerators)]
        + ["--init-ratio", str(setting.init_ratio), "--enc-ratio", str(setting.enc_ratio)]
        + ["--depth", str(setting.depth), "--policy", "finishing-time", "--json"]
    )


def differences(one: dict, other: dict) -> list[str]:
    """The measures in which two reports differ by more than floating-point rounding, including
    those of processors that only one has."""
    found = []
    for name in SUMS + MEANS:
        left, right = (value if isinstance(value, list) else [value] for value in (one[name], other[name]))
        is_same = len(left) == len(right) and all(
            abs(mine - theirs) <= TOLERANCE * max(abs(mine), abs(theirs)) for mine, theirs in zip(left, right)
        )
        if not is_same:
            found.append(f"{name}: {one[name]} and {other[name]}")
    return found
