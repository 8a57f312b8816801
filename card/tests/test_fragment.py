"""fragment: IPv4 packets that are too long for the line leave in fragments, all other frames as they came."""

import random
import struct

import cocotb
import pytest
from cocotb.triggers import FallingEdge
from frames import FIELDS, FrameSink, FrameSource
from harness import run
from stream import start_clock

ETHERNET = bytes.fromhex("0200000000020200000000010800")
IN, OUT = [field for field in FIELDS if field != "sof"] + ["to_mac"], [*FIELDS, "to_mac"]
MTUS = [68, 75, 576, 1500]


def checksum(header):
    total = sum(struct.unpack("!10H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def packet(payload, flags=0, identification=0x1234, options=b""):
    """An Ethernet frame with an IPv4 packet; `flags` are the 16 bits of flags and offset."""
    first = struct.pack("!BBHHHBBH4s4s", 0x45 + len(options) // 4, 3, 20 + len(options) + len(payload), identification, flags,
                        64, 50, 0, bytes([192, 0, 2, 1]), bytes([192, 0, 2, 2]))
    header = first[:10] + struct.pack("!H", checksum(first)) + first[12:]
    return ETHERNET + header + options + payload


async def begin(dut, mtu, gaps=0.0, stalls=0.0):
    source = FrameSource(dut, fields=IN, gaps=gaps)
    sink = FrameSink(dut, fields=OUT, stalls=stalls)
    dut.mtu.value = mtu
    await start_clock(dut)
    return source, sink


async def reassembled(sink, whole, mtu):
    """Takes fragments until the last one, checks each (RFC 791), and returns the payload and their number."""
    original = struct.unpack("!HHH", whole[16:22])
    base = 8 * (original[2] & 0x1FFF)
    payload, count = b"", 0
    while True:
        frame, err = await sink.frame()
        assert not err and sink.last["to_mac"] == 1
        header = frame[14:34]
        length, identification, flags = struct.unpack("!HHH", header[2:8])
        assert frame[:14] == whole[:14] and checksum(header) == 0, frame.hex()
        assert length == len(frame) - 14 <= mtu
        assert identification == original[1] and not flags & 0xC000
        assert (header[:2], header[8:10], header[12:]) == (whole[14:16], whole[22:24], whole[26:34])
        assert 8 * (flags & 0x1FFF) == base + len(payload)
        payload += frame[34:]
        count += 1
        is_last = len(payload) == len(whole) - 34
        more = bool(flags & 0x2000)
        assert more == (not is_last or bool(original[2] & 0x2000))
        if is_last:
            return payload, count
        assert (length - 20) % 8 == 0 and length + 8 > mtu, "more fragments than needed"


@cocotb.test()
@cocotb.parametrize((("gaps", "stalls"), [(0.0, 0.0), (0.3, 0.3)]), ("mtu", MTUS))
async def long_packets_are_cut_into_as_few_fragments_as_possible(dut, gaps, stalls, mtu):
    source, sink = await begin(dut, mtu, gaps, stalls)
    rng = random.Random(mtu)
    step = (mtu - 20) & ~7
    # Each length of the last fragment relative to a word, and lengths about multiples of a
    # fragment's.
    lengths = [mtu - 20 + extra for extra in range(1, 18)]
    lengths += [times * step + extra for times in (2, 3) for extra in (-1, 0, 1, 2, 6, 7, 8)]
    lengths += [rng.randrange(mtu, min(9000, 40 * mtu)) for _ in range(4)]
    packets = [packet(rng.randbytes(length), identification=rng.getrandbits(16)) for length in lengths]

    async def send():
        for whole in packets:
            await source.frame(whole, to_mac=1)

    cocotb.start_soon(send())
    total = 0
    for whole in packets:
        payload, count = await reassembled(sink, whole, mtu)
        assert payload == whole[34:]
        assert count == -(-(len(whole) - 34) // step)
        total += count
    assert dut.fragments.value == total


@cocotb.test()
async def a_fragment_is_cut_again(dut):
    source, sink = await begin(dut, 600)
    for flags in (0x2000 | 185, 370):  # in the middle of a packet, and its end
        whole = packet(bytes(range(200)) * 7, flags=flags)
        cocotb.start_soon(source.frame(whole, to_mac=1))
        assert (await reassembled(sink, whole, 600))[0] == whole[34:]


@cocotb.test()
@cocotb.parametrize((("gaps", "stalls"), [(0.0, 0.0), (0.3, 0.3)]))
async def all_other_frames_pass_as_they_came(dut, gaps, stalls):
    mtu = 100
    source, sink = await begin(dut, mtu, gaps, stalls)
    rng = random.Random(3)
    long = rng.randbytes(300)
    v6 = ETHERNET[:12] + b"\x86\xdd" + b"\x60" + bytes(39) + long
    vlan = ETHERNET[:12] + b"\x81\x00\x00\x01" + packet(long)[12:]
    frames = [(rng.randbytes(length), 1) for length in range(1, 50)]
    frames += [(packet(rng.randbytes(mtu - 20)), 1), (packet(long, flags=0x4000), 1), (packet(long, options=bytes(8)), 1)]
    frames += [(packet(long), 0), (v6, 1), (vlan, 1), (packet(long[:40]) + bytes(200), 1)]

    async def send():
        for frame, to_mac in frames:
            await source.frame(frame, err=len(frame) % 7 == 0, to_mac=to_mac)

    cocotb.start_soon(send())
    for frame, to_mac in frames:
        assert await sink.frame() == (frame, int(len(frame) % 7 == 0))
        assert sink.last["to_mac"] == to_mac
    assert dut.fragments.value == 0


@cocotb.test()
async def without_an_mtu_nothing_is_cut(dut):
    source, sink = await begin(dut, 0)
    whole = packet(bytes(3000))
    cocotb.start_soon(source.frame(whole, to_mac=1))
    assert await sink.frame() == (whole, 0)


@cocotb.test()
async def a_packet_that_ends_before_its_last_fragment_or_is_broken_ends_with_an_error(dut):
    source, sink = await begin(dut, 108)  # 88 bytes of payload in a fragment
    whole = packet(bytes(range(250)))
    cuts = [(34 + at, 0) for at in (7, 80, 86, 87, 88, 89, 94, 95, 170, 176)] + [(len(whole), 1)]

    async def send():
        for length, err in cuts:
            await source.frame(whole[:length], err=err, to_mac=1)
        await source.frame(packet(b"sound"), to_mac=1)

    cocotb.start_soon(send())
    for length, _ in cuts:
        while True:
            frame, err = await sink.frame()
            if err:
                break
            assert len(frame) == 34 + 88, f"a fragment of a packet cut at {length}"
    assert await sink.frame() == (packet(b"sound"), 0)
    await FallingEdge(dut.clk)


@pytest.mark.quick
def test_fragment():
    run("fragment")
