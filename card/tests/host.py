"""The host: memory behind the card's bus master (it stands for PCI; one burst at a time), registers, and a driver's rings."""

import random
import struct

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly

ID, CTRL, CAPS = 0x00, 0x04, 0x08
TX, RX, CPL = 0x10, 0x20, 0x30  # base; mask, tail and head follow
IRQ_COUNT, IRQ_TIME, IRQ_ACK = 0x40, 0x44, 0x48
TX_FRAMES, RX_FRAMES, ERRORS, BUS_WORDS, BUS_WAITS, CYCLES = 0x50, 0x54, 0x58, 0x5C, 0x60, 0x64
X1, X2, MAC = 1, 2, 3


class Memory:
    """Serves bursts from a window of memory, and checks the rules of the bus."""

    def __init__(self, dut, size=1 << 20, waits=0.0, seed=1):
        self.dut, self.bytes, self.waits = dut, bytearray(size), waits
        self.rng = random.Random(seed)
        self.bursts = []  # (write, words)
        cocotb.start_soon(self._run())

    async def _cycle(self):
        await FallingEdge(self.dut.clk)
        while self.rng.random() < self.waits:
            await FallingEdge(self.dut.clk)

    async def _run(self):
        dut = self.dut
        dut.bus_cmd_ready.value = dut.bus_rd_valid.value = dut.bus_wr_ready.value = 0
        while True:
            await self._cycle()
            dut.bus_cmd_ready.value = 1
            await ReadOnly()
            while not dut.bus_cmd_valid.value:
                await FallingEdge(dut.clk)
                await ReadOnly()
            write, addr, words = (int(getattr(dut, f"bus_cmd_{name}").value) for name in ["write", "addr", "words"])
            assert addr % 8 == 0 and 1 <= words <= 32 and addr // 256 == (addr + 8 * words - 1) // 256, (addr, words)
            assert addr + 8 * words <= len(self.bytes), f"burst beyond the window: {addr:#x}"
            self.bursts.append((write, words))
            await FallingEdge(dut.clk)
            dut.bus_cmd_ready.value = 0
            for at in range(addr, addr + 8 * words, 8):
                await (self._write(at) if write else self._read(at))

    async def _read(self, at):
        dut = self.dut
        while self.rng.random() < self.waits:
            await FallingEdge(dut.clk)
        dut.bus_rd_valid.value = 1
        dut.bus_rd_data.value = int.from_bytes(self.bytes[at : at + 8], "little")
        await ReadOnly()
        while not dut.bus_rd_ready.value:
            await FallingEdge(dut.clk)
            await ReadOnly()
        await FallingEdge(dut.clk)
        dut.bus_rd_valid.value = 0

    async def _write(self, at):
        dut = self.dut
        while self.rng.random() < self.waits:
            await FallingEdge(dut.clk)
        dut.bus_wr_ready.value = 1
        await ReadOnly()
        while not dut.bus_wr_valid.value:
            await FallingEdge(dut.clk)
            await ReadOnly()
        word, strobes = int(dut.bus_wr_data.value).to_bytes(8, "little"), int(dut.bus_wr_strb.value)
        for lane in range(8):
            if strobes >> lane & 1:
                self.bytes[at + lane] = word[lane]
        await FallingEdge(dut.clk)
        dut.bus_wr_ready.value = 0


class Driver:
    """Rings in the memory's first 64 KiB, buffers that a simple allocator hands out above."""

    TX_RING, RX_RING, CPL_RING, BUFFERS = 0x0000, 0x4000, 0x8000, 0x10000

    def __init__(self, dut, memory, entries=8, completions=16):
        self.dut, self.memory = dut, memory
        self.entries, self.completions = entries, completions
        self.tx_tail = self.rx_tail = self.cpl_head = 0
        self.free = self.BUFFERS

    async def write(self, addr, value):
        dut = self.dut
        await FallingEdge(dut.clk)
        dut.reg_valid.value = dut.reg_write.value = 1
        dut.reg_addr.value, dut.reg_wdata.value = addr, value
        await FallingEdge(dut.clk)
        dut.reg_valid.value = dut.reg_write.value = 0

    async def read(self, addr):
        dut = self.dut
        await FallingEdge(dut.clk)
        dut.reg_valid.value, dut.reg_write.value, dut.reg_addr.value = 1, 0, addr
        await FallingEdge(dut.clk)
        dut.reg_valid.value = 0
        await ReadOnly()
        value = int(dut.reg_rdata.value)
        await FallingEdge(dut.clk)
        return value

    async def begin(self, control=3):
        assert await self.read(ID) == int.from_bytes(b"GRIP", "big")
        rings = [(TX, self.TX_RING, self.entries), (RX, self.RX_RING, self.entries), (CPL, self.CPL_RING, self.completions)]
        for register, base, entries in rings:
            await self.write(register, base)
            await self.write(register + 4, entries - 1)
        await self.write(CTRL, control)

    def place(self, length, offset=0):
        """Room for `length` bytes that begins `offset` bytes into a word."""
        at = (self.free + 7) // 8 * 8 + offset
        if at + length + 64 > len(self.memory.bytes):
            at = self.BUFFERS + offset
        self.free = at + length
        return at

    def _table(self, segments):
        at = self.place(8 * len(segments))
        for n, (addr, length) in enumerate(segments):
            struct.pack_into("<IHH", self.memory.bytes, at + 8 * n, addr, length, 0)
        return at

    def _descriptor(self, ring, tail, segments, cookie, target=0):
        """Writes a descriptor: of one buffer, or of a table."""
        if len(segments) == 1:
            word0 = struct.pack("<IHBB", *segments[0], 0, 0)
        else:
            word0 = struct.pack("<IHBB", self._table(segments), 0, len(segments), 1)
        at = ring + 16 * (tail % self.entries)
        self.memory.bytes[at : at + 16] = word0 + struct.pack("<IB3x", cookie, target)

    def post_transmit(self, data, cookie, target=X1, offsets=(0,), sizes=None):
        """Puts a frame into buffers of `sizes` (the last takes the rest) and into the ring; `ring_transmit` tells the card."""
        segments, sizes = [], sizes or [len(data)]
        for n, size in enumerate(sizes):
            part, data = (data[:size], data[size:]) if n < len(sizes) - 1 else (data, b"")
            at = self.place(len(part), offsets[n % len(offsets)])
            self.memory.bytes[at : at + len(part)] = part
            segments.append((at, len(part)))
        self._descriptor(self.TX_RING, self.tx_tail, segments, cookie, target)
        self.tx_tail = (self.tx_tail + 1) & 0xFFFF

    def post_receive(self, cookie, sizes=(2048,), offsets=(0,)):
        """Gives the card empty buffers; where they are, for `received`."""
        segments = [(self.place(size, offsets[n % len(offsets)]), size) for n, size in enumerate(sizes)]
        self._descriptor(self.RX_RING, self.rx_tail, segments, cookie)
        self.rx_tail = (self.rx_tail + 1) & 0xFFFF
        return segments

    async def ring_transmit(self):
        await self.write(TX + 8, self.tx_tail)

    async def ring_receive(self):
        await self.write(RX + 8, self.rx_tail)

    def received(self, segments, length):
        """The bytes of a received frame."""
        data = b""
        for at, size in segments:
            data += bytes(self.memory.bytes[at : at + min(size, length - len(data))])
        return data

    def poll(self):
        """The next completion, (cookie, length, receive, error, first 8 bytes of the status), or None."""
        at = self.CPL_RING + 16 * (self.cpl_head % self.completions)
        status, cookie, length, flags = struct.unpack_from("<8sIHB", self.memory.bytes, at)
        phase = 1 - (self.cpl_head // self.completions) % 2
        if flags & 1 != phase:
            return None
        self.cpl_head = (self.cpl_head + 1) & 0xFFFF
        return cookie, length, flags >> 1 & 1, flags >> 2 & 1, status

    async def completion(self, free=True):
        """Waits for the next completion and, if `free`, tells the card that it was read."""
        while (found := self.poll()) is None:
            await FallingEdge(self.dut.clk)
        if free:
            await self.write(CPL + 8, self.cpl_head)
        return found
