"""x1: every function of the slot against the reference, in every alignment of the headers; what is malformed ends in a status."""

import random
from dataclasses import replace

import card
import cocotb
import pytest
from card import CRYPTO, Status, payload_of, prefix, sa_of
from firewall import Rule, table
from frames import FrameSink, FrameSource, words_of
from harness import run
from stream import start_clock

LINK = ["data", "sof", "eof", "bytes", "err", "to_mac"]


class Pipe:
    """The pipeline with both ends: sends commands and packets, and gives what comes back."""

    def __init__(self, dut, gaps=0.0, stalls=0.0):
        self.dut = dut
        self.source = FrameSource(dut, gaps=gaps)
        self.sink = FrameSink(dut, fields=LINK, stalls=stalls)

    async def ask(self, frame):
        """Sends a frame; its status, the frame behind the status, and whether it went to the MAC (then without status)."""
        cocotb.start_soon(self.source.frame(frame))
        return await self.answer()

    async def answer(self):
        data, _ = await self.sink.frame()
        if self.sink.last["to_mac"]:
            return None, data
        return Status.of(data), data[16:]

    async def load(self, function):
        status, _ = await self.ask(prefix(0, card.SLOT_LOAD, argument=function))
        assert status.code == card.OK

    async def install(self, sa):
        status, rest = await self.ask(sa.install(cookie=sa.index))
        assert (status.code, status.cookie, status.sa, rest) == (card.OK, sa.index, sa.index, b"")


async def begin(dut, **options):
    pipe = Pipe(dut, **options)
    await start_clock(dut)
    return pipe


async def begin_with_sa(dut, seed, index, **options):
    """The pipeline with the first of its functions in the slot, a random generator, and an SA that is installed."""
    pipe, rng = await begin(dut, **options), random.Random(seed)
    sa = sa_of(ALGS(dut)[0], index, rng)
    await pipe.load(built(dut)[sa.alg])
    await pipe.install(sa)
    return pipe, rng, sa


def esp_case(sa, rng, header=None, payload=None):
    """(plain frame, sealed frame, esp_off, seq_hi) of one random packet of the SA."""
    head = rng.randbytes(rng.randrange(64) if header is None else header)
    esp, iv, seq_hi = sa.spi + rng.randbytes(4), rng.randbytes(sa.iv_bytes), rng.randbytes(4)
    payload = payload_of(sa.alg, rng) if payload is None else payload
    text, icv = sa.seal(esp, iv, payload, seq_hi)
    return head + esp + iv + payload, head + esp + iv + text + icv, len(head), seq_hi


async def seal_and_open(pipe, sa, rng, **case):
    plain, sealed, esp_off, seq_hi = esp_case(sa, rng, **case)
    fields = {"functions": CRYPTO, "sa": sa.index, "esp_off": esp_off, "seq_hi": seq_hi}
    status, made = await pipe.ask(prefix(len(plain), cookie=77, **fields) + plain)
    assert (status.code, status.flags & 0x21, status.cookie, status.length) == (card.OK, 0x21, 77, len(sealed)), status
    assert made == sealed
    # Ethernet padding after the ICV is cut off.
    padding = bytes(rng.randrange(9))
    fields["esp_end"] = len(sealed)
    status, opened = await pipe.ask(prefix(len(sealed + padding), decrypt=1, **fields) + sealed + padding)
    assert (status.code, status.flags & 0x21) == (card.OK, 0x21), status
    assert opened == plain


@cocotb.test()
@cocotb.parametrize((("gaps", "stalls"), [(0.0, 0.0), (0.3, 0.3)]))
async def each_algorithm_seals_and_opens_as_the_reference_does(dut, gaps, stalls):
    pipe, rng = await begin(dut, gaps=gaps, stalls=stalls), random.Random(11)
    for index, (alg, esn) in enumerate((alg, esn) for alg in ALGS(dut) for esn in (0, 1)):
        await pipe.load(built(dut)[alg])
        first, second = sa_of(alg, 2 * index, rng, esn=esn), sa_of(alg, 2 * index + 1, rng, esn=esn)
        await pipe.install(first)
        await pipe.install(second)
        for sa in [first, first, second, first, second, second]:
            await seal_and_open(pipe, sa, rng)


def built(dut):
    """The algorithms of the build under test, each with the function that does it, a function's own first."""
    mask, serving = int(dut.FUNCTIONS.value), {}
    for function in card.FUNCTIONS.values():
        if mask >> function["id"] & 1:
            for alg in function["algorithms"]:
                serving.setdefault(alg, function["id"])
    return serving


def ALGS(dut):
    return list(built(dut))


@cocotb.test()
async def every_alignment_of_header_and_payload_end_works(dut):
    pipe, rng, sa = await begin_with_sa(dut, 12, 9)
    unit = card.cipher_of(sa.alg)["block_bytes"]
    for header in range(8):
        for tail in range(8 if unit == 1 else 1):
            await seal_and_open(pipe, sa, rng, header=14 + header, payload=rng.randbytes(16 + tail if unit == 1 else unit))


@cocotb.test()
async def a_changed_packet_brings_its_status_alone(dut):
    pipe, rng, sa = await begin_with_sa(dut, 13, 3, stalls=0.2)
    for _ in range(10):
        plain, sealed, esp_off, seq_hi = esp_case(sa, rng)
        spoilt = bytearray(sealed)
        spoilt[rng.randrange(esp_off, len(sealed))] ^= 1 << rng.randrange(8)
        status, rest = await pipe.ask(
            prefix(len(spoilt), decrypt=1, functions=CRYPTO, sa=3, esp_off=esp_off, seq_hi=seq_hi, cookie=5) + spoilt
        )
        assert (status.code, status.cookie, status.length, rest) == (card.BAD_ICV, 5, 0, b"")
        await seal_and_open(pipe, sa, rng)


@cocotb.test()
async def a_sealed_packet_goes_to_the_mac_bare_and_a_failed_one_is_reported_to_the_host(dut):
    pipe, rng, sa = await begin_with_sa(dut, 14, 200)
    plain, sealed, esp_off, seq_hi = esp_case(sa, rng)
    fields = {"functions": CRYPTO, "esp_off": esp_off, "seq_hi": seq_hi, "to_mac": 1, "cookie": 8}
    assert await pipe.ask(prefix(len(plain), sa=200, **fields) + plain) == (None, sealed)
    status, rest = await pipe.ask(prefix(len(plain), sa=201, **fields) + plain)
    assert (status.code, status.cookie, rest) == (card.NO_SA, 8, b"")


@cocotb.test()
async def what_cannot_be_done_is_said_and_nothing_hangs(dut):
    pipe, rng = await begin(dut), random.Random(15)
    alg = ALGS(dut)[0]
    sa = sa_of(alg, 1, rng)
    await pipe.install(sa)
    plain, sealed, esp_off, seq_hi = esp_case(sa, rng, header=20)
    good = {"functions": CRYPTO, "sa": 1, "esp_off": esp_off, "seq_hi": seq_hi}

    async def code(frame):
        status, rest = await pipe.ask(frame)
        assert rest == b""
        return status.code

    assert await code(prefix(len(plain), **good) + plain) == card.NO_FUNCTION, "the slot is empty"
    assert await code(prefix(0, card.SLOT_LOAD, argument=9)) == card.NO_FUNCTION
    await pipe.load(built(dut)[alg])
    assert await code(prefix(0, 99)) == card.MALFORMED
    assert await code(b"too short") == card.MALFORMED
    assert await code(prefix(0)) == card.MALFORMED, "a packet of no bytes"
    assert await code(prefix(len(plain) + 9, **good) + plain) == card.MALFORMED, "fewer bytes than the prefix says"
    assert await code(prefix(len(plain), **good | {"esp_off": len(plain) - 8}) + plain) == card.MALFORMED, "no payload"
    assert await code(prefix(len(plain), **good, esp_end=len(plain) + 1) + plain) == card.MALFORMED
    assert await code(prefix(len(plain), **good | {"esp_off": 0xFFFF}) + plain) == card.MALFORMED
    assert await code(prefix(112, card.SA_INSTALL, sa=1) + bytes(100)) == card.MALFORMED, "half an SA"
    assert await code(prefix(len(plain), **good) + plain) == card.NO_SA, "which took the old one away"
    await pipe.install(sa)
    await pipe.source.send_all(words_of(prefix(len(plain), **good) + plain, err=1))
    assert (await pipe.answer())[0].code == card.BROKEN
    await seal_and_open(pipe, sa, rng)
    assert await code(prefix(0, card.SA_REMOVE, sa=1)) == card.OK
    assert await code(prefix(len(plain), **good) + plain) == card.NO_SA


@cocotb.test()
async def an_sa_whose_icv_is_too_short_or_too_long_neither_seals_nor_opens(dut):
    pipe, rng, sa = await begin_with_sa(dut, 22, 4)
    for icv_bytes in [0, 1, 7, 33, 64, 255]:
        await pipe.install(replace(sa, icv_bytes=icv_bytes))
        plain, sealed, esp_off, seq_hi = esp_case(sa, rng)
        for to_mac in (0, 1):
            for decrypt, frame in enumerate([plain, sealed + bytes(icv_bytes)]):
                fields = {"functions": CRYPTO, "sa": 4, "esp_off": esp_off, "seq_hi": seq_hi, "cookie": 3}
                status, rest = await pipe.ask(prefix(len(frame), to_mac=to_mac, decrypt=decrypt, **fields) + frame)
                assert status, f"an ICV of {icv_bytes} bytes, and the packet went to the MAC"
                assert (status.code, status.flags & 0x21, status.cookie, rest) == (card.MALFORMED, 0, 3, b""), icv_bytes
    await pipe.install(sa)
    await seal_and_open(pipe, sa, rng)


@cocotb.test()
async def broken_framing_ends_in_a_status_and_the_next_packet_is_whole(dut):
    pipe, rng, sa = await begin_with_sa(dut, 21, 1)
    plain, sealed, esp_off, seq_hi = esp_case(sa, rng, header=20, payload=rng.randbytes(96))
    good = prefix(len(plain), functions=CRYPTO, sa=1, esp_off=esp_off, seq_hi=seq_hi) + plain
    words = words_of(good)
    for kept in [1, 3, 4, 6, 9, 14, len(words) - 1]:
        # Words that no start precedes; a frame that the next one's start cuts off, in the prefix,
        # the headers and the payload.
        await pipe.source.send_all(words[kept:])
        await pipe.source.send_all(words[:kept])
        cocotb.start_soon(pipe.source.send_all(words))
        status, rest = await pipe.answer()
        assert (status.code, rest) == (card.BROKEN, b""), kept
        assert (await pipe.answer())[1] == sealed
    short = [*words[:5], {**words[5], "bytes": 5}, *words[6:]]
    cocotb.start_soon(pipe.source.send_all(short))
    assert (await pipe.answer())[0].code == card.BROKEN, "a word inside that is not full"
    await seal_and_open(pipe, sa, rng)


@cocotb.test()
async def a_packet_without_functions_passes_unchanged(dut):
    pipe, rng = await begin(dut, gaps=0.2, stalls=0.2), random.Random(16)
    for length in [1, 7, 8, 9, 64, 200]:
        frame = rng.randbytes(length)
        status, rest = await pipe.ask(prefix(length, cookie=length) + frame)
        assert (status.code, status.cookie, rest) == (card.OK, length, frame)


@cocotb.test()
async def packets_of_one_sa_in_a_row_pay_for_its_keys_once(dut):
    pipe, rng = await begin(dut), random.Random(17)
    alg = ALGS(dut)[0]
    await pipe.load(built(dut)[alg])
    pair = [sa_of(alg, n, rng) for n in range(2)]
    for sa in pair:
        await pipe.install(sa)
    cycles = []
    for sa in [pair[0], pair[0], pair[1]]:
        plain, sealed, esp_off, seq_hi = esp_case(sa, rng, header=34, payload=bytes(64))
        status, made = await pipe.ask(
            prefix(len(plain), functions=CRYPTO, sa=sa.index, esp_off=esp_off, seq_hi=seq_hi) + plain
        )
        assert made == sealed
        cycles.append(status.cycles)
    dut._log.info("cycles of 64 bytes: new keys %d, same keys %d, other keys %d", *cycles)
    assert cycles[1] + 30 < cycles[0]


@cocotb.test()
async def an_index_beyond_the_cache_and_a_body_of_a_wrong_length_are_refused(dut):
    pipe, rng, sa = await begin_with_sa(dut, 19, 3)
    plain, _, esp_off, _ = esp_case(sa, rng)
    status, rest = await pipe.ask(prefix(len(plain), functions=CRYPTO, sa=0x103, esp_off=esp_off, cookie=6) + plain)
    assert (status.code, status.cookie, rest) == (card.NO_SA, 6, b"")
    for op, length in [(card.SA_INSTALL, 104), (card.SA_INSTALL, 120), (card.FILTER_WRITE, 24), (card.SLOT_LOAD, 8)]:
        status, rest = await pipe.ask(prefix(length, op, cookie=7) + bytes(length))
        assert (status.code, status.cookie, rest) == (card.MALFORMED, 7, b""), (op, length)
    await seal_and_open(pipe, sa, rng)


@cocotb.test()
@cocotb.parametrize((("gaps", "stalls"), [(0.0, 0.0), (0.2, 0.4)]))
async def commands_sent_ahead_of_their_answers_are_answered_in_order(dut, gaps, stalls):
    """Packets of several SAs in runs, both directions, with what fails and what changes SAs and the slot between them."""
    pipe, rng = await begin(dut, gaps=gaps, stalls=stalls), random.Random(19)
    algs = ALGS(dut)
    function = built(dut)[algs[0]]
    await pipe.load(function)
    sas = [sa_of(algs[n % len(algs)], n, rng, esn=n // 2) for n in range(4)]
    for sa in sas:
        await pipe.install(sa)
    sa, sent = sas[0], []  # (frame, code, what comes back)
    for cookie in range(90):
        kind = rng.choice(["seal"] * 5 + ["open"] * 3 + ["same"] * 3 + ["spoilt", "unknown", "plain", "short", "install", "slot", "filter"])
        sa = sa if kind == "same" else rng.choice(sas)
        plain, sealed, esp_off, seq_hi = esp_case(sa, rng)
        fields = {"functions": CRYPTO, "sa": sa.index, "esp_off": esp_off, "seq_hi": seq_hi, "cookie": cookie}
        if kind == "open":
            sent.append((prefix(len(sealed), decrypt=1, **fields) + sealed, card.OK, plain))
        elif kind == "spoilt":
            spoilt = sealed[:-1] + bytes([sealed[-1] ^ 1])
            sent.append((prefix(len(sealed), decrypt=1, **fields) + spoilt, card.BAD_ICV, b""))
        elif kind == "unknown":
            sent.append((prefix(len(plain), **fields | {"sa": 99}) + plain, card.NO_SA, b""))
        elif kind == "plain":
            sent.append((prefix(len(plain), cookie=cookie) + plain, card.OK, plain))
        elif kind == "short":
            sent.append((prefix(len(plain) + 9, **fields) + plain, card.MALFORMED, b""))
        elif kind == "install":
            sas[sa.index] = sa = sa_of(sa.alg, sa.index, rng, esn=sa.esn)
            sent.append((sa.install(cookie), card.OK, b""))
        elif kind == "slot":
            sent.append((prefix(0, card.SLOT_LOAD, argument=function, cookie=cookie), card.OK, b""))
        elif kind == "filter":
            sent.append((table([Rule()] * rng.randrange(3), cookie=cookie), card.OK, b""))
        else:
            sent.append((prefix(len(plain), **fields) + plain, card.OK, sealed))

    async def feed():
        for frame, _, _ in sent:
            await pipe.source.frame(frame)

    cocotb.start_soon(feed())
    for cookie, (_, code, back) in enumerate(sent):
        status, made = await pipe.answer()
        assert (status.cookie, status.code, made) == (cookie, code, back)


def stored(dut, index):
    """An SA's words in the card's RAM."""
    cache = dut.u_pipeline.u_front.u_take.u_sa
    return [int(cache.mem[16 * index + word].value) for word in range(14)], int(cache.entry.value)


@cocotb.test()
async def of_an_sa_that_is_removed_or_did_not_come_whole_no_key_stays_in_the_ram(dut):
    pipe, rng = await begin(dut), random.Random(20)
    sas = [sa_of(ALGS(dut)[0], index, rng) for index in [6, 7]]
    for sa in sas:
        await pipe.install(sa)
    await pipe.load(built(dut)[sas[0].alg])
    await seal_and_open(pipe, sas[0], rng)
    body = sas[0].install()[32:]
    assert stored(dut, 6)[0] == [int.from_bytes(body[at : at + 8], "little") for at in range(0, 112, 8)]
    assert stored(dut, 6)[1], "it was used, and stands in the registers too"
    assert (await pipe.ask(prefix(0, card.SA_REMOVE, sa=6)))[0].code == card.OK
    assert stored(dut, 6) == ([0] * 14, 0)
    await seal_and_open(pipe, sas[1], rng)
    assert (await pipe.ask(sas[1].install()[:-8]))[0].code == card.MALFORMED
    assert stored(dut, 7) == ([0] * 14, 0)
    await pipe.source.send_all(words_of(sas[0].install(), err=1))
    assert (await pipe.answer())[0].code == card.BROKEN
    assert stored(dut, 6)[0] == [0] * 14


@pytest.mark.quick
def test_gcm():
    run("x1", {"FUNCTIONS": 2, "LOAD_CYCLES": 20, "DEPTH_LOG2": 8}, name="x1_gcm")


@pytest.mark.parametrize("function", [function for function in card.FUNCTIONS if function != card.FUNCTION[card.GCM]])
def test_function(function):
    run("x1", {"FUNCTIONS": 1 << function, "LOAD_CYCLES": 20, "DEPTH_LOG2": 8}, name=f"x1_{function}")
