"""UDP flows from one host to another and back, so that the packets of a tunnel have many.

usage: udp_flows.py echo ADDRESS
       udp_flows.py send FROM TO FLOWS PACKETS    prints how many came back; exits with 1 if not all
"""

import select
import socket
import sys

PORT = 5000
PATIENCE_S = 5


def echo(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, PORT))
        print("listening", flush=True)
        while True:
            data, source = server.recvfrom(2048)
            server.sendto(data, source)


def send(source, destination, flows, packets):
    """How many of the packets came back, each flow's one after the other."""
    sockets = []
    for _ in range(flows):
        flow = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        flow.bind((source, 0))
        flow.connect((destination, PORT))
        sockets.append(flow)
    answered = 0
    for number in range(packets):
        data = b"%08d" % number * 20
        waiting = set(sockets)
        for flow in sockets:
            flow.send(data)
        while waiting:
            readable, _, _ = select.select(waiting, [], [], PATIENCE_S)
            if not readable:
                return answered
            for flow in readable:
                if flow.recv(2048) == data:
                    answered += 1
                    waiting.discard(flow)
    return answered


def main():
    if sys.argv[1] == "echo":
        echo(sys.argv[2])
    source, destination, flows, packets = sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
    answered = send(source, destination, flows, packets)
    print(f"{answered} of {flows * packets} packets came back")
    return int(answered != flows * packets)


if __name__ == "__main__":
    sys.exit(main())
