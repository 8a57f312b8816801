#!/usr/bin/env python3
"""Compares a gateway with AF_XDP ports on both sides with bare AF_XDP forwarding.

A sender, a gateway and a sink, each in a network namespace, with veth pairs between them. 64-byte
UDP packets go from the sender's core to the gateway's. In turns, the gateway is a program that only
moves frames between rings (forward.c), and convoy with AES-128-GCM. Prints medians over the rounds
with their spread. Needs root.
usage: xdp.py CONVOY [--rounds N] [--seconds S]
"""

import argparse
import os
import pathlib
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SENDER, GATEWAY, SINK = NAMESPACES = ("convoy-xdp-sender", "convoy-xdp-gateway", "convoy-xdp-sink")
# Length of the IP packets and of their UDP payload, in bytes.
LENGTH, PAYLOAD = 64, 36
# `moderation_us` of a gateway that gathers packets, and the time for which the bare program then
# does the same.
GATHER_US = 50
TICKS = os.sysconf("SC_CLK_TCK")
TUNNEL = """
[[tunnel]]
name = "to-{number}"
local = "192.0.2.1"
remote = "192.0.2.{peer}"
local_ts = ["10.1.0.0/24"]
remote_ts = ["10.{net}.{number}.0/24"]
esp_proposal = "aes128gcm16"
encap = "udp"
[tunnel.manual]
spi_in = {spi_in}
spi_out = {spi_out}
key_in = "{key_in}"
key_out = "{key_out}"
"""


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def inside(namespace: str, *command: str) -> tuple[str, ...]:
    return ("ip", "netns", "exec", namespace, *command)


def remove() -> None:
    for name in NAMESPACES:
        subprocess.run(("ip", "netns", "del", name), capture_output=True, check=False)


def mac_of(namespace: str, device: str) -> str:
    return run("ip", "-n", namespace, "-br", "link", "show", device).split()[2]


def build_link() -> None:
    """sender s0 <-> lan0 gateway wan0 <-> r0 sink; the sink drops all packets on arrival."""
    remove()
    for name in NAMESPACES:
        run("ip", "netns", "add", name)
    for near, near_device, far, far_device in ((SENDER, "s0", GATEWAY, "lan0"), (SINK, "r0", GATEWAY, "wan0")):
        run("ip", "link", "add", near_device, "netns", near, "type", "veth", "peer", "name", far_device, "netns", far)
        run("ip", "-n", near, "link", "set", near_device, "up")
        run("ip", "-n", far, "link", "set", far_device, "up")
        run(*inside(near, "ethtool", "-K", near_device, "tx", "off"))
    for namespace, device, address in ((SENDER, "s0", "10.1.0.10/24"), (GATEWAY, "lan0", "10.1.0.1/24"), (GATEWAY, "wan0", "192.0.2.1/24"), (SINK, "r0", "192.0.2.2/24")):
        run("ip", "-n", namespace, "addr", "add", address, "dev", device)
    run("ip", "-n", GATEWAY, "route", "add", "10.2.0.0/16", "via", "192.0.2.2")
    lines = (
        "table netdev sink {", "chain arriving {", "type filter hook ingress device r0 priority -500; policy accept;", "ip protocol udp drop", "}", "}", ""
    )
    table = "\n".join(lines)
    subprocess.run(inside(SINK, "nft", "-f", "-"), input=table, text=True, check=True)


def received() -> int:
    path = "/sys/class/net/r0/statistics/rx_packets"
    return int(run(*inside(SINK, "cat", path)))


def cpu_seconds(process: int) -> float:
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Subject:
    """The program that acts as the gateway."""

    def __init__(self, name: str, convoy: str, folder: pathlib.Path, sas: int, is_bare: bool = False, mode: str = "generic", moderation_us: int = 0) -> None:
        self.name, self.convoy, self.folder, self.sas, self.mode, self.moderation_us = name, convoy, folder, sas, mode, moderation_us
        self.is_bare = is_bare
        self.results: list[tuple[float, float]] = []

    def command(self) -> tuple[str, ...]:
        if self.is_bare:
            return (str(self.folder / "forward"), "lan0", "wan0", self.mode, str(self.moderation_us))
        config = self.folder / "convoy.toml"
        text = f'[gateway]\ncontrol = "{self.folder}/control.sock"\nstate = "{self.folder}/state"\nmoderation_us = {self.moderation_us}\n'
        for port, device, address in (("inside", "lan0", "10.1.0.1"), ("outside", "wan0", "192.0.2.1")):
            text += f'[[port]]\nname = "{port}"\nkind = "af_xdp"\ninterface = "{device}"\naddress = ["{address}"]\n'
        for number in range(self.sas):
            keys = {name: secrets.token_hex(20) for name in ("key_in", "key_out")}
            text += TUNNEL.format(number=number, peer=2, net=2, spi_in=0x2000 + number, spi_out=0x4000 + number, **keys)
        config.write_text(text)
        config.chmod(0o600)
        (self.folder / "state").unlink(missing_ok=True)
        return (self.convoy, "run", "-c", str(config))

    def start(self) -> subprocess.Popen:
        log = (self.folder / "gateway.log").open("w+")
        process = subprocess.Popen(inside(GATEWAY, "taskset", "-c", "1", *self.command()), stdout=log, stderr=log)
        for _ in range(200):
            if "ready" in (self.folder / "gateway.log").read_text():
                return process
            time.sleep(0.1)
        sys.exit(f"{self.name} does not start:\n{(self.folder / 'gateway.log').read_text()}")

    def measure(self, seconds: float, rate: float) -> tuple[float, float]:
        """Packets per second that arrive, and the gateway's CPU time per packet, in us."""
        process = self.start()
        # A bare forwarder does not change Ethernet addresses, so its frames are addressed to the
        # sink.
        neighbour = mac_of(SINK, "r0") if self.is_bare else mac_of(GATEWAY, "lan0")
        run("ip", "-n", SENDER, "neigh", "replace", "10.1.0.1", "lladdr", neighbour, "dev", "s0", "nud", "permanent")
        run("ip", "-n", GATEWAY, "neigh", "replace", "192.0.2.2", "lladdr", mac_of(SINK, "r0"), "dev", "wan0", "nud", "permanent")
        run("ip", "-n", SENDER, "route", "replace", "10.2.0.0/16", "via", "10.1.0.1")
        targets = max(self.sas, 1)
        sender = subprocess.Popen(
            inside(SENDER, "taskset", "-c", "0", str(self.folder / "spray"), "10.2.0.9", str(targets), str(PAYLOAD), str(rate), str(seconds + 1.0)),
            stdout=subprocess.DEVNULL,
        )
        time.sleep(0.5)
        began, packets, cpu = time.monotonic(), received(), cpu_seconds(process.pid)
        time.sleep(seconds)
        took, packets, cpu = time.monotonic() - began, received() - packets, cpu_seconds(process.pid) - cpu
        sender.wait()
        process.send_signal(signal.SIGTERM)
        process.wait()
        if packets == 0:
            sys.exit(f"{self.name}: no packet came through:\n{(self.folder / 'gateway.log').read_text()}")
        return packets / took, cpu / packets * 1e6


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("convoy")
    words.add_argument("--rounds", type=int, default=5)
    words.add_argument("--seconds", type=float, default=2.0)
    words.add_argument("--rate", type=float, default=0, help="packets a second; as many as the sender can without")
    chosen = words.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for program in ("forward", "spray"):
            run("cc", "-O2", "-o", str(folder / program), str(HERE / f"{program}.c"))
        convoy = str(pathlib.Path(chosen.convoy).resolve())
        subjects = [
            Subject("frames moved, generic mode", convoy, folder, 0, True),
            Subject("frames moved, native mode", convoy, folder, 0, True, "native"),
            Subject(f"frames moved, gathered for {GATHER_US} us", convoy, folder, 0, True, moderation_us=GATHER_US),
            Subject("convoy, AES-128-GCM, 1 SA", convoy, folder, 1),
            Subject("convoy, AES-128-GCM, 100 SAs", convoy, folder, 100),
            Subject(f"convoy, 1 SA, moderation_us = {GATHER_US}", convoy, folder, 1, moderation_us=GATHER_US),
            Subject(f"convoy, 100 SAs, moderation_us = {GATHER_US}", convoy, folder, 100, moderation_us=GATHER_US),
        ]
        for number in range(chosen.rounds):
            for subject in subjects:
                print(f"\rround {number + 1} of {chosen.rounds}: {subject.name:36}", end="", file=sys.stderr, flush=True)
                build_link()
                subject.results.append(subject.measure(chosen.seconds, chosen.rate))
        print(file=sys.stderr)
        remove()
    print(f"{LENGTH}-byte UDP over veth, one way; the gateway on a core of its own; n = {chosen.rounds} rounds of {chosen.seconds:g} s in turns, medians (lowest to highest)\n")
    print("| in the gateway's place | packets a second | CPU, us a packet | times the frames moved |\n| --- | --- | --- | --- |")
    floors = [subject for subject in subjects if subject.is_bare and subject.moderation_us == 0]
    for subject in subjects:
        rates, costs = zip(*subject.results)
        floor = statistics.median(cost for _, cost in min(floors, key=lambda bare: statistics.median(cost for _, cost in bare.results)).results)
        cost = statistics.median(costs)
        print(f"| {subject.name} | {statistics.median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f}) | {cost:.2f} ({min(costs):.2f} to {max(costs):.2f}) | {cost / floor:.2f} |")


if __name__ == "__main__":
    main()
