"""x1 and x2: packets of one SA back to back through each function of the slot: right, in order, and how many bits a cycle."""

import os
import random

import card
import cocotb
import pytest
import test_pipeline
import test_x2
from card import CRYPTO, prefix, sa_of
from harness import run
from rates import record

# What passes between the ends of packets FIRST and LAST counts, in the midst of others: at the end
# the lanes empty.
FIRST, LAST, ALL = 15, 31, 40
# Bits a cycle of packets of these sizes that a change must not lose: `bits_a_cycle` of
# card/functions.toml.
SIZES = [64, 1456]


async def sa_for(pipe, function, rng):
    """An SA for the function, on the card; AES-128, as in the table of routed designs."""
    alg = card.FUNCTIONS[function]["algorithms"][0]
    sa = sa_of(alg, 1, rng, mapped=1)
    sa.key = sa.key[: card.cipher_of(alg)["key_bytes"][0]]
    sa.icv_bytes = card.hash_of(alg)["icv_bytes"][0]
    await pipe.install(sa)
    return sa


async def measure(pipe, name, frames, size, floor, **beside):
    """Sends the first of each pair of frames, back to back; the second must come back."""

    async def feed():
        for sent, _ in frames:
            await pipe.source.frame(sent, **beside)

    cocotb.start_soon(feed())
    cycles = []
    for _, made in frames:
        status, back = await pipe.answer()
        assert (status.code, back) == (card.OK, made)
        cycles.append(pipe.sink.last["cycle"])
    bits, taken = (LAST - FIRST) * size * 8, cycles[LAST] - cycles[FIRST]
    pipe.dut._log.info("%s: %.2f bits a cycle", name, bits / taken)
    assert bits / taken >= floor, f"{name}: {bits / taken:.2f} bits a cycle"
    record(name, bits, taken)


async def host_s_commands(dut, function, rng):
    pipe = await test_pipeline.begin(dut)
    await pipe.load(function)
    sa = await sa_for(pipe, function, rng)
    for size, floor in zip(SIZES, card.FUNCTIONS[function]["bits_a_cycle"]):
        for decrypt, way in enumerate(["seal", "open"]):
            frames = []
            for _ in range(ALL):
                case = test_pipeline.esp_case(sa, rng, header=34, payload=rng.randbytes(size))
                fields = {"functions": CRYPTO, "sa": sa.index, "esp_off": 34, "seq_hi": case[3], "decrypt": decrypt}
                frames.append((prefix(len(case[decrypt]), **fields) + case[decrypt], case[1 - decrypt]))
            await measure(pipe, f"function {function} {way} {size} bytes", frames, size, floor)


async def frames_from_the_line(dut, function, rng):
    pipe = await test_x2.begin(dut, function=function)
    sa = await sa_for(pipe, function, rng)
    for size, floor in zip(SIZES, card.FUNCTIONS[function]["bits_a_cycle"]):
        frames = [test_x2.on_ethernet(sa, rng, payload=rng.randbytes(size))[::-1] for _ in range(ALL)]
        await measure(pipe, f"x2 function {function} {size} bytes", frames, size, floor, from_mac=1)


@cocotb.test()
async def packets_of_one_sa_follow_each_other(dut):
    counted = frames_from_the_line if hasattr(dut, "s_from_mac") else host_s_commands
    await counted(dut, int(os.environ["FUNCTION"]), random.Random(18))


ROUTED = [(pipeline, function) for pipeline in ["x1", "x2"] for function in card.FUNCTIONS.values() if pipeline in function["routed_in"] + function.get("counted_in", [])]


@pytest.mark.parametrize(("pipeline", "function"), [(pipeline, function["id"]) for pipeline, function in ROUTED])
def test_rate_of_function(pipeline, function):
    os.environ["FUNCTION"] = str(function)
    run(pipeline, {"FUNCTIONS": 1 << function, "LOAD_CYCLES": 20}, name=f"{pipeline}_rate_{function}")
