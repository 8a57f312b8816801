"""mac: framing, padding, FCS and gap on the wire; nothing unsound comes in; both directions at once at line rate."""

import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, FallingEdge
from frames import FrameSink, FrameSource
from gmii import GmiiSink, GmiiSource, on_the_wire
from harness import run
from stream import start_clock


# Cycles until a count of the wire's clock is seen in the other one.
COUNTED = 8


async def begin(dut, gaps=0.0, stalls=0.0, mac_ps=None):
    ends = FrameSource(dut, gaps=gaps), FrameSink(dut, stalls=stalls), GmiiSink(dut), GmiiSource(dut)
    await start_clock(dut, mac_ps)
    return ends


@cocotb.test()
@cocotb.parametrize(("gaps", [0.0, 0.5]))
async def each_frame_leaves_padded_with_its_fcs_and_the_gap(dut, gaps):
    source, _, wire, _ = await begin(dut, gaps)
    frames = [random.Random(length).randbytes(length) for length in [1, 13, 59, 60, 61, 64, 67, 100, 250]]

    async def send():
        for frame in frames:
            await source.frame(frame)

    cocotb.start_soon(send())
    for number, frame in enumerate(frames):
        sent, idle = await wire.frame()
        assert sent == on_the_wire(frame)
        assert number == 0 or idle >= 12
    assert gaps or idle == 12, "back to back frames leave no more than the gap"


@cocotb.test()
async def a_frame_marked_broken_never_reaches_the_wire(dut):
    source, _, wire, _ = await begin(dut)
    await source.frame(bytes(80), err=1)
    await source.frame(b"x" * 80)
    assert (await wire.frame())[0] == on_the_wire(b"x" * 80)
    await ClockCycles(dut.clk, COUNTED)
    assert dut.dropped.value == 1 and dut.sent.value == 1


@cocotb.test()
async def sound_frames_come_in_and_unsound_ones_are_counted(dut):
    _, sink, _, wire = await begin(dut, stalls=0.5)
    good = [random.Random(length).randbytes(length) for length in [60, 61, 62, 63, 64, 65, 66, 67, 68, 300, 502]]
    spoilt = bytearray(on_the_wire(b"y" * 70))
    spoilt[40] ^= 4

    async def send():
        for frame in good:
            await wire.frame(frame)
            await wire.wire(spoilt)  # FCS wrong
            await wire.wire(on_the_wire(b"z" * 70)[:60])  # short
            await wire.wire(on_the_wire(b"z" * 509))  # long
            await wire.wire(on_the_wire(b"z" * 1500))  # far too long
            await wire.wire(on_the_wire(b"z" * 70), error_at=30)  # rx_er
            await wire.wire(b"\x55" * 5)  # noise

    cocotb.start_soon(send())
    for frame in good:
        assert await sink.frame() == (frame, 0)
    await ClockCycles(dut.clk, 3000)
    await FallingEdge(dut.clk)
    assert dut.received.value == len(good) and dut.broken.value == 6 * len(good)


@cocotb.test()
async def a_full_buffer_drops_whole_frames_only(dut):
    _, sink, _, wire = await begin(dut, stalls=1.0)
    frames = [bytes([n]) * 400 for n in range(6)]  # 50 words each; 128 words fit
    for frame in frames:
        await wire.frame(frame)
    await ClockCycles(dut.clk, COUNTED)
    assert dut.overruns.value == 4
    sink.stalls = 0.0
    for frame in frames[:2]:
        assert await sink.frame() == (frame, 0)
    await wire.frame(b"after" * 20)
    assert await sink.frame() == (b"after" * 20, 0)


@cocotb.test()
async def both_directions_run_at_line_rate(dut):
    source, sink, sent, wire = await begin(dut)
    frames = [random.Random(n).randbytes(400) for n in range(20)]

    async def send():
        for frame in frames:
            await source.frame(frame)

    async def receive():
        for frame in frames:
            await wire.frame(frame)

    cocotb.start_soon(send())
    cocotb.start_soon(receive())
    for frame in frames:
        out, idle = await sent.frame()
        assert out == on_the_wire(frame) and (frame is frames[0] or idle == 12)
        assert await sink.frame() == (frame, 0)


@pytest.mark.quick
def test_mac():
    run("mac", {"TX_DEPTH_LOG2": 7, "RX_DEPTH_LOG2": 7, "MAX_BYTES": 512})
