"""The firewall in Python, the reference for the card's: rules, their form on the card, and what a packet meets."""

import ipaddress
import struct
from dataclasses import dataclass

from card import FILTER_WRITE, prefix

DEFAULT, MALFORMED = 255, 254
TCP, UDP, FRAGMENT, AH = 6, 17, 44, 51
EXTENSIONS = {0, 43, 60, 135, 139, 140, FRAGMENT, AH}


@dataclass
class Rule:
    """A rule; None matches anything."""

    source: str | None = None
    destination: str | None = None
    protocol: int | None = None
    sport: int | None = None
    dport: int | None = None
    accept: bool = True

    def to_bytes(self):
        """Its 128 bytes in FILTER_WRITE."""

        def network(text):
            if text is None:
                return bytes(32)
            known = ipaddress.ip_network(text)
            return known.network_address.packed.ljust(16, b"\0") + known.netmask.packed.ljust(16, b"\0")

        def masked(form, value):
            return struct.pack(form, value or 0), struct.pack(form, -1 % 256 ** struct.calcsize(form) if value is not None else 0)

        (sport, sport_mask), (dport, dport_mask) = masked(">H", self.sport), masked(">H", self.dport)
        protocol, protocol_mask = masked("B", self.protocol)
        flags = self.accept | {None: 6, 4: 2, 6: 4}[self.version]
        body = network(self.source) + network(self.destination) + sport + dport + sport_mask + dport_mask
        return (body + protocol + protocol_mask + bytes([flags])).ljust(128, b"\0")

    @property
    def version(self):
        known = self.source or self.destination
        return ipaddress.ip_network(known).version if known else None

    def matches(self, packet):
        def within(address, network):
            return network is None or (address.version == self.version and address in ipaddress.ip_network(network))

        has_ports = self.sport is not None or self.dport is not None
        return (
            within(packet.source, self.source)
            and within(packet.destination, self.destination)
            and self.protocol in (None, packet.protocol)
            and (not has_ports or packet.ports is not None)
            and (self.sport is None or packet.ports[0] == self.sport)
            and (self.dport is None or packet.ports[1] == self.dport)
        )


def table(rules, default=True, cookie=0):
    """The command that replaces the rules."""
    body = b"".join(rule.to_bytes() for rule in rules)
    return prefix(len(body), FILTER_WRITE, argument=int(default), cookie=cookie) + body


@dataclass
class Packet:
    source: object
    destination: object
    protocol: int
    ports: tuple[int, int] | None


def parse(data):
    """What a filter asks of a packet (with padding behind it), or None if its headers are not all there."""
    version = data[0] >> 4 if data else 0
    if version == 4 and len(data) >= 20:
        end, length, protocol = (data[0] & 15) * 4, int.from_bytes(data[2:4], "big"), data[9]
        offset = int.from_bytes(data[6:8], "big") & 0x1FFF
        source, destination = data[12:16], data[16:20]
        if end < 20:
            return None
    elif version == 6 and len(data) >= 40:
        end, length, protocol, offset = 40, 40 + int.from_bytes(data[4:6], "big"), data[6], 0
        source, destination = data[8:24], data[24:40]
        while protocol in EXTENSIONS and offset == 0:
            header = data[end : end + 8]
            if len(header) < 8:
                return None
            if protocol == FRAGMENT:
                offset = int.from_bytes(header[2:4], "big") >> 3
            # AH is a multiple of 8 bytes in IPv6 (RFC 4302 section 3.3.3.2.1).
            end += {FRAGMENT: 8, AH: (header[1] + 2) // 2 * 8}.get(protocol, 8 * header[1] + 8)
            protocol = header[0]
    else:
        return None
    if end > len(data) or end > length:
        return None
    ports = None
    if offset == 0 and end + 4 <= min(length, len(data)):
        ports = struct.unpack(">HH", data[end : end + 4])
    if protocol in (TCP, UDP) and offset == 0 and ports is None:
        return None
    if protocol == TCP and offset == 1:
        return None
    return Packet(ipaddress.ip_address(source), ipaddress.ip_address(destination), protocol, ports)


def verdict(rules, default, data):
    """(number of the rule, whether it accepts)."""
    if not rules and default:
        return DEFAULT, True
    packet = parse(data)
    if packet is None:
        return MALFORMED, False
    for number, rule in enumerate(rules):
        if rule.matches(packet):
            return number, rule.accept
    return DEFAULT, default
