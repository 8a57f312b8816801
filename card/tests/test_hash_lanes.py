"""The hash's units: ICVs of ESP packets against Python's hmac, in the order of the starts, ESN or not, with gaps and stalls."""

import hmac
import os
import random

import cocotb
import pytest
from harness import run
from stream import Sink, Source, number, start_clock


class Bench:
    def __init__(self, dut):
        self.hash, self.bytes = {1: ("sha1", 20), 2: ("sha512", 32)}[int(os.environ["HASH"])]
        self.keys = Source(dut, "key", ["key"], names={"key": "key"})
        self.starts = Source(dut, "start", ["esp", "iv", "iv_bytes", "esn", "seq_hi"])
        self.blocks = Source(dut, "in", ["block", "bytes", "last"])
        self.icvs = Sink(dut, "icv", ["icv"], names={"icv": "icv"})

    async def begin(self, packets):
        """The starts go ahead of the blocks, as far as the units let them."""
        await self.starts.send_all(
            {"esp": number(esp), "iv": number(iv), "iv_bytes": len(iv), "esn": int(bool(high)), "seq_hi": number(high)}
            for esp, iv, _, high in packets
        )

    async def give(self, packets):
        for _, _, text, _ in packets:
            cuts = [text[at : at + 16] for at in range(0, len(text), 16)]
            await self.blocks.send_all(
                {"block": number(cut.ljust(16, b"\xa5")), "bytes": len(cut), "last": int(n == len(cuts) - 1)}
                for n, cut in enumerate(cuts)
            )


@cocotb.test()
@cocotb.parametrize((("gaps", "stalls"), [(0.0, 0.0), (0.8, 0.0), (0.0, 0.98), (0.5, 0.9)]))
async def icvs_come_in_the_order_of_the_packets(dut, gaps, stalls):
    await start_clock(dut)
    bench, rng = Bench(dut), random.Random(91)
    bench.starts.gaps = bench.blocks.gaps = gaps
    bench.icvs.stalls = stalls
    for _ in range(2):
        key = rng.randbytes(rng.randrange(1, 65))
        await bench.keys.send(key=number(key))
        packets = [
            (rng.randbytes(8), rng.randbytes(rng.choice([0, 8, 16])), rng.randbytes(rng.randrange(1, 250)), rng.choice([b"", rng.randbytes(4)]))
            for _ in range(13)
        ]
        cocotb.start_soon(bench.begin(packets))
        cocotb.start_soon(bench.give(packets))
        for n, packet in enumerate(packets):
            got = (await bench.icvs.get())["icv"].to_bytes(32, "little")
            assert got[: bench.bytes] == hmac.digest(key, b"".join(packet), bench.hash)[: bench.bytes], n


@pytest.mark.quick
@pytest.mark.parametrize(("hash", "units"), [(1, 2), (2, 1)])
def test_hash_lanes(hash, units):
    os.environ["HASH"] = str(hash)
    run("hash_lanes", {"HASH": hash, "UNITS": units}, name=f"hash_lanes_{hash}")
