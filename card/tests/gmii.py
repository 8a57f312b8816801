"""The wire's ends: bytes of a GMII to frames, and back, with zlib's CRC-32 as the reference."""

import zlib

from cocotb.queue import Queue
from cocotb.triggers import FallingEdge, ReadOnly
import cocotb


def on_the_wire(frame):
    """Preamble, start, the frame padded to 60 bytes, FCS."""
    body = frame + bytes(max(0, 60 - len(frame)))
    return b"\x55" * 7 + b"\xd5" + body + zlib.crc32(body).to_bytes(4, "little")


class GmiiSink:
    """Collects what the card sends: (bytes with preamble and FCS, idle byte times before)."""

    def __init__(self, dut):
        self.dut = dut
        self.taken = Queue()
        cocotb.start_soon(self._run())

    async def _run(self):
        frame, idle = bytearray(), 0
        while True:
            await FallingEdge(self.dut.mac_clk)
            await ReadOnly()
            if self.dut.rst.value:
                frame, idle = bytearray(), 0
                continue
            if self.dut.gmii_tx_en.value:
                frame.append(int(self.dut.gmii_txd.value))
                continue
            if frame:
                # Anyone who waits goes on where inputs may change.
                cocotb.start_soon(self._hand_over(bytes(frame), idle))
                frame, idle = bytearray(), 0
            idle += 1

    async def _hand_over(self, frame, idle):
        await FallingEdge(self.dut.mac_clk)
        self.taken.put_nowait((frame, idle))

    async def frame(self):
        """The next frame's wire bytes, and the idle byte times before it."""
        return await self.taken.get()


class GmiiSource:
    """Sends bytes to the card."""

    def __init__(self, dut):
        self.dut = dut
        dut.gmii_rx_dv.value = 0
        dut.gmii_rx_er.value = 0
        dut.gmii_rxd.value = 0

    async def wire(self, wire, gap=12, error_at=None):
        """Puts raw bytes on the wire and then `gap` idle byte times."""
        for index, byte in enumerate(wire):
            self.dut.gmii_rxd.value = byte
            self.dut.gmii_rx_dv.value = 1
            self.dut.gmii_rx_er.value = int(index == error_at)
            await FallingEdge(self.dut.mac_clk)
        self.dut.gmii_rx_dv.value = 0
        self.dut.gmii_rx_er.value = 0
        for _ in range(gap):
            await FallingEdge(self.dut.mac_clk)

    async def frame(self, frame, **options):
        """Sends a sound frame."""
        await self.wire(on_the_wire(frame), **options)
