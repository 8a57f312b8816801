#!/usr/bin/env python3
"""What a capture of Ethernet shows of ESP in UDP and of IKE.
usage: cluster.py CAPTURE twice SOURCE          fails if a sequence number of an SA was sent twice
       cluster.py CAPTURE alone MAC SPI...      fails unless that host has sent ESP of these SAs, and nothing else since it began
       cluster.py CAPTURE uses MAC SPI...       fails unless it has sent ESP of one of these SAs"""
import collections
import socket
import struct
import sys


def frames(path):
    """Host, source address, SPI and sequence number of each UDP packet of IKE and ESP; 0 for IKE."""
    data, at = open(path, "rb").read(), 24
    while at + 16 <= len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        frame = data[at + 16 : at + 16 + length]
        at += 16 + length
        if len(frame) < 50 or frame[12:14] != b"\x08\x00" or frame[23] != 17:
            continue
        host, source = frame[6:12].hex(":"), socket.inet_ntoa(frame[26:30])
        ports = struct.unpack_from("!HH", frame, 34)
        if 500 in ports:
            yield host, source, 0, 0
        elif 4500 in ports:
            spi, number = struct.unpack_from("!II", frame, 42)
            yield host, source, spi, number


def twice(path, source):
    seen = [(host, spi, number) for host, address, spi, number in frames(path) if address == source and spi]
    counts = collections.Counter((spi, number) for _, spi, number in seen)
    again = [which for which, count in counts.items() if count > 1]
    hosts, sas = {host for host, _, _ in seen}, {spi for _, spi, _ in seen}
    moved = sum(len({host for host, spi, _ in seen if spi == sa}) > 1 for sa in sas)
    print(f"{len(seen)} packets of {len(sas)} SAs from {len(hosts)} gateways, {moved} SAs from both; {len(again)} sequence numbers came twice")
    return not again and moved > 0


def last_stay(path, mac):
    """What a host has sent since another one sent ESP or IKE from the same address."""
    sent = [(host, source, spi) for host, source, spi, _ in frames(path)]
    source = next((source for host, source, _ in reversed(sent) if host == mac), None)
    stay = []
    for host, address, spi in reversed(sent):
        if address == source and host != mac:
            break
        if host == mac:
            stay.append(spi)
    return stay


def main(path, what, *rest):
    if what == "twice":
        return twice(path, *rest)
    mac, wanted = rest[0], {int(spi, 0) for spi in rest[1:]}
    stay = set(last_stay(path, mac))
    return bool(stay) and (stay <= wanted if what == "alone" else bool(stay & wanted))


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)
