#!/usr/bin/env python3
"""One sweep over windows, ratios, accelerators and patterns: here, on a Dask cluster, or on a Ray cluster.

A run is a function of its arguments, so the table is the same anyone who computes it.
"""

import argparse
import contextlib
import csv
import itertools
import sys

import convoy_sim

# What varies, in the order of the table's rows; the pattern last, so that long and short runs are
# mixed.
GRID = {
    "accelerators": [1, 2],
    "enc_ratio": [1.0, 3.0, 5.0, 7.0],
    "window": [1, 10, 30],
    "pattern": ["exponential", "uniform", "0", "24", "472", "984", "trace"],
}
MEASURES = [
    "packets", "throughput_mbps", "latency_ms", "sojourn_ms", "packets_per_multipacket",
    "average_length_scheduled", "bus_conflicts",
]  # fmt: skip
# Tasks in flight on a cluster; each is a row, so a long sweep needs no more memory than a short
# one.
IN_FLIGHT = 1000


def cases(grid, packets, seed):
    """One dict of arguments a row."""
    for values in itertools.product(*grid.values()):
        yield {**dict(zip(grid, values)), "packets": packets, "seed": seed}


def run(platform, case):
    """One row: the case, then what came of it."""
    report = convoy_sim.simulate(platform, **case)
    row = {**case, **{measure: report[measure] for measure in MEASURES}}
    return {**row, "cpu_share": report["share"][0]}


def batches(sweep):
    sweep = iter(sweep)
    while batch := list(itertools.islice(sweep, IN_FLIGHT)):
        yield batch


def serially(platform, sweep, _address):
    return (run(platform, case) for case in sweep)


def on_dask(platform, sweep, address):
    from distributed import Client, LocalCluster

    # A run frees the interpreter's lock, so a worker's threads use as many cores.
    with contextlib.ExitStack() as ends:
        cluster = address or ends.enter_context(LocalCluster(dashboard_address=None))
        client = ends.enter_context(Client(cluster))
        everywhere = client.scatter(platform, broadcast=True)
        for batch in batches(sweep):
            yield from client.gather([client.submit(run, everywhere, case) for case in batch])


def on_ray(platform, sweep, address):
    import ray

    ray.init(address=address or "local", include_dashboard=False, log_to_driver=False)
    remote = ray.remote(run)
    everywhere = ray.put(platform)
    for batch in batches(sweep):
        yield from ray.get([remote.remote(everywhere, case) for case in batch])
    ray.shutdown()


ENGINES = {"serial": serially, "dask": on_dask, "ray": on_ray}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("platform", help="a platform's TOML file, or the name of one that comes with convoy_sim")
    parser.add_argument("--engine", choices=ENGINES, default="serial")
    parser.add_argument("--address", help="a cluster that runs already; without it, one on this machine")
    parser.add_argument("--out", default="-", help="the CSV file; - is standard output")
    parser.add_argument("--packets", type=int, default=500_000, help="packets of each run (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    for name, values in GRID.items():
        kind = type(values[0])
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, nargs="+", default=values)
    return parser.parse_args()


def main():
    asked = arguments()
    platform = convoy_sim.load_platform(asked.platform)
    grid = {name: getattr(asked, name) for name in GRID}
    sweep = cases(grid, asked.packets, asked.seed)
    rows = ENGINES[asked.engine](platform, sweep, asked.address)
    with open(asked.out, "w", newline="") if asked.out != "-" else contextlib.nullcontext(sys.stdout) as out:
        table = csv.DictWriter(out, [*grid, "seed", *MEASURES, "cpu_share"], lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main()
