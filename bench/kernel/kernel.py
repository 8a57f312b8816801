#!/usr/bin/env python3
"""Instructions of a packet through convoy and through Linux' own ESP and WireGuard, in one guest.

qemu's virtual time is instructions (-icount shift=0), so the figures are the guest's whole work,
user and kernel, and do not depend on how busy the host is. Two gateways and a host behind each are
namespaces of the guest, which has one processor.

usage: kernel.py --convoy PROGRAM [--csv FILE] [--only PATTERN]
"""

import argparse
import csv
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "iptfs"))

from guest import Failed, Guest  # noqa: E402
from systems import SYSTEMS  # noqa: E402

SIZES = (64, 512, 1450)
# Packets that are under way at a time, and how many bursts are measured.
BURSTS = ((1, 1000), (64, 40))
ROUNDS = 2
LOOP = 500_000_000
# Bytes on the way between the gateways beside the inner packet: Ethernet's, and at least so many of
# ESP or WireGuard.
ETHERNET, PROTECTION = 14, 30
LONE = 2000
# No clock but that of instructions, and no check of one clock by another.
ICOUNT = ["-icount", "shift=0,sleep=off"]


def archive(folder: pathlib.Path, convoy: str) -> pathlib.Path:
    """What the guest needs beside its own files: convoy in a root of its own with its libraries,
    as the guest's C library is of another Debian, `wg` in the same way, and the program that sends."""
    guest = folder / "guest"
    chroot = guest / "convoy"
    for name in ("bin", "run", "etc", "proc", "sys", "dev", "tmp"):
        (chroot / name).mkdir(parents=True)
    (guest / "bin").mkdir()
    (chroot / "etc" / "passwd").write_text("root:x:0:0::/:/bin/sh\nconvoy:x:990:990::/:/bin/sh\n")
    (chroot / "etc" / "group").write_text("root:x:0:\nconvoy:x:990:\n")
    for program in (convoy, shutil.which("wg") or "wg"):
        shutil.copy(program, chroot / "bin")
        listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        for library in re.findall(r"(/\S+\.so\S*)", listed):
            (chroot / library[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, chroot / library[1:])
    (guest / "bin" / "wg").write_text('#!/bin/busybox sh\nexec chroot /convoy /bin/wg "$@"\n')
    (guest / "bin" / "wg").chmod(0o755)
    source = pathlib.Path(__file__).with_name("rounds.c")
    subprocess.run(["cc", "-static", "-O2", "-Wall", "-Wextra", "-Werror", "-o", guest / "bin" / "rounds", source], check=True)
    made = folder / "bench.gz"
    subprocess.run(f"cd {guest} && find . | cpio -o -H newc --quiet | gzip -1 >{made}", shell=True, check=True)
    return made


def nanoseconds(guest: Guest, script: str) -> int:
    """Instructions that were not those of the idler."""
    took, idle = guest.run(script, 600).split()
    return int(took) - int(idle)


def sent_bytes(guest: Guest) -> int:
    """What the first gateway has sent to the second."""
    return int(guest.run("ip netns exec ga cat /sys/class/net/wan/statistics/tx_bytes"))


def boot(files: pathlib.Path) -> Guest:
    folder = pathlib.Path(tempfile.mkdtemp(dir=files.parent))
    subprocess.run(["ip", "tuntap", "add", "dev", "tap0", "mode", "tap"], check=False, capture_output=True)
    guest = Guest(folder, ["tap0"], [files], ICOUNT)
    try:
        guest.ready()
        guest.run("for at in proc sys dev; do mount --bind /$at /convoy/$at; done; mkdir -p /dev/net; modprobe nf_tables")
        guest.run("modprobe wireguard || { echo the kernel is an older build without WireGuard: delete target/iptfs/linux; exit 1; }")
    except Failed:
        guest.close()
        raise
    return guest


def measure(files: pathlib.Path, name: str) -> list[dict[str, str | int | float]]:
    rows = []
    with boot(files) as guest:
        loop = nanoseconds(guest, f"rounds loop {LOOP}") / LOOP
        if not 0.99 < loop < 1.01:
            raise Failed(f"a loop of {LOOP} instructions takes {loop:.3f} of them: the yardstick is wrong")
        guest.run(SYSTEMS[name](), 300)
        guest.run("for i in $(seq 100); do ! ip netns exec h1 ping -c 1 -W 1 10.2.0.10 >/dev/null || exit 0; done; cat /tmp/*.log; exit 1", 120)
        # What the first packets and the boot leave to be done is done before anything counts.
        before = sent_bytes(guest)
        guest.run(f"rounds h1 h2 10.2.0.10 9 {SIZES[0]} 1 {LONE}", 600)
        added = (sent_bytes(guest) - before) / LONE - SIZES[0] - ETHERNET
        if (added >= PROTECTION) == (name == "forwarding"):
            raise Failed(f"{name}: {added:.0f} bytes a packet are added between the gateways")
        for size in SIZES:
            for burst, bursts in BURSTS:
                for turn in range(ROUNDS):
                    took = nanoseconds(guest, f"rounds h1 h2 10.2.0.10 9 {size} {burst} {bursts}")
                    rows.append({"system": name, "bytes": size, "burst": burst, "round": turn, "instructions": round(took / burst / bursts), "loop": round(loop, 4)})
                    print(*rows[-1].values(), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--convoy", required=True)
    parser.add_argument("--csv", type=pathlib.Path)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("kernel.py: needs root, for namespaces and TAPs")
    with tempfile.TemporaryDirectory() as folder:
        files = archive(pathlib.Path(folder), options.convoy)
        rows = [row for name in SYSTEMS if re.search(options.only, name) for row in measure(files, name)]
    if options.csv:
        with options.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
