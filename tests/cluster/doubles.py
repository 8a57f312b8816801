#!/usr/bin/env python3
"""Whether sequence numbers of a cluster's SAs were seen twice on the wire, and from how many
gateways they were sent. The capture may have only the first 50 bytes of each packet; with --ivs,
the first 58, and then it is IVs of GCM that may not come twice, whatever the numbers do.
usage: doubles.py CAPTURE SOURCE [--json | --ivs]"""
import json
import socket
import struct
import sys


def packets(path, source):
    """Time, Ethernet source, and SPI and sequence number of each of the source's packets in UDP."""
    with open(path, "rb") as file:
        data, at = file.read(), 24
    source = socket.inet_aton(source)
    header = struct.Struct("<III")
    while at + 16 <= len(data):
        seconds, micros, length = header.unpack_from(data, at)
        at += 16
        # An SPI of zero is the mark of IKE, and a packet of one byte keeps a NAT's mapping.
        if length >= 50 and data[at + 26 : at + 30] == source and data[at + 42 : at + 46] != bytes(4):
            yield seconds + micros / 1e6, data[at + 6 : at + 12], data[at + 42 : at + 50], data[at + 50 : at + 58]
        at += length


def summary(path, source):
    seen, hosts, twice, count, moves, last = set(), set(), [], 0, 0, None
    for time, host, number, _ in packets(path, source):
        count += 1
        if number in seen:
            twice.append((time, *struct.unpack("!II", number)))
        seen.add(number)
        if host != last:
            moves += last is not None
            hosts.add(host)
            last = host
    return {"packets": count, "gateways": len(hosts), "moves": moves, "twice": twice}


def check_ivs(path, source):
    """The numbers that were sent with more than one IV, and the IVs that were sent twice."""
    by_iv, by_number = {}, {}
    for _, _, number, iv in packets(path, source):
        by_iv.setdefault((number[:4], iv), set()).add(number)
        by_number.setdefault(number, []).append(iv)
    reused = sum(len(ivs) != len(set(ivs)) for ivs in by_number.values())
    reused += sum(len(numbers) > 1 for numbers in by_iv.values())
    again = sum(len(ivs) > 1 for ivs in by_number.values())
    print(f"{len(by_iv)} IVs; {again} sequence numbers came twice, {reused} IVs did")
    return 1 if reused or not by_iv else 0


def main(path, source, *options):
    if "--ivs" in options:
        return check_ivs(path, source)
    found = summary(path, source)
    if "--json" in options:
        print(json.dumps(found))
        return 0
    print("{packets} packets from {gateways} gateways, which took over {moves} times;".format(**found),
          len(found["twice"]), "sequence numbers came twice")
    return 1 if found["twice"] or found["packets"] < 100 or found["gateways"] < 2 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
