"""Checksums, filter and signatures in the pipeline, against Python's own sums and searches over random packets."""

import ipaddress
import random
import struct
import sys
from pathlib import Path

import card
import cocotb
import pytest
from card import FILTER, IP_CHECKSUM, SIGNATURE, UDP_CHECKSUM, prefix
from harness import run
from test_pipeline import begin

sys.path.insert(0, str(Path(__file__).parents[1]))
import signatures  # noqa: E402

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


@cocotb.test()
async def right_checksums_are_told_from_wrong_ones(dut):
    pipe, rng = await begin(dut), random.Random(22)
    for n in range(60):
        packet = bytearray(random_udp(rng, checksum=n % 10 != 0))
        header = (packet[0] & 15) * 4
        status, back = await show(pipe, packet, IP_CHECKSUM | UDP_CHECKSUM, ip_off=n % 16, decrypt=1)
        assert status.flags & 6 == 6 and back == packet
        if n % 10 == 0:
            continue
        packet[header + 8 if n % 2 and len(packet) > header + 8 else header + 1] ^= 1 << rng.randrange(8)
        status, _ = await show(pipe, packet, IP_CHECKSUM | UDP_CHECKSUM, ip_off=n % 16, decrypt=1)
        assert status.flags & 6 == 2, "the IP header is still right, the datagram is not"
        packet[16] ^= 1
        status, _ = await show(pipe, packet, IP_CHECKSUM | UDP_CHECKSUM, ip_off=n % 16, decrypt=1)
        assert not status.flags & 2


@cocotb.test()
async def a_fragment_or_a_cut_packet_has_no_right_udp_checksum(dut):
    pipe, rng = await begin(dut), random.Random(23)
    for packet in [random_udp(rng, fragment=0x2000), random_udp(rng, fragment=5), random_udp(rng, payload=bytes(100))[:-60]]:
        status, _ = await show(pipe, packet, UDP_CHECKSUM, decrypt=1)
        assert not status.flags & 4


def rule_words(source="0.0.0.0/0", destination="0.0.0.0/0", sport=None, dport=None, protocol=None, accept=1, used=1):
    """The four words of a filter rule."""

    def net(text):
        network = ipaddress.ip_network(text)
        return network.network_address.packed + network.netmask.packed

    ports = struct.pack(">HHHH", sport or 0, dport or 0, 0xFFFF * (sport is not None), 0xFFFF * (dport is not None))
    last = bytes([protocol or 0, 0xFF * (protocol is not None), accept | used << 1]) + bytes(5)
    return net(source) + net(destination) + ports + last


@cocotb.test()
async def the_first_rule_that_matches_decides(dut):
    pipe, rng = await begin(dut), random.Random(24)
    rules = [
        {"source": "10.1.0.0/16", "dport": 22, "protocol": 6, "accept": 1},
        {"destination": "192.0.2.7/32", "accept": 0},
        {"dport": 22, "protocol": 6, "accept": 0},
        {"sport": 53, "protocol": 17, "accept": 1},
        {"source": "10.0.0.0/8", "accept": 0},
    ]
    for number, rule in enumerate(rules):
        status, _ = await pipe.ask(prefix(32, card.FILTER_WRITE, argument=3 * number) + rule_words(**rule))
        assert status.code == card.OK

    def verdict(source, destination, protocol, ports):
        for number, rule in enumerate(rules):
            if (
                ipaddress.ip_address(source) in ipaddress.ip_network(rule.get("source", "0.0.0.0/0"))
                and ipaddress.ip_address(destination) in ipaddress.ip_network(rule.get("destination", "0.0.0.0/0"))
                and rule.get("protocol", protocol) == protocol
                and rule.get("sport", ports[0]) == ports[0]
                and rule.get("dport", ports[1]) == ports[1]
            ):
                return 3 * number, rule["accept"]
        return 255, 1

    seen = set()
    for n in range(120):
        case = (
            rng.choice(["10.1.2.3", "10.2.0.1", "11.1.0.1"]),
            rng.choice(["192.0.2.7", "192.0.2.6"]),
            rng.choice([6, 17]),
            (rng.choice([53, 54]), rng.choice([22, 23])),
        )
        packet = packet_of(*case, payload=rng.randbytes(20), options=bytes(4 * (n % 3)))
        status, back = await show(pipe, packet, FILTER, ip_off=n % 9)
        rule, accept = verdict(*case)
        seen.add(rule)
        assert status.rule == rule and bool(status.flags & 8) == bool(accept)
        assert (status.code, back) == ((card.OK, packet) if accept else (card.FILTERED, b""))
    assert seen == {0, 3, 6, 9, 12, 255}
    status, _ = await show(pipe, b"\x60" + bytes(60), FILTER)
    assert (status.code, status.rule) == (card.OK, 255), "not IPv4"


def expected_signature(packet, protocol, port):
    for number, rule in enumerate(RULES, 1):
        if rule.protocol in (0, protocol) and rule.port in (0, port) and all(c in packet for c in rule.contents):
            return number
    return 0


@cocotb.test()
async def signatures_hit_where_a_search_finds_them(dut):
    pipe, rng = await begin(dut, gaps=0.1), random.Random(25)
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
            # A content that begins anew in the middle of itself.
            pieces = [content[: rng.randrange(1, len(content))] + content for content in pieces]
        payload = rng.randbytes(rng.randrange(12)) + b"".join(piece + rng.randbytes(rng.randrange(3)) for piece in pieces)
        packet = packet_of("10.0.0.1", "10.0.0.2", protocol, (999, port), payload)
        status, back = await show(pipe, packet, SIGNATURE, ip_off=n % 9)
        number = expected_signature(packet, protocol, port)
        assert (status.signature, bool(status.flags & 16)) == (number, number != 0), payload
        assert back == packet
        hits.add(number)
    assert hits == set(range(len(RULES) + 1))


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


def test_the_compiled_table_is_that_of_the_rules():
    table = Path(__file__).parents[1] / "rtl" / "signature_table.sv"
    assert table.read_text() == signatures.module(RULES)


def test_inspection():
    run("x1", {"FUNCTIONS": 2, "LOAD_CYCLES": 20, "DEPTH_LOG2": 8}, name="x1_inspect")
