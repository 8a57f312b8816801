"""Both ends of a valid/ready stream.

Inputs change at the falling edge, and what will pass at the next rising edge is read once they have settled: so a test sees
the same in every simulator, whatever order it evaluates an edge in.
"""

import random

import cocotb
from cocotb.clock import Clock
from cocotb.queue import Queue
from cocotb.triggers import FallingEdge, ReadOnly, Timer

CLOCK_PS = 10_000


def number(data):
    """Bytes as a port has them: byte 0 lowest."""
    return int.from_bytes(data, "little")


async def start_clock(dut, mac_ps=None):
    """Starts the clock, of 10 ns, and holds the reset for three cycles.

    A module with a `mac_clk` gets it too, with a period of `mac_ps`: a number of ps, or a function that gives one
    for each cycle; without, that of the other clock. Its reset lasts for eight cycles of the slower one.
    """
    cocotb.start_soon(Clock(dut.clk, CLOCK_PS, unit="ps").start())
    dut.rst.value = 1
    cycles = 3
    if hasattr(dut, "mac_clk"):
        period = mac_ps if callable(mac_ps) else lambda: mac_ps or CLOCK_PS
        cocotb.start_soon(drifting_clock(dut.mac_clk, period))
        cycles = 8 * (1 + period() // CLOCK_PS)
    for _ in range(cycles):
        await FallingEdge(dut.clk)
    dut.rst.value = 0


async def drifting_clock(clk, period):
    """A clock whose period, in ps, is asked again for each cycle."""
    while True:
        half = period() // 2
        for level in (0, 1):
            clk.value = level
            await Timer(half, unit="ps")


def signals(dut, prefix, fields, names):
    """The signal of each field: `prefix`_field, or what `names` says."""
    return {field: getattr(dut, (names or {}).get(field, f"{prefix}_{field}")) for field in fields}


class Source:
    """Drives `prefix`_valid and the named fields; waits a random number of cycles with probability `gaps`."""

    def __init__(self, dut, prefix, fields, gaps=0.0, seed=1, names=None):
        self.clk = dut.clk
        self.valid = getattr(dut, f"{prefix}_valid")
        self.ready = getattr(dut, f"{prefix}_ready")
        self.fields = signals(dut, prefix, fields, names)
        self.gaps = gaps
        self.random = random.Random(seed)
        self.valid.value = 0
        for signal in self.fields.values():
            signal.value = 0

    async def send(self, **values):
        """Gives one transfer, and returns when it is taken."""
        await self.send_all([values])

    async def send_all(self, transfers):
        """Gives transfers one after the other, without a pause where `gaps` is 0."""
        await FallingEdge(self.clk)
        for values in transfers:
            while self.random.random() < self.gaps:
                self.valid.value = 0
                # What stands on the wires without valid must not matter.
                for signal in self.fields.values():
                    signal.value = self.random.getrandbits(len(signal))
                await FallingEdge(self.clk)
            for field, signal in self.fields.items():
                signal.value = values[field]
            self.valid.value = 1
            await ReadOnly()
            while not self.ready.value:
                await FallingEdge(self.clk)
                await ReadOnly()
            await FallingEdge(self.clk)
        self.valid.value = 0


class Sink:
    """Takes what comes from `prefix`, unready with probability `stalls`, and checks that data holds while it waits."""

    def __init__(self, dut, prefix, fields, stalls=0.0, seed=2, names=None):
        self.clk = dut.clk
        self.valid = getattr(dut, f"{prefix}_valid")
        self.ready = getattr(dut, f"{prefix}_ready")
        self.fields = signals(dut, prefix, fields, names)
        self.stalls = stalls
        self.random = random.Random(seed)
        self.taken = Queue()
        self.ready.value = 0
        self.cycle = 0
        cocotb.start_soon(self._run())

    async def _run(self):
        waiting = None
        while True:
            await FallingEdge(self.clk)
            self.cycle += 1
            ready = self.random.random() >= self.stalls
            self.ready.value = int(ready)
            await ReadOnly()
            if not self.valid.value:
                assert waiting is None, "valid fell before the transfer was taken"
                continue
            values = {field: int(signal.value) for field, signal in self.fields.items()}
            assert waiting in (None, values), f"data changed while it waited: {waiting} -> {values}"
            waiting = None if ready else values
            if ready:
                # Anyone who waits goes on where inputs may change.
                cocotb.start_soon(self._hand_over({**values, "cycle": self.cycle}))

    async def _hand_over(self, transfer):
        await FallingEdge(self.clk)
        self.taken.put_nowait(transfer)

    async def get(self):
        """The next transfer: its fields, and the cycle in which it passed."""
        return await self.taken.get()
