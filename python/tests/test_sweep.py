"""The example sweep gives one table, no matter who computes it."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Small, but of more than one value in each direction.
GRID = "--window 1 30 --enc-ratio 1 7 --accelerators 1 2 --pattern 0 472 trace --packets 5000".split()
# Ray gives its node 30 s to start, which no option changes; a busy machine may need more.
LATE = "timed out during startup"
TRIES = 3


def sweep(engine, folder):
    out = folder / f"{engine}.csv"
    command = [sys.executable, ROOT / "python/examples/sweep.py", ROOT / "platforms/pci-accelerators.toml"]
    # Ray writes a token into the home directory, and would report its use.
    environment = {**os.environ, "HOME": str(folder), "RAY_USAGE_STATS_ENABLED": "0"}
    command += ["--engine", engine, "--out", out, *GRID]
    for _ in range(TRIES):
        done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, timeout=240)
        sys.stderr.write(done.stderr)
        if done.returncode == 0 or LATE not in done.stderr:
            break
    done.check_returncode()
    return out.read_text()


@pytest.fixture(scope="module")
def serial(tmp_path_factory):
    return sweep("serial", tmp_path_factory.mktemp("serial"))


def test_a_sweep_has_a_row_for_each_case(serial):
    rows = list(csv.DictReader(serial.splitlines()))
    assert len(rows) == 2 * 2 * 2 * 3
    assert len({(row["accelerators"], row["enc_ratio"], row["window"], row["pattern"]) for row in rows}) == 24
    assert all(row["packets"] == "5000" and float(row["throughput_mbps"]) > 0 for row in rows)


@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_a_local_cluster_gives_the_same_table(engine, serial, tmp_path):
    assert sweep(engine, tmp_path) == serial
