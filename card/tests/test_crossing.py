"""mac with clocks that know nothing of one another: frames of every length pass both ways at once, without loss or a pause on the wire."""

import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles
from frames import FrameSink, FrameSource
from gmii import GmiiSink, GmiiSource, on_the_wire
from harness import run
from stream import CLOCK_PS, start_clock

GAP = 12
LENGTHS = [64, 65, 1500, 9000, 71, 9001, 60, 128, 8999, 64, 64, 64, 64, 4000, 250]


def drifting(seed):
    """A period that wanders between half and double that of the other clock, and stops now and then."""
    rng, now = random.Random(seed), CLOCK_PS

    def period():
        nonlocal now
        now = min(2 * CLOCK_PS, max(CLOCK_PS // 2, now + rng.randrange(-300, 301)))
        return 20 * CLOCK_PS if rng.random() < 0.0005 else now

    return period


# The wire's clock: its period in ps. 6480 is a line of 125 MHz beside a core of 81.
CLOCKS = {
    "core much slower": 3_301,
    "core slower": 6_480,
    "equal": CLOCK_PS,
    "barely slower": CLOCK_PS + 1,
    "core faster": 25_013,
    "drifting": drifting(5),
}


async def begin(dut, clocks, gaps=0.0, stalls=0.0):
    """The ends of the links and of the wire."""
    ends = FrameSource(dut, gaps=gaps), FrameSink(dut, stalls=stalls), GmiiSink(dut), GmiiSource(dut)
    await start_clock(dut, CLOCKS[clocks])
    await ClockCycles(dut.mac_clk, GAP)
    return ends


async def exchange(dut, ends, lengths):
    """Frames of these lengths both ways at once; the gaps that were seen on the wire."""
    source, sink, sent, wire = ends
    rng = random.Random(17)
    out, back = ([rng.randbytes(length) for length in lengths] for _ in range(2))

    async def send():
        for frame in out:
            await source.frame(frame)

    async def receive():
        for frame in back:
            await wire.frame(frame)

    async def arrive():
        for frame in back:
            assert await sink.frame() == (frame, 0)

    tasks = [cocotb.start_soon(task) for task in (send(), receive(), arrive())]
    idle = []
    for frame in out:
        seen, before = await sent.frame()
        assert seen == on_the_wire(frame)
        idle.append(before)
    for task in tasks:
        await task
    return idle[1:]


async def assert_counted(dut, frames):
    """Waits until the counts are seen in the core's clock, after a pause of the other one too."""
    await ClockCycles(dut.clk, 200)
    counts = [int(getattr(dut, name).value) for name in ("sent", "received", "broken", "overruns", "dropped")]
    assert counts == [frames, frames, 0, 0, 0]


def fitting(dut, lengths):
    """Those that the buffer holds."""
    return [length for length in lengths if length <= 8 << int(dut.RX_DEPTH_LOG2.value)]


@cocotb.test()
@cocotb.parametrize(("clocks", list(CLOCKS)))
async def frames_of_all_lengths_pass_both_ways(dut, clocks):
    lengths = fitting(dut, LENGTHS)
    await exchange(dut, await begin(dut, clocks), lengths)
    await assert_counted(dut, len(lengths))


@cocotb.test()
@cocotb.parametrize(("clocks", list(CLOCKS)))
async def the_wire_does_not_wait_for_the_core(dut, clocks):
    ends = await begin(dut, clocks)
    for length in fitting(dut, [64, 1500, 9000]):
        assert set(await exchange(dut, ends, [length] * 5)) == {GAP}


@cocotb.test()
@cocotb.parametrize(("clocks", list(CLOCKS)))
async def gaps_and_stalls_of_the_core_do_not_reach_a_frame_on_the_wire(dut, clocks):
    lengths = [64, 300, 61, 999, 64, 64, 128, 500]
    await exchange(dut, await begin(dut, clocks, gaps=0.7, stalls=0.7), lengths)
    await assert_counted(dut, len(lengths))


@pytest.mark.quick
def test_crossing_quick():
    run("mac", {"TX_DEPTH_LOG2": 8, "RX_DEPTH_LOG2": 8}, name="mac_crossing_small")


def test_crossing():
    run("mac", name="mac_crossing")
