"""Sends what only a malicious peer sends: hostile.py ike|esp ADDRESS. Deterministic; prints the
number of packets."""
import random
import socket
import struct
import sys
import time

kind, address = sys.argv[1:]
random.seed(4)
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def ike_messages():
    """Valid headers with wrong lengths, misleading payload chains, and noise of every length up to
    200 bytes."""
    for length in range(200):
        yield random.randbytes(length)
    for exchange in range(30, 44):
        for claimed in (0, 27, 28, 29, 64, 65535, 2**32 - 1):
            for following in (0, 33, 34, 35, 41, 46, 53, 255):
                body = random.randbytes(random.randrange(80))
                header = random.randbytes(8) + bytes(8) + bytes([following, 0x20, exchange, 0x08])
                yield header + struct.pack(">II", 0, claimed) + body


sent = 0
if kind == "ike":
    for message in ike_messages():
        for port, marker in ((500, b""), (4500, bytes(4)), (4500, bytes(3))):
            out.sendto(marker + message, (address, port))
            sent += 1
        time.sleep(0.0002)
    print(f"{sent} malformed IKE messages to 500 and 4500")
else:
    packet = random.randbytes(1000)
    begin = time.monotonic()
    while time.monotonic() < begin + 2:
        for _ in range(100):
            out.sendto(random.randbytes(8) + packet, (address, 4500))
            sent += 1
    print(f"{sent} packets of ESP with unknown SPIs in {time.monotonic() - begin:.1f} s")
