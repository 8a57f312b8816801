"""fifo and skid: nothing lost, doubled or reordered, under any gaps and stalls; full and wrapped."""

import random

import cocotb
import pytest
from cocotb.triggers import FallingEdge, ReadOnly
from harness import run
from stream import Sink, Source, start_clock


@cocotb.test()
@cocotb.parametrize((("gaps", "stalls"), [(0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.3, 0.3)]))
async def items_come_out_in_order(dut, gaps, stalls):
    source = Source(dut, "s", ["item"], gaps=gaps)
    sink = Sink(dut, "m", ["item"], stalls=stalls)
    await start_clock(dut)
    items = [random.Random(3).getrandbits(16) for _ in range(200)]
    cocotb.start_soon(source.send_all([{"item": item} for item in items]))
    taken = [await sink.get() for _ in items]
    assert [item["item"] for item in taken] == items
    if gaps == stalls == 0.0:
        assert taken[-1]["cycle"] - taken[0]["cycle"] == len(items) - 1, "an item a clock"


@cocotb.test()
async def a_full_queue_takes_nothing_and_loses_nothing(dut):
    source = Source(dut, "s", ["item"])
    await start_clock(dut)
    dut.m_ready.value = 0
    sender = cocotb.start_soon(source.send_all([{"item": n} for n in range(40)]))
    for _ in range(60):
        await FallingEdge(dut.clk)
    await ReadOnly()
    assert not dut.s_ready.value and not sender.done()
    await FallingEdge(dut.clk)
    sink = Sink(dut, "m", ["item"])
    assert [(await sink.get())["item"] for _ in range(40)] == list(range(40))


@pytest.mark.quick
@pytest.mark.parametrize("module", ["fifo", "skid"])
def test_queues(module):
    run(module, {"WIDTH": 16})
