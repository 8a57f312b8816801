"""AES-GCM: the vectors of its specification, ESP's shapes against `cryptography`, gaps and stalls, packets back to back."""

import os
import random

import cocotb
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from harness import run
from rates import record
from stream import Sink, Source, number, start_clock

# The GCM specification's test cases 2, 3, 8, 9, 14 and 15: key, IV, plaintext, ciphertext, tag. Its
# longer AADs do not occur in ESP.
TEXT = (
    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
    "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255"
)
KEY = "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308"
VECTORS = [
    ("00" * 16, "00" * 12, "00" * 16, "0388dace60b6a392f328c2b971b2fe78", "ab6e47d42cec13bdf53a67b21257bddf"),
    (
        KEY[:32],
        "cafebabefacedbaddecaf888",
        TEXT,
        "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
        "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091473f5985",
        "4d5c2af327cd64a62cf35abd2ba6fab4",
    ),
    ("00" * 24, "00" * 12, "00" * 16, "98e7247c07f0fe411c267e4384b0f600", "2ff58d80033927ab8ef4d4587514f0fb"),
    (
        KEY[:48],
        "cafebabefacedbaddecaf888",
        TEXT,
        "3980ca0b3c00e841eb06fac4872a2757859e1ceaa6efd984628593b40ca1e19c"
        "7d773d00c144c525ac619d18c84a3f4718e2448b2fe324d9ccda2710acade256",
        "9924a7c8587336bfb118024db8674a14",
    ),
    ("00" * 32, "00" * 12, "00" * 16, "cea7403d4d606b6e074ec5d3baf39d18", "d0d1c8a799996bf0265b98b5d48ab919"),
    (
        KEY,
        "cafebabefacedbaddecaf888",
        TEXT,
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
        "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad",
        "b094dac5d93471bdec1a502270e3cc6c",
    ),
]


class Bench:
    def __init__(self, dut):
        self.keys = Source(dut, "key", ["key", "len"], names={"key": "key"})
        self.starts = Source(dut, "start", ["dec", "iv", "aad", "aad_bytes"])
        self.blocks = Source(dut, "in", ["block", "bytes", "last"])
        self.out = Sink(dut, "out", ["block", "bytes", "last"])
        self.tags = Sink(dut, "tag", ["tag"], names={"tag": "tag"})

    def pace(self, gaps, stalls):
        self.starts.gaps = self.blocks.gaps = gaps
        self.out.stalls = self.tags.stalls = stalls

    async def load(self, key):
        await self.keys.send(key=number(key), len=len(key) // 8 - 2)

    async def give(self, packets):
        """[(dec, iv, aad, text)], one after the other."""
        for dec, iv, aad, text in packets:
            # What stands behind the AAD's last byte must not matter.
            filled = aad + b"\xa5" * (16 - len(aad))
            await self.starts.send(dec=dec, iv=number(iv), aad=number(filled), aad_bytes=len(aad))
            cuts = [text[at : at + 16] for at in range(0, len(text), 16)]
            await self.blocks.send_all(
                {"block": number(cut.ljust(16, b"\x5a")), "bytes": len(cut), "last": int(n == len(cuts) - 1)}
                for n, cut in enumerate(cuts)
            )

    async def take(self, length):
        """One packet's text and tag."""
        text, self.cycle = b"", 0
        for at in range(0, length, 16):
            got = await self.out.get()
            assert got["bytes"] == min(16, length - at) and got["last"] == (at + 16 >= length)
            text += got["block"].to_bytes(16, "little")
        assert not any(text[length:])
        tag = await self.tags.get()
        self.cycle = tag["cycle"]
        return text[:length], tag["tag"].to_bytes(16, "little")


@cocotb.test()
async def the_vectors_of_the_specification(dut):
    await start_clock(dut)
    bench = Bench(dut)
    for vector in VECTORS:
        key, iv, plain, sealed, tag = map(bytes.fromhex, vector)
        await bench.load(key)
        for dec, given, wanted in [(0, plain, sealed), (1, sealed, plain)]:
            cocotb.start_soon(bench.give([(dec, iv, b"", given)]))
            assert await bench.take(len(given)) == (wanted, tag)


def random_packet(rng, key, length):
    """One packet as RFC 4106 has it: 8 bytes of AAD, 12 with extended sequence numbers; and a few of other lengths."""
    iv, plain = rng.randbytes(12), rng.randbytes(length)
    aad = rng.randbytes(rng.choice([8, 12, rng.randrange(17)]))
    sealed = AESGCM(key).encrypt(iv, plain, aad)
    text, tag = sealed[:-16], sealed[-16:]
    return ((0, iv, aad, plain), text, tag) if rng.random() < 0.5 else ((1, iv, aad, text), plain, tag)


async def random_packets(bench, rng, keys, count, longest):
    for _ in range(keys):
        key = rng.randbytes(rng.choice([16, 24, 32]))
        await bench.load(key)
        packets = [random_packet(rng, key, rng.randrange(1, longest)) for _ in range(count)]
        cocotb.start_soon(bench.give([packet for packet, _, _ in packets]))
        for packet, text, tag in packets:
            assert await bench.take(len(packet[3])) == (text, tag)


@cocotb.test()
async def random_esp_packets_follow_each_other_at_full_rate(dut):
    await start_clock(dut)
    await random_packets(Bench(dut), random.Random(31), 6, 12, 200)


@cocotb.test()
async def random_esp_packets_with_gaps_and_stalls(dut):
    await start_clock(dut)
    bench = Bench(dut)
    for pace in [(0.9, 0.0), (0.0, 0.95), (0.5, 0.5), (0.3, 0.9)]:
        bench.pace(*pace)
        await random_packets(bench, random.Random(32), 2, 5, 120)


@cocotb.test()
async def a_packet_takes_as_many_cycles_as_its_blocks_and_one_more_need(dut):
    await start_clock(dut)
    bench = Bench(dut)
    unrolled = os.environ["UNROLLED"] == "1"
    for length, rounds in [(16, 10), (24, 12), (32, 14)]:
        await bench.load(bytes(length))
        for size in [64, 1456]:
            cocotb.start_soon(bench.give([(0, bytes(12), bytes(8), bytes(size))] * 10))
            cycles = []
            for _ in range(10):
                await bench.take(size)
                cycles.append(bench.cycle)
            # GHASH takes 2 cycles a block of AAD, payload and lengths. Else AES takes as many as it
            # has rounds, of payload and mask.
            floor = (size // 16 + 2) * 2 if unrolled else (size // 16 + 1) * rounds
            each = (cycles[9] - cycles[1]) / 8
            # The next start and its first block cost a few cycles in which no block enters.
            assert floor <= each <= floor + 6, (length, size, each)
            name = "core_gcm unrolled" if unrolled else "core_gcm"
            record(f"{name} AES-{length * 8} {size} bytes", 8 * size * 8, cycles[9] - cycles[1])


@pytest.mark.parametrize("unrolled", [pytest.param(0, marks=pytest.mark.quick), 1])
def test_core_gcm(unrolled):
    os.environ["UNROLLED"] = str(unrolled)
    run("core_gcm", {"UNROLLED": unrolled}, name=f"core_gcm_{unrolled}")
