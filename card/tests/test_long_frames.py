"""x1 with the buffer of the card: a frame that fills it passes with its length, one above it ends in a status."""

import random

import card
import cocotb
import pytest
from card import prefix
from harness import run
from test_pipeline import begin

BUFFER_BYTES = 8 << 11


@cocotb.test()
async def a_frame_as_large_as_the_buffer_passes_with_its_length(dut):
    pipe, rng = await begin(dut), random.Random(71)
    for length in [BUFFER_BYTES - 8, BUFFER_BYTES - 1, BUFFER_BYTES]:
        frame = rng.randbytes(length)
        status, back = await pipe.ask(prefix(length, cookie=length) + frame)
        assert (status.code, status.length, status.cookie) == (card.OK, length, length)
        assert back == frame
    assert await pipe.ask(prefix(length, to_mac=1) + frame) == (None, frame)


@cocotb.test()
async def a_larger_one_is_reported_and_the_next_passes(dut):
    pipe, rng = await begin(dut), random.Random(72)
    for length in [BUFFER_BYTES + 1, BUFFER_BYTES + 8, 2 * BUFFER_BYTES, 0xFFFF]:
        for to_mac in (0, 1):
            status, rest = await pipe.ask(prefix(length, to_mac=to_mac, cookie=length) + bytes(length))
            assert (status.code, status.length, status.cookie, rest) == (card.MALFORMED, 0, length, b"")
        frame = rng.randbytes(100)
        assert (await pipe.ask(prefix(100) + frame))[1] == frame


@pytest.mark.quick
def test_long_frames():
    run("x1", {"FUNCTIONS": 0, "LOAD_CYCLES": 20, "DEPTH_LOG2": 11}, name="x1_long")
