"""A name server for tests: answers on 127.0.0.1 from a file of lines "NAME TTL ADDRESS...", which it
reads again for each question. Names without a line do not exist.
usage: dns.py FILE"""

import ipaddress
import socket
import struct
import sys

A, AAAA = 1, 28
NO_ERROR, NO_SUCH_NAME = 0, 3


def records(name):
    """The addresses of a name and their TTL; None if there is no such name."""
    with open(sys.argv[1], encoding="ascii") as lines:
        for line in lines:
            known, ttl, *addresses = line.split()
            if known == name:
                return int(ttl), [ipaddress.ip_address(address) for address in addresses]
    return None


def answer(question):
    """The message that answers another, which has one question."""
    at, labels = 12, []
    while question[at]:
        labels.append(question[at + 1 : at + 1 + question[at]].decode().lower())
        at += 1 + question[at]
    end = at + 5
    (kind,) = struct.unpack_from("!H", question, at + 1)
    found = records(".".join(labels))
    ttl, addresses = found or (0, [])
    version = {A: 4, AAAA: 6}.get(kind)
    parts = [address.packed for address in addresses if address.version == version]
    code = NO_ERROR if found else NO_SUCH_NAME
    header = question[:2] + struct.pack("!HHHHH", 0x8580 | code, 1, len(parts), 0, 0)
    body = b"".join(struct.pack("!HHHIH", 0xC00C, kind, 1, ttl, len(part)) + part for part in parts)
    return header + question[12:end] + body


server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
print("listening", flush=True)
while True:
    message, client = server.recvfrom(4096)
    server.sendto(answer(message), client)
