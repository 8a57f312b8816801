"""x0 and mac: what passes each way while both ways are busy, recorded for the table of docs/lab/results/card.md."""

import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, FallingEdge
from frames import FIELDS, FrameSink, FrameSource
from gmii import GmiiSink, GmiiSource, on_the_wire
from harness import run
from host import CYCLES, Driver, Memory
from rates import record
from stream import start_clock

LENGTHS = [64, 512, 1500]
PREFIX, STATUS, GAP = 32, 16, 12
FIRST, LAST = 8, 40  # frames each way when counting begins and ends; more are queued
QUEUED = 56


async def host_side(dut, length):
    """Frames with a prefix from memory and with a status to it, over a bus without wait states; counts the frame alone."""
    dut.reg_valid.value = dut.reg_write.value = dut.mac_counters.value = 0
    driver = Driver(dut, Memory(dut), entries=64, completions=256)
    source, sink = FrameSource(dut), FrameSink(dut, fields=FIELDS + ["dest"])
    await start_clock(dut)
    await driver.begin()
    rng = random.Random(length)
    out, back = rng.randbytes(PREFIX + length), rng.randbytes(STATUS + length)
    places = []
    for n in range(QUEUED):
        driver.post_transmit(out, n)
        places.append(driver.post_receive(n, [2048]))

    async def feed():
        while True:
            await source.frame(back)

    async def drain():
        while True:
            assert await sink.frame() == (out, 0)

    cocotb.start_soon(feed())
    cocotb.start_soon(drain())
    await driver.ring_receive()
    await driver.ring_transmit()
    counts, start, begun = [0, 0], [0, 0], None
    while max(counts) < LAST:
        cookie, size, receive, error, _ = await driver.completion(free=False)
        assert not error
        if receive:
            assert driver.received(places[cookie], size) == back
        counts[receive] += 1
        if begun is None and min(counts) == FIRST:
            start, begun = list(counts), await driver.read(CYCLES)
    cycles = await driver.read(CYCLES) - begun
    return min(now - then for now, then in zip(counts, start)), 8 * length, cycles


async def wire_side(dut, length):
    """Frames to the wire and from it without a pause; counts what the line carries, preamble, FCS and gap too."""
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
    return LAST - FIRST, 8 * (len(on_the_wire(frame)) + GAP), cycles - begun


@cocotb.test()
@cocotb.parametrize(("length", LENGTHS))
async def both_ways_at_once(dut, length):
    name, side = ("mac", wire_side) if hasattr(dut, "gmii_txd") else ("x0", host_side)
    frames, bits, cycles = await side(dut, length)
    dut._log.info("%s, %d bytes: %d frames each way in %d cycles, %.2f bits a cycle", name, length, frames, cycles, frames * bits / cycles)
    record(f"{name} {length} bytes", frames * bits, cycles)


@pytest.mark.parametrize("module", ["x0", "mac"])
def test_full_duplex(module):
    run(module, name=f"{module}_full_duplex")
