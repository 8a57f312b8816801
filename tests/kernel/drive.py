"""Runs every case from convoy's side, while the guest does so from its own, and prints the results.

usage: drive.py prepare FOLDER      writes gateway.toml, host.batch, and guest/ for the initramfs
       drive.py try FOLDER CONVOY   inside the namespace, with gateway and guest running
"""

import http.client
import json
import os
import socket
import socketserver
import struct
import subprocess
import sys
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import matrix

FILE_BYTES = 200_000
DISCARD_PORT = 9
# <linux/icmp.h> and <linux/icmpv6.h>: the socket does not receive types whose bit is set.
SOL_RAW, ICMP_FILTER, ICMPV6_FILTER = 255, 1, 1
BOOT_SECONDS, WAIT_SECONDS, RUN_SECONDS = 60, 10, 240


def prepare(folder):
    table = list(matrix.cases())
    inside = folder / "guest" / "cases"
    inside.mkdir(parents=True)
    (folder / "guest" / "www").mkdir()
    (folder / "guest" / "www" / "file").write_bytes(os.urandom(FILE_BYTES))
    config = folder / "gateway.toml"
    config.touch(mode=0o600)
    config.write_text(matrix.toml(table, folder / "control.sock"))

    def lines(path, text):
        path.write_text("".join(f"{line}\n" for line in text))

    lines(folder / "host.batch", matrix.host(table))
    lines(inside / "network", matrix.network())
    lines(inside / "outer", matrix.outer(table))
    for case in table:
        lines(inside / f"{case.number}.batch", case.batch())
    pairs = [(case, *pair) for case in table for pair in case.hosts]
    lines(inside / "list", (f"{case.number} {theirs} {ours} {case.sizes}" for case, ours, theirs in pairs))


class Console(threading.Thread):
    """Reads the guest's output."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path = path
        self.version, self.refused, self.results, self.counters = "", {}, defaultdict(list), []
        self.ready, self.done = threading.Event(), threading.Event()

    def run(self):
        with open(self.path, errors="replace") as lines:
            rest = ""
            while not self.done.is_set():
                text = lines.readline()
                rest += text
                if rest.endswith("\n"):
                    self.take(rest.strip())
                    rest = ""
                elif not text:
                    time.sleep(0.05)

    def take(self, line):
        word, _, rest = line.partition(" ")
        first, _, what = rest.partition(" ")
        match word:
            case "PEER":
                self.version = rest
            case "REFUSED":
                self.refused[int(first)] = what
            case "RESULT":
                self.results[int(first)].append(what)
            case "COUNTER":
                self.counters.append(rest)
            case "READY":
                self.ready.set()
            case "DONE":
                self.done.set()


class Server(socketserver.ThreadingTCPServer):
    """Serves the file to every client."""

    allow_reuse_address = daemon_threads = True
    request_queue_size = 64

    def __init__(self, family, content):
        self.address_family = family
        self.content = content
        super().__init__(("::", 9000), self.Give)

    class Give(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.sendall(self.server.content)


def tick():
    """User-mode Linux sometimes misses an incoming packet and only finds it with the next one, so
    there is always a next one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ticker:
        while True:
            ticker.sendto(b"", (matrix.OUTER[4][1], DISCARD_PORT))
            time.sleep(0.05)


def checksum(data):
    padded = data + b"\0" * (len(data) % 2)
    total = sum(int.from_bytes(padded[at : at + 2], "big") for at in range(0, len(padded), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ping(source, destination, sequence, body):
    """Sends an echo request and compares the reply byte for byte. Raises TimeoutError if there is
    none."""
    is_v6 = ":" in destination
    family = socket.AF_INET6 if is_v6 else socket.AF_INET
    protocol = socket.IPPROTO_ICMPV6 if is_v6 else socket.IPPROTO_ICMP
    request, reply = (128, 129) if is_v6 else (8, 0)
    rest = b"cv" + sequence.to_bytes(2, "big") + body
    # The kernel computes ICMPv6 checksums itself.
    total = 0 if is_v6 else checksum(bytes([request, 0, 0, 0]) + rest)
    with socket.socket(family, socket.SOCK_RAW, protocol) as raw:
        raw.settimeout(WAIT_SECONDS)
        # The guest's requests would fill the buffer meanwhile.
        if is_v6:
            kept_out = [0xFFFFFFFF] * 8
            kept_out[reply // 32] &= ~(1 << reply % 32)
            raw.setsockopt(protocol, ICMPV6_FILTER, struct.pack("8I", *kept_out))
        else:
            raw.setsockopt(SOL_RAW, ICMP_FILTER, struct.pack("I", 0xFFFFFFFF & ~(1 << reply)))
        raw.bind((source, 0))
        raw.connect((destination, 0))
        raw.send(bytes([request, 0]) + total.to_bytes(2, "big") + rest)
        while True:
            answer = raw.recv(65535)
            answer = answer if is_v6 else answer[(answer[0] & 15) * 4 :]
            if answer[0] == reply and answer[4:] == rest:
                return


def from_convoy(content, case, ours, theirs):
    """Pings and a file transfer from convoy's side; returns "good" or the error."""
    for index, size in enumerate(matrix.lengths(case.sizes)):
        try:
            ping(ours, theirs, index + 1, content[case.number : case.number + size])
        except OSError as error:
            return f"no answer to a ping of {size} bytes: {error}"
    try:
        web = http.client.HTTPConnection(theirs, 80, WAIT_SECONDS, source_address=(ours, 0))
        web.request("GET", "/file")
        return "good" if web.getresponse().read() == content else "the file differs"
    except (OSError, http.client.HTTPException) as error:
        return f"TCP: {error}"


def main():
    folder = Path(sys.argv[2])
    if sys.argv[1] == "prepare":
        return prepare(folder)

    began = time.monotonic()
    content = (folder / "guest" / "www" / "file").read_bytes()
    server = Server(socket.AF_INET6, content)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    console = Console(folder / "console")
    console.start()
    threading.Thread(target=tick, daemon=True).start()
    if not console.ready.wait(BOOT_SECONDS):
        sys.exit(f"the guest was not ready in {BOOT_SECONDS} s")
    booted = time.monotonic()
    table = list(matrix.cases())
    tried = [case for case in table if case.number not in console.refused]
    pairs = [(case, *pair) for case in tried for pair in case.hosts]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda pair: (pair[0].number, from_convoy(content, *pair)), pairs))
    console.done.wait(RUN_SECONDS)
    ways = defaultdict(list)
    for number, what in found:
        ways[number].append(what)
    against = unlike(table, sys.argv[3], folder)
    return report(table, console, ways, against, booted - began, time.monotonic() - began)


def unlike(table, convoy, folder):
    """Contradictions between the gateway's own data and the results: SAs that carried nothing or
    have wrong properties, dropped packets, and the wrong engine."""

    def show(what):
        command = [convoy, "show", what, "--json", "--control", folder / "control.sock"]
        return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)

    cases = {case.name: case for case in table}
    sas = show("sa")
    for engine in show("engine") if matrix.DEVICE else ():
        carried = sum(sa["packets"] for sa in sas)
        found = {"kind": engine["kind"], "packets": engine["packets"], "failures": engine["failures"], "down": engine["down"]}
        if found != {"kind": "cryptodev", "packets": carried, "failures": 0, "down": ""}:
            yield f"engine {engine['name']}: {found}, with {carried} packets of all SAs"
    for sa in sas:
        case = cases[sa["tunnel"]]
        window = 1024 if sa["direction"] == "inbound" else None
        if (sa["mode"], sa["encap"], sa["esn"], sa["replay_window"]) != (case.mode, case.encap, case.esn, window):
            yield f"{sa['tunnel']}: shown as {sa}"
        if sa["packets"] == 0:
            yield f"{sa['tunnel']}: {sa['direction']} {sa['spi']:#x} carried nothing"
        for reason, count in sa["drops"].items():
            yield f"{sa['tunnel']}: {sa['direction']} {sa['spi']:#x} dropped {count}: {reason}"


def report(table, console, ways, against, boot, whole):
    cells, wrong = defaultdict(lambda: [0, 0, 0]), 0
    for case in table:
        cell = cells[case.proposal.protocol, case.proposal.words, case.encap, case.outer]
        if case.number in console.refused:
            cell[2] += 1
            print(f"{case.name}: refused by the peer's kernel: {console.refused[case.number]}")
            continue
        ours = ways[case.number]
        theirs = console.results[case.number] or ["nothing was heard of it"]
        bad = [f"{way}: {what}" for way, all_of in (("from convoy", ours), ("from the kernel", theirs)) for what in all_of]
        bad = [what for what in bad if not what.endswith(": good")]
        if len(theirs) != len(case.hosts):
            bad.append(f"from the kernel: {len(theirs)} results of {len(case.hosts)}")
        cell[0] += not bad
        cell[1] += 1
        wrong += bool(bad)
        print(f"{case.name}: {'; '.join(bad) if bad else 'passed'}")
    print(f"\nPeer: {console.version}. {f'Engine: {matrix.DEVICE}. ' if matrix.DEVICE else ''}Passed of tried: tunnel and transport mode, each with and without ESN.\n")
    columns = [("none", 4), ("none", 6), ("udp", 4), ("udp", 6)]
    print("| | native, IPv4 | native, IPv6 | in UDP, IPv4 | in UDP, IPv6 |\n|---|---|---|---|---|")
    for proposal in matrix.DEVICES[matrix.DEVICE]:
        row = []
        for encap, outer in columns:
            good, tried, refused = cells.get((proposal.protocol, proposal.words, encap, outer), (0, 0, 0))
            row.append(f"{good} of {tried}" * bool(tried) + f" ({refused} refused)" * bool(refused))
        print(f"| {proposal.protocol} {proposal.words} | " + " | ".join(row) + " |")
    against = list(against) if not console.refused else []
    for line in against:
        print(f"the gateway's counters: {line}")
    if wrong:
        print(f"\nthe guest's counters: {', '.join(console.counters) or 'none'}")
    refused = len(console.refused)
    print(
        f"\n{len(table) - wrong - refused} passed, {wrong} failed, {refused} refused by the peer's kernel; "
        f"{boot:.0f} s until the guest was ready, {whole:.0f} s in all"
    )
    # The kernel for which this is made accepts every case.
    return int(wrong > 0 or refused > 0 or len(against) > 0)


if __name__ == "__main__":
    sys.exit(main())
