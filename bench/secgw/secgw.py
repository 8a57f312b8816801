"""Compares convoy with DPDK's example ipsec-secgw: cycles of one core per packet, with AES-128-GCM
outbound, one SA, and packets from memory that are dropped afterwards.

Both repeatedly get the same inner packets in bursts, from memory. ipsec-secgw reads them from an
endless capture (`net_pcap` with `infinite_rx`), copies each packet, and sends into a port that
drops them; convoy's bench `throughput` does the same. They run in turns, and the table has the
medians of the rounds with the lowest and highest value. Cycles are those of the TSC. Time in which
other programs had the core is not counted: a round of ipsec-secgw counts the CPU time of its
thread, in the second with the least time per packet; a round of convoy is the median over passes of
256 packets.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "instructions"))
from measure import program  # noqa: E402

SIZES = (64, 512, 1400)
CAPTURED = 256
# Seconds of each round; the start of ipsec-secgw is not counted.
STARTING, LENGTH = 1, 3
KEY = ":".join(["de", "ad", "be", "ef"] * 5)
CONFIGURATION = f"""\
sp ipv4 out esp protect 5 pri 1 dst 10.2.0.0/16 sport 0:65535 dport 0:65535
sp ipv4 in esp protect 6 pri 1 dst 10.1.0.0/16 sport 0:65535 dport 0:65535
sa out 5 aead_algo aes-128-gcm aead_key {KEY} mode ipv4-tunnel src 192.0.2.1 dst 192.0.2.2
sa in 6 aead_algo aes-128-gcm aead_key {KEY} mode ipv4-tunnel src 192.0.2.2 dst 192.0.2.1
rt ipv4 dst 192.0.2.2/32 port 1
rt ipv4 dst 10.1.0.0/16 port 0
neigh port 1 02:00:00:00:00:09
"""


def checksum(header: bytes) -> int:
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def capture(path: pathlib.Path, size: int) -> None:
    """UDP packets with `size` bytes from the IP header on, in Ethernet frames."""
    out = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)]
    addresses = bytes([10, 1, 0, 1]), bytes([10, 2, 0, 1])
    for number in range(CAPTURED):
        header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, size, number, 0, 64, 17, 0, *addresses)
        header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
        udp = struct.pack("!HHHH", 1000, 2000, size - 20, 0)
        frame = bytes([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]) + header + udp + bytes(size - 28)
        out.append(struct.pack("<IIII", 0, number, len(frame), len(frame)) + frame)
    path.write_bytes(b"".join(out))


def on_core_ns(process: subprocess.Popen) -> int:
    """CPU time of the main thread, which is the only lcore."""
    return int(pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/schedstat").read_text().split()[0])


class SecGw:
    """DPDK's example with a crypto device."""

    def __init__(self, binary: pathlib.Path, folder: pathlib.Path, core: int, device: str) -> None:
        self.binary, self.folder, self.core, self.device = binary, folder, core, device
        (folder / "gw.cfg").write_text(CONFIGURATION)
        for size in SIZES:
            capture(folder / f"{size}.pcap", size)

    def run(self, size: int) -> float:
        port = f"net_pcap0,rx_pcap={self.folder}/{size}.pcap,infinite_rx=1"
        memory = ["--no-huge", "--no-pci", "--no-shconf", "--no-telemetry", "-m", "512", "--log-level=lib.eal:debug"]
        devices = ["--vdev", port, "--vdev", "net_null1,no-rx=1", "--vdev", self.device]
        queues = f"--config=(0,0,{self.core}),(1,0,{self.core})"
        command = [self.binary, *memory, "-l", str(self.core), *devices, "--", "-p", "0x3", "-u", "0x2", "-P", "-l", queues]
        command += ["-f", self.folder / "gw.cfg", "-t", "1"]
        log = self.folder / "log"
        with log.open("w") as out:
            # Line buffering makes statistics visible at once.
            process = subprocess.Popen(["stdbuf", "-oL", *command], stdout=out, stderr=subprocess.STDOUT)
        try:
            marks = self.marks(process, log)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=20)
        text = log.read_text()
        khz = re.search(r"TSC frequency is ~(\d+) KHz", text)
        dropped = re.findall(r"Total packets dropped:\s+(\d+)", text)
        if not khz or not dropped or int(dropped[-1]):
            sys.exit(f"ipsec-secgw dropped packets or did not say how fast its clock is:\n{text[-2000:]}")
        seconds = zip(marks, marks[1:])
        return min((spent - before) * int(khz[1]) / 1e6 / (sent - earlier) for (earlier, before), (sent, spent) in seconds)

    def marks(self, process: subprocess.Popen, log: pathlib.Path) -> list[tuple[int, int]]:
        """Packets sent and CPU time, at each line of statistics."""
        marks, seen, deadline = [], 0, time.monotonic() + 60
        while len(marks) < LENGTH + 1:
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"ipsec-secgw sends nothing:\n{log.read_text()[-2000:]}")
            time.sleep(0.002)
            spent = on_core_ns(process)
            sent = re.findall(r"Total packets sent:\s+(\d+)\n", log.read_text())
            if len(sent) > seen:
                seen = len(sent)
                if seen > STARTING:
                    marks.append((int(sent[-1]), spent))
        return marks


class Convoy:
    """The whole path in memory with the engine `multibuffer`."""

    def __init__(self, binary: str, core: int) -> None:
        self.binary, self.core = binary, core

    def run(self, size: int) -> float:
        command = ["taskset", "-c", str(self.core), self.binary, "sample", "aes128gcm16", str(size), "1", str(LENGTH)]
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        return float(said.split()[0])


def cell(values: list[float]) -> str:
    return f"{statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--secgw", type=pathlib.Path, required=True, help="the folder that install.sh has made")
    parser.add_argument("--convoy-bench", help="convoy's bench `throughput`, already built")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        gateway = options.secgw / "ipsec-secgw", pathlib.Path(folder), options.core
        kinds = {
            "convoy": Convoy(options.convoy_bench or program(), options.core),
            "ipsec-secgw, crypto_aesni_gcm": SecGw(*gateway, "crypto_aesni_gcm0"),
            "ipsec-secgw, crypto_aesni_mb": SecGw(*gateway, "crypto_aesni_mb0"),
        }
        values = {name: {size: [] for size in SIZES} for name in kinds}
        for number in range(options.rounds):
            for size in SIZES:
                for name, kind in kinds.items():
                    values[name][size].append(kind.run(size))
                    print(f"round {number + 1}: {name}, {size} bytes: {values[name][size][-1]:.0f}", file=sys.stderr)
    version = (options.secgw / "version").read_text().strip()
    print(f"DPDK {version}, {options.rounds} rounds. TSC cycles per packet: median (lowest to highest)\n")
    print("| | " + " | ".join(f"{size} bytes" for size in SIZES) + " |\n| --- |" + " --- |" * len(SIZES))
    for name, of in values.items():
        print(f"| {name} | " + " | ".join(cell(of[size]) for size in SIZES) + " |")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"dpdk": version, "cycles": values}, indent=1) + "\n")


if __name__ == "__main__":
    main()
