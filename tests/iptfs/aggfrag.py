"""Reads IP-TFS (RFC 9347) out of a capture: decrypts ESP with scapy, and puts inner packets together.

It is written from the RFC, apart from convoy and Linux, and judges what either sends.
"""

import ipaddress
import struct
from collections import Counter
from dataclasses import dataclass, field

from scapy.layers.inet import IP
from scapy.layers.ipsec import ESP as ScapyEsp
from scapy.layers.ipsec import SecurityAssociation
from scapy.utils import RawPcapReader

ESP, UDP, AGGFRAG = 50, 17, 144
UDP_ENCAP_PORT = 4500
HEADER_BYTES = 4
# scapy's names for those of sa.c: cipher, bytes of the integrity algorithm's key, its name.
ALGORITHMS = {
    "aes-gcm": ("AES-GCM", 0, None),
    "chacha20-poly1305": ("CHACHA20-POLY1305", 0, None),
    "aes-cbc-sha1": ("AES-CBC", 20, "HMAC-SHA1-96"),
    "aes-cbc-sha256": ("AES-CBC", 32, "SHA2-256-128"),
}


class Wrong(Exception):
    """A packet that is not as the RFC has it."""


def outer_packets(path):
    """(time, source, destination, ESP with its header, whole length) of each ESP packet, as they came."""
    for data, about in RawPcapReader(str(path)):
        kind, packet = struct.unpack("!H", data[12:14])[0], data[14:]
        if kind == 0x0800:
            start, protocol = (packet[0] & 15) * 4, packet[9]
            packet = packet[: struct.unpack("!H", packet[2:4])[0]]
            ends = packet[12:16], packet[16:20]
        elif kind == 0x86DD:
            start, protocol = 40, packet[6]
            packet = packet[: 40 + struct.unpack("!H", packet[4:6])[0]]
            ends = packet[8:24], packet[24:40]
        else:
            continue
        if protocol == UDP and UDP_ENCAP_PORT in struct.unpack("!HH", packet[start : start + 4]):
            start, protocol = start + 8, ESP
        if protocol == ESP and packet[start : start + 4] != b"\0\0\0\0":
            source, destination = (str(ipaddress.ip_address(end)) for end in ends)
            yield about.sec + about.usec / 1e6, source, destination, packet[start:], len(packet)


@dataclass
class Stream:
    """One SA: its packets, in the order of their numbers, are a stream of inner packets."""

    spi: int
    algorithm: str
    key: bytes
    esn: bool = False
    packets: dict = field(default_factory=dict)  # payload by sequence number
    sizes: Counter = field(default_factory=Counter)  # of outer packets
    most: int = 0  # inner packets of which the first byte is in one outer packet

    def __post_init__(self):
        cipher, integrity_bytes, integrity = ALGORITHMS[self.algorithm]
        cut = len(self.key) - integrity_bytes
        auth = {"auth_algo": integrity, "auth_key": self.key[cut:]} if integrity else {}
        self.association = SecurityAssociation(ScapyEsp, spi=self.spi, crypt_algo=cipher, crypt_key=self.key[:cut], esn_en=self.esn, **auth)

    def add(self, esp, outer_len):
        """Decrypts a packet, whose next header must be AGGFRAG."""
        sequence = struct.unpack("!I", esp[4:8])[0]
        opened = self.association.decrypt(IP(proto=ESP, src="192.0.2.1", dst="192.0.2.2") / ScapyEsp(esp))
        if opened.proto != AGGFRAG:
            raise Wrong(f"SPI {self.spi:#x}, number {sequence}: next header {opened.proto}")
        if sequence in self.packets:
            raise Wrong(f"SPI {self.spi:#x}: number {sequence} twice")
        self.packets[sequence] = bytes(opened.payload)
        self.sizes[outer_len] += 1

    @property
    def missing(self):
        """How many numbers between the first and the last were not captured."""
        return max(self.packets) - min(self.packets) + 1 - len(self.packets) if self.packets else 0

    def inner(self):
        """The inner packets. After a gap it goes on with the first that begins, as a receiver does."""
        begun, expected = b"", None  # an inner packet whose end is in a later outer one
        is_lost = False  # what the first blocks belong to
        for number in sorted(self.packets):
            blocks, offset = self.blocks(number)
            is_lost = is_lost or (number != expected and expected is not None)
            expected = number + 1
            if is_lost:
                begun = b""
                if offset > len(blocks):
                    continue
                is_lost = False
            else:
                # Where the length is itself cut, the offset tells what is missing.
                missing = (inner_length(begun) - len(begun) if inner_length(begun) else offset) if begun else 0
                if offset != missing:
                    raise Wrong(f"SPI {self.spi:#x}, number {number}: block offset {offset} where {missing} bytes are missing")
                begun += blocks[:offset]
                if offset > len(blocks):
                    continue
                if begun:
                    yield begun
            begun, rest, count = b"", blocks[offset:], 0
            while rest and rest[0] >> 4 != 0:
                length = inner_length(rest)
                count += 1
                self.most = max(self.most, count)
                if rest[0] >> 4 not in (4, 6):
                    raise Wrong(f"SPI {self.spi:#x}, number {number}: a block of type {rest[0] >> 4}")
                if not length or length > len(rest):
                    begun = rest
                    break
                yield rest[:length]
                rest = rest[length:]
        if begun:
            raise Wrong(f"SPI {self.spi:#x}: the last packet has no end")

    def blocks(self, number):
        """The data blocks of an outer packet, and the offset of the first that begins in it."""
        payload = self.packets[number]
        if len(payload) < HEADER_BYTES:
            raise Wrong(f"SPI {self.spi:#x}, number {number}: {len(payload)} bytes")
        subtype, _, offset = struct.unpack("!BBH", payload[:HEADER_BYTES])
        if subtype != 0:
            raise Wrong(f"SPI {self.spi:#x}, number {number}: subtype {subtype}")
        return payload[HEADER_BYTES:], offset


def inner_length(packet):
    """What an IP packet says of its length; 0 where that is cut."""
    if packet[0] >> 4 == 4:
        return struct.unpack("!H", packet[2:4])[0] if len(packet) >= 4 else 0
    return 40 + struct.unpack("!H", packet[4:6])[0] if len(packet) >= 6 else 0


def read(path, streams):
    """Adds the packets of a capture to the streams that they are of."""
    by_spi = {stream.spi: stream for stream in streams}
    for _, _, _, esp, outer_len in outer_packets(path):
        stream = by_spi.get(struct.unpack("!I", esp[:4])[0])
        if stream:
            stream.add(esp, outer_len)
