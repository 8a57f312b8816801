"""mac: what passes each way while both ways are busy, recorded for the table of docs/card.md."""

import random

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge
from frames import FrameSink, FrameSource
from gmii import GmiiSink, GmiiSource, on_the_wire
from harness import run
from rates import record
from stream import start_clock

LENGTHS = [64, 512, 1500]
GAP = 12
FIRST, LAST = 8, 40  # frames each way when counting begins and ends


@cocotb.test()
@cocotb.parametrize(("length", LENGTHS))
async def both_ways_at_once(dut, length):
    """Frames to the wire and from it without a pause; counts what the line carries, preamble, FCS and gap too."""
    dut.tx_ce.value = dut.rx_ce.value = 1
    source, sink, sent, wire = FrameSource(dut), FrameSink(dut), GmiiSink(dut), GmiiSource(dut)
    await start_clock(dut)
    await ClockCycles(dut.clk, GAP)
    frame = random.Random(length).randbytes(length)

    async def send():
        while True:
            await source.frame(frame)

    async def receive():
        while True:
            await wire.frame(frame)

    cycles = 0

    async def count():
        nonlocal cycles
        while True:
            await FallingEdge(dut.clk)
            cycles += 1

    for task in [send(), receive(), count()]:
        cocotb.start_soon(task)
    begun = 0
    for n in range(LAST):
        assert (await sent.frame())[0] == on_the_wire(frame) and await sink.frame() == (frame, 0)
        if n + 1 == FIRST:
            begun = cycles
    assert dut.overruns.value == 0 and dut.broken.value == 0
    bits, taken = 8 * (LAST - FIRST) * (len(on_the_wire(frame)) + GAP), cycles - begun
    dut._log.info("%d bytes: %d bits each way in %d cycles, %.2f a cycle", length, bits, taken, bits / taken)
    record(f"mac {length} bytes", bits, taken)


def test_full_duplex():
    run("mac", name="mac_full_duplex")
