"""Acts as a charon with very many CHILD_SAs, as its plugin would: many.py SOCKET LOCAL REMOTE COUNT
[NETWORK]

Child n protects 10.1.0.1/32 === the address n of NETWORK (10.128.0.0). Each is asked for as charon does: an SPI, SAs both
ways, three policies, a name. Prints at 400, 2,000, 4,000, 10,000 and at the end how long a CHILD_SA took since the last
line. When a line is read from standard input, all of them go again one by one, and how long each took is printed.
"""
import ipaddress
import os
import socket
import struct
import sys
import time

path, local, remote, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
first = int(ipaddress.ip_address(sys.argv[5] if len(sys.argv) > 5 else "10.128.0.0"))
MARKS = (400, 2_000, 4_000, 10_000)
GET_SPI, ADD_SA, DEL_SA, ADD_POLICY, DEL_POLICY, NAME = 16, 17, 20, 22, 24, 26
# An SA of all CPUs.
NO_RESOURCE = 0xFFFFFFFF
IN, OUT, FORWARD = 0, 1, 2
PORT = 4500


def packed(address):
    return ipaddress.ip_address(address).packed.ljust(16, b"\0")


def host(address, port=PORT):
    return struct.pack("<BBH", 4, 0, port) + packed(address)


def selector(address):
    return struct.pack("<BBHHH", 4, 0, 0, 65535, 0) + packed(address) * 2


def sa(spi, source, destination):
    return struct.pack("<IB3x", spi, 50) + host(source) + host(destination)


def text(words):
    return struct.pack("<H", len(words)) + words.encode()


class Gateway:
    def __init__(self):
        self.session = int.from_bytes(os.urandom(8), "little")
        self.asked = 0
        self.control, self.events, self.ike = (self.connect(role) for role in (1, 2, 3))

    def connect(self, role):
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        link.settimeout(10)
        link.connect(path)
        hello = struct.pack("<HHI4sHBBQ", 1, 0, 0, b"CNVY", 4, role, 0, self.session) + text("many.py")
        link.send(hello)
        welcome = link.recv(2048)
        assert struct.unpack_from("<H", welcome, 8)[0] == 0, welcome
        return link

    def ask(self, kind, fields):
        self.asked += 1
        self.control.send(struct.pack("<HHI", kind, 0, self.asked) + fields)
        reply = self.control.recv(2048)
        status, length = struct.unpack_from("<HH", reply, 8)
        assert status == 0, f"request {kind}: {reply[12:12 + length].decode()}"
        return reply[12 + length:]


def policy(direction, child):
    here, there = selector("10.1.0.1"), selector(first + child)
    source, destination = (here, there) if direction == OUT else (there, here)
    spec = struct.pack("<B3xI", direction, 0) + source + destination
    return spec + struct.pack("<BBBxII", 1, 1, 2, child, 0)


def add_sa(spi, child, inbound):
    ends = (remote, local) if inbound else (local, remote)
    flags = 4 | 16 | 32 | (3 if inbound else 0)
    key = os.urandom(20)
    return (
        sa(spi, *ends)
        + struct.pack("<IBBBxIIHHI", child, 2, flags, 0, 32, 0, 0, 0, NO_RESOURCE)
        + struct.pack("<6Q", 3600, 3960, 0, 0, 0, 0)
        + struct.pack("<HHHH", 20, 1024, len(key), 0)
        + key
    )


def install(gateway, child):
    spi = struct.unpack("<I", gateway.ask(GET_SPI, struct.pack("<B3x", 50) + host(remote) + host(local)))[0]
    gateway.ask(ADD_SA, add_sa(spi, child, True))
    gateway.ask(ADD_SA, add_sa(0x1000_0000 + child, child, False))
    for direction in (IN, FORWARD, OUT):
        gateway.ask(ADD_POLICY, policy(direction, child))
    gateway.ask(NAME, struct.pack("<IB3x", child, 2) + text("hub") + text(f"child-{child}"))
    return spi


def remove(gateway, child, spi):
    for direction in (OUT, FORWARD, IN):
        gateway.ask(DEL_POLICY, policy(direction, child))
    gateway.ask(DEL_SA, sa(spi, remote, local))
    gateway.ask(DEL_SA, sa(0x1000_0000 + child, local, remote))


gateway = Gateway()
began = last = time.monotonic()
spis, marked = {}, 0
for child in range(1, count + 1):
    spis[child] = install(gateway, child)
    if child in MARKS or child == count:
        now = time.monotonic()
        each = (now - last) / (child - marked) * 1000
        print(f"{child} CHILD_SAs after {now - began:.1f} s; {each:.2f} ms each since the last line", flush=True)
        last, marked = now, child
if sys.stdin.readline():
    began = time.monotonic()
    for child, spi in spis.items():
        remove(gateway, child, spi)
    took = time.monotonic() - began
    print(f"gone after {took:.1f} s; {took / count * 1000:.2f} ms each", flush=True)
