"""AES-CTR, iterative and unrolled: RFC 3686, random packets of two keys against `cryptography`, gaps and stalls, cycles a block."""

import os
import random

import cocotb
import pytest
from cocotb.triggers import FallingEdge
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from harness import run
from rates import record
from stream import Sink, Source, number, start_clock

# RFC 3686, section 6: key, nonce and IV, ciphertext; three plaintexts in turn.
RFC_3686 = [
    (
        "ae6852f8121067cc4bf7a5765577f39e",
        "000000300000000000000000",
        "e4095d4fb7a7b3792d6175a3261311b8",
    ),
    (
        "7e24067817fae0d743d6ce1f32539163",
        "006cb6dbc0543b59da48d90b",
        "5104a106168a72d9790d41ee8edad388eb2e1efc46da57c8fce630df9141be28",
    ),
    (
        "7691be035e5020a8ac6e618529f9a0dc",
        "00e0017b27777f3f4a1786f0",
        "c1cf48a89f2ffdd9cf4652e9efdb72d74540a42bde6d7836d59a5ceaaef3105325b2072f",
    ),
    (
        "16af5b145fc9f579c175f93e3bfb0eed863d06ccfdb78515",
        "0000004836733c147d6d93cb",
        "4b55384fe259c9c84e7935a003cbe928",
    ),
    (
        "7c5cb2401b3dc33c19e7340819e0f69c678c3db8e6f6a91a",
        "0096b03b020c6eadc2cb500d",
        "453243fc609b23327edfaafa7131cd9f8490701c5ad4a79cfc1fe0ff42f4fb00",
    ),
    (
        "02bf391ee8ecb159b959617b0965279bf59b60a786d3e0fe",
        "0007bdfd5cbd60278dcc0912",
        "96893fc55e5c722f540b7dd1ddf7e758d288bc95c69165884536c811662f2188abee0935",
    ),
    (
        "776beff2851db06f4c8a0542c8696f6c6a81af1eec96b4d37fc1d689e6c1c104",
        "00000060db5672c97aa8f0b2",
        "145ad01dbf824ec7560863dc71e3e0c0",
    ),
    (
        "f6d66d6bd52d59bb0796365879eff886c66dd51a5b6a99744b50590c87a23884",
        "00faac24c1585ef15a43d875",
        "f05e231b3894612c49ee000b804eb2a9b8306b508f839d6a5530831d9344af1c",
    ),
    (
        "ff7a617ce69148e4f1726e2f43581de2aa62d9f805532edff1eed687fb54153d",
        "001cc5b751a51d70a1c11148",
        "eb6c52821d0bbbf7ce7594462aca4faab407df866569fd07f48cc0b583d6071f1ec0e6b8",
    ),
]
PLAINS = [b"Single block msg", bytes(range(32)), bytes(range(36))]


class Bench:
    def __init__(self, dut):
        self.dut = dut
        self.keys = Source(dut, "key", ["slot", "key", "len"], names={"key": "key"})
        self.starts = Source(dut, "start", ["slot", "block"])
        self.blocks = Source(dut, "in", ["block", "bytes", "last"])
        self.out = Sink(dut, "out", ["block", "bytes", "last"])

    def pace(self, gaps, stalls):
        self.starts.gaps = self.blocks.gaps = gaps
        self.out.stalls = stalls

    async def load(self, slot, key):
        await self.keys.send(slot=slot, key=number(key), len=len(key) // 8 - 2)
        while not self.dut.key_ready.value:
            await FallingEdge(self.dut.clk)

    async def give(self, packets):
        """[(slot, first counter block, text)]: starts and texts on their own, as both ends allow."""
        cocotb.start_soon(
            self.starts.send_all([{"slot": slot, "block": number(first)} for slot, first, _ in packets])
        )
        beats = []
        for _, _, text in packets:
            cuts = [text[at : at + 16] for at in range(0, len(text), 16)]
            beats += [
                {"block": number(cut.ljust(16, b"\xa5")), "bytes": len(cut), "last": int(n == len(cuts) - 1)}
                for n, cut in enumerate(cuts)
            ]
        await self.blocks.send_all(beats)

    async def take(self, length):
        text = b""
        for at in range(0, length, 16):
            got = await self.out.get()
            assert got["bytes"] == min(16, length - at) and got["last"] == (at + 16 >= length)
            text += got["block"].to_bytes(16, "little")
            self.cycle = got["cycle"]
        assert not any(text[length:])
        return text[:length]


@cocotb.test()
async def the_vectors_of_rfc_3686(dut):
    await start_clock(dut)
    bench = Bench(dut)
    for n, (key, nonce, sealed) in enumerate(RFC_3686):
        await bench.load(0, bytes.fromhex(key))
        cocotb.start_soon(bench.give([(0, bytes.fromhex(nonce) + b"\0\0\0\1", PLAINS[n % 3])]))
        assert (await bench.take(len(PLAINS[n % 3]))).hex() == sealed


async def random_packets(bench, rng, rounds, count):
    """Packets of two keys of any lengths, mixed: AES-128 may not overtake AES-256."""
    for _ in range(rounds):
        keys = [rng.randbytes(rng.choice([16, 24, 32])) for _ in range(2)]
        for slot, key in enumerate(keys):
            await bench.load(slot, key)
        packets = [
            (rng.randrange(2), rng.randbytes(12) + b"\0\0\0\1", rng.randbytes(rng.randrange(1, 150)))
            for _ in range(count)
        ]
        cocotb.start_soon(bench.give(packets))
        for slot, first, text in packets:
            wanted = Cipher(algorithms.AES(keys[slot]), modes.CTR(first)).encryptor().update(text)
            assert await bench.take(len(text)) == wanted


@cocotb.test()
async def random_packets_of_two_keys_at_full_rate(dut):
    await start_clock(dut)
    await random_packets(Bench(dut), random.Random(71), 5, 12)


@cocotb.test()
async def random_packets_with_gaps_and_stalls(dut):
    await start_clock(dut)
    bench = Bench(dut)
    for pace in [(0.9, 0.0), (0.0, 0.95), (0.5, 0.5), (0.2, 0.9)]:
        bench.pace(*pace)
        await random_packets(bench, random.Random(72), 2, 6)


@cocotb.test()
async def packets_follow_each_other_without_a_gap(dut):
    await start_clock(dut)
    bench = Bench(dut)
    unrolled = os.environ["UNROLLED"] == "1"
    for length, rounds in [(16, 10), (24, 12), (32, 14)]:
        each = 1 if unrolled else rounds
        await bench.load(0, bytes(length))
        cocotb.start_soon(bench.give([(0, bytes(16), bytes(512))] * 6))
        cycles = []
        for _ in range(6):
            await bench.take(512)
            cycles.append(bench.cycle)
        assert cycles[5] - cycles[0] == 5 * 32 * each
        name = "core_ctr unrolled" if unrolled else "core_ctr"
        record(f"{name} AES-{length * 8}", 5 * 512 * 8, cycles[5] - cycles[0])


@pytest.mark.quick
@pytest.mark.parametrize("unrolled", [0, 1])
def test_core_ctr(unrolled):
    os.environ["UNROLLED"] = str(unrolled)
    run("core_ctr", {"UNROLLED": unrolled}, name=f"core_ctr_{unrolled}")
