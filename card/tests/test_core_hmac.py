"""HMAC: RFC 2202 and RFC 4231, every length around a block against Python's hmac, gaps and stalls, keys kept, cycles a packet."""

import hmac
import os
import random

import cocotb
import pytest
from cocotb.triggers import FallingEdge

from harness import run
from rates import record
from stream import Sink, Source, number, start_clock

# name: bytes a block, bytes of the MAC
HASHES = {"sha1": (64, 20), "sha512": (128, 64)}

# RFC 2202 section 3, cases 1 to 5 (keys of a block or less: longer ones the driver hashes first).
RFC_2202 = [
    (b"\x0b" * 20, b"Hi There", "b617318655057264e28bc0b6fb378c8ef146be00"),
    (b"Jefe", b"what do ya want for nothing?", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
    (b"\xaa" * 20, b"\xdd" * 50, "125d7342b9ac11cd91a39af48aa17b4f63f175d3"),
    (bytes(range(1, 26)), b"\xcd" * 50, "4c9007f4026250c6bc8414f9bf50c86c2d7235da"),
    (b"\x0c" * 20, b"Test With Truncation", "4c1a03424b55e07fe7f27be1d58bb9324a9a5a04"),
]
# RFC 4231, cases 1 to 4.
RFC_4231 = [
    (
        b"\x0b" * 20,
        b"Hi There",
        "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cde"
        "daa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854",
    ),
    (
        b"Jefe",
        b"what do ya want for nothing?",
        "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554"
        "9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
    ),
    (
        b"\xaa" * 20,
        b"\xdd" * 50,
        "fa73b0089d56a284efb0f0756c890be9b1b5dbdd8ee81a3655f83e33b2279d39"
        "bf3e848279a722c806b485a47e67c807b946a337bee8942674278859e13292fb",
    ),
    (
        bytes(range(1, 26)),
        b"\xcd" * 50,
        "b0ba465637458c6990e5a8c5f61d4af7e576d97ff94b872de76f8050361ee3db"
        "a91ca5c11aa25eb4d679275cc5788063a5f19741120c4f2de2adebeb10a298dd",
    ),
]
VECTORS = {"sha1": RFC_2202, "sha512": RFC_4231}


class Bench:
    def __init__(self, dut):
        self.dut, self.name = dut, os.environ["HASH"]
        self.block, self.length = HASHES[self.name]
        self.keys = Source(dut, "key", ["key"], names={"key": "key"})
        self.words = Source(dut, "in", ["data", "bytes", "last"])
        self.macs = Sink(dut, "mac", ["mac"], names={"mac": "mac"})

    async def load(self, key):
        await self.keys.send(key=number(key))

    async def give(self, messages):
        for message in messages:
            cuts = [message[at : at + 8] for at in range(0, len(message), 8)]
            # What stands behind the last byte must not matter.
            await self.words.send_all(
                {"data": number(cut.ljust(8, b"\xa5")), "bytes": len(cut), "last": int(n == len(cuts) - 1)}
                for n, cut in enumerate(cuts)
            )

    async def mac(self):
        got = await self.macs.get()
        self.cycle = got["cycle"]
        return got["mac"].to_bytes(self.length, "little")


@cocotb.test()
async def the_vectors_of_the_rfc(dut):
    await start_clock(dut)
    bench = Bench(dut)
    for key, message, mac in VECTORS[bench.name]:
        await bench.load(key)
        cocotb.start_soon(bench.give([message]))
        assert (await bench.mac()).hex() == mac


async def messages_of(bench, rng, lengths):
    key = rng.randbytes(rng.randrange(1, bench.block + 1))
    messages = [rng.randbytes(length) for length in lengths]
    await bench.load(key)
    cocotb.start_soon(bench.give(messages))
    for message in messages:
        assert await bench.mac() == hmac.digest(key, message, bench.name), len(message)


@cocotb.test()
async def one_key_serves_messages_of_every_length_up_to_two_blocks(dut):
    await start_clock(dut)
    bench = Bench(dut)
    await messages_of(bench, random.Random(51), range(1, 2 * bench.block + 10))


@cocotb.test()
async def random_messages_with_gaps_and_stalls(dut):
    await start_clock(dut)
    bench = Bench(dut)
    rng = random.Random(52)
    for bench.words.gaps, bench.macs.stalls in [(0.9, 0.0), (0.0, 0.99), (0.5, 0.9)]:
        for _ in range(2):
            await messages_of(bench, rng, [rng.randrange(1, 300) for _ in range(4)])


@cocotb.test()
async def a_packet_takes_its_blocks_and_one_for_the_outer_hash(dut):
    await start_clock(dut)
    bench = Bench(dut)
    await bench.load(bytes(20))
    each = {"sha1": 42, "sha512": 83}[bench.name]
    for size in [64, 1456]:
        cocotb.start_soon(bench.give([bytes(size)] * 6))
        cycles = []
        for _ in range(6):
            await bench.mac()
            cycles.append(bench.cycle)
        field = 9 if bench.name == "sha1" else 17
        blocks = -(-(size + field) // bench.block) + 1
        taken = (cycles[5] - cycles[1]) // 4
        assert blocks * each <= taken <= blocks * each + 10, (size, taken, blocks * each)
        record(f"core_hmac_{bench.name} {size} bytes", 4 * size * 8, cycles[5] - cycles[1])


@cocotb.test()
async def a_key_takes_two_blocks(dut):
    await start_clock(dut)
    bench = Bench(dut)
    each = {"sha1": 42, "sha512": 83}[bench.name]
    await bench.load(bytes(20))
    cycles = 0
    while not dut.key_ready.value:
        await FallingEdge(dut.clk)
        cycles += 1
    assert 2 * each <= cycles <= 2 * each + 8, cycles


@pytest.mark.quick
@pytest.mark.parametrize("name", HASHES)
def test_core_hmac(name):
    os.environ["HASH"] = name
    run(f"core_hmac_{name}")
