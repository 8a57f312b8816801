"""SHA-1 and SHA-512: FIPS 180's examples, random messages against hashlib with words that come late, cycles a block."""

import hashlib
import os
import random

import cocotb
import pytest
from cocotb.triggers import FallingEdge
from cocotb.utils import get_sim_time

from harness import run
from rates import record
from stream import Source, start_clock

# name: chaining value, bytes a block, bytes of the length field, name of the word port.
HASHES = {
    "sha1": ("67452301efcdab8998badcfe10325476c3d2e1f0", 64, 8, "words"),
    "sha512": (
        "6a09e667f3bcc908bb67ae8584caa73b3c6ef372fe94f82ba54ff53a5f1d36f1"
        "510e527fade682d19b05688c2b3e6c1f1f83d9abfb41bd6b5be0cd19137e2179",
        128,
        16,
        "word",
    ),
}
# FIPS 180's examples of one and of two blocks.
EXAMPLES = [
    b"abc",
    b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
    b"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
]
DIGESTS = {
    "sha1": ["a9993e364706816aba3e25717850c26c9cd0d89d", "84983e441c3bd26ebaae4aa1f95129e5e54670f1"],
    "sha512": [
        "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
        "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        None,
        "8e959b75dae313da8cf4f72814fc143f8f7779c6eb9f7fa17299aeadb6889018"
        "501d289e4900f7e4331b99dec4b5433ac7d329eeb6dd26545e96e55b874be909",
    ],
}


class Bench:
    def __init__(self, dut):
        self.dut, self.name = dut, os.environ["HASH"]
        first, self.block, self.length_bytes, port = HASHES[self.name]
        self.first = bytes.fromhex(first)
        self.starts = Source(dut, "start", ["state"])
        self.words = Source(dut, "in", [port])
        self.port = port

    async def digest(self, message):
        zeros = -(len(message) + 1 + self.length_bytes) % self.block
        padded = message + b"\x80" + bytes(zeros) + (len(message) * 8).to_bytes(self.length_bytes, "big")
        state = int.from_bytes(self.first, "big")
        for at in range(0, len(padded), self.block):
            cocotb.start_soon(
                self.words.send_all(
                    {self.port: int.from_bytes(padded[n : n + 8], "big")} for n in range(at, at + self.block, 8)
                )
            )
            await self.starts.send(state=state)
            while not self.dut.start_ready.value:
                await FallingEdge(self.dut.clk)
            state = int(self.dut.state.value)
        return state.to_bytes(len(self.first), "big")


@cocotb.test()
async def the_examples_of_fips_180(dut):
    await start_clock(dut)
    bench = Bench(dut)
    for message, digest in zip(EXAMPLES, DIGESTS[bench.name]):
        if digest:
            assert (await bench.digest(message)).hex() == digest


@cocotb.test()
async def random_messages_with_words_that_come_late(dut):
    await start_clock(dut)
    bench = Bench(dut)
    rng = random.Random(41)
    for bench.words.gaps in [0.0, 0.3, 0.9]:
        for _ in range(6):
            message = rng.randbytes(rng.randrange(400))
            assert await bench.digest(message) == hashlib.new(bench.name, message).digest()


@cocotb.test()
async def a_block_takes_42_or_83_cycles(dut):
    await start_clock(dut)
    bench = Bench(dut)
    cycles = {"sha1": 42, "sha512": 83}[bench.name]
    # Both ends always willing: a start is taken in the cycle in which the last block is done.
    dut.start_valid.value = dut.in_valid.value = 1
    starts = []
    while len(starts) < 6:
        await FallingEdge(dut.clk)
        if dut.start_ready.value:
            starts.append(get_sim_time("ns"))
    taken = round((starts[5] - starts[1]) / 10)
    assert taken == 4 * cycles
    record(bench.name, 4 * bench.block * 8, taken)


@pytest.mark.quick
@pytest.mark.parametrize("module", HASHES)
def test_sha(module):
    os.environ["HASH"] = module
    run(module)
