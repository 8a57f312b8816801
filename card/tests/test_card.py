"""The whole card: inline (host to wire, wire to host), lookaside through X1 and X2, both directions at once at line rate."""

import random

import card
import cocotb
from card import CRYPTO, Status, prefix, sa_of
from gmii import GmiiSink, GmiiSource, on_the_wire
from harness import run
from host import CYCLES, MAC, X1, X2, Driver, Memory
from stream import start_clock
from test_crossing import CLOCKS
from test_pipeline import esp_case
from test_x2 import on_ethernet


class Card:
    """The card with a driver, and both ends of its wire."""

    def __init__(self, dut, waits=0.0, entries=32, mac_ps=None):
        self.mac_ps = mac_ps
        self.dut, self.memory = dut, Memory(dut, waits=waits)
        self.driver = Driver(dut, self.memory, entries=entries, completions=64)
        self.wire_out, self.wire_in = GmiiSink(dut), GmiiSource(dut)
        self.buffers, self.next, self.arrived = {}, 0, []

    async def begin(self):
        self.dut.reg_valid.value = self.dut.reg_write.value = 0
        await start_clock(self.dut, self.mac_ps)
        await self.driver.begin()
        for _ in range(16):
            self.give_buffer()
        await self.driver.ring_receive()

    def give_buffer(self):
        self.buffers[self.next] = self.driver.post_receive(self.next, [2048])
        self.next += 1

    async def send(self, frame, target):
        """Queues a frame for X1, X2 or, bare, for the MAC."""
        self.driver.post_transmit(frame, 0, target, [random.randrange(8)])
        await self.driver.ring_transmit()

    async def receive(self):
        """The next (status, frame) that the card hands over."""
        while True:
            cookie, length, receive, error, _ = await self.driver.completion()
            assert not error
            if receive:
                data = self.driver.received(self.buffers.pop(cookie), length)
                self.give_buffer()
                await self.driver.ring_receive()
                return Status.of(data), data[16:]

    async def ask(self, frame, target):
        await self.send(frame, target)
        return await self.receive()

    async def load(self, target, function):
        assert (await self.ask(prefix(0, card.SLOT_LOAD, argument=function), target))[0].code == card.OK

    async def install(self, target, sa):
        assert (await self.ask(sa.install(), target))[0].code == card.OK


async def begin(dut, **options):
    made = Card(dut, **options)
    await made.begin()
    return made


@cocotb.test()
@cocotb.parametrize(("waits", [0.0, 0.2]))
async def lookaside_seals_in_x1_and_opens_in_x2(dut, waits):
    it, rng = await begin(dut, waits=waits), random.Random(61)
    for alg in [card.GCM, card.CTR_SHA1]:
        sa = sa_of(alg, 4, rng)
        for target in [X1, X2]:
            await it.load(target, card.FUNCTION[alg])
            await it.install(target, sa)
        for _ in range(6):
            plain, sealed, esp_off, _ = esp_case(sa, rng)
            fields = {"functions": CRYPTO, "sa": 4, "esp_off": esp_off}
            for target in [X1, X2]:
                status, made = await it.ask(prefix(len(plain), cookie=9, **fields) + plain, target)
                assert (status.code, status.cookie, made) == (card.OK, 9, sealed)
                status, opened = await it.ask(prefix(len(sealed), decrypt=1, **fields) + sealed, target)
                assert (status.code, opened) == (card.OK, plain)


@cocotb.test()
@cocotb.parametrize(("clocks", list(CLOCKS)))
async def inline_a_packet_leaves_sealed_and_comes_back_opened(dut, clocks):
    it, rng = await begin(dut, mac_ps=CLOCKS[clocks]), random.Random(62)
    sa = sa_of(card.GCM, 17, rng, mapped=1)
    for target in [X1, X2]:
        await it.load(target, 1)
        await it.install(target, sa)
    for n in range(8):
        plain, wire = on_ethernet(sa, rng, udp=n % 2)
        esp_off = 42 if n % 2 else 34
        await it.send(prefix(len(plain), functions=CRYPTO, to_mac=1, sa=17, esp_off=esp_off) + plain, X1)
        sent, _ = await it.wire_out.frame()
        assert sent == on_the_wire(wire)
        cocotb.start_soon(it.wire_in.wire(sent))
        status, back = await it.receive()
        assert (status.code, status.flags & 0x61, status.sa, back) == (card.OK, 0x61, 17, plain)


@cocotb.test()
async def a_bare_frame_passes_to_the_wire_and_a_foreign_one_to_the_host(dut):
    it, rng = await begin(dut), random.Random(63)
    frame = rng.randbytes(100)
    await it.send(frame, MAC)
    assert (await it.wire_out.frame())[0] == on_the_wire(frame)
    cocotb.start_soon(it.wire_in.frame(frame))
    status, back = await it.receive()
    assert (status.code, status.flags & 0x60, back) == (card.OK, 0x40, frame)


@cocotb.test()
async def the_function_in_the_slot_is_exchanged_while_the_other_pipeline_runs(dut):
    it, rng = await begin(dut), random.Random(64)
    gcm, ctr = sa_of(card.GCM, 1, rng), sa_of(card.CTR_SHA1, 2, rng)
    await it.load(X2, 1)
    await it.install(X2, gcm)
    await it.install(X1, gcm)
    await it.install(X1, ctr)
    for sa in [gcm, ctr, gcm]:
        plain, sealed, esp_off, _ = esp_case(gcm, rng)
        request = prefix(len(plain), functions=CRYPTO, sa=1, esp_off=esp_off, cookie=5) + plain
        await it.send(prefix(0, card.SLOT_LOAD, argument=card.FUNCTION[sa.alg]), X1)
        await it.send(request, X2)
        answers = [await it.receive(), await it.receive()]
        assert {status.cookie: back for status, back in answers} == {0: b"", 5: sealed}
        plain, sealed, esp_off, _ = esp_case(sa, rng)
        status, back = await it.ask(prefix(len(plain), functions=CRYPTO, sa=sa.index, esp_off=esp_off) + plain, X1)
        assert (status.code, back) == (card.OK, sealed)


@cocotb.test()
@cocotb.parametrize(("clocks", list(CLOCKS)))
async def host_and_wire_run_at_full_duplex(dut, clocks):
    """Bare frames both ways at once: the wire's rate is X0's, the switch's and the MAC's to keep."""
    it, rng = await begin(dut, mac_ps=CLOCKS[clocks]), random.Random(65)
    frames = [rng.randbytes(1000) for _ in range(12)]

    async def receive_all():
        for frame in frames:
            assert (await it.receive())[1] == frame

    async def send_wire():
        for frame in frames:
            await it.wire_in.frame(frame)

    start = await it.driver.read(CYCLES)
    receiving = cocotb.start_soon(receive_all())
    cocotb.start_soon(send_wire())
    for frame in frames:
        it.driver.post_transmit(frame, 0, MAC)
    await it.driver.ring_transmit()
    gaps = []
    for frame in frames:
        sent, idle = await it.wire_out.frame()
        assert sent == on_the_wire(frame)
        gaps.append(idle)
    await receiving
    cycles = await it.driver.read(CYCLES) - start
    dut._log.info("12 frames of 1000 bytes each way in %d cycles; gaps on the wire %s", cycles, gaps)
    assert gaps[1:] == [12] * 11 or clocks == "core much slower", "the wire never waits for the card"


@cocotb.test()
async def bundled_packets_of_one_sa_take_fewer_cycles_than_mixed_ones(dut):
    """The sliding window's gain on the card: small packets, alternating between two SAs and bundled."""
    it, rng = await begin(dut), random.Random(66)
    await it.load(X1, 1)
    pair = [sa_of(card.GCM, n, rng) for n in range(2)]
    for sa in pair:
        await it.install(X1, sa)
    took = {}
    for name, order in [("alternating", [0, 1] * 6), ("bundled", [0] * 6 + [1] * 6)]:
        start = await it.driver.read(CYCLES)
        expected = []
        for n in order:
            plain, sealed, esp_off, _ = esp_case(pair[n], rng, header=20, payload=bytes(64))
            expected.append(sealed)
            it.driver.post_transmit(prefix(len(plain), functions=CRYPTO, sa=n, esp_off=esp_off) + plain, 0, X1)
        await it.driver.ring_transmit()
        for sealed in expected:
            assert (await it.receive())[1] == sealed
        took[name] = await it.driver.read(CYCLES) - start
    dut._log.info("12 packets of 64 bytes: %s cycles", took)
    assert took["bundled"] < took["alternating"]


def test_card():
    run("card_top", {"LOAD_CYCLES": 20})
