#!/usr/bin/env python3
"""Whether sequence numbers of an SA were seen twice on the wire, and from how many hosts it was sent.
usage: doubles.py CAPTURE SOURCE [SPI]: that SA of ESP in UDP, or all of them"""
import collections
import socket
import struct
import sys


def packets(path, source, spi):
    """The Ethernet source and the sequence number of each of the SA's packets, in order."""
    data, at = open(path, "rb").read(), 24
    while at + 16 <= len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        frame = data[at + 16 : at + 16 + length]
        at += 16 + length
        if len(frame) < 50 or frame[26:30] != socket.inet_aton(source):
            continue
        found, number = struct.unpack_from("!II", frame, 42)
        # 0 is the non-ESP marker of IKE (RFC 3948 section 2.2).
        if found and spi in (None, found):
            yield frame[6:12], (found, number)


def main(path, source, spi=None):
    seen = list(packets(path, source, spi and int(spi, 0)))
    counts = collections.Counter(number for _, number in seen)
    twice = [number for number, count in counts.items() if count > 1]
    hosts = {host for host, _ in seen}
    moves = sum(a[0] != b[0] for a, b in zip(seen, seen[1:]))
    print(f"{len(seen)} packets of {len({spi for _, (spi, _) in seen})} SAs from {len(hosts)} gateways, which took over {moves} times; {len(twice)} sequence numbers came twice")
    return 1 if twice or len(seen) < 100 or len(hosts) < 2 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
