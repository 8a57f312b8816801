"""Checks that the simulators agree: SimPy and SystemC in every picosecond, convoy in every number
of its report.

Settings and traces are drawn from a seed. In half of them all times are multiples of 8 ns, so that
events coincide and the order of events in README.md is tested.

usage: agree.py --systemc PROGRAM [--convoy "COMMAND sim run"] [--settings 300] [--seed 1]
"""

import argparse
import random
import sys
import tempfile
from pathlib import Path

import runs
import simpy_model
import traces


def draw_setting(generator: random.Random) -> simpy_model.Setting:
    """Draws any setting of the model."""
    clocks = {}
    if generator.random() < 0.5:
        # A bus cycle of 8 ns, as long as a byte on the line; a block of 64, 128 or 512 ns.
        clocks = {"bus_mhz": 125.0, "block_mbps": generator.choice([250.0, 1000.0, 2000.0])}
    return simpy_model.Setting(
        window=generator.randint(1, 40),
        accelerators=generator.randint(1, 3),
        init_ratio=generator.choice([1.0, 3.0]),
        enc_ratio=generator.choice([1.0, 2.5, 3.0, 5.0, 7.0]),
        depth=generator.randint(1, 10),
        full_queue=generator.choice(["wait", "skip"]),
        depth_unit=generator.choice(["multi-packets", "packets"]),
        prefetch=generator.random() < 0.5,
        init_us=generator.choice([0.0, 0.512, 2.0, 16.0]),
        **clocks,
    )


def draw_trace(generator: random.Random) -> list[tuple[int, int]]:
    """A few hundred packets of one size, a few sizes or any size."""
    sizes = generator.choice([[generator.randint(0, 1960)], [0, 24, 472, 984], range(1961)])
    sas = generator.choice([1, 5, 30, 100])
    return [(generator.choice(sizes), generator.randrange(sas)) for _ in range(generator.randint(1, 500))]


def compare(generator: random.Random, folder: Path, systemc: str, convoy: list[str]) -> list[str]:
    """Runs one setting; returns the differences, with the command line that reproduces them."""
    setting, payloads = draw_setting(generator), draw_trace(generator)
    trace = folder / "trace.txt"
    traces.write(trace, payloads)
    options = runs.options(setting)
    by_simpy = simpy_model.simulate(setting, traces.read(trace))
    by_systemc = runs.run([systemc, "--trace", str(trace), *options])
    found = [
        f"SimPy and SystemC, {name}: {by_simpy['exact'][name]} and {by_systemc['exact'][name]}"
        for name in by_simpy["exact"]
        if by_simpy["exact"][name] != by_systemc["exact"][name]
    ]
    found += [f"SimPy and SystemC, {what}" for what in runs.differences(by_simpy, by_systemc)]
    if convoy:
        by_convoy = runs.convoy(convoy, setting, trace, len(payloads))
        found += [f"SystemC and convoy, {what}" for what in runs.differences(by_systemc, by_convoy)]
    return [f"{len(payloads)} packets, {' '.join(options)}", *found] if found else []


def main() -> None:
    """Runs the settings. At the first one that differs, reports it, keeps its trace and fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systemc", required=True, help="the program made of systemc_model.cpp")
    parser.add_argument("--convoy", default="", help="the words in front of convoy's platform file")
    parser.add_argument("--settings", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    generator = random.Random(given.seed)
    folder = Path(tempfile.mkdtemp(prefix="agree-"))
    for number in range(1, given.settings + 1):
        found = compare(generator, folder, given.systemc, given.convoy.split())
        if found:
            print(f"setting {number} of seed {given.seed}, trace in {folder}:", *found, sep="\n  ")
            sys.exit(1)
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    names = "SimPy, SystemC and convoy" if given.convoy else "SimPy and SystemC"
    print(f"{names} agree on {given.settings} settings of seed {given.seed}")


if __name__ == "__main__":
    try:
        main()
    except (OSError, RuntimeError) as error:
        sys.exit(str(error))
