"""AES in both directions behind one port: SP 800-38A's ECB examples, random blocks, directions and keys that change."""

import random

import cocotb
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from harness import run
from stream import Sink, Source, number, start_clock

# SP 800-38A, F.1.1, F.1.3 and F.1.5.
PLAIN = [
    "6bc1bee22e409f96e93d7e117393172a",
    "ae2d8a571e03ac9c9eb76fac45af8e51",
    "30c81c46a35ce411e5fbc1191a0a52ef",
    "f69f2445df4f9b17ad2b417be66c3710",
]
SEALED = {
    "2b7e151628aed2a6abf7158809cf4f3c": [
        "3ad77bb40d7a3660a89ecaf32466ef97",
        "f5d3d58503b9699de785895a96fdbaaf",
        "43b1cd7f598ece23881b00e3ed030688",
        "7b0c785e27e8ad3f8223207104725dd4",
    ],
    "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b": [
        "bd334f1d6e45f25ff712a214571fa5cc",
        "974104846d0ad3ad7734ecb3ecee4eef",
        "ef7afd2270e2e60adce0ba2face6444e",
        "9a4b41ba738d6c72fb16691603c18e0e",
    ],
    "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4": [
        "f3eed1bdb5d2a03c064b5a7e3db181f8",
        "591ccb10d410ed26dc5ba74a31362870",
        "b6ed21b99ca6f4f9f153e7b1beafed1d",
        "23304b7a39f9f3ff067d8d8f9e24ecc7",
    ],
}


class Bench:
    def __init__(self, dut):
        self.keys = Source(dut, "key", ["key", "len"], names={"key": "key"})
        self.blocks = Source(dut, "in", ["block", "dec"])
        self.out = Sink(dut, "out", ["block"])

    async def load(self, key):
        await self.keys.send(key=number(key), len=len(key) // 8 - 2)

    async def pass_through(self, blocks):
        """[(block, dec)] through the core; what comes out."""
        cocotb.start_soon(self.blocks.send_all([{"block": number(block), "dec": dec} for block, dec in blocks]))
        return [(await self.out.get())["block"].to_bytes(16, "little") for _ in blocks]


@cocotb.test()
async def the_ecb_examples_of_sp_800_38a(dut):
    await start_clock(dut)
    bench = Bench(dut)
    plain = [bytes.fromhex(block) for block in PLAIN]
    for key, sealed in SEALED.items():
        sealed = [bytes.fromhex(block) for block in sealed]
        await bench.load(bytes.fromhex(key))
        assert await bench.pass_through([(block, 0) for block in plain]) == sealed
        assert await bench.pass_through([(block, 1) for block in sealed]) == plain


@cocotb.test()
async def random_keys_and_directions_with_gaps_and_stalls(dut):
    await start_clock(dut)
    bench = Bench(dut)
    rng = random.Random(21)
    for gaps, stalls in [(0.0, 0.0), (0.8, 0.0), (0.0, 0.9), (0.5, 0.5)]:
        bench.blocks.gaps, bench.out.stalls = gaps, stalls
        for _ in range(3):
            key = rng.randbytes(rng.choice([16, 24, 32]))
            # Not waited for: blocks that follow find the key expanding.
            await bench.load(key)
            dec, blocks = 0, []
            for _ in range(20):
                dec ^= rng.random() < 0.3
                blocks.append((rng.randbytes(16), int(dec)))
            cipher = Cipher(algorithms.AES(key), modes.ECB())
            both = [cipher.encryptor(), cipher.decryptor()]
            assert await bench.pass_through(blocks) == [both[dec].update(block) for block, dec in blocks]


@cocotb.test()
async def a_new_key_waits_for_the_blocks_in_flight(dut):
    await start_clock(dut)
    bench = Bench(dut)
    old, new = bytes(16), bytes(range(32))
    await bench.load(old)
    await bench.blocks.send_all([{"block": n, "dec": 1} for n in range(4)])
    cocotb.start_soon(bench.load(new))
    cipher = Cipher(algorithms.AES(old), modes.ECB()).decryptor()
    for n in range(4):
        assert (await bench.out.get())["block"] == number(cipher.update(n.to_bytes(16, "little")))


@pytest.mark.quick
def test_core_aes():
    run("core_aes")
