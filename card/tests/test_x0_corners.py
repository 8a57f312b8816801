"""x0 at its corners: registers, tables at their limits, turns of the bus, both rings at once."""

import random
import struct

import cocotb
from cocotb.triggers import ClockCycles
from harness import run
from host import BUS_WORDS, CAPS, CPL, CTRL, ERRORS, IRQ_ACK, IRQ_COUNT, IRQ_TIME, RX, RX_FRAMES, TX, TX_FRAMES
from test_x0 import begin, until_irq


@cocotb.test()
async def registers_read_as_they_were_written(dut):
    driver, _, _ = await begin(dut)
    rng = random.Random(61)
    await driver.write(CTRL, 0x50)
    written = {TX: 0xFFFFFFF0, RX: 0x12345670, CPL: 0x0FEDCBA0, IRQ_TIME: 0xFFFFFFFF}
    written |= {ring + 4: rng.getrandbits(16) for ring in (TX, RX, CPL)} | {IRQ_COUNT: 0xFFFF}
    for addr, value in written.items():
        await driver.write(addr, value)
    dut.mac_counters.value = sum((0x1111_1111 * (n + 1)) << 32 * n for n in range(4))
    for addr, value in written.items():
        assert await driver.read(addr) == value, hex(addr)
    assert await driver.read(CTRL) == 0x50
    for n in range(4):
        assert await driver.read(0x70 + 4 * n) == 0x1111_1111 * (n + 1)
    assert [await driver.read(ring + 8) for ring in (TX, RX, CPL)] == [0, 0, 0]
    assert await driver.read(0xFC) == 0
    assert await driver.read(CAPS) == 2 | 2 << 16


def post_table(driver, segments, cookie, table_offset=0):
    """A transmit descriptor whose table has `segments`, and stands `table_offset` bytes beside a multiple of 8."""
    at = driver.place(8 * len(segments) + 8) + table_offset
    for n, (addr, length) in enumerate(segments):
        struct.pack_into("<IHH", driver.memory.bytes, at + 8 * n, addr, length, 0)
    ring = driver.TX_RING + 16 * (driver.tx_tail % driver.entries)
    driver.memory.bytes[ring : ring + 16] = struct.pack("<IHBBIB3x", at, 0, len(segments), 1, cookie, 1)
    driver.tx_tail += 1


@cocotb.test()
async def a_table_of_one_is_read_and_a_misplaced_or_empty_one_reported(dut):
    driver, _, sink = await begin(dut)
    data = bytes(range(40))
    at = driver.place(len(data), 3)
    driver.memory.bytes[at : at + len(data)] = data
    post_table(driver, [(at, len(data))], 1)
    post_table(driver, [(at, len(data))], 2, table_offset=4)
    post_table(driver, [], 3)
    post_table(driver, [(at, len(data))], 4)
    await driver.ring_transmit()
    assert [(await driver.completion())[:4] for _ in range(4)] == [(1, 0, 0, 0), (2, 0, 0, 1), (3, 0, 0, 1), (4, 0, 0, 0)]
    assert [await sink.frame() for _ in range(2)] == [(data, 0)] * 2


@cocotb.test()
async def a_bad_buffer_that_a_frame_does_not_need_harms_nothing(dut):
    driver, source, _ = await begin(dut)
    for cookie, data in [(1, b"a" * 50), (2, b"b" * 60)]:
        segments = driver.post_receive(cookie, [64, 0])
        await driver.ring_receive()
        cocotb.start_soon(source.frame(data))
        assert (await driver.completion())[:4] == (cookie, len(data), 1, 0)
        assert driver.received(segments, len(data)) == data


@cocotb.test()
async def what_is_posted_waits_until_the_engine_is_on(dut):
    driver, _, sink = await begin(dut)
    await driver.write(CTRL, 0)
    driver.post_transmit(b"x" * 9, 1)
    await driver.ring_transmit()
    await ClockCycles(dut.clk, 100)
    assert await driver.read(TX + 12) == 0 and not driver.memory.bursts
    await driver.write(CTRL, 3)
    assert await sink.frame() == (b"x" * 9, 0)
    assert (await driver.completion())[0] == 1


async def taken(sink, frames):
    return [await sink.frame() for _ in range(frames)]


async def both_ways(dut, driver, source, sink, frames, length):
    """Sends and receives `frames` frames at once; all must arrive whole, and each be reported once."""
    rng = random.Random(62)
    back = [rng.randbytes(length) for _ in range(frames)]
    out = [rng.randbytes(length) for _ in range(frames)]

    async def feed():
        for frame in back:
            await source.frame(frame)

    places = []
    for n in range(frames):
        driver.post_transmit(out[n], n)
        places.append(driver.post_receive(n, [length]))
    cocotb.start_soon(feed())
    await driver.ring_transmit()
    await driver.ring_receive()
    sent = cocotb.start_soon(taken(sink, frames))
    await ClockCycles(dut.clk, 2000)  # the ring of completions fills meanwhile
    seen = [0, 0]
    for _ in range(2 * frames):
        cookie, _, receive, error, _ = await driver.completion()
        assert (cookie, error) == (seen[receive], 0)
        seen[receive] += 1
    assert seen == [frames, frames] and await sent == [(frame, 0) for frame in out]
    assert [driver.received(place, length) for place in places] == back
    assert [await driver.read(counter) for counter in (TX_FRAMES, RX_FRAMES, ERRORS)] == [frames, frames, 0]
    assert await driver.read(BUS_WORDS) == sum(words for _, words in driver.memory.bursts)


@cocotb.test()
@cocotb.parametrize(
    (("gaps", "stalls", "waits", "frames", "length"), [(0.0, 0.7, 0.0, 12, 1500), (0.9, 0.95, 0.2, 12, 1500), (0.3, 0.8, 0.3, 60, 90)])
)
async def frames_pass_both_ways_while_the_card_or_the_source_is_slow(dut, gaps, stalls, waits, frames, length):
    driver, source, sink = await begin(dut, waits, gaps, stalls, entries=64, completions=4)
    await both_ways(dut, driver, source, sink, frames, length)


@cocotb.test()
async def the_interrupt_stands_while_more_completions_come(dut):
    driver, _, sink = await begin(dut)
    await driver.write(IRQ_COUNT, 1)
    for cookie in range(3):
        driver.post_transmit(bytes(30), cookie)
    await driver.ring_transmit()
    for cookie in range(3):
        await sink.frame()
        assert (await driver.completion())[0] == cookie
    await ClockCycles(dut.clk, 50)
    assert await driver.read(IRQ_ACK) == 1
    await driver.write(IRQ_ACK, 1)
    assert await until_irq(dut, 100) is None


def test_host_side_at_its_limits():
    run("x0", name="x0_corners")
