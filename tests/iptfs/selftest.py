"""Linux' IP-TFS against itself: two namespaces of one guest, whose ESP crosses two TAPs and a bridge.

usage: selftest.py FOLDER TAP_A TAP_B [PATTERN]    in the network namespace of the TAPs

What crosses is captured, decrypted by scapy and put together again: it must be the inner packets.
"""

import itertools
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import aggfrag
from guest import Failed, Guest, mac

# Name, algorithm of sa.c, bytes of key with salt.
PROPOSALS = (
    ("aes128gcm16", "aes-gcm", 20),
    ("aes256gcm16", "aes-gcm", 36),
    ("chacha20poly1305", "chacha20-poly1305", 36),
    ("aes128-sha1", "aes-cbc-sha1", 36),
    ("aes128-sha256", "aes-cbc-sha256", 48),
    ("aes256-sha256", "aes-cbc-sha256", 64),
)
OUTER = {4: ("198.51.100.1", "198.51.100.2"), 6: ("2001:db8::1", "2001:db8::2")}
INNER = {4: ("10.8.1.1", "10.8.2.1"), 6: ("fd08:1::1", "fd08:2::1")}
SELECTORS = "sel {a4}/32 {b4}/32 sel {a6}/128 {b6}/128"
# Not more than a socket's buffer at once: Linux' answers to pings share one, while they stand in
# the queue of IP-TFS.
LENGTHS, SMALL = "1,60,500,1400,3000,8000", "1-60"
UNFRAGMENTED = "1,60,500,1300"
FILE_BYTES = 200_000
# Linux 7.3 rounds to CBC's blocks without counting the header of IP-TFS, and sends packets that
# are longer than the MTU, in fragments or not at all; a size of its own keeps it below.
CBC_SIZE = "size 1400"
# Linux 7.3 may lose packets at the end of a TCP connection (XfrmOutError); their numbers are used
# then.
LOST_PER_CASE = 4
# Long enough for a burst to stand in the queue, on an emulated processor.
INIT_DELAY_US = 20_000


@dataclass
class Case:
    """One pair of SAs between both namespaces."""

    number: int
    name: str
    algorithm: str
    key_bytes: int
    outer: int
    encap: bool = False
    esn: bool = False
    outbound: str = f"init-delay {INIT_DELAY_US}"
    inbound: str = ""
    netem: str = ""
    lengths: str = LENGTHS
    keys: tuple = field(init=False)
    lost: int = 0  # as the kernel counts it

    def __post_init__(self):
        self.keys = os.urandom(self.key_bytes), os.urandom(self.key_bytes)

    @property
    def spis(self):
        """From a to b, from b to a."""
        return 0x1000 + 2 * self.number, 0x1001 + 2 * self.number

    def script(self):
        a, b = OUTER[self.outer]
        common = f"alg {self.algorithm} reqid {self.number + 1}" + " esn" * self.esn + " encap 4500 4500" * self.encap
        both = (INNER[4][0], INNER[4][1], INNER[6][0], INNER[6][1])
        for space in "ab":
            yield f"ip -n {space} xfrm state flush; ip -n {space} xfrm policy flush"
        for space, source, destination, spi, key, way in (
            ("a", a, b, self.spis[0], self.keys[0], "out"),
            ("b", a, b, self.spis[0], self.keys[0], "in"),
            ("b", b, a, self.spis[1], self.keys[1], "out"),
            ("a", b, a, self.spis[1], self.keys[1], "in"),
        ):
            a4, b4, a6, b6 = both if (source, destination) == (a, b) else (both[1], both[0], both[3], both[2])
            selectors = SELECTORS.format(a4=a4, b4=b4, a6=a6, b6=b6)
            options = self.outbound if way == "out" else self.inbound
            if way == "out" and "cbc" in self.algorithm:
                options += f" {CBC_SIZE}"
            yield f"ip netns exec {space} sa {source} {destination} {spi} {way} {common} key {key.hex()} {options} {selectors}"

    def streams(self):
        return [aggfrag.Stream(spi, self.algorithm, key, self.esn) for spi, key in zip(self.spis, self.keys)]


def cases():
    number = itertools.count()
    for (words, algorithm, key_bytes), outer, encap, esn in itertools.product(PROPOSALS, (4, 6), (False, True), (False, True)):
        name = f"{words} {'in UDP' if encap else 'native'} IPv{outer}{' ESN' if esn else ''}"
        yield Case(next(number), name, algorithm, key_bytes, outer, encap, esn)
    for name, more in (
        ("no delay", {"outbound": ""}),
        ("outer packets of 576 bytes", {"outbound": "init-delay 1000 size 576"}),
        ("no fragments", {"outbound": f"dont-frag init-delay {INIT_DELAY_US}", "lengths": UNFRAGMENTED}),
        ("delayed, with a wide window", {"outbound": "init-delay 1000", "inbound": "reorder 64 drop-time 500000", "netem": "delay 5ms"}),
    ):
        yield Case(next(number), f"aes128gcm16 native IPv4, {name}", "aes-gcm", 20, 4, **more)


NETWORK = f"""
set -e
head -c {FILE_BYTES} /dev/urandom >/www/file
for end in 0:a 1:b; do
  ns=${{end#*:}} dev=eth${{end%:*}}
  ip netns add $ns
  ip link set $dev netns $ns
  ip -n $ns link set lo up; ip -n $ns link set $dev up
done
setup() {{ # namespace device ours theirs inner4 inner6 other4 other6 their-mac
  ip -n $1 addr add $3/24 dev $2; ip -n $1 addr add $5/64 dev $2 nodad
  ip -n $1 addr add $7/32 dev lo; ip -n $1 addr add $8/128 dev lo nodad
  ip -n $1 route add $9/32 via $4 dev $2 src $7; ip -n $1 route add ${{10}}/128 via $6 dev $2 src $8
  ip -n $1 neigh replace $4 lladdr ${{11}} dev $2 nud permanent; ip -n $1 neigh replace $6 lladdr ${{11}} dev $2 nud permanent
  ip netns exec $1 espinudp >/dev/null 2>&1 &
  ip netns exec $1 reflect 7 >/dev/null 2>&1 &
  ip netns exec $1 httpd -p 80 -h /www
}}
setup a eth0 {OUTER[4][0]} {OUTER[4][1]} {OUTER[6][0]} {OUTER[6][1]} {INNER[4][0]} {INNER[6][0]} {INNER[4][1]} {INNER[6][1]} {mac(1)}
setup b eth1 {OUTER[4][1]} {OUTER[4][0]} {OUTER[6][1]} {OUTER[6][0]} {INNER[4][1]} {INNER[6][1]} {INNER[4][0]} {INNER[6][0]} {mac(0)}
"""


def sent(guest, space, device):
    return int(guest.run(f"ip netns exec {space} cat /sys/class/net/{device}/statistics/tx_packets"))


def errors(guest):
    """What the kernel counts of drops in both namespaces."""
    lines = guest.run("for ns in a b; do ip netns exec $ns cat /proc/net/xfrm_stat; done").split("\n")
    counted = Counter()
    for name, count in (line.split() for line in lines if line):
        counted[name] += int(count)
    return counted


def drops(guest):
    """What interfaces have dropped, of the guest and of the TAPs, where there are any."""
    counted = [guest.run("for ns in a b; do ip netns exec $ns grep -H . /sys/class/net/eth*/statistics/*dropped; done")]
    for link in json.loads(subprocess.run(["ip", "-s", "-j", "link"], capture_output=True, check=True, text=True).stdout):
        counted += [f"{link['ifname']}/{way}:{link['stats64'][way]['dropped']}" for way in ("rx", "tx")]
    return [line for line in "\n".join(counted).split() if not line.endswith(":0")]


def attempt(guest, case):
    """What is wrong with a case; prints how many outer packets carried how many inner ones."""
    guest.run("\n".join(["set -e", *case.script()]))
    if case.netem:
        guest.run(f"ip netns exec a tc qdisc add dev eth0 root netem limit 10000 {case.netem}")
    before = errors(guest)
    try:
        for family in (4, 6):
            ours, theirs = INNER[family]
            for space, source, destination in (("a", ours, theirs), ("b", theirs, ours)):
                for lengths, count in ((case.lengths, 24), (SMALL, 120)):
                    first = sent(guest, space, f"eth{'ab'.index(space)}")
                    status, words = guest.ask(f"ip netns exec {space} burst {source} {destination} {count} {lengths} 3000")
                    outer = sent(guest, space, f"eth{'ab'.index(space)}") - first
                    if status:
                        yield f"IPv{family} from {space}, {lengths}: {words.strip()}"
                    elif lengths == SMALL and f"{INIT_DELAY_US}" in case.outbound and outer >= count:
                        yield f"IPv{family} from {space}: {outer} ESP packets for {count} inner ones"
            where = f"[{theirs}]" if family == 6 else theirs
            script = f"ip netns exec a timeout 20 wget -q -O - http://{where}/file | cmp - /www/file"
            status, words = guest.ask(script)
            if status:
                yield f"TCP over IPv{family}: {words.strip()}"
    finally:
        if case.netem:
            guest.run("ip netns exec a tc qdisc del dev eth0 root")
    grown = errors(guest) - before
    case.lost = grown.pop("XfrmOutError", 0)
    for late in ("XfrmInStateInvalid", "XfrmInNoStates"):  # of the SAs of the case before
        grown.pop(late, 0)
    if grown or case.lost > LOST_PER_CASE:
        yield f"counters: {dict(grown)}, XfrmOutError {case.lost}"


def check_capture(path, table):
    """What is wrong with what was captured, by case; and what was in it: inner packets, outer packets."""
    streams = {case.number: case.streams() for case in table}
    aggfrag.read(path, [stream for pair in streams.values() for stream in pair])
    for case in table:
        pair = streams[case.number]
        try:
            counts = [check_stream(case, stream) for stream in pair]
            missing = sum(stream.missing for stream in pair)
            if missing > case.lost:
                raise aggfrag.Wrong(f"{missing} packets were not captured")
            yield case, "", counts
        except aggfrag.Wrong as wrong:
            yield case, str(wrong), []


def check_stream(case, stream):
    inner = list(stream.inner())
    if not inner:
        raise aggfrag.Wrong("nothing was captured")
    if "dont-frag" not in case.outbound and max(map(len, inner)) < 8000:
        raise aggfrag.Wrong("no inner packet of 8,000 bytes was captured")
    if "size" in case.outbound and max(stream.sizes) > 620:
        raise aggfrag.Wrong(f"an outer packet of {max(stream.sizes)} bytes")
    return len(inner), len(stream.packets)


def main():
    folder, tap_a, tap_b, *pattern = sys.argv[1:]
    folder = Path(folder)
    capture = folder / "tap.pcap"
    table = [case for case in cases() if re.search("".join(pattern), case.name)]
    began = time.monotonic()
    tcpdump = subprocess.Popen(
        ["tcpdump", "-i", tap_a, "-B", "65536", "-U", "-s", "0", "-w", capture, "esp or udp port 4500 or (ip6 and ip6 proto 50)"],
        stderr=subprocess.DEVNULL,
    )
    wrong = {}
    with Guest(folder, [tap_a, tap_b]) as guest:
        print(f"Peer: Linux {guest.ready()}, ready after {time.monotonic() - began:.0f} s")
        guest.run(NETWORK)
        for case in table:
            try:
                wrong[case.number] = list(attempt(guest, case))
                if wrong[case.number]:
                    wrong[case.number] += drops(guest)
            except Failed as error:
                wrong[case.number] = [str(error)[-300:]]
            if wrong[case.number]:
                print(f"{case.name}: {'; '.join(wrong[case.number])}", flush=True)
        time.sleep(0.5)
    tcpdump.terminate()
    tcpdump.wait()
    for case, what, counts in check_capture(capture, table):
        if what:
            wrong[case.number].append(what)
        carried = ", ".join(f"{inner} inner packets in {outer} ESP packets" for inner, outer in counts)
        print(f"{case.name}: {what or carried}{f', {case.lost} lost by the sender' if case.lost else ''}")
    failed = sum(map(bool, wrong.values()))
    print(f"\n{len(table) - failed} passed, {failed} failed; {time.monotonic() - began:.0f} s")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
