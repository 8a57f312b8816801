"""Builds a module with Verilator and runs the cocotb tests of the file that asks."""

import inspect
import os
import shutil
import time
from pathlib import Path

from cocotb_tools.runner import get_results, get_runner

ROOT = Path(__file__).resolve().parents[2]
RTL = ROOT / "card" / "rtl"
# With CARD_COVERAGE set, each run counts what it covers; such builds lie apart, being slower
# (card/coverage.py).
COVERAGE = bool(os.environ.get("CARD_COVERAGE"))
BUILDS = ROOT / "target" / ("card-coverage" if COVERAGE else "card")
RUNTIME = BUILDS / "runtime"
POINTS = Path(__file__).resolve().parent / "points"
# The modules with points of their own (points/*.sv) below each that has any.
DMA = ["dma_bus", "dma_complete", "dma_receive", "dma_segments", "dma_transmit"]
MAC = ["frame_guard", "frame_crossing"]
INSPECT = ["ip_fields", "signature"]
POINTS_BELOW = {"x0": [*DMA, "frame_guard"], "card_top": [*DMA, *MAC, *INSPECT, "fragment", "parser", "switch"], "mac": MAC,
                "frame_guard": ["frame_guard"], "switch": ["switch"], "fragment": ["fragment"], "inspect": INSPECT,
                "x1": ["frame_guard", *INSPECT], "x2": ["frame_guard", "parser", *INSPECT]}
# The wheel's Makefile does not know how this compiler takes a precompiled header, which larger
# modules get. Compiling takes longer than these simulations: -O1 makes the sum of both the least.
os.environ["MAKEFLAGS"] = "CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O1"
WARNINGS = ["-Wall", "-Werror-WIDTH"]


def share_runtime(source, target):
    """Copies Verilator's own objects, which are the same in every build and most of its time.

    make would compile them again after each change of Vtop.mk; dated to tomorrow they stay. They go with the tools (card-venv.sh).
    """
    target.mkdir(parents=True, exist_ok=True)
    # Not verilator.o: it makes the model, whose size is another in each build.
    for file in source.glob("verilated*.o"):
        if not (target / file.name).exists():
            shutil.copy(file, target)
            tomorrow = time.time() + 86400
            os.utime(target / file.name, (tomorrow, tomorrow))


def run(module, parameters=None, name=None, sources=None):
    """Runs the caller's cocotb tests on `module` of card/rtl; fails as a test when one of them fails.

    `sources` are files instead of card/rtl's; the modules below are found by their names. `name` keeps builds with
    different parameters apart.
    """
    caller = Path(inspect.stack()[1].filename)
    build = BUILDS / (name or module)
    sources, counting, report = [*(sources or [RTL / f"{module}.sv"])], [], []
    if COVERAGE:
        sources += [POINTS / f"{below}_points.sv" for below in POINTS_BELOW.get(module, [])]
        counting = ["-Wno-SYMRSVDWORD", "--coverage-line", "--coverage-toggle", "--coverage-user"]
        report = [f"+verilator+coverage+file+{build / 'coverage.dat'}"]
    share_runtime(RUNTIME, build)
    runner = get_runner("verilator")
    runner.build(
        sources=sources,
        hdl_toplevel=module,
        parameters=parameters or {},
        build_args=[*WARNINGS, *counting, "-y", str(RTL), "--x-initial", "unique"],
        build_dir=build,
        always=True,
        timescale=("1ns", "1ps"),
    )
    share_runtime(build, RUNTIME)
    results = runner.test(
        hdl_toplevel=module,
        test_module=caller.stem,
        build_dir=build,
        test_dir=caller.parent,
        results_xml=str(build / "results.xml"),
        plusargs=["+verilator+rand+reset+2", *report],
        # Else a point that a `for` makes many times would count as one.
        test_args=["--coverage-per-instance"] if COVERAGE else [],
    )
    ran, failed = get_results(results)
    assert ran > 0 and failed == 0, f"{failed} of {ran} tests failed on {module}"
