"""stream_join and stream_cut: pieces of any size to words and back, in every one of the 64 alignments."""

import random

import cocotb
import pytest
from cocotb.triggers import FallingEdge, ReadOnly, Timer
from frames import FrameSink, FrameSource
from harness import run
from stream import Source, start_clock

PIECE = ["data", "bytes", "last", "err"]


def pieces_of(frame, cuts, err=0):
    """The frame in pieces; what is above a piece's bytes is noise, which must not matter."""
    rng, pieces = random.Random(len(frame)), []
    for length in cuts:
        part, frame = frame[:length], frame[length:]
        noise = rng.getrandbits(64) << (8 * len(part))
        word = (int.from_bytes(part, "little") | noise) & (2**64 - 1)
        pieces.append({"data": word, "bytes": len(part), "last": 0, "err": 0})
    pieces[-1].update(last=1, err=err)
    return pieces


def random_cuts(rng, length):
    cuts = []
    while length:
        cuts.append(min(length, rng.randrange(9)))
        length -= cuts[-1]
    return cuts + [0] * rng.randrange(2)


@cocotb.test()
@cocotb.parametrize((("gaps", "stalls"), [(0.0, 0.0), (0.4, 0.4)]))
async def pieces_of_any_size_become_one_frame(dut, gaps, stalls):
    if hasattr(dut, "want"):
        return await cut_all(dut, gaps, stalls)
    source, sink = Source(dut, "s", PIECE, gaps=gaps), FrameSink(dut, stalls=stalls)
    await start_clock(dut)
    rng = random.Random(4)
    frames = [rng.randbytes(rng.randrange(1, 70)) for _ in range(200)]
    # All 64 pairs of where the frame begins in the first piece and ends in the last.
    cuts = [[a, 8, 8, b] for a in range(1, 9) for b in range(1, 9)]
    frames += [rng.randbytes(sum(cut)) for cut in cuts]
    cuts = [random_cuts(rng, len(frame)) for frame in frames[:200]] + cuts
    pieces = [piece for n, (frame, cut) in enumerate(zip(frames, cuts)) for piece in pieces_of(frame, cut, n % 2)]
    cocotb.start_soon(source.send_all(pieces))
    for number, frame in enumerate(frames):
        assert await sink.frame() == (frame, number % 2)


async def cut_all(dut, gaps, stalls):
    """Takes random pieces of random frames out of stream_cut."""
    source = FrameSource(dut, fields=["data", "eof", "bytes", "err"], gaps=gaps)
    dut.go.value, dut.want.value = 0, 1
    await start_clock(dut)
    rng = random.Random(6)
    frames = [rng.randbytes(rng.randrange(1, 70)) for _ in range(200)]

    async def send():
        for number, frame in enumerate(frames):
            await source.frame(frame, err=number % 2)

    cocotb.start_soon(send())
    for number, frame in enumerate(frames):
        got = b""
        while True:
            await FallingEdge(dut.clk)
            dut.go.value, dut.want.value = 0, (want := rng.randint(1, 8))
            await ReadOnly()
            there, ended = int(dut.avail.value), int(dut.ended.value)
            head, err = int(dut.head.value), int(dut.err.value)
            assert dut.full.value == int(there >= want)
            if there < want and not ended or rng.random() < stalls:
                continue
            count = min(want, there)
            got += head.to_bytes(8, "little")[:count]
            await Timer(1, "ns")
            dut.go.value = 1
            if ended and count == there:
                assert err == number % 2
                break
        assert got == frame, number


@pytest.mark.quick
@pytest.mark.parametrize("module", ["stream_join", "stream_cut"])
def test_alignment(module):
    run(module)
