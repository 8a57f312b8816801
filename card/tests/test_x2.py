"""x2: frames from the MAC find their SA by themselves; everything else passes as it came."""

import random
import struct
from dataclasses import replace

import card
import cocotb
from card import CRYPTO, prefix, sa_of
from firewall import Rule, table
from frames import FIELDS, FrameSink, FrameSource
from harness import run
from test_filter import V6, ipv6
from test_inspect import packet_of
from test_pipeline import LINK, Pipe, esp_case
from stream import start_clock

ETHERNET = bytes(12) + b"\x08\0"
ETHERNET_V6 = bytes(12) + b"\x86\xdd"


class Receiver(Pipe):
    """X2 with both its sources."""

    def __init__(self, dut, gaps, stalls):
        self.dut = dut
        self.source = FrameSource(dut, fields=FIELDS + ["from_mac"], gaps=gaps)
        self.sink = FrameSink(dut, fields=LINK, stalls=stalls)

    async def ask(self, frame, from_mac=0):
        cocotb.start_soon(self.source.frame(frame, from_mac=from_mac))
        return await self.answer()


async def begin(dut, gaps=0.0, stalls=0.0, function=1):
    pipe = Receiver(dut, gaps, stalls)
    dut.look.value = 0
    await start_clock(dut)
    await pipe.load(function)
    return pipe


def on_ethernet(sa, rng, udp=False, options=0, padding=0, payload=None, v6=False):
    """(the plain frame, the frame as it comes from the wire) of a packet of the SA; only IPv4 has options."""
    plain, sealed, _, _ = esp_case(sa, rng, header=0, payload=payload)

    def frame(esp):
        body = struct.pack(">HHHH", 4500, 4500, 8 + len(esp), 0) + esp if udp else esp
        if v6:
            return ETHERNET_V6 + struct.pack(">IHBB", 6 << 28 | rng.getrandbits(28), len(body), 17 if udp else 50, 64) + rng.randbytes(32) + body
        header = struct.pack(">BBHHHBBH8s", 0x45 + options // 4, 0, 20 + options + len(body), 1, 0x4000, 64, 17 if udp else 50, 0, bytes(8))
        return ETHERNET + header + rng.randbytes(options) + body

    made = frame(sealed)
    # The card gives back the headers as they came, lengths included.
    return made[: len(made) - len(sealed)] + plain, made + bytes(padding)


@cocotb.test()
@cocotb.parametrize((("gaps", "stalls"), [(0.0, 0.0), (0.3, 0.3)]))
async def esp_from_the_wire_is_opened_bare_and_in_udp(dut, gaps, stalls):
    pipe, rng = await begin(dut, gaps, stalls), random.Random(31)
    sas = [sa_of(card.GCM, index, rng, mapped=1) for index in [5, 250]]
    for sa in sas:
        await pipe.install(sa)
    for n in range(60):
        sa = sas[rng.randrange(2)]
        plain, wire = on_ethernet(sa, rng, udp=n % 2, options=4 * rng.randrange(11), padding=rng.randrange(20), v6=n % 4 > 1)
        status, back = await pipe.ask(wire, from_mac=1)
        assert (status.code, status.flags & 0x61, status.sa, status.cookie) == (card.OK, 0x61, sa.index, 0), (n, status)
        assert back == plain


@cocotb.test()
async def of_ipv6_nothing_else_is_opened(dut):
    pipe, rng = await begin(dut, gaps=0.2), random.Random(38)
    sa = sa_of(card.GCM, 6, rng, mapped=1)
    await pipe.install(sa)
    _, bare = on_ethernet(sa, rng, payload=bytes(64), v6=True)
    _, udp = on_ethernet(sa, rng, payload=bytes(64), v6=True, udp=True)

    def changed(frame, at, to):
        return frame[:at] + to + frame[at + len(to) :]

    def length_of(frame, length):
        return changed(frame, 18, struct.pack(">H", length))

    # An extension header before ESP or UDP: all of them have 8 bytes here.
    behind = [
        length_of(changed(frame, 20, bytes([extension])), len(frame) - 54 + 8)[:54] + bytes([protocol, 0]) + bytes(6) + frame[54:]
        for frame, protocol in [(bare, 50), (udp, 17)]
        for extension in [0, 43, 44, 60]
    ]
    other = behind + [
        changed(bare, 14, b"\x45"),  # the version
        changed(bare, 12, b"\x08\0"),  # the type
        changed(bare, 20, b"\x33"),  # AH
        changed(udp, 56, b"\x11\x95"),  # another port
        changed(udp, 62, bytes(4)),  # IKE
        changed(bare, 54, bytes([bare[54] ^ 1])),  # another SPI
        length_of(bare, 12),  # nothing behind the ESP header
        length_of(bare, 0xFFFF),  # lengths that wrap
        length_of(bare, 0xFFD8),
        length_of(bare, 0xFFF4),
        bare[:57],
        bare[:56],
        udp[:65],
        udp[:64],
    ]
    for n, frame in enumerate(other):
        status, back = await pipe.ask(frame, from_mac=1)
        assert (status.code, status.flags & 0x21, back) == (card.OK, 0, frame), (n, status)
    for frame in [bare, udp]:
        assert (await pipe.ask(frame, from_mac=1))[0].flags & 0x21 == 0x21


@cocotb.test()
async def a_packet_from_the_wire_that_was_changed_brings_its_status_alone(dut):
    pipe, rng = await begin(dut), random.Random(32)
    sa = sa_of(card.GCM, 7, rng, mapped=1)
    await pipe.install(sa)
    for n in range(10):
        _, wire = on_ethernet(sa, rng, udp=n % 2)
        spoilt = bytearray(wire)
        spoilt[-1 - rng.randrange(20)] ^= 0x10
        status, rest = await pipe.ask(spoilt, from_mac=1)
        assert (status.code, status.sa, rest) == (card.BAD_ICV, 7, b"")


@cocotb.test()
async def a_packet_from_the_wire_whose_sa_has_too_short_an_icv_brings_its_status_alone(dut):
    pipe, rng = await begin(dut), random.Random(36)
    sa = sa_of(card.GCM, 8, rng, mapped=1)
    _, wire = on_ethernet(sa, rng)
    for icv_bytes in [0, 7]:
        await pipe.install(replace(sa, icv_bytes=icv_bytes))
        status, rest = await pipe.ask(wire, from_mac=1)
        assert (status.code, status.flags & 0x21, status.sa, rest) == (card.MALFORMED, 0, 8, b"")


@cocotb.test()
async def an_sa_that_does_not_come_whole_takes_no_other_ones_place_in_the_map(dut):
    pipe, rng = await begin(dut), random.Random(37)
    sa = sa_of(card.GCM, 9, rng, mapped=1)
    # The map's place is the exclusive or of the SPI's bytes.
    rival = replace(sa_of(card.GCM, 10, rng, mapped=1), spi=bytes([sa.spi[1], sa.spi[0] ^ 1, sa.spi[2] ^ 1, sa.spi[3]]))
    await pipe.install(sa)

    async def opened(by):
        plain, wire = on_ethernet(by, rng)
        status, back = await pipe.ask(wire, from_mac=1)
        return (status.code, status.flags & 0x20, back) == (card.OK, 0x20, plain)

    assert await opened(sa)
    for lacking in [1, 8, 80, 96]:
        status, _ = await pipe.ask(rival.install()[:-lacking])
        assert status.code == card.MALFORMED
        assert await opened(sa), f"{lacking} bytes less"
    cocotb.start_soon(pipe.source.frame(rival.install(), err=1, from_mac=0))
    assert (await pipe.answer())[0].code == card.BROKEN
    assert await opened(sa)
    await pipe.install(rival)
    assert await opened(rival) and not await opened(sa)
    # A packet right behind the installation finds the map written.
    plain, wire = on_ethernet(sa, rng, payload=bytes(4))

    async def both():
        await pipe.source.frame(sa.install(), from_mac=0)
        await pipe.source.frame(wire, from_mac=1)

    cocotb.start_soon(both())
    assert (await pipe.answer())[0].code == card.OK
    status, back = await pipe.answer()
    assert (status.code, status.flags & 0x20, back) == (card.OK, 0x20, plain)


@cocotb.test()
async def whatever_is_not_ours_passes_as_it_came(dut):
    pipe, rng = await begin(dut, stalls=0.2), random.Random(33)
    sa, esn, unmapped = (sa_of(card.GCM, n, rng, mapped=n != 3, esn=n == 2) for n in [1, 2, 3])
    for each in [sa, esn, unmapped]:
        await pipe.install(each)
    _, ours = on_ethernet(sa, rng, payload=bytes(64))
    fragment = bytearray(ours)
    fragment[20] = 0x20
    other = [
        b"\xff" * 12 + b"\x08\x06" + rng.randbytes(46),  # ARP
        ETHERNET + packet_of("10.0.0.1", "10.0.0.2", 17, (500, 500), b"ike"),
        ETHERNET + packet_of("10.0.0.1", "10.0.0.2", 17, (4500, 4500), bytes(4) + b"ike"),
        ETHERNET + packet_of("10.0.0.1", "10.0.0.2", 17, (4500, 4500), b"\xff"),  # keepalive
        ETHERNET + packet_of("10.0.0.1", "10.0.0.2", 17, (4501, 4501), ours[34:]),
        on_ethernet(unmapped, rng)[1],
        on_ethernet(esn, rng)[1],
        on_ethernet(sa_of(card.GCM, 1, rng), rng)[1],  # another SPI
        bytes(fragment),
        ours[:32],
        b"x",
        bytes(14),
        ours[:40],  # cut inside the ESP header
        *[rng.randbytes(rng.randrange(1, 130)) for _ in range(30)],
    ]
    for frame in other:
        status, back = await pipe.ask(frame, from_mac=1)
        if status.code == card.MALFORMED:
            # Shorter than its IP header says: there is nothing to open.
            assert frame == ours[:40] and back == b""
            continue
        assert (status.code, status.flags & 0x60, back) == (card.OK, 0x40, frame)
    assert (await pipe.ask(ours, from_mac=1))[0].flags & 0x20
    await pipe.ask(prefix(0, card.SA_REMOVE, sa=1))
    status, back = await pipe.ask(ours, from_mac=1)
    assert (status.code, back) == (card.NO_SA, ours)


@cocotb.test()
async def the_inner_packet_of_a_tunnel_is_inspected(dut):
    pipe, rng = await begin(dut), random.Random(34)
    sa = sa_of(card.GCM, 1, rng, mapped=1, tunnel=1)
    await pipe.install(sa)
    dut.look.value = 7
    for source, accept in [("10.0.0.1", 1), ("10.9.0.1", 0)]:
        await pipe.ask(table([Rule(source="10.9.0.0/16", accept=False)]))
        inner = packet_of(source, "10.0.0.2", 17, (1, 2), rng.randbytes(40))
        plain, wire = on_ethernet(sa, rng, payload=inner + b"\x01\x02\x02\x04")
        status, back = await pipe.ask(wire, from_mac=1)
        assert status.flags & 0x2E == (0x2E if accept else 0x26)
        assert (status.code, back) == ((card.OK, plain) if accept else (card.FILTERED, b""))


@cocotb.test()
async def the_filter_sees_an_inner_packet_of_ipv6_and_the_outer_one_of_transport_mode(dut):
    pipe, rng = await begin(dut), random.Random(38)
    tunnel, transport = sa_of(card.GCM, 1, rng, mapped=1, tunnel=1), sa_of(card.GCM, 2, rng, mapped=1)
    for sa in [tunnel, transport]:
        await pipe.install(sa)
    dut.look.value = 4
    inner = ipv6(rng, source=V6[0], protocol=58) + b"\x01\x02\x02\x29"
    inner += bytes(-len(inner) % 4)
    for rules, of_tunnel, of_transport in [
        ([Rule(source="fd00::1/128", accept=False)], card.FILTERED, card.OK),
        ([Rule(protocol=50, accept=False)], card.OK, card.FILTERED),
    ]:
        await pipe.ask(table(rules))
        for sa, code in [(tunnel, of_tunnel), (transport, of_transport)]:
            plain, wire = on_ethernet(sa, rng, payload=inner)
            status, back = await pipe.ask(wire, from_mac=1)
            assert (status.code, back) == (code, plain if code == card.OK else b"")


@cocotb.test()
async def the_filter_sees_what_the_card_does_not_open_and_lets_pass_what_is_not_ip(dut):
    pipe, rng = await begin(dut), random.Random(39)
    sa = sa_of(card.GCM, 1, rng, mapped=1)
    await pipe.install(sa)
    dut.look.value = 4
    await pipe.ask(table([Rule(protocol=17, dport=500)], default=False))
    arp = b"\xff" * 12 + b"\x08\x06" + rng.randbytes(46)
    ike = ETHERNET + packet_of("10.0.0.1", "10.0.0.2", 17, (500, 500), b"ike")
    ndp = bytes(12) + b"\x86\xdd" + ipv6(rng, protocol=58)
    other = on_ethernet(sa_of(card.GCM, 3, rng), rng)[1]
    ours = on_ethernet(sa, rng)[1]
    await pipe.ask(prefix(0, card.SA_REMOVE, sa=1))
    for frame, code in [(arp, card.OK), (ike, card.OK), (ndp, card.FILTERED), (other, card.FILTERED), (ours, card.FILTERED)]:
        status, back = await pipe.ask(frame, from_mac=1)
        assert (status.code, back) == (code, frame if code == card.OK else b"")
    await pipe.ask(table([Rule(protocol=50)], default=False))
    status, back = await pipe.ask(ours, from_mac=1)
    assert (status.code, back) == (card.NO_SA, ours), "it may pass, and the host learns that it was not opened"


@cocotb.test()
async def frames_of_host_and_mac_alternate(dut):
    pipe, rng = await begin(dut, 0.1, 0.1), random.Random(35)
    sa = sa_of(card.GCM, 1, rng, mapped=1)
    await pipe.install(sa)
    for _ in range(20):
        plain, wire = on_ethernet(sa, rng)
        assert (await pipe.ask(wire, from_mac=1))[1] == plain
        plain, sealed, esp_off, _ = esp_case(sa, rng)
        status, back = await pipe.ask(prefix(len(sealed), decrypt=1, functions=CRYPTO, sa=1, esp_off=esp_off, cookie=4) + sealed)
        assert (status.flags & 0x40, status.cookie, back) == (0, 4, plain)


def test_receive():
    run("x2", {"FUNCTIONS": 2, "LOAD_CYCLES": 20, "DEPTH_LOG2": 8})
