"""Datagrams through a tunnel and back. usage: echo.py serve | ask FROM TO"""

import socket
import sys

PORT, COUNT = 7007, 20


def serve():
    server = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    server.bind(("::", PORT))
    print("ready", flush=True)
    while True:
        data, peer = server.recvfrom(2000)
        server.sendto(data[::-1], peer)


def ask(source, destination):
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    client = socket.socket(family, socket.SOCK_DGRAM)
    client.settimeout(10)
    client.bind((source, 0))
    sent = [bytes([number]) * 99 + bytes(range(200)) * 5 for number in range(COUNT)]
    for data in sent:
        client.sendto(data, (destination, PORT))
    came = {client.recv(2000) for _ in sent}
    if came != {data[::-1] for data in sent}:
        sys.exit(f"of {COUNT} datagrams other ones came back")


if sys.argv[1] == "serve":
    serve()
else:
    ask(*sys.argv[2:])
