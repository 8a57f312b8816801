"""AES blocks: FIPS-197, random blocks against `cryptography`, gaps and stalls, order, cycles a block."""

import os
import random

import cocotb
import pytest
from cocotb.triggers import FallingEdge
from cocotb.utils import get_sim_time
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from harness import run
from rates import record
from stream import Sink, Source, start_clock

# FIPS-197, appendix C.
PLAIN = 0x00112233445566778899AABBCCDDEEFF
FIPS_197 = {
    16: 0x69C4E0D86A7B0430D8CDB78070B4C55A,
    24: 0xDDA97CA4864CDFE06EAF70A0EC0D7191,
    32: 0x8EA2B7CA516745BFEAFC49904B496089,
}


def expected(key, block, inverse):
    cipher = Cipher(algorithms.AES(key), modes.ECB())
    one = cipher.decryptor() if inverse else cipher.encryptor()
    return int.from_bytes(one.update(block.to_bytes(16, "big")), "big")


def key_fields(slot, key):
    return {"slot": slot, "data": int.from_bytes(key.ljust(32, b"\0"), "big"), "len": len(key) // 8 - 2}


class Bench:
    def __init__(self, dut):
        self.dut = dut
        self.inverse = bool(int(os.environ["INVERSE"]))
        self.keys = Source(dut, "key", ["slot", "data", "len"])
        self.blocks = Source(dut, "in", ["data", "slot", "tag"])
        self.out = Sink(dut, "out", ["data", "tag"])

    async def load(self, slot, key):
        await self.keys.send(**key_fields(slot, key))
        while not self.dut.key_ready.value:
            await FallingEdge(self.dut.clk)


@cocotb.test()
async def the_examples_of_fips_197(dut):
    await start_clock(dut)
    bench = Bench(dut)
    for length, sealed in FIPS_197.items():
        await bench.load(0, bytes(range(length)))
        given, wanted = (sealed, PLAIN) if bench.inverse else (PLAIN, sealed)
        await bench.blocks.send(data=given, slot=0, tag=1)
        got = await bench.out.get()
        assert got["data"] == wanted and got["tag"] == 1


async def random_blocks(bench, count, seed):
    """Two keys of random lengths, blocks of both mixed: every block right, and in order."""
    rng = random.Random(seed)
    for _ in range(4):
        keys = [rng.randbytes(rng.choice([16, 24, 32])) for _ in range(2)]
        for slot, key in enumerate(keys):
            await bench.load(slot, key)
        blocks = [
            {"data": rng.getrandbits(128), "slot": rng.randrange(2), "tag": rng.randrange(16)} for _ in range(count)
        ]
        cocotb.start_soon(bench.blocks.send_all(blocks))
        for block in blocks:
            got = await bench.out.get()
            assert got["tag"] == block["tag"]
            assert got["data"] == expected(keys[block["slot"]], block["data"], bench.inverse)


@cocotb.test()
async def random_blocks_of_two_keys_at_full_rate(dut):
    await start_clock(dut)
    await random_blocks(Bench(dut), 60, 11)


@cocotb.test()
async def random_blocks_with_gaps_and_stalls(dut):
    await start_clock(dut)
    bench = Bench(dut)
    for bench.blocks.gaps, bench.out.stalls in [(0.9, 0.0), (0.0, 0.95), (0.5, 0.5), (0.9, 0.9)]:
        await random_blocks(bench, 20, 12)


@cocotb.test()
async def a_key_loads_while_blocks_of_the_other_slot_pass(dut):
    await start_clock(dut)
    bench = Bench(dut)
    rng = random.Random(13)
    old = rng.randbytes(32)
    await bench.load(0, old)
    slot = 0
    for _ in range(6):
        blocks = [{"data": rng.getrandbits(128), "slot": slot, "tag": 0} for _ in range(12)]
        cocotb.start_soon(bench.blocks.send_all(blocks))
        new = rng.randbytes(rng.choice([16, 24, 32]))
        await bench.load(1 - slot, new)
        for block in blocks:
            assert (await bench.out.get())["data"] == expected(old, block["data"], bench.inverse)
        slot, old = 1 - slot, new


@cocotb.test()
async def a_block_takes_as_many_cycles_as_the_key_has_rounds(dut):
    await start_clock(dut)
    bench = Bench(dut)
    for length, rounds in [(16, 10), (24, 12), (32, 14)]:
        await bench.load(0, bytes(length))
        cocotb.start_soon(bench.blocks.send_all([{"data": n, "slot": 0, "tag": 0} for n in range(42)]))
        cycles = [(await bench.out.get())["cycle"] for _ in range(42)]
        assert cycles[41] - cycles[1] == 40 * rounds
        name = "aes_iter inverse" if bench.inverse else "aes_iter"
        record(f"{name} AES-{length * 8}", 40 * 128, cycles[41] - cycles[1])


@cocotb.test()
async def a_key_expands_in_56_62_or_75_cycles_while_the_next_waits(dut):
    await start_clock(dut)
    keys = Source(dut, "key", ["slot", "data", "len"])
    for length, cycles in [(16, 56), (24, 62), (32, 75)]:
        for _ in range(2):
            before = get_sim_time("ns")
            await keys.send(**key_fields(0, bytes(length)))
            while not dut.key_ready.value:
                await FallingEdge(dut.clk)
            # Of `send`, one cycle passes before the key is offered.
            assert get_sim_time("ns") - before == (cycles + 1) * 10, length


@cocotb.test()
async def the_first_block_may_enter_in_the_cycle_in_which_its_key_is_ready(dut):
    await start_clock(dut)
    bench = Bench(dut)
    rng = random.Random(14)
    for _ in range(9):
        key, block = rng.randbytes(rng.choice([16, 24, 32])), rng.getrandbits(128)
        await bench.load(0, key)
        dut.in_data.value, dut.in_slot.value, dut.in_valid.value = block, 0, 1
        await FallingEdge(dut.clk)
        dut.in_valid.value = 0
        assert (await bench.out.get())["data"] == expected(key, block, bench.inverse)


@pytest.mark.quick
@pytest.mark.parametrize("inverse", [0, 1])
def test_aes_iter(inverse):
    os.environ["INVERSE"] = str(inverse)
    run("aes_iter", {"INVERSE": inverse, "TAG": 4}, name=f"aes_iter_{inverse}")
