"""frame_buffer: a frame leaves only when judged good; wrap, full, too large."""

import random

import cocotb
import pytest
from cocotb.triggers import FallingEdge, ReadOnly
from frames import FrameSink, FrameSource
from harness import run
from stream import start_clock

WORDS = 16
FIELDS = ["data", "eof", "bytes"]


async def judge_all(dut, verdict, waits):
    """Judges each whole frame after a random wait; `verdict(n, overflow)` says whether to keep frame n."""
    rng, number = random.Random(1), 0
    dut.judge.value = 0
    while True:
        await FallingEdge(dut.clk)
        dut.judge.value = 0
        await ReadOnly()
        if not dut.whole.value:
            continue
        overflow = int(dut.overflow.value)
        for _ in range(rng.randrange(waits) + 1):
            await FallingEdge(dut.clk)
        dut.judge.value = 1
        dut.keep.value = int(verdict(number, overflow))
        number += 1


@cocotb.test()
@cocotb.parametrize((("gaps", "stalls"), [(0.0, 0.0), (0.3, 0.6)]))
async def only_frames_judged_good_leave(dut, gaps, stalls):
    source = FrameSource(dut, fields=FIELDS, gaps=gaps)
    sink = FrameSink(dut, fields=["data", "sof", "eof", "bytes"], stalls=stalls)
    await start_clock(dut)
    rng = random.Random(2)
    frames = [rng.randbytes(rng.randrange(1, 8 * WORDS + 1)) for _ in range(150)]
    good = [rng.random() < 0.6 for _ in frames]
    good[-1] = True

    async def send():
        for frame in frames:
            await source.frame(frame)

    cocotb.start_soon(judge_all(dut, lambda n, overflow: good[n] and not overflow, 3))
    cocotb.start_soon(send())
    for frame, keep in zip(frames, good):
        if keep:
            assert (await sink.frame())[0] == frame


@cocotb.test()
async def a_frame_larger_than_the_memory_is_swallowed_and_said(dut):
    source = FrameSource(dut, fields=FIELDS)
    sink = FrameSink(dut, fields=["data", "sof", "eof", "bytes"])
    await start_clock(dut)
    overflows = []

    def verdict(_, overflow):
        overflows.append(overflow)
        return not overflow

    cocotb.start_soon(judge_all(dut, verdict, 1))
    await source.frame(bytes(8 * WORDS + 1))
    await source.frame(b"fits")
    assert (await sink.frame())[0] == b"fits"
    assert overflows == [1, 0]


@pytest.mark.quick
def test_frame_buffer():
    run("frame_buffer", {"DEPTH_LOG2": 4})
