"""Checks the packets that two running gateways exchanged, with scapy's IPsec layer as the oracle.

usage: capture.py CAPTURE SA... [FILE=PORT ...]

Each SA is SPI:PROPOSAL:KEY as the configuration has them: number, swanctl's words, hex. Every IP packet of the capture must be ESP
of one of them that decrypts, and its sequence numbers must run from 1 without a gap. FILE=PORT is a file that was fetched
by HTTP from this TCP port: what the decrypted packets carried of it must be the file, byte for byte.
"""

import hashlib
import logging
import sys
from collections import Counter
from pathlib import Path

logging.getLogger("scapy").setLevel(logging.ERROR)

from scapy.layers import ipsec  # noqa: E402
from scapy.layers.inet import ICMP, IP, TCP, UDP  # noqa: E402
from scapy.layers.inet6 import IPv6  # noqa: E402
from scapy.layers.l2 import Ether  # noqa: E402
from scapy.utils import RawPcapReader  # noqa: E402

from cases import proposals  # noqa: E402


def is_of_the_link(frame):
    """Whether a frame belongs to the link itself: neighbour and group discovery are not encrypted,
    as on any Ethernet."""
    ethertype = int.from_bytes(frame[12:14], "big")
    if ethertype != 0x86DD:
        return ethertype == 0x0806
    # ICMPv6 types from 130 on are group and neighbour discovery (RFC 4861, RFC 3810); the former
    # has hop-by-hop options.
    return frame[20] == 0 or frame[20] == 58 and frame[54] >= 130


class Association:
    """An SA, and what was seen of it."""

    def __init__(self, text):
        spi, words, key = text.split(":")
        proposal = next(proposal for proposal in proposals() if proposal.words == words)
        material = bytes.fromhex(key)
        self.spi, self.words = int(spi, 0), words
        self.sa = proposal.scapy_esp(material, spi=self.spi, tunnel_header=IP())
        self.packets, self.carried = 0, Counter()

    def open(self, outer):
        sequence = outer[ipsec.ESP].seq  # read first, because decryption modifies the packet
        inner = self.sa.decrypt(outer)
        self.packets += 1
        if sequence != self.packets:
            raise ValueError(f"sequence number {sequence} where {self.packets} should be")
        kind = next((name for layer, name in ((ICMP, "ICMP"), (TCP, "TCP")) if layer in inner), "other")
        self.carried[kind] += 1
        return inner


def checked(outer):
    """UDP over IPv6 must have a checksum (RFC 8200 section 8.1); Linux drops it otherwise."""
    if UDP not in outer:
        return
    found = outer[UDP].chksum
    again = outer.copy()
    del again[UDP].chksum
    if found == 0 or found != IPv6(bytes(again))[UDP].chksum:
        raise ValueError(f"a wrong checksum: {outer.summary()}")


def outer_packets(capture):
    """The IP packets of an Ethernet capture, as scapy's IP; ESP in UDP as ESP."""
    for data, _ in RawPcapReader(capture):
        if is_of_the_link(data):
            continue
        packet = Ether(data)
        if IP in packet and packet.type == 0x0800:
            outer = IP(bytes(packet[IP])[: packet[IP].len])
        elif packet.type == 0x86DD:
            outer = IPv6(bytes(packet[IPv6])[: 40 + packet[IPv6].plen])
            checked(outer)
        else:
            raise ValueError(f"no IP packet: {packet.summary()}")
        if UDP in outer and bytes(outer[UDP].payload) == b"\xff":
            continue  # a NAT keep-alive (RFC 3948 section 2.3)
        if UDP in outer and ipsec.ESP not in outer:
            body = bytes(outer[UDP].payload)
            outer[UDP].remove_payload()
            outer = outer / ipsec.ESP(body)
        yield outer


class Streams:
    """The bytes that TCP carried from each of these source ports; of a retransmitted segment, the
    longest copy."""

    def __init__(self, ports):
        self.flows = {port: {} for port in ports}

    def take(self, inner):
        segment = inner[TCP] if TCP in inner else None
        if segment is None or segment.sport not in self.flows:
            return
        flow = self.flows[segment.sport].setdefault(segment.dport, {})
        if segment.flags.S:
            flow["first"] = segment.seq + 1
        body = bytes(segment.payload)[: inner.len - 4 * inner.ihl - 4 * segment.dataofs]
        if body:
            flow[segment.seq] = max(flow.get(segment.seq, b""), body, key=len)

    def bodies(self, port):
        """The bodies of the HTTP responses from a port."""
        # A flow without a SYN from this port was refused: nothing listened yet.
        for flow in (flow for flow in self.flows[port].values() if "first" in flow):
            at, stream = flow.pop("first"), bytearray()
            for sequence in sorted(flow, key=lambda sequence: (sequence - at) % 2**32):
                place = (sequence - at) % 2**32
                if place > len(stream):
                    raise ValueError(f"port {port}: bytes from {len(stream)} to {place} are missing")
                stream[place : place + len(flow[sequence])] = flow[sequence]
            yield bytes(stream).partition(b"\r\n\r\n")[2]


def main():
    capture, *rest = sys.argv[1:]
    files = dict(reversed(text.split("=")) for text in rest if "=" in text)
    associations = {one.spi: one for one in (Association(text) for text in rest if "=" not in text)}
    streams = Streams([int(port) for port in files])
    in_clear = 0
    for number, outer in enumerate(outer_packets(capture), 1):
        spi = outer[ipsec.ESP].spi if ipsec.ESP in outer else None
        if spi not in associations:
            in_clear += 1
            print(f"packet {number} is not of a known SA: {outer.summary()}")
            continue
        try:
            streams.take(associations[spi].open(outer))
        except Exception as error:  # any error of scapy is a failure of convoy
            sys.exit(f"packet {number} of SA {spi:#x}: {type(error).__name__}: {error}")
    for one in associations.values():
        carried = ", ".join(f"{count} {kind}" for kind, count in sorted(one.carried.items()))
        print(f"SA {one.spi:#x} {one.words}: {one.packets} packets decrypted, sequence numbers 1 to {one.packets}: {carried}")
        if not one.packets:
            sys.exit("an SA without a packet shows nothing")
    for port, file in files.items():
        want = Path(file).read_bytes()
        if want not in list(streams.bodies(int(port))):
            sys.exit(f"{file} is not what was decrypted from port {port}")
        print(f"from port {port}: {len(want)} bytes decrypted, sha256 {hashlib.sha256(want).hexdigest()}, as they were served")
    print(f"{in_clear} packets in clear")
    sys.exit(1 if in_clear else 0)


main()
