"""Checksums, filter and signatures in the pipeline, against Python's own sums and searches over random packets."""

import hashlib
import ipaddress
import random
import struct
import sys
from pathlib import Path

import card
import cocotb
import pytest
from card import FILTER, IP_CHECKSUM, SIGNATURE, UDP_CHECKSUM, prefix
from firewall import DEFAULT, Rule, table, verdict
from harness import run
from test_pipeline import begin

sys.path.insert(0, str(Path(__file__).parents[1]))
import signatures  # noqa: E402

DIGEST = "29cce1a0fed270259060c2019f1665cab26d581d"
RULES = signatures.parse((Path(__file__).parents[1] / "signatures.rules").read_text())


def ones_sum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packet_of(source, destination, protocol, ports, payload, options=b"", fragment=0, checksum=True):
    """An IPv4 packet; UDP gets its length and checksum."""
    source, destination = ipaddress.ip_address(source).packed, ipaddress.ip_address(destination).packed
    body = struct.pack(">HH", *ports)
    if protocol == 17:
        length = 8 + len(payload)
        pseudo = source + destination + struct.pack(">BBH", 0, 17, length)
        total = ones_sum(pseudo + body + struct.pack(">HH", length, 0) + payload) or 0xFFFF
        body += struct.pack(">HH", length, total if checksum else 0)
    body += payload
    header = struct.pack(">BBHHHBBH", 0x45 + len(options) // 4, 0, 20 + len(options) + len(body), 7, fragment, 64, protocol, 0)
    header += source + destination + options
    return header[:10] + ones_sum(header).to_bytes(2, "big") + header[12:] + body


def random_udp(rng, **fixed):
    fields = {
        "source": rng.getrandbits(32),
        "destination": rng.getrandbits(32),
        "protocol": 17,
        "ports": (rng.getrandbits(16), rng.getrandbits(16)),
        "payload": rng.randbytes(rng.randrange(0, 200)),
        "options": rng.randbytes(4 * rng.randrange(0, 11)),
    }
    return packet_of(**fields | fixed)


def random_udp6(rng, payload=None, checksum=True):
    """The same of IPv6."""
    payload = rng.randbytes(rng.randrange(200)) if payload is None else payload
    ends, length = rng.randbytes(32), 8 + len(payload)
    body = rng.randbytes(4) + struct.pack(">HH", length, 0) + payload
    total = ones_sum(ends + struct.pack(">II", length, 17) + body) or 0xFFFF
    return struct.pack(">IHBB", 6 << 28, length, 17, 64) + ends + body[:6] + struct.pack(">H", total * checksum) + body[8:]


async def show(pipe, packet, functions, ip_off=14, decrypt=0):
    """The status for a frame with the packet at ip_off, and the packet that came back."""
    head, tail = bytes(ip_off), bytes(max(0, 46 - len(packet)))
    frame = head + packet + tail
    status, back = await pipe.ask(prefix(len(frame), functions=functions, ip_off=ip_off, decrypt=decrypt) + frame)
    return status, back[ip_off : ip_off + len(packet)]


@cocotb.test()
async def checksums_are_filled_in_where_the_reference_has_them(dut):
    pipe, rng = await begin(dut, gaps=0.1, stalls=0.1), random.Random(21)
    for n in range(60):
        packet = random_udp(rng)
        header = (packet[0] & 15) * 4
        blank = bytearray(packet)
        blank[10:12] = rng.randbytes(2)
        blank[header + 6 : header + 8] = rng.randbytes(2)
        _, filled = await show(pipe, bytes(blank), IP_CHECKSUM | UDP_CHECKSUM, ip_off=2 * (n % 16))
        assert filled == packet
        packet = random_udp6(rng)
        blank = packet[:46] + rng.randbytes(2) + packet[48:]
        _, filled = await show(pipe, blank, IP_CHECKSUM | UDP_CHECKSUM, ip_off=2 * (n % 16))
        assert filled == packet


@cocotb.test()
async def right_checksums_are_distinguished_from_wrong_ones(dut):
    pipe, rng = await begin(dut), random.Random(22)
    for n in range(60):
        packet = bytearray(random_udp(rng, checksum=n % 10 != 0))
        header = (packet[0] & 15) * 4
        status, back = await show(pipe, packet, IP_CHECKSUM | UDP_CHECKSUM, ip_off=n % 16, decrypt=1)
        assert status.flags & 0x86 == 6 and back == packet
        if n % 10 == 0:
            continue
        packet[header + 8 if n % 2 and len(packet) > header + 8 else header + 1] ^= 1 << rng.randrange(8)
        status, _ = await show(pipe, packet, IP_CHECKSUM | UDP_CHECKSUM, ip_off=n % 16, decrypt=1)
        assert status.flags & 0x86 == 0x82, "the IP header is still right, the datagram is not"
        packet[16] ^= 1
        status, _ = await show(pipe, packet, IP_CHECKSUM | UDP_CHECKSUM, ip_off=n % 16, decrypt=1)
        assert status.flags & 0x82 == 0x80


@cocotb.test()
async def udp_of_ipv6_is_reported_right_from_wrong_and_needs_its_checksum(dut):
    pipe, rng = await begin(dut), random.Random(27)
    for n in range(60):
        packet = bytearray(random_udp6(rng, payload=rng.randbytes(n)))
        status, back = await show(pipe, packet, IP_CHECKSUM | UDP_CHECKSUM, ip_off=n % 16, decrypt=1)
        assert status.flags & 0x86 == 6 and back == packet
        packet[rng.choice([8, 39, 41, len(packet) - 1])] ^= 1 << rng.randrange(8)
        status, _ = await show(pipe, packet, IP_CHECKSUM | UDP_CHECKSUM, ip_off=n % 16, decrypt=1)
        assert status.flags & 0x86 == 0x82
    status, _ = await show(pipe, random_udp6(rng, checksum=False), UDP_CHECKSUM, decrypt=1)
    assert status.flags & 0x84 == 0x80


@cocotb.test()
async def a_fragment_or_a_cut_packet_has_no_right_udp_checksum(dut):
    pipe, rng = await begin(dut), random.Random(23)
    for packet in [random_udp(rng, fragment=0x2000), random_udp(rng, fragment=5), random_udp(rng, payload=bytes(100))[:-60]]:
        status, _ = await show(pipe, packet, UDP_CHECKSUM, decrypt=1)
        assert not status.flags & 0x84, "nor a wrong one"
    tcp = packet_of("10.0.0.1", "10.0.0.2", 6, (1, 2), bytes(20))
    for packet in [tcp, b"\x60" + bytes(5) + b"\x3c\x40" + bytes(40), b"\x45"]:
        status, _ = await show(pipe, packet, UDP_CHECKSUM, decrypt=1)
        assert not status.flags & 0x84


@cocotb.test()
async def a_frame_that_the_filter_drops_brings_its_status_alone(dut):
    pipe, rng = await begin(dut), random.Random(24)
    rules = [Rule(source="10.1.0.0/16", accept=False), Rule(destination="192.0.2.7/32", protocol=6, dport=22, accept=False), Rule(protocol=17)]
    for default in [True, False]:
        status, _ = await pipe.ask(table(rules, default))
        assert status.code == card.OK
        for n in range(40):
            source, destination = rng.choice(["10.1.2.3", "11.1.0.1"]), rng.choice(["192.0.2.7", "192.0.2.6"])
            packet = packet_of(source, destination, rng.choice([1, 6, 17]), (1, 22), rng.randbytes(20), bytes(4 * (n % 3)))
            status, back = await show(pipe, packet, FILTER, ip_off=n % 9)
            rule, accept = verdict(rules, default, packet)
            assert (status.rule, bool(status.flags & 8)) == (rule, accept)
            assert (status.code, back) == ((card.OK, packet) if accept else (card.FILTERED, b""))
        status, back = await show(pipe, packet_of("10.1.2.3", "10.0.0.1", 1, (0, 0), b""), 0)
        assert (status.code, status.rule, len(back)) == (card.OK, DEFAULT, 24), "it was not asked"


@cocotb.test()
async def a_table_that_does_not_come_whole_drops_everything(dut):
    pipe = await begin(dut)
    packet = packet_of("10.0.0.1", "10.0.0.2", 17, (1, 2), b"x")
    rules = [Rule(protocol=99), Rule(protocol=17)]
    assert (await pipe.ask(table(rules)))[0].code == card.OK
    assert (await show(pipe, packet, FILTER))[0].rule == 1
    for lacking in [1, 8, 130]:
        assert (await pipe.ask(table(rules)[:-lacking]))[0].code == card.MALFORMED
        assert (await show(pipe, packet, FILTER))[0].code == card.FILTERED
    for length in [64, 127, 17 * 128]:
        status, _ = await pipe.ask(prefix(length, card.FILTER_WRITE, argument=1) + bytes(length))
        assert status.code == card.MALFORMED
    assert (await show(pipe, packet, FILTER))[0].code == card.FILTERED
    assert (await pipe.ask(table([])))[0].code == card.OK
    assert (await show(pipe, packet, FILTER))[0].code == card.OK


async def load(pipe, rules):
    for page, body in signatures.pages(rules):
        status, _ = await pipe.ask(prefix(len(body), card.SIGNATURE_WRITE, argument=page) + body)
        assert status.code == card.OK


@cocotb.test()
async def signatures_hit_where_a_search_finds_them(dut):
    pipe, rng = await begin(dut, gaps=0.1), random.Random(25)
    await load(pipe, RULES)
    contents = [content for rule in RULES for content in rule.contents]
    hits = set()
    for n in range(150):
        rule = RULES[n % len(RULES)]
        protocol = rule.protocol or 6
        port = rule.port or 1000
        pieces = list(rule.contents)
        if n % 4 == 1:
            pieces = [rng.choice(contents)[:-1]]
        elif n % 4 == 2:
            port += 1
        elif n % 4 == 3:
            # A content that begins again in the middle of itself.
            pieces = [content[: rng.randrange(1, len(content))] + content for content in pieces]
        payload = rng.randbytes(rng.randrange(12)) + b"".join(piece + rng.randbytes(rng.randrange(3)) for piece in pieces)
        packet = packet_of("10.0.0.1", "10.0.0.2", protocol, (999, port), payload)
        status, back = await show(pipe, packet, SIGNATURE, ip_off=n % 9)
        number = signatures.first_hit(RULES, packet, protocol, port)
        assert (status.signature, bool(status.flags & 16)) == (number, number != 0), payload
        assert back == packet
        hits.add(number)
    assert hits == set(range(len(RULES) + 1))


def random_rules(rng):
    """Rules over few letters, so that contents overlap, contain and repeat each other."""

    def content():
        return bytes(rng.choice(b"ab\0\xff") for _ in range(rng.randrange(1, 7)))

    return [
        signatures.Rule(rng.choice([0, 6, 17]), rng.choice([0, 0, 80]), [content() for _ in range(rng.randrange(1, 3))], number)
        for number in range(rng.choice([1, 5, 16]))
    ]


@cocotb.test()
async def another_rule_set_replaces_the_first_at_run_time(dut):
    pipe, rng, hits = await begin(dut), random.Random(28), set()
    for _ in range(6):
        rules = random_rules(rng)
        await load(pipe, rules)
        for _ in range(25):
            protocol, port = rng.choice([1, 6, 17]), rng.choice([80, 81])
            payload = bytes(rng.choice(b"abc\0\xff") for _ in range(rng.randrange(30)))
            packet = packet_of("1.1.1.1", "2.2.2.2", protocol, (999, port), payload)
            status, back = await show(pipe, packet, SIGNATURE, ip_off=rng.randrange(16))
            port = port if protocol in (6, 17) else int.from_bytes(packet[22:24], "big")
            number = signatures.first_hit(rules, packet + bytes(max(0, 46 - len(packet))), protocol, port)
            assert (status.signature, bool(status.flags & 16), back) == (number, number != 0, packet), (rules, packet)
            hits.add(number)
    assert 0 in hits and len(hits) > 4
    packet = packet_of("1.1.1.1", "2.2.2.2", 6, (1, 80), b"x")
    await load(pipe, [signatures.Rule(0, 0, [b"x"], 1)])
    assert (await show(pipe, packet, SIGNATURE))[0].signature == 1
    # What does not ask for it is not searched, also behind a packet with a hit.
    status, back = await show(pipe, packet, 0)
    assert (status.signature, status.flags & 16, back) == (0, 0, packet)
    # A page without the rules behind it: none hits until they are there.
    page, body = signatures.pages(RULES)[0]
    await pipe.ask(prefix(len(body), card.SIGNATURE_WRITE, argument=page) + body)
    assert (await show(pipe, packet, SIGNATURE))[0].flags & 16 == 0
    await load(pipe, RULES)
    await load(pipe, [])
    assert (await show(pipe, packet, SIGNATURE))[0].flags & 16 == 0
    for length, page in [(4, 0), (8200, 0), (8, 4)]:
        status, _ = await pipe.ask(prefix(length, card.SIGNATURE_WRITE, argument=page) + bytes(length))
        assert status.code == card.MALFORMED


@cocotb.test()
async def a_rule_set_of_the_largest_size_is_found(dut):
    pipe, rng = await begin(dut), random.Random(29)
    letters = [b"%c" % (33 + n) for n in range(31)]
    rules = [signatures.Rule(0, 0, [letter * 8], n) for n, letter in enumerate(letters)] + [signatures.Rule(0, 0, [b"~zyxw"], 31)]
    await load(pipe, rules)
    for number in [1, 2, 17, 31, 32]:
        payload = rng.randbytes(20).translate(None, b"~") + rules[number - 1].contents[0]
        status, _ = await show(pipe, packet_of("1.1.1.1", "2.2.2.2", 6, (1, 2), payload), SIGNATURE)
        assert status.signature == number
    with pytest.raises(ValueError, match="states"):
        signatures.pages(rules[:-1] + [signatures.Rule(0, 0, [b"~zyxwvuts"], 31)])
    with pytest.raises(ValueError, match="33 rules"):
        signatures.pages(rules + rules[:1])


def test_a_rule_that_the_card_cannot_do_is_refused():
    for text in [
        "alert icmp any any -> any any (content:\"x\"; sid:1;)",
        "alert tcp 10.0.0.1 any -> any any (content:\"x\"; sid:1;)",
        "alert tcp any any -> any any (content:\"x\"; nocase; sid:1;)",
        "alert tcp any any -> any any (content:\"|9\"; sid:1;)",
        "alert tcp any any -> any any (pcre:\"/x/\"; content:\"x\"; sid:1;)",
        "alert tcp any any -> any any (sid:1;)",
    ]:
        with pytest.raises(ValueError):
            signatures.parse(text)


def test_the_compiled_tables_are_those_of_the_driver():
    """lab/card/src/signature.rs has the same number."""
    digest = hashlib.sha1(b"".join(body for _, body in signatures.pages(RULES))).hexdigest()
    assert digest == DIGEST


def test_inspection():
    run("x1", {"FUNCTIONS": 2, "LOAD_CYCLES": 20, "DEPTH_LOG2": 8}, name="x1_inspect")
