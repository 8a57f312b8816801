"""frame_guard: whatever words come in, whole frames come out."""

import random

import cocotb
import pytest
from cocotb.triggers import FallingEdge
from frames import FrameSink, FrameSource, words_of
from harness import run
from stream import start_clock


async def begin(dut, gaps=0.0, stalls=0.0):
    source, sink = FrameSource(dut, gaps=gaps), FrameSink(dut, stalls=stalls)
    await start_clock(dut)
    return source, sink


@cocotb.test()
@cocotb.parametrize((("gaps", "stalls"), [(0.0, 0.0), (0.4, 0.4)]))
async def sound_frames_pass_unchanged(dut, gaps, stalls):
    source, sink = await begin(dut, gaps, stalls)
    rng = random.Random(5)
    frames = [rng.randbytes(length) for length in range(1, 60)]

    async def send():
        for frame in frames:
            await source.frame(frame, err=len(frame) % 5 == 0)

    cocotb.start_soon(send())
    for frame in frames:
        assert await sink.frame() == (frame, int(len(frame) % 5 == 0))
    assert dut.unframed_words.value == 0 and dut.cuts.value == 0


@cocotb.test()
async def a_word_outside_a_frame_is_dropped_and_counted(dut):
    source, sink = await begin(dut)
    unframed = {"data": 7, "sof": 0, "eof": 1, "bytes": 8, "err": 0}
    await source.send_all([unframed, unframed, *words_of(b"0123456789"), unframed, *words_of(b"next")])
    assert await sink.frame() == (b"0123456789", 0)
    assert await sink.frame() == (b"next", 0)
    assert dut.unframed_words.value == 3


@cocotb.test()
async def a_frame_cut_off_by_the_next_ends_with_an_error(dut):
    source, sink = await begin(dut, stalls=0.5)
    cocotb.start_soon(source.send_all([*words_of(bytes(24))[:2], *words_of(b"whole frame")]))
    assert await sink.frame() == (bytes(16), 1)
    assert await sink.frame() == (b"whole frame", 0)
    assert dut.cuts.value == 1


@cocotb.test()
async def a_short_word_inside_a_frame_breaks_it(dut):
    source, sink = await begin(dut)
    words = words_of(bytes(20))
    words[1]["bytes"] = 3
    await source.send_all([*words, *words_of(b"sound")])
    assert (await sink.frame())[1] == 1
    assert await sink.frame() == (b"sound", 0)


@cocotb.test()
async def noise_never_makes_a_frame_without_start_or_end(dut):
    source, sink = await begin(dut, 0.2, 0.2)
    rng = random.Random(9)
    noise = [
        {"data": rng.getrandbits(64), "sof": rng.random() < 0.2, "eof": rng.random() < 0.2, "bytes": rng.randrange(16), "err": 0}
        for _ in range(2000)
    ]
    await source.send_all([*noise, *words_of(b"the last frame"), *words_of(b"end")])
    seen = []
    while not seen or seen[-1] != (b"end", 0):
        seen.append(await sink.frame())  # checks sof, eof and the byte count
    assert seen[-2] == (b"the last frame", 0)
    await FallingEdge(dut.clk)


@pytest.mark.quick
def test_frame_guard():
    run("frame_guard")
