"""x0: frames between host memory and the card in every alignment, rings that wrap and fill, tables, interrupts, balance."""

import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly
from frames import FIELDS, FrameSink, FrameSource, words_of
from harness import run
from host import BUS_WAITS, CPL, CTRL, ERRORS, IRQ_ACK, IRQ_COUNT, IRQ_TIME, RX, TX, Driver, Memory
from stream import start_clock


async def begin(dut, waits=0.0, gaps=0.0, stalls=0.0, **rings):
    dut.reg_valid.value = dut.reg_write.value = 0
    dut.mac_counters.value = 0
    memory = Memory(dut, waits=waits)
    driver = Driver(dut, memory, **rings)
    source = FrameSource(dut, gaps=gaps)
    sink = FrameSink(dut, fields=FIELDS + ["dest"], stalls=stalls)
    await start_clock(dut)
    await driver.begin()
    return driver, source, sink


def sizes_of(rng, length, most=6):
    """The length cut at random into up to `most` sizes of at least 1."""
    cuts = sorted(rng.sample(range(1, length), min(length - 1, rng.randrange(most))))
    return [b - a for a, b in zip([0, *cuts], [*cuts, length])]


@cocotb.test()
async def a_frame_is_sent_from_all_64_alignments_of_start_and_length(dut):
    driver, _, sink = await begin(dut)
    rng = random.Random(51)
    for offset in range(8):
        for length in range(24, 32):
            data = rng.randbytes(length)
            driver.post_transmit(data, length, offsets=[offset])
            await driver.ring_transmit()
            assert await sink.frame() == (data, 0)
            assert await driver.completion() == (length, 0, 0, 0, bytes(8))


@cocotb.test()
async def a_frame_is_received_into_all_64_alignments_and_nothing_beside_it_is_touched(dut):
    driver, source, _ = await begin(dut)
    rng = random.Random(52)
    for offset in range(8):
        for length in range(24, 32):
            data = rng.randbytes(length)
            [(at, _)] = segments = driver.post_receive(length, sizes=[40], offsets=[offset])
            driver.memory.bytes[at - 8 : at + 48] = b"\xaa" * 56
            await driver.ring_receive()
            cocotb.start_soon(source.frame(data))
            assert await driver.completion() == (length, length, 1, 0, data[:8])
            assert driver.received(segments, length) == data
            around = driver.memory.bytes[at - 8 : at] + driver.memory.bytes[at + length : at + 48]
            assert around == b"\xaa" * len(around)


@cocotb.test()
async def pieces_of_a_table_meet_in_all_64_alignments(dut):
    """Where the first piece ends and where the second begins, in a word; both directions."""
    driver, source, sink = await begin(dut)
    rng = random.Random(55)
    for first in range(9, 17):
        for offset in range(8):
            data, sizes, offsets = rng.randbytes(first + 21), [first, 21], [3, offset]
            driver.post_transmit(data, first, offsets=offsets, sizes=sizes)
            await driver.ring_transmit()
            assert await sink.frame() == (data, 0)
            assert await driver.completion() == (first, 0, 0, 0, bytes(8))
            segments = driver.post_receive(offset, sizes, offsets)
            # What lies between the pieces, and from the second to the end of its word.
            ends = [at + size for at, size in segments]
            beside = [slice(ends[0], segments[1][0]), slice(ends[1], (ends[1] + 7) // 8 * 8)]
            for part in beside:
                driver.memory.bytes[part] = b"\xaa" * (part.stop - part.start)
            await driver.ring_receive()
            cocotb.start_soon(source.frame(data))
            assert await driver.completion() == (offset, len(data), 1, 0, data[:8])
            assert driver.received(segments, len(data)) == data
            assert all(driver.memory.bytes[part] == b"\xaa" * (part.stop - part.start) for part in beside)


@cocotb.test()
async def the_counts_of_the_rings_wrap_at_sixteen_bits(dut):
    driver, source, sink = await begin(dut, waits=0.1)
    rng = random.Random(56)
    await driver.write(CTRL, 0)
    # Four before the end of the count: as after 65,532 descriptors each way, and as many
    # completions.
    begun = 0xFFFC
    for count in [dut.u_transmit.u_segments.head, dut.u_receive.u_segments.head, dut.u_complete.tail]:
        count.value = begun
    driver.tx_tail = driver.rx_tail = driver.cpl_head = begun
    for entry in range(begun % driver.completions, driver.completions):
        driver.memory.bytes[driver.CPL_RING + 16 * entry + 14] = 1  # the last lap's phase
    await driver.write(CPL + 8, begun)
    await driver.ring_transmit()
    await driver.ring_receive()
    await driver.write(CTRL, 3)
    for n in range(12):
        out, back = rng.randbytes(30 + n), rng.randbytes(50 - n)
        driver.post_transmit(out, n)
        await driver.ring_transmit()
        assert await sink.frame() == (out, 0)
        assert (await driver.completion())[:4] == (n, 0, 0, 0)
        segments = driver.post_receive(n)
        await driver.ring_receive()
        cocotb.start_soon(source.frame(back))
        assert (await driver.completion())[:4] == (n, len(back), 1, 0)
        assert driver.received(segments, len(back)) == back
    assert [await driver.read(ring + 12) for ring in (TX, RX)] == [8, 8]


@cocotb.test()
async def words_without_a_start_vanish_and_a_frame_cut_off_by_the_next_is_marked(dut):
    driver, source, _ = await begin(dut)
    whole = bytes(range(40))
    places = [driver.post_receive(n) for n in range(3)]
    await driver.ring_receive()
    await source.send_all(words_of(whole)[2:])
    await source.send_all(words_of(whole))
    await source.send_all(words_of(whole)[:3])
    await source.send_all(words_of(whole))
    assert (await driver.completion())[:4] == (0, 40, 1, 0)
    assert (await driver.completion())[:4] == (1, 24, 1, 1), "cut off, and said to be broken"
    assert (await driver.completion())[:4] == (2, 40, 1, 0)
    assert [driver.received(place, n) for place, n in zip(places, [40, 24, 40])] == [whole, whole[:24], whole]


@cocotb.test()
@cocotb.parametrize((("waits", "gaps", "stalls"), [(0.0, 0.0, 0.0), (0.3, 0.3, 0.3)]))
async def both_directions_at_once_with_tables_and_full_and_wrapping_rings(dut, waits, gaps, stalls):
    driver, source, sink = await begin(dut, waits, gaps, stalls, entries=4, completions=8)
    rng = random.Random(53)
    out = [(rng.randbytes(rng.randrange(2, 700)), rng.randrange(4)) for _ in range(50)]
    back = [rng.randbytes(rng.randrange(2, 700)) for _ in range(50)]
    posted, sent, places = 0, 0, []

    async def feed():
        for frame in back:
            await source.frame(frame)

    async def check_sent():
        for frame, target in out:
            assert await sink.frame() == (frame, 0)
            assert sink.last["dest"] == target

    feeding, checking = cocotb.start_soon(feed()), cocotb.start_soon(check_sent())
    done = [0, 0]
    while done != [50, 50]:
        while posted < 50 and posted - done[0] < 4:
            frame, target = out[posted]
            sizes = sizes_of(rng, len(frame))
            driver.post_transmit(frame, posted, target, [rng.randrange(8) for _ in sizes], sizes)
            posted += 1
            await driver.ring_transmit()
        while sent < 50 and sent - done[1] < 4:
            sizes = sizes_of(rng, len(back[sent]) + rng.randrange(200))
            places.append(driver.post_receive(1000 + sent, sizes, [rng.randrange(8) for _ in sizes]))
            sent += 1
            await driver.ring_receive()
        cookie, length, receive, error, status = await driver.completion()
        number = done[receive]
        assert (cookie, error) == (number + 1000 * receive, 0)
        if receive:
            assert length == len(back[number]) and driver.received(places[number], length) == back[number]
            assert status == back[number][:8].ljust(8, b"\0")
        done[receive] += 1
    await feeding
    await checking


@cocotb.test()
async def a_table_of_255_entries_is_read_and_written(dut):
    driver, source, sink = await begin(dut)
    rng = random.Random(54)
    sizes = [rng.randrange(1, 6) for _ in range(255)]
    data = rng.randbytes(sum(sizes))
    driver.post_transmit(data, 1, offsets=list(range(8)), sizes=sizes)
    segments = driver.post_receive(2, sizes, offsets=[3, 5, 0, 7])
    await driver.ring_transmit()
    await driver.ring_receive()
    assert await sink.frame() == (data, 0)
    await source.frame(data)
    completions = [await driver.completion(), await driver.completion()]
    assert {c[:4] for c in completions} == {(1, 0, 0, 0), (2, len(data), 1, 0)}
    assert driver.received(segments, len(data)) == data


@cocotb.test()
async def bad_descriptors_and_short_buffers_are_reported_and_the_rest_goes_on(dut):
    driver, source, sink = await begin(dut)
    good = bytes(range(64))
    driver.post_transmit(b"", 1)  # a descriptor of no bytes
    driver.post_transmit(good, 2, sizes=[10, 0, 54])  # an empty entry ends it
    driver.post_transmit(good, 3)
    await driver.ring_transmit()
    assert [(await driver.completion())[:4] for _ in range(3)] == [(1, 0, 0, 1), (2, 0, 0, 1), (3, 0, 0, 0)]
    assert await sink.frame() == (good[:10], 1)
    assert await sink.frame() == (good, 0)
    places = [driver.post_receive(cookie, sizes) for cookie, sizes in [(4, [20]), (5, [0]), (6, [8, 8]), (7, [100, 100])]]
    await driver.ring_receive()
    for _ in range(4):
        cocotb.start_soon(source.frame(good))
        completion = await driver.completion()
        cookie = completion[0]
        assert completion[1:4] == {4: (20, 1, 1), 5: (0, 1, 1), 6: (16, 1, 1), 7: (64, 1, 0)}[cookie]
        assert driver.received(places[cookie - 4], completion[1]) == good[: completion[1]]
    cocotb.start_soon(source.frame(good, err=1))
    driver.post_receive(8)
    await driver.ring_receive()
    assert (await driver.completion())[:4] == (8, 64, 1, 1), "a broken frame is marked"
    assert await driver.read(ERRORS) == 6


@cocotb.test()
async def a_full_completion_ring_stops_the_card_and_loses_nothing(dut):
    driver, _, sink = await begin(dut, entries=16, completions=4)
    for cookie in range(10):
        driver.post_transmit(bytes([cookie]) * 20, cookie)
    await driver.ring_transmit()
    await ClockCycles(dut.clk, 1500)
    assert await driver.read(CPL + 12) == 4
    assert [(await driver.completion())[0] for _ in range(10)] == list(range(10))
    assert [(await sink.frame())[0][0] for _ in range(10)] == list(range(10))
    assert await driver.read(TX + 12) == 10


@cocotb.test()
async def without_buffers_frames_wait_and_then_arrive(dut):
    driver, source, _ = await begin(dut)
    frames = [bytes([n]) * 100 for n in range(5)]

    async def feed():
        for frame in frames:
            await source.frame(frame)

    cocotb.start_soon(feed())
    await ClockCycles(dut.clk, 300)
    assert await driver.read(RX + 12) == 0
    for n, frame in enumerate(frames):
        segments = driver.post_receive(n)
        await driver.ring_receive()
        assert (await driver.completion())[:2] == (n, 100)
        assert driver.received(segments, 100) == frame


async def until_irq(dut, most):
    for cycle in range(most):
        await FallingEdge(dut.clk)
        await ReadOnly()
        if dut.irq.value:
            return cycle
    return None


@cocotb.test()
async def interrupts_come_by_count_and_by_time(dut):
    driver, _, sink = await begin(dut)
    dut._log.info("no interrupt while both are off")

    async def transmit(count):
        for cookie in range(count):
            driver.post_transmit(bytes(30), cookie)
        await driver.ring_transmit()
        for _ in range(count):
            await sink.frame()
            await driver.completion()

    await transmit(3)
    assert await until_irq(dut, 200) is None
    await driver.write(IRQ_COUNT, 6)
    await transmit(2)
    assert await until_irq(dut, 200) is None, "five of six"
    await transmit(1)
    assert await until_irq(dut, 200) is not None
    assert await driver.read(IRQ_ACK) == 1
    await driver.write(IRQ_ACK, 1)
    assert await until_irq(dut, 50) is None
    await driver.write(IRQ_TIME, 400)
    await transmit(1)
    assert 250 < await until_irq(dut, 1000) < 400
    await driver.write(IRQ_ACK, 1)
    assert await until_irq(dut, 1000) is None, "nothing is waiting to be reported"


@cocotb.test()
async def neither_direction_starves_the_other(dut):
    driver, source, sink = await begin(dut, entries=64, completions=256)
    frame = bytes(500)

    async def feed():
        while True:
            await source.frame(frame)

    async def drain():
        while True:
            await sink.frame()

    for n in range(60):
        driver.post_transmit(frame, n)
        driver.post_receive(n, [512])
    await driver.ring_transmit()
    await driver.ring_receive()
    cocotb.start_soon(feed())
    cocotb.start_soon(drain())
    counts = [0, 0]
    for _ in range(60):
        counts[(await driver.completion(free=False))[2]] += 1
    assert min(counts) >= 25, counts
    words, cycles, waits = sum(n for _, n in driver.memory.bursts), await driver.read(0x64), await driver.read(BUS_WAITS)
    dut._log.info("sent %d, received %d; bus: %d words in %d cycles, %d waiting", *counts, words, cycles, waits)
    assert words / cycles > 0.5, "the bus is mostly moving words"


@pytest.mark.quick
def test_host_side():
    run("x0")
