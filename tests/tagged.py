"""Sends echo requests in Ethernet frames with VLAN tags of number 0.

usage: tagged.py INTERFACE MAC COUNT V4_SOURCE V4_DESTINATION V6_SOURCE V6_DESTINATION
COUNT of each family behind each set of tags: 802.1Q, 802.1ad, two of them, and three.
"""

import socket
import struct
import sys

Q, AD, PRIORITY = 0x8100, 0x88A8, 0xA000
SETS = [[Q], [AD], [AD, Q], [Q, Q], [AD, Q, Q]]


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def echo(kind, number, pseudo=b""):
    def message(total):
        return struct.pack("!BBHHH", kind, 0, total, 7, number) + bytes(32)

    return message(checksum(pseudo + message(0)))


def v4(source, destination, number):
    ends = socket.inet_pton(socket.AF_INET, source) + socket.inet_pton(socket.AF_INET, destination)
    message = echo(8, number)
    start, end = struct.pack("!BBHHHBB", 0x45, 0, 20 + len(message), number, 0, 64, 1), ends
    total = checksum(start + b"\0\0" + end)
    return 0x0800, start + struct.pack("!H", total) + end + message


def v6(source, destination, number):
    ends = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, destination)
    message = echo(128, number, ends + struct.pack("!II", 40, 58))
    return 0x86DD, struct.pack("!IHBB", 6 << 28, len(message), 58, 64) + ends + message


def main():
    interface, mac, count, *ends = sys.argv[1:]
    line = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    line.bind((interface, 0))
    macs = bytes.fromhex(mac.replace(":", "")) + line.getsockname()[4]
    for tags in SETS:
        between = b"".join(struct.pack("!HH", tag, PRIORITY) for tag in tags)
        for number in range(int(count)):
            for ethertype, packet in (v4(*ends[:2], number), v6(*ends[2:], number)):
                line.send(macs + between + struct.pack("!H", ethertype) + packet)


main()
