"""inspect: the filter against the firewall in Python, over random packets of both families, whole, in fragments and cut."""

import random
import struct

import cocotb
import pytest
from cocotb.triggers import FallingEdge
from firewall import AH, DEFAULT, EXTENSIONS, FRAGMENT, MALFORMED, TCP, UDP, Rule, parse, verdict
from harness import run
from stream import number, start_clock

V4 = [bytes([10, 1, 0, 1]), bytes([10, 1, 0, 2]), bytes([10, 2, 0, 1]), bytes([192, 0, 2, 7])]
V6 = [bytes([0xFD, 0] + [0] * 13 + [1]), bytes([0xFD, 0] + [0] * 13 + [2]), bytes([0xFD, 1] + [0] * 13 + [1])]
NETWORKS = ["10.1.0.0/16", "10.1.0.1/32", "10.0.0.0/8", "192.0.2.0/25", "0.0.0.0/0"], ["fd00::/16", "fd00::1/128", "fd00::/127", "::/0"]
PORTS = [0, 22, 53, 80]


async def begin(dut):
    for name in ["tap", "rule_clear", "rule_write", "look_ip", "look_udp", "look_signature", "fill"]:
        getattr(dut, name).value = 0
    await start_clock(dut)


async def write(dut, rules, default=True):
    dut.rule_clear.value, dut.rule_accept.value = 1, int(default)
    await FallingEdge(dut.clk)
    dut.rule_clear.value = 0
    dut.rule_write.value = 1
    for at, rule in enumerate(rules):
        words = rule.to_bytes()
        for word in range(16):
            dut.rule_number.value, dut.rule_word.value = at, word
            dut.rule_data.value = number(words[8 * word : 8 * word + 8])
            await FallingEdge(dut.clk)
    dut.rule_write.value = 0


async def show(dut, packet, off=14, gaps=0.0, rng=random):
    """(number of the rule, whether it accepts) of a frame with the packet at `off`."""
    frame = rng.randbytes(off) + packet
    dut.off.value = off
    for at in range(0, len(frame), 8):
        while rng.random() < gaps:
            dut.tap.value = 0
            await FallingEdge(dut.clk)
        part = frame[at : at + 8]
        dut.tap.value, dut.sof.value, dut.eof.value = 1, int(at == 0), int(at + 8 >= len(frame))
        dut.bytes.value, dut.data.value = len(part), number(part + rng.randbytes(8 - len(part)))
        await FallingEdge(dut.clk)
    dut.tap.value = 0
    for _ in range(60):
        await FallingEdge(dut.clk)
        if dut.done.value:
            return int(dut.rule.value), bool(dut.accept.value)
    raise AssertionError("no verdict")


def ipv4(rng, source=None, destination=None, protocol=None, ports=None, fragment=0, options=0, body=None):
    protocol = rng.choice([1, TCP, UDP, 47]) if protocol is None else protocol
    ports = ports or (rng.choice(PORTS), rng.choice(PORTS))
    body = struct.pack(">HH", *ports) + rng.randbytes(rng.randrange(20)) if body is None else body
    head = struct.pack(">BBHHHBBH", 0x45 + options, 0, 20 + 4 * options + len(body), 1, fragment, 64, protocol, 0)
    return head + (source or rng.choice(V4)) + (destination or rng.choice(V4)) + rng.randbytes(4 * options) + body


def ipv6(rng, source=None, destination=None, protocol=None, ports=None, extensions=(), offset=0, body=None):
    protocol = rng.choice([58, TCP, UDP, 59]) if protocol is None else protocol
    ports = ports or (rng.choice(PORTS), rng.choice(PORTS))
    body = struct.pack(">HH", *ports) + rng.randbytes(rng.randrange(20)) if body is None else body
    chain, after = b"", protocol
    for kind in reversed(extensions):
        if kind == FRAGMENT:
            header = struct.pack(">BBHI", after, rng.getrandbits(8), offset << 3 | rng.getrandbits(1), rng.getrandbits(32))
        else:
            units = rng.randrange(3)
            header = bytes([after, 2 * units if kind == AH else units])
            header = header + rng.randbytes((8 * units + 8) - 2)
        chain, after = header + chain, kind
    head = struct.pack(">IHBB", 6 << 28, len(chain) + len(body), after, 64)
    return head + (source or rng.choice(V6)) + (destination or rng.choice(V6)) + chain + body


def random_rule(rng):
    family = rng.choice(NETWORKS)
    with_ports = rng.random() < 0.4
    return Rule(
        source=rng.choice([None, rng.choice(family)]),
        destination=rng.choice([None, rng.choice(family)]),
        protocol=rng.choice([TCP, UDP]) if with_ports else rng.choice([None, None, 1, TCP, UDP, 47, 58]),
        sport=rng.choice([None, rng.choice(PORTS)]) if with_ports else None,
        dport=rng.choice([None, rng.choice(PORTS)]) if with_ports else None,
        accept=rng.random() < 0.5,
    )


def random_packet(rng):
    if rng.random() < 0.5:
        fragment = rng.choice([0, 0, 0, 0x2000, 0x4000, 1, 5, 0x2001])
        packet = ipv4(rng, fragment=fragment, options=rng.choice([0, 0, rng.randrange(11)]))
    else:
        extensions = [rng.choice(sorted(EXTENSIONS)) for _ in range(rng.choice([0, 0, 1, 2, 3]))]
        packet = ipv6(rng, extensions=extensions, offset=rng.choice([0, 0, 1, 5]))
    kind = rng.random()
    if kind < 0.15:
        packet = packet[: rng.randrange(1, len(packet))]
    elif kind < 0.25:
        # A length, a version or a header length that is wrong.
        packet = bytearray(packet)
        packet[rng.choice([0, 2, 3, 4, 5])] = rng.getrandbits(8)
    return bytes(packet) + bytes(rng.choice([0, 0, rng.randrange(30)]))


@cocotb.test()
async def it_decides_as_the_reference_does(dut):
    await begin(dut)
    rng, seen = random.Random(51), set()
    for _ in range(25):
        rules, default = [random_rule(rng) for _ in range(rng.choice([0, 1, 3, 8, 16]))], rng.random() < 0.5
        await write(dut, rules, default)
        for _ in range(60):
            packet, off = random_packet(rng), rng.randrange(40)
            expected = verdict(rules, default, packet)
            assert await show(dut, packet, off, gaps=rng.choice([0, 0.2]), rng=rng) == expected, (packet.hex(), off)
            seen.add((expected[0], packet[0] >> 4 if parse(packet) else 0))
    assert {(rule, version) for rule in [0, 3, DEFAULT] for version in [4, 6]} <= seen
    assert {rule for rule, _ in seen} >= {*range(8), DEFAULT, MALFORMED}


@cocotb.test()
async def the_first_rule_counts_and_the_default_is_for_the_rest(dut):
    await begin(dut)
    rng = random.Random(52)
    one, all_of = Rule(source="10.1.0.1/32", accept=False), Rule(source="10.1.0.0/16", accept=True)
    packet = ipv4(rng, source=V4[0])
    await write(dut, [one, all_of], default=False)
    assert await show(dut, packet) == (0, False)
    await write(dut, [all_of, one], default=False)
    assert await show(dut, packet) == (0, True)
    assert await show(dut, ipv4(rng, source=V4[2])) == (DEFAULT, False)
    assert await show(dut, ipv6(rng)) == (DEFAULT, False), "the default is that of IPv6, too"
    await write(dut, [one, all_of])
    assert await show(dut, ipv4(rng, source=V4[2])) == (DEFAULT, True)
    await write(dut, [], default=False)
    assert await show(dut, packet) == (DEFAULT, False)
    await write(dut, [])
    assert await show(dut, packet) == (DEFAULT, True)


@cocotb.test()
async def rules_that_went_decide_nothing(dut):
    await begin(dut)
    rng = random.Random(53)
    await write(dut, [Rule(protocol=99), *[Rule(accept=False)] * 15])
    assert await show(dut, ipv4(rng)) == (1, False)
    await write(dut, [Rule(protocol=99)])
    assert await show(dut, ipv4(rng)) == (DEFAULT, True)


@cocotb.test()
async def a_later_fragment_meets_no_rule_with_ports(dut):
    await begin(dut)
    rng = random.Random(54)
    await write(dut, [Rule(protocol=UDP, dport=0, accept=False), Rule(protocol=UDP, dport=53, accept=False), Rule(protocol=UDP)], default=False)
    first = {"protocol": UDP, "ports": (9, 53)}
    assert await show(dut, ipv4(rng, fragment=0x2000, **first)) == (1, False), "the first fragment has the ports"
    assert await show(dut, ipv4(rng, fragment=0x2005, **first)) == (2, True)
    assert await show(dut, ipv6(rng, extensions=[60, FRAGMENT], offset=0, **first)) == (1, False)
    assert await show(dut, ipv6(rng, extensions=[60, FRAGMENT], offset=5, **first)) == (2, True)
    assert await show(dut, ipv6(rng, extensions=[0, 43, 60, AH], **first)) == (1, False), "behind other headers"


@cocotb.test()
async def what_hides_its_headers_is_dropped(dut):
    await begin(dut)
    rng = random.Random(55)
    await write(dut, [Rule()], default=True)
    hidden = [
        ipv4(rng, protocol=TCP, fragment=1),  # would overwrite the first fragment's flags
        ipv4(rng, protocol=TCP, fragment=0x2000, body=b"\0\1"),  # no ports in the first fragment
        ipv4(rng, protocol=UDP, body=b""),
        ipv4(rng)[:19],
        bytes([0x44]) + ipv4(rng)[1:],
        ipv4(rng, options=10)[:40],
        bytes([0x55]) + ipv4(rng)[1:],
        ipv6(rng)[:39],
        ipv6(rng, extensions=[0, 60], body=b"")[:48],
        ipv6(rng, protocol=TCP, extensions=[FRAGMENT], offset=1),
        ipv6(rng, protocol=UDP, body=b"\0\0\0"),
        ipv6(rng, protocol=43, body=b""),
        b"\x45",
    ]
    for packet in hidden:
        assert await show(dut, packet) == (MALFORMED, False), packet.hex()
        assert verdict([Rule()], True, packet) == (MALFORMED, False)
    for packet in [ipv4(rng, protocol=1, body=b""), ipv6(rng, protocol=59, body=b""), ipv4(rng, protocol=UDP, fragment=1)]:
        assert await show(dut, packet) == (0, True), packet.hex()


@pytest.mark.quick
def test_filter():
    run("inspect", name="inspect_filter")
