"""x1: packets of one SA back to back through each function of the slot: right, in order, and how many bits a cycle."""

import os
import random

import card
import cocotb
import pytest
from card import CRYPTO, prefix, sa_of
from harness import run
from rates import record
from test_pipeline import begin, esp_case

# What passes between the ends of packets FIRST and LAST counts, in the midst of others: at the end the lanes empty.
FIRST, LAST, ALL = 15, 31, 40


@cocotb.test()
async def packets_of_one_sa_follow_each_other(dut):
    pipe, rng = await begin(dut), random.Random(18)
    function = int(os.environ["FUNCTION"])
    alg = next(alg for alg, of in card.FUNCTION.items() if of == function)
    await pipe.load(function)
    sa = sa_of(alg, 1, rng)
    # AES-128, as in the table of routed designs.
    sa.key = sa.key[: 24 if alg == card.DES3_SHA1 else 16].ljust(16, b"k")
    sa.icv_bytes = {0: 16, 1: 12, 2: 32}[alg >> 4]
    await pipe.install(sa)
    for size in [64, 1456]:
        for decrypt, way in enumerate(["seal", "open"]):
            cases = [esp_case(sa, rng, header=34, payload=rng.randbytes(size)) for _ in range(ALL)]

            async def feed():
                for case in cases:
                    frame = case[decrypt]
                    fields = {"functions": CRYPTO, "sa": sa.index, "esp_off": 34, "seq_hi": case[3], "decrypt": decrypt}
                    await pipe.source.frame(prefix(len(frame), **fields) + frame)

            cocotb.start_soon(feed())
            cycles = []
            for case in cases:
                status, made = await pipe.answer()
                assert (status.code, made) == (card.OK, case[1 - decrypt])
                cycles.append(pipe.sink.last["cycle"])
            taken = cycles[LAST] - cycles[FIRST]
            bits = (LAST - FIRST) * size * 8
            dut._log.info("function %d, %s, %d bytes: %.2f bits a cycle", function, way, size, bits / taken)
            record(f"function {function} {way} {size} bytes", bits, taken)


@pytest.mark.parametrize("function", [1, 2, 3, 4, 5])
def test_rate_of_function(function):
    os.environ["FUNCTION"] = str(function)
    run("x1", {"FUNCTIONS": 1 << function, "LOAD_CYCLES": 20}, name=f"x1_rate_{function}")
