"""switch: every frame arrives whole, once, at its port, in the order of its source; no input or output starves."""

import random

import cocotb
import pytest
from cocotb.queue import Queue
from cocotb.triggers import FallingEdge, ReadOnly
from frames import words_of
from harness import run
from stream import start_clock

PORTS = 4
WIDTHS = {"data": 64, "sof": 1, "eof": 1, "bytes": 4, "err": 1}


def lane(value, port, width):
    return value >> (width * port) & ((1 << width) - 1)


class Ports:
    """All eight ends of the switch: a queue of frames for each input, and of frames with their source from each output."""

    def __init__(self, dut, gaps=0.0, stalls=0.0, closed=()):
        self.dut, self.gaps, self.stalls, self.closed = dut, gaps, stalls, closed
        self.rng = random.Random(41)
        self.words = [[] for _ in range(PORTS)]
        self.open = [b""] * PORTS
        self.arrived = [Queue() for _ in range(PORTS)]
        cocotb.start_soon(self._run())

    def send(self, port, frame, dest, err=0):
        self.words[port] += [{**word, "dest": dest} for word in words_of(frame, err)]

    async def _run(self):
        dut, offered = self.dut, [False] * PORTS
        while True:
            await FallingEdge(dut.clk)
            packed = dict.fromkeys([*WIDTHS, "dest", "valid"], 0)
            for port in range(PORTS):
                offered[port] = bool(self.words[port]) and (offered[port] or self.rng.random() >= self.gaps)
                if offered[port]:
                    word = self.words[port][0]
                    packed["valid"] |= 1 << port
                    packed["dest"] |= word["dest"] << 2 * port
                    for field, width in WIDTHS.items():
                        packed[field] |= word[field] << width * port
            for field, value in packed.items():
                getattr(dut, f"s_{field}").value = value
            ready = sum((port not in self.closed and self.rng.random() >= self.stalls) << port for port in range(PORTS))
            dut.m_ready.value = ready
            await ReadOnly()
            moved, came = int(dut.s_ready.value), int(dut.m_valid.value) & ready
            for port in range(PORTS):
                if offered[port] and moved >> port & 1:
                    self.words[port].pop(0)
                    offered[port] = False
                if came >> port & 1:
                    self._take(port)

    def _take(self, port):
        word = {field: lane(int(getattr(self.dut, f"m_{field}").value), port, width) for field, width in WIDTHS.items()}
        source = lane(int(self.dut.m_src.value), port, 2)
        assert word["sof"] == int(not self.open[port]), "a frame inside another"
        self.open[port] += word["data"].to_bytes(8, "little")[: word["bytes"]]
        if word["eof"]:
            self.arrived[port].put_nowait((source, self.open[port], word["err"]))
            self.open[port] = b""


def frame_of(rng, source, dest, number):
    return bytes([source, dest, number & 255, number >> 8]) + rng.randbytes(rng.randrange(1, 60))


@cocotb.test()
@cocotb.parametrize((("gaps", "stalls"), [(0.0, 0.0), (0.4, 0.4)]))
async def every_frame_arrives_once_and_in_the_order_of_its_source(dut, gaps, stalls):
    ports = Ports(dut, gaps, stalls)
    await start_clock(dut)
    rng, expected = random.Random(42), {}
    for number in range(400):
        source, dest = rng.randrange(PORTS), rng.randrange(PORTS)
        frame = frame_of(rng, source, dest, number)
        ports.send(source, frame, dest, err=number % 7 == 0)
        expected.setdefault((source, dest), []).append((frame, int(number % 7 == 0)))
    for dest in range(PORTS):
        for _ in range(sum(len(frames) for (_, to), frames in expected.items() if to == dest)):
            source, frame, err = await ports.arrived[dest].get()
            assert expected[source, dest].pop(0) == (frame, err)
    assert not any(expected.values())


@cocotb.test()
async def a_closed_output_stops_no_other(dut):
    ports = Ports(dut, closed=[2])
    await start_clock(dut)
    rng = random.Random(43)
    ports.send(0, frame_of(rng, 0, 2, 0), 2)
    for number in range(50):
        ports.send(1, frame_of(rng, 1, 3, number), 3)
        ports.send(3, frame_of(rng, 3, 1, number), 1)
    for number in range(50):
        assert (await ports.arrived[3].get())[1][2] == number
        assert (await ports.arrived[1].get())[1][2] == number
    assert ports.arrived[2].empty()
    ports.closed = []
    assert (await ports.arrived[2].get())[0] == 0


@cocotb.test()
@cocotb.parametrize(to=range(PORTS))
async def inputs_that_want_one_output_take_turns(dut, to):
    ports = Ports(dut)
    await start_clock(dut)
    rng = random.Random(44)
    for number in range(20):
        for source in range(PORTS):
            ports.send(source, frame_of(rng, source, to, number), to)
    order = [(await ports.arrived[to].get())[0] for _ in range(20 * PORTS)]
    assert all(sorted(order[n : n + PORTS]) == list(range(PORTS)) for n in range(0, len(order), PORTS))


@cocotb.test()
async def four_pairs_move_a_word_a_clock_each(dut):
    ports = Ports(dut)
    await start_clock(dut)
    for number in range(10):
        for source in range(PORTS):
            ports.send(source, bytes([source]) * 80, (source + 1) % PORTS)
    for _ in range(110):
        await FallingEdge(dut.clk)
    assert all(not words for words in ports.words), "100 words for each input"


@pytest.mark.quick
def test_switch():
    run("switch")
