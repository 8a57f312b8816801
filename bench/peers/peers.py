"""Compares userspace VPNs on this machine, in turns, with the same two namespaces, one core per
site and the same inner MTU.

Prints medians over the rounds with the lowest and highest value, and writes all values as JSON.
"""

import argparse
import contextlib
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

from kinds import Convoy, StrongSwan, WireGuard
from sites import INNER, Sites, inside, run

MTU = 1400
TCP_SECONDS = 3
UDP_SECONDS = 0.8
# Of a packet of 64 bytes, without IP and UDP headers.
PAYLOAD = 64 - 28
UDP_PORT = 9000
# A rate counts as carried if the loss is lower than this.
LOSS = 0.005
RATES = (10_000, 640_000)
SEARCH_STEPS = 7
STEADY_RATE = 40_000
# An engine on the second core, besides the one on the worker's core.
CRYPTO_CORE = """
[[engine]]
name = "own"
kind = "multibuffer"
[[engine]]
name = "apart"
kind = "multibuffer"
core = 1
"""
# Approximate duration of one kind in one round, in seconds.
STEP_SECONDS = 27

MEASURES = {
    "tcp1_gbit": "TCP, one flow, Gbit/s",
    "tcp1_ns_byte": "CPU of both, ns/B",
    "tcp1_bound_gbit": "TCP, one flow, if the gateways' own code took no time, Gbit/s",
    "tcp8_gbit": "TCP, eight flows, Gbit/s",
    "udp_kpps": "64-byte UDP, kpps",
    "udp_us_packet": "CPU of both at that rate, us/packet",
    "steady_us_packet": "at 40 kpps, us/packet",
    "idle_percent": "idle, % of a core, both",
    "resident_mb": "RSS of one, MB",
    "ping_ms": "ping, ms",
}


def kinds(options: argparse.Namespace) -> dict[str, object]:
    bin_folder = options.bin / "bin"
    every = {
        "convoy udp": Convoy(options.convoy, "udp"),
        "convoy udp moderated": Convoy(options.convoy, "udp", settings="moderation_us = 200"),
        "convoy udp with a crypto core": Convoy(options.convoy, "udp", scheduler=CRYPTO_CORE),
        "convoy raw": Convoy(options.convoy, "raw"),
        "convoy af_xdp": Convoy(options.convoy, "af_xdp"),
        "convoy af_packet": Convoy(options.convoy, "af_packet"),
        "wireguard-go": WireGuard([str(bin_folder / "wireguard"), "-f"]),
        "Tailscale's wireguard-go": WireGuard([str(bin_folder / "wireguard-go"), "-f"]),
        "gotatun": WireGuard([str(bin_folder / "gotatun"), "--foreground", "--disable-drop-privileges"]),
        "boringtun": WireGuard([str(bin_folder / "boringtun-cli"), "--foreground", "--disable-drop-privileges"]),
    }
    every["strongSwan kernel-libipsec"] = StrongSwan()
    if options.before:
        every["convoy udp before"] = Convoy(options.before, "udp")
        every["convoy raw before"] = Convoy(options.before, "raw")
    wanted = options.only.split(",") if options.only else list(every)
    unknown = [name for name in wanted if name not in every]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(every)}")
    return {name: every[name] for name in wanted}


def tcp(sites: Sites, flows: int) -> tuple[float, float, float]:
    """Returns Gbit/s, ns of CPU time per byte, and the rate in Gbit/s that the busier site's core
    would carry if it only ran the kernel's part and iperf3."""
    server = subprocess.Popen(inside(1, "iperf3", "-s", "-1", "-B", INNER[1]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        sites.wait("iperf3", lambda: "5201" in run("ip", "netns", "exec", "convoy-peers-b", "ss", "-Hltn"))
        before, in_kernel = sites.cpu_seconds(), [sites.kernel_seconds(site) for site in (0, 1)]
        said = run(*inside(0, "iperf3", "-J", "-c", INNER[1], "-B", INNER[0], "-t", str(TCP_SECONDS), "-P", str(flows)))
        spent = sites.cpu_seconds() - before
        in_kernel = [sites.kernel_seconds(site) - in_kernel[site] for site in (0, 1)]
    finally:
        server.terminate()
        server.wait()
    end = json.loads(said)["end"]
    received, shares = end["sum_received"], end["cpu_utilization_percent"]
    iperf3 = [shares[which] / 100 * received["seconds"] for which in ("host_total", "remote_total")]
    busier = max(kernel + own for kernel, own in zip(in_kernel, iperf3))
    bytes_received = max(received["bytes"], 1)
    return received["bits_per_second"] / 1e9, spent * 1e9 / bytes_received, bytes_received * 8 / busier / 1e9


def udp(
    sites: Sites, blast: str, rate: float, seconds: float = UDP_SECONDS, payloads: Sequence[str] = (str(PAYLOAD),)
) -> tuple[int, int, float]:
    """Packets sent and received, and us of CPU time per received packet. Sends the payload sizes,
    in bytes, in turn."""
    receiver = subprocess.Popen(
        inside(1, blast, "receive", str(UDP_PORT), str(seconds + 0.4)), stdout=subprocess.PIPE, text=True
    )
    receiver.stdout.readline()
    before = sites.cpu_seconds()
    sent = int(run(*inside(0, blast, "send", INNER[1], str(UDP_PORT), ",".join(payloads), str(rate), str(seconds))))
    received = int(receiver.communicate()[0])
    spent = sites.cpu_seconds() - before
    return sent, received, spent * 1e6 / max(received, 1)


def sent_packets(convoy: str, folder: pathlib.Path, site: int, port: str) -> int:
    """The number of packets that one port of a convoy gateway has sent."""
    rows = json.loads(run(convoy, "show", "port", "--json", "--control", f"{folder}/site-{site}.sock"))
    return next(row["sent_packets"] for row in rows if row["name"] == port)


def highest_rate(sites: Sites, blast: str) -> tuple[float, float]:
    """The rate in kpps with little loss, by bisection of its logarithm, and us of CPU time per
    packet at that rate."""
    low, high = RATES
    best = (0.0, 0.0)
    for _ in range(SEARCH_STEPS):
        rate = (low * high) ** 0.5
        # After a loss, try once more: the machine may have been busy with something else.
        for _ in range(2):
            sent, received, us_packet = udp(sites, blast, rate)
            if received >= sent * (1 - LOSS):
                low = rate
                best = max(best, (received / UDP_SECONDS / 1e3, us_packet))
                break
        else:
            high = rate
    return best


def measure(kind, folder: pathlib.Path, blast: str) -> dict[str, float]:
    sites = Sites(folder)
    try:
        kind.start(sites, MTU)
        sites.wait("an answered ping", sites.answers, 20)
        before = sites.cpu_seconds()
        time.sleep(1)
        values = {"idle_percent": (sites.cpu_seconds() - before) * 100}
        values["tcp1_gbit"], values["tcp1_ns_byte"], values["tcp1_bound_gbit"] = tcp(sites, 1)
        values["tcp8_gbit"], *_ = tcp(sites, 8)
        values["udp_kpps"], values["udp_us_packet"] = highest_rate(sites, blast)
        _, _, values["steady_us_packet"] = udp(sites, blast, STEADY_RATE)
        values["resident_mb"] = sites.resident_mb()
        ping = run(*inside(0, "ping", "-q", "-c", "20", "-i", "0.02", "-I", INNER[0], INNER[1]))
        values["ping_ms"] = float(ping.rsplit("= ", 1)[1].split("/")[1])
        return values
    finally:
        sites.remove()


def table(results: dict[str, list[dict[str, float]]]) -> str:
    lines = ["| | " + " | ".join(MEASURES.values()) + " | n |", "| --- |" + " --- |" * (len(MEASURES) + 1)]
    for name, rounds in results.items():
        cells = []
        for key in MEASURES:
            values = sorted(one[key] for one in rounds)
            cells.append(f"{statistics.median(values):.3g} ({values[0]:.3g} to {values[-1]:.3g})" if values else "–")
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {len(rounds)} |")
    return "\n".join(lines)


@contextlib.contextmanager
def workplace() -> Iterator[tuple[pathlib.Path, str]]:
    """A temporary folder for the measurement, with the program that sends and receives UDP."""
    with tempfile.TemporaryDirectory() as work:
        blast = f"{work}/blast"
        run("cc", "-O2", "-o", blast, str(pathlib.Path(__file__).with_name("blast.c")))
        yield pathlib.Path(work), blast


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of install.sh")
    parser.add_argument("--convoy", required=True, help="the program")
    parser.add_argument("--before", help="another convoy to compare with")
    parser.add_argument("--only", help="kinds, separated by commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    for program in ("ip", "iperf3", "ping", "ss", "taskset", "openssl"):
        if not shutil.which(program):
            sys.exit(f"{program} is missing; run scripts/install.sh peers")
    chosen = kinds(options)
    results: dict[str, list[dict[str, float]]] = {name: [] for name in chosen}
    with workplace() as (work, blast):
        steps = [(round_number, name) for round_number in range(options.rounds) for name in chosen]
        began = time.monotonic()
        for done, (round_number, name) in enumerate(steps):
            left = (time.monotonic() - began) / done * (len(steps) - done) if done else len(steps) * STEP_SECONDS
            print(f"[{done + 1}/{len(steps)}] round {round_number + 1}: {name}, about {left:.0f} s left", file=sys.stderr, flush=True)
            folder = work / str(done)
            folder.mkdir()
            results[name].append(measure(chosen[name], folder, blast))
    print(table(results))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
