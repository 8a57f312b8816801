"""Triple DES: known blocks, random ones against `cryptography` in both directions, keys that change, gaps and stalls, cycles."""

import random

import cocotb
import pytest
from cocotb.triggers import FallingEdge
from cocotb.utils import get_sim_time
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes

from harness import run
from rates import record
from stream import Sink, Source, number, start_clock

# SP 800-67's example (appendix B.1): three keys, three blocks.
KEY = "0123456789abcdef23456789abcdef01456789abcdef0123"
PLAIN = ["5468652071756663", "6b2062726f776e20", "666f78206a756d70"]
SEALED = ["a826fd8ce53b855f", "cce21c8112256fe6", "68d5c05dd9b6b900"]


class Bench:
    def __init__(self, dut):
        self.dut = dut
        self.keys = Source(dut, "key", ["key"], names={"key": "key"})
        self.blocks = Source(dut, "in", ["block", "dec"])
        self.out = Sink(dut, "out", ["block"])

    async def pass_through(self, blocks):
        cocotb.start_soon(self.blocks.send_all([{"block": number(block), "dec": dec} for block, dec in blocks]))
        return [(await self.out.get())["block"].to_bytes(8, "little") for _ in blocks]


@cocotb.test()
async def the_example_of_sp_800_67(dut):
    await start_clock(dut)
    bench = Bench(dut)
    plain, sealed = ([bytes.fromhex(block) for block in blocks] for blocks in (PLAIN, SEALED))
    await bench.keys.send(key=number(bytes.fromhex(KEY)))
    assert await bench.pass_through([(block, 0) for block in plain]) == sealed
    assert await bench.pass_through([(block, 1) for block in sealed]) == plain


@cocotb.test()
async def random_blocks_in_runs_of_both_directions(dut):
    await start_clock(dut)
    bench = Bench(dut)
    rng = random.Random(61)
    for bench.blocks.gaps, bench.out.stalls in [(0.0, 0.0), (0.7, 0.0), (0.0, 0.9), (0.5, 0.5)]:
        for _ in range(4):
            key = rng.randbytes(24)
            await bench.keys.send(key=number(key))
            cipher = Cipher(TripleDES(key), modes.ECB())
            both, dec, blocks = [cipher.encryptor(), cipher.decryptor()], 0, []
            for _ in range(25):
                dec ^= rng.random() < 0.3
                blocks.append((rng.randbytes(8), int(dec)))
            assert await bench.pass_through(blocks) == [both[dec].update(block) for block, dec in blocks]


@cocotb.test()
async def a_new_key_waits_for_the_blocks_in_flight(dut):
    await start_clock(dut)
    bench = Bench(dut)
    old = bytes(range(24))
    await bench.keys.send(key=number(old))
    await bench.blocks.send_all([{"block": n, "dec": 0} for n in range(6)])
    cocotb.start_soon(bench.keys.send(key=number(bytes(24))))
    cipher = Cipher(TripleDES(old), modes.ECB()).encryptor()
    for n in range(6):
        assert (await bench.out.get())["block"] == number(cipher.update(n.to_bytes(8, "little")))


@cocotb.test()
async def a_block_enters_every_four_cycles_and_is_out_after_twenty_five(dut):
    await start_clock(dut)
    bench = Bench(dut)
    await bench.keys.send(key=0)
    cocotb.start_soon(bench.blocks.send_all([{"block": n, "dec": 0} for n in range(40)]))
    cycles = [(await bench.out.get())["cycle"] for _ in range(40)]
    # Each takes 25 cycles (below), so six are in flight.
    assert cycles[39] - cycles[3] == 36 * 4
    record("core_3des", 36 * 64, cycles[39] - cycles[3])
    # One block alone, as in CBC encryption of one packet.
    dut.in_valid.value = 1
    await FallingEdge(dut.clk)
    dut.in_valid.value = 0
    entered = get_sim_time("ns")
    while not dut.out_valid.value:
        await FallingEdge(dut.clk)
    assert round((get_sim_time("ns") - entered) / 10) == 24


@pytest.mark.quick
def test_core_3des():
    run("core_3des")
