"""Checks `convoy replay` in both directions, with scapy's IPsec layer as the oracle.

usage: oracle.py CONVOY

Out: convoy protects what scapy made in the clear, and scapy decrypts it. In: scapy protects, convoy decrypts.
What comes out must be what went in, byte for byte. Ciphertexts are not compared: padding is the sender's choice.
"""

import json
import logging
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

logging.getLogger("scapy").setLevel(logging.ERROR)

from scapy.config import conf  # noqa: E402
from scapy.layers import ipsec  # noqa: E402
from scapy.layers.inet import IP, UDP, fragment  # noqa: E402
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment, fragment6  # noqa: E402
from scapy.utils import RawPcapReader, RawPcapWriter  # noqa: E402

from cases import SIZES, cases, packet  # noqa: E402

conf.verb = 0
HEAD = '[gateway]\nmtu = 9216\nallow_weak = true\n'
LINKTYPE_RAW = 101
# A packet without DF that a peer fragments after sealing, as with `ping -s 20000` from a Linux
# host: its length, its index, and the MTU of the fragments.
LONG, LONG_INDEX, PATH_MTU = 20_000, 16, 1_500


def write(path, packets):
    writer = RawPcapWriter(str(path), linktype=LINKTYPE_RAW, snaplen=65535)
    writer.write_header(None)
    for one in packets:
        writer.write_packet(bytes(one))
    writer.close()


def read(path):
    packets = [bytes(data) for data, _ in RawPcapReader(str(path))]
    return [IP(data) if data[0] >> 4 == 4 else IPv6(data) for data in packets]


def replay(convoy, config, direction, source, target):
    command = [convoy, "replay", "-c", config, "--direction", direction, "--in", source, "--out", target, "--json"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"oracle: {' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def spi_of(one):
    for layer in (ipsec.ESP, ipsec.AH):
        if layer in one:
            return one[layer].spi
    if UDP in one:
        return int.from_bytes(bytes(one[UDP].payload)[:4], "big")
    return None


def as_esp(case, one):
    """scapy only decrypts ESP in UDP if it has dissected it from UDP port 4500."""
    if case.encap == "udp" and ipsec.ESP not in one:
        body = bytes(one[UDP].payload)
        one[UDP].remove_payload()
        one = one / ipsec.ESP(body)
    return one


def check(failures, case, way, index, want, got):
    if bytes(want) != bytes(got):
        failures[case.name, way] += 1
        if sum(failures.values()) <= 5:
            print(f"{case.name} {way} packet {index}:\n want {bytes(want).hex()}\n got  {bytes(got).hex()}")


def outward(convoy, config, work, table, failures):
    """convoy seals, scapy opens."""
    clear = [(case, index, packet(case, "out", size, index)) for case in table for index, size in enumerate(SIZES)]
    write(work / "clear.pcap", [one for _, _, one in clear])
    replay(convoy, config, "out", work / "clear.pcap", work / "sealed.pcap")
    sealed = read(work / "sealed.pcap")
    if len(sealed) != len(clear):
        sys.exit(f"oracle: {len(clear)} packets went in, {len(sealed)} came out sealed")
    by_spi = {case.spi: [] for case in table}
    for one in sealed:
        by_spi[spi_of(one)].append(one)
    for case in table:
        association = case.scapy_sa("out")
        for index, one in enumerate(by_spi[case.spi]):
            want = packet(case, "out", SIZES[index], index)
            try:
                got = association.decrypt(as_esp(case, one))
            except Exception as error:  # any error of scapy is a failure of convoy
                got = f"{type(error).__name__}: {error}".encode()
            check(failures, case, "out", index, want, got)
    return len(sealed)


def cut(one):
    """The fragments of a packet on a path of Ethernet links."""
    if not isinstance(one, IPv6):
        return fragment(one, PATH_MTU - 20 - PATH_MTU % 8)
    header = IPv6(src=one.src, dst=one.dst, hlim=one.hlim)
    return fragment6(header / IPv6ExtHdrFragment(id=1, nh=one.nh) / bytes(one.payload), PATH_MTU)


def inward(convoy, config, work, table, failures):
    """scapy seals, convoy opens; the last packet of each tunnel arrives in fragments."""
    want, sealed = [], []
    for case in table:
        association = case.scapy_sa("in")
        for index, size in enumerate(SIZES):
            one = packet(case, "in", size, index)
            want.append((case, index, one))
            sealed.append(association.encrypt(one, seq_num=index + 1))
        one = packet(case, "in", LONG, LONG_INDEX)
        want.append((case, LONG_INDEX, one))
        sealed += cut(association.encrypt(one, seq_num=LONG_INDEX + 1))
    write(work / "scapy.pcap", sealed)
    report = replay(convoy, config, "in", work / "scapy.pcap", work / "opened.pcap")
    opened = read(work / "opened.pcap")
    if len(opened) != len(want):
        print(json.dumps(report, indent=1))
        sys.exit(f"oracle: {len(want)} packets went in, {len(opened)} came out opened")
    # Every packet is different, so the order across SAs does not matter.
    there = {bytes(one) for one in opened}
    for case, index, one in want:
        if bytes(one) not in there:
            check(failures, case, "in", index, one, b"")
    return len(opened)


def main():
    convoy = Path(sys.argv[1]).resolve()
    table = list(cases())
    failures = Counter()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        config = work / "oracle.toml"
        config.touch(mode=0o600)
        config.write_text(HEAD + "".join(case.toml() for case in table))
        sealed = outward(convoy, config, work, table, failures)
        opened = inward(convoy, config, work, table, failures)
    for (name, way), count in sorted(failures.items()):
        print(f"FAILED {way:3} {name}: {count} of {len(SIZES)} packets")
    print(f"oracle: {len(table)} tunnels, {sealed} packets sealed by convoy, {opened} sealed by scapy")
    print(f"{2 * len(table) - len(failures)} passed, {len(failures)} failed")
    sys.exit(1 if failures else 0)


main()
