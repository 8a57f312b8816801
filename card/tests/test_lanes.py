"""The cipher's lanes: packets of one key side by side in every mode against `cryptography`, in order, with gaps and stalls; cycles a block."""

import os
import random

import cocotb
import pytest
from cocotb.triggers import FallingEdge
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from harness import run
from stream import Sink, Source, number, start_clock


class Bench:
    def __init__(self, dut):
        self.dut, self.mode = dut, int(os.environ["CIPHER"])
        self.unit = 8 if self.mode == 2 else 16
        self.keys = Source(dut, "key", ["key", "len"], names={"key": "key"})
        self.starts = Source(dut, "start", ["dec", "salt", "iv"])
        self.blocks = Source(dut, "in", ["block", "bytes", "last"])
        self.out = Sink(dut, "out", ["block", "bytes", "last"])

    def pace(self, gaps, stalls):
        self.starts.gaps = self.blocks.gaps = gaps
        self.out.stalls = stalls

    def key(self, rng):
        return rng.randbytes(24 if self.mode == 2 else rng.choice([16, 24, 32]))

    async def load(self, key):
        await self.keys.send(key=number(key), len=0 if self.mode == 2 else len(key) // 8 - 2)

    def packet(self, rng, key, most, dec):
        """(salt, IV, text to give, text to come)."""
        salt, iv = rng.randbytes(4), rng.randbytes({0: 8, 1: 16, 2: 8}[self.mode])
        length = rng.randrange(1, most) if self.mode == 0 else self.unit * rng.randrange(1, max(2, most // self.unit))
        plain = rng.randbytes(length)
        mode = modes.CTR(salt + iv + b"\0\0\0\1") if self.mode == 0 else modes.CBC(iv)
        sealed = Cipher((TripleDES if self.mode == 2 else algorithms.AES)(key), mode).encryptor().update(plain)
        return (salt, iv, sealed, plain) if dec else (salt, iv, plain, sealed)

    async def give(self, packets, dec):
        for salt, iv, text, _ in packets:
            await self.starts.send(dec=dec, salt=number(salt), iv=number(iv))
            cuts = [text[at : at + self.unit] for at in range(0, len(text), self.unit)]
            await self.blocks.send_all(
                {"block": number(cut.ljust(self.unit, b"\xa5")), "bytes": len(cut), "last": int(n == len(cuts) - 1)}
                for n, cut in enumerate(cuts)
            )

    async def take(self, length):
        text = b""
        for at in range(0, length, self.unit):
            got = await self.out.get()
            assert (got["bytes"], got["last"]) == (min(self.unit, length - at), at + self.unit >= length)
            text += got["block"].to_bytes(self.unit, "little")
            self.cycle = got["cycle"]
        return text[:length]


@cocotb.test()
@cocotb.parametrize((("gaps", "stalls"), [(0.0, 0.0), (0.9, 0.0), (0.0, 0.9), (0.5, 0.5)]))
async def packets_of_one_key_leave_in_the_order_of_their_starts(dut, gaps, stalls):
    await start_clock(dut)
    bench, rng = Bench(dut), random.Random(81)
    bench.pace(gaps, stalls)
    for dec in [0, 1, 1, 0]:
        key = bench.key(rng)
        await bench.load(key)
        packets = [bench.packet(rng, key, rng.choice([16, 60, 200]), dec) for _ in range(14)]
        cocotb.start_soon(bench.give(packets, dec))
        for n, (_, _, _, wanted) in enumerate(packets):
            assert await bench.take(len(wanted)) == wanted, (dec, n)
        await FallingEdge(dut.clk)
        assert dut.packets.value == 0


@cocotb.test()
async def a_packet_longer_than_the_queues_passes_while_shorter_ones_wait_behind_it(dut):
    await start_clock(dut)
    bench, rng = Bench(dut), random.Random(82)
    key = bench.key(rng)
    await bench.load(key)
    for dec in [0, 1]:
        packets = [bench.packet(rng, key, most, dec) for most in [3000, 40, 3000, 40, 40]]
        cocotb.start_soon(bench.give(packets, dec))
        for _, _, _, wanted in packets:
            assert await bench.take(len(wanted)) == wanted


@cocotb.test()
async def all_lanes_together_keep_the_core_busy(dut):
    await start_clock(dut)
    bench = Bench(dut)
    await bench.load(bytes(range(24 if bench.mode == 2 else 16)))
    each = 4 if bench.mode == 2 else 10
    for dec in [0, 1]:
        cocotb.start_soon(bench.give([(bytes(4), bytes(8), bytes(640), b"")] * 41, dec))
        cycles = []
        for _ in range(41):
            await bench.take(640)
            cycles.append(bench.cycle)
        taken = (cycles[32] - cycles[16]) / (16 * 640 / bench.unit)
        dut._log.info("cycles a block, %s: %.2f", "opening" if dec else "sealing", taken)
        assert each * 0.99 <= taken <= each * 1.02


@pytest.mark.quick
@pytest.mark.parametrize(("cipher", "lanes"), [(0, 2), (1, 4), (2, 8)])
def test_lanes(cipher, lanes):
    os.environ["CIPHER"] = str(cipher)
    run("lanes", {"CIPHER": cipher, "LANES": lanes, "DEPTH_LOG2": 7}, name=f"lanes_{cipher}")
