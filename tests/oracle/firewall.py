"""Sends packets of all kinds into a tunnel whose other gateway has a card with a firewall, and compares what came out with the
firewall in Python (card/tests/firewall.py).

usage: firewall.py send INTERFACE                          packets into an interface of kind tun
       firewall.py check CONFIG SENT RECEIVED STATISTICS   captures of both interfaces, and `convoy show stats --json`
"""

import json
import logging
import random
import socket
import sys
import time
import tomllib
from collections import Counter
from pathlib import Path

logging.getLogger("scapy").setLevel(logging.ERROR)
sys.path.insert(0, str(Path(__file__).parents[2] / "card" / "tests"))

from firewall import DEFAULT, MALFORMED, Rule, verdict  # noqa: E402
from scapy.layers.inet import ICMP, IP, TCP, UDP, fragment  # noqa: E402
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, ICMPv6EchoRequest  # noqa: E402
from scapy.packet import Raw  # noqa: E402
from scapy.utils import RawPcapReader  # noqa: E402

PROTOCOLS = {"icmp": 1, "tcp": 6, "udp": 17, "gre": 47, "esp": 50, "ah": 51, "icmpv6": 58}
# By this the packets of the test are distinguished from those of the kernel.
MARK = b"card firewall"


def packets():
    """Of both families: protocols and ports in turn, options, extension headers, fragments."""
    rng = random.Random(1)

    def upper(number):
        port = rng.choice([22, 53, 80])
        kinds = [lambda: TCP(sport=1000, dport=port), lambda: UDP(sport=port, dport=2000), lambda: UDP(sport=7, dport=port)]
        return rng.choice([*kinds, None] if number % 4 else kinds)

    for number in range(150):
        body = Raw(MARK + number.to_bytes(2, "big") + bytes(rng.randrange(60)))
        made, host = upper(number), rng.choice([1, 7, 9, 200])
        if number % 2:
            packet = IP(src=f"10.1.0.{host}", dst=f"10.2.0.{rng.choice([1, 5])}", id=number)
            packet.options = [] if number % 3 else [b"\1" * 8]
            packet = packet / (made() if made else ICMP(id=number)) / body
            if number % 5 == 0:
                yield from (bytes(part) for part in fragment(packet / Raw(MARK * 8), fragsize=64))
                continue
        else:
            packet = IPv6(src=f"fd00:1::{host}", dst=f"fd00:2::{rng.choice([1, 5])}")
            for header in rng.sample([IPv6ExtHdrHopByHop, IPv6ExtHdrDestOpt], rng.randrange(3)):
                packet = packet / header()
            if number % 6 == 0:
                packet = packet / IPv6ExtHdrFragment(offset=rng.choice([0, 0, 3]), m=1, id=number)
                body = Raw(MARK + bytes(8 * 5 - len(MARK)))
            packet = packet / (made() if made else ICMPv6EchoRequest(id=number)) / body
        yield bytes(packet)


def send(interface):
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM) as wire:
        for packet in packets():
            wire.sendto(packet, (interface, 0x0800 if packet[0] >> 4 == 4 else 0x86DD))
            time.sleep(0.01)


def captured(file, sources):
    """The packets of the test in a capture of a tun interface."""
    found = []
    for packet, _ in RawPcapReader(file):
        source = packet[12:14] if packet[0] >> 4 == 4 else packet[8:12]
        if MARK in packet and source in sources:
            found.append(packet)
    return found


def rules(config):
    """(the rules for what comes, with their numbers in the file; the default)."""
    port = next(port for port in tomllib.loads(Path(config).read_text())["port"] if port["kind"] == "card")
    known = []
    for number, keys in enumerate(port.get("filter", []), 1):
        if keys.get("direction", "in") == "in":
            protocol = keys.get("protocol")
            protocol = PROTOCOLS.get(protocol) or int(protocol) if protocol else None
            ports = keys.get("source_port"), keys.get("destination_port")
            rule = Rule(keys.get("source"), keys.get("destination"), protocol, *ports, keys["action"] == "accept")
            known.append((number, rule))
    return known, port.get("filter_default", "accept") == "accept"


def check(config, sent, received, statistics):
    numbered, default = rules(config)
    known = [rule for _, rule in numbered]
    names = {at: f"filter_{number}_in" for at, (number, _) in enumerate(numbered)}
    names |= {DEFAULT: "filter_default_in", MALFORMED: "filter_malformed_in"}
    sources = b"\x0a\x01", b"\xfd\0\0\1"
    sent, received = captured(sent, sources), captured(received, sources)
    verdicts = [verdict(known, default, packet) for packet in sent]
    expected = [packet for packet, (_, accept) in zip(sent, verdicts) if accept]
    if len(sent) < 150 or not 0 < len(expected) < len(sent):
        sys.exit(f"{len(sent)} packets were sent, of which {len(expected)} may pass: that tests nothing")
    if received != expected:
        extra = [packet.hex() for packet in received if packet not in expected]
        lost = [packet.hex() for packet in expected if packet not in received]
        sys.exit(f"{len(received)} of {len(sent)} packets passed, {len(expected)} were expected; too many: {extra}; missing: {lost}")
    ports = json.loads(Path(statistics).read_text())["ports"]
    counted = next(port["device"] for port in ports if port["kind"] == "card")
    hits = Counter(names[rule] for rule, _ in verdicts)
    for name, count in sorted(hits.items()):
        # Others have sent as well: what the kernels tell each other of the fragments.
        if not count <= counted[name] <= count + 20:
            sys.exit(f"{name}: the card counted {counted[name]}, {count} were expected")
    print(f"{len(received)} of {len(sent)} packets passed, as the reference says; by rule: {dict(sorted(hits.items()))}")


if __name__ == "__main__":
    {"send": send, "check": check}[sys.argv[1]](*sys.argv[2:])
