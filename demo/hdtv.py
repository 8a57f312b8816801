"""What demo/hdtv.sh runs between its namespaces: streams of HDTV, and what is measured of them."""

import argparse
import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

PORT = 5004
TICKS = os.sysconf("SC_CLK_TCK")
# The ways a stream takes: the address of the receiver, and what protects it.
WAYS = {
    "plain": ("192.0.2.2", "no tunnel"),
    "gcm": ("10.2.0.1", "AES-128-GCM"),
    "ctr": ("10.2.1.1", "AES-128-CTR, HMAC-SHA1-96"),
}
INSIDE, OUTSIDE = "convoy-a", "convoy-b"
# Which part of the system a function is of, by the beginning of its name or the file that it is in; the first that fits.
PARTS = (
    ("IPsec", ("convoy_ipsec", "convoy_engine", "aes_", "gcm", "submit_", "flush_", "mb_mgr", "sha1", "sha_", "libIPSec")),
    ("port", ("convoy_port", "tun_rs")),
    ("application", ("convoy_hdtv", "rtp_types", "rtcp_types", "crc32fast")),
    ("library", ("libc.so", "ld-linux", "memcpy", "memmove", "__mem", "vdso")),
    ("gateway", ("convoy_", "core::", "alloc::", "std::", "hashbrown")),
)
# A sample as `perf script` prints it: the thread's name, which may have spaces and numbers, process, address, function, file.
SAMPLE = re.compile(r"\s*.*?\s(\d+)\s+[0-9a-f]{6,}\s+(.*)\s+\((.*)\)$")
ORDER = ("kernel", "IPsec", "port", "gateway", "application", "library", "other")


def busy(pid):
    """Seconds of processor time that a process has used."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def idle():
    """Seconds that the processors of the machine had nothing to do, all together."""
    fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return (int(fields[4]) + int(fields[5])) / TICKS


class Stream:
    """A sender and a receiver, and the shares of all four processes."""

    def __init__(self, args, way, mtu, rate="720p60", more_send=(), more_receive=()):
        self.args, self.way, self.gateways = args, way, args.gateways if way != "plain" else []
        self.to, _ = WAYS[way]
        self.mtu, self.rate = mtu, rate
        self.more_send, self.more_receive = list(more_send), list(more_receive)

    def start(self, namespace, name, *command):
        log = open(self.args.work / f"{name}.json", "w", encoding="utf-8")
        command = ["ip", "netns", "exec", namespace, str(self.args.convoy), "hdtv", *map(str, command), "--json"]
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def read(self, name):
        text = (self.args.work / f"{name}.json").read_text(encoding="utf-8")
        try:
            return json.loads(text)
        except ValueError:
            sys.exit(f"convoy hdtv {name} failed: {text}")

    def run(self, seconds, profile=None):
        """Streams for so many seconds; returns what sender and receiver report, and what was used meanwhile."""
        frames = round(seconds * float(self.rate.partition("p")[2]))
        first = ("--first-timestamp", 1000)
        receiver = self.start(OUTSIDE, "receive", "receive", "--listen", f"{self.to}:{PORT}", "--format", self.rate, *first,
                              *self.more_receive)
        wait_for_port()
        sender = self.start(INSIDE, "send", "send", "--to", f"{self.to}:{PORT}", "--format", self.rate, "--mtu", self.mtu,
                            "--frames", frames, *first, *self.more_send)
        time.sleep(min(1.0, seconds / 4))
        pids = dict(zip(("gateway a", "gateway b"), self.gateways))
        pids |= {"sender": sender.pid, "receiver": receiver.pid}
        begin, before, idle_before = time.monotonic(), {name: busy(pid) for name, pid in pids.items()}, idle()
        span = max(seconds - 2.0, seconds / 2)
        perf = profile and start_perf(profile, span)
        time.sleep(span)
        length = time.monotonic() - begin
        used = {name: (busy(pid) - before[name]) / length for name, pid in pids.items()}
        idle_cores = (idle() - idle_before) / length
        if perf:
            perf.wait()
        sender.wait()
        try:
            receiver.wait(timeout=5)
        except subprocess.TimeoutExpired:
            receiver.send_signal(signal.SIGTERM)
            receiver.wait()
        return self.read("send"), self.read("receive"), {"cores": used, "idle_cores": idle_cores, "pids": pids}


def wait_for_port():
    for _ in range(100):
        listening = subprocess.run(["ip", "netns", "exec", OUTSIDE, "ss", "-Hlun", f"sport = :{PORT}"], capture_output=True, check=True)
        if listening.stdout:
            return
        time.sleep(0.05)
    sys.exit("the receiver does not listen")


def start_perf(path, seconds):
    """Samples all processors by the kernel's clock, which every machine has."""
    command = ["perf", "record", "-q", "-a", "-e", "cpu-clock", "-F", "997", "-o", str(path), "--", "sleep", f"{seconds:.1f}"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def part_of(symbol, place):
    if place.startswith("[") and "vdso" not in place:
        return "kernel"
    # Rust names what implements a trait in angle brackets.
    name = symbol.lstrip("<&")
    return next((part for part, names in PARTS if any(name.startswith(n) or n in place for n in names)), "other")


def profile_of(path, pids):
    """Shares of samples by process and part, without those of other processes and the idle ones."""
    names = {pid: name for name, pid in pids.items()}
    text = subprocess.run(["perf", "script", "-i", str(path), "-F", "pid,comm,ip,sym,dso"], capture_output=True, text=True, check=True).stdout
    counts = collections.Counter()
    for line in text.splitlines():
        match = SAMPLE.match(line)
        if not match:
            continue
        pid, symbol, place = int(match[1]), match[2], match[3]
        name = "idle" if pid == 0 else names.get(pid)
        if name:
            part = part_of(symbol, place)
            if part == "gateway" and name in ("sender", "receiver"):
                part = "application"
            counts[name if name == "idle" else (name, part)] += 1
        else:
            counts["others"] += 1
    return counts


def print_profile(counts, title):
    total = sum(counts.values()) or 1
    print(f"{title}: idle {100 * counts['idle'] / total:.0f} %, other processes {100 * counts['others'] / total:.0f} % of the machine")
    rows = sorted({key[0] for key in counts if isinstance(key, tuple)})
    print("  " + " ".join(f"{head:>12}" for head in ("", *ORDER)))
    for row in rows:
        print("  " + " ".join([f"{row:>12}", *(f"{100 * counts[(row, part)] / total:10.1f} %" for part in ORDER)]))


def is_whole(send, receive):
    counts = receive["counts"]
    return counts["packets"] == send["packets"] and counts["whole_frames"] == send["frames"] and counts["missing_frames"] == 0


def show(args):
    """The demonstration: both protections, and the same without any."""
    failed, reports = False, {}
    for way, (_, name) in WAYS.items():
        sent, received = args.out / f"{way}-sent.png", args.out / f"{way}-received.png"
        at = int(args.seconds * 60 / 2)
        digests = [args.work / f"digests-{end}" for end in ("sent", "received")]
        stream = Stream(args, way, 9000, more_send=["--snapshot", f"{at}:{sent}", "--digests", digests[0]],
                        more_receive=["--snapshot", f"{at}:{received}", "--digests", digests[1], "--compare"])
        profile = args.work / "perf.data"
        send, receive, used = stream.run(args.seconds, profile)
        counts, seconds = receive["counts"], send["seconds"]
        print(f"--- 720p60, 4:2:2, 8 bits, packets of 9000 bytes, {name}")
        print(f"sent {send['frames']} frames in {send['packets']} packets, {seconds:.0f} s: {send['video_mbps']:.1f} Mbit/s of video,"
              f" {send['ip_mbps']:.1f} with its headers; {send['late_frames']} frames late")
        print(f"received {counts['packets']} packets, {send['packets'] - counts['packets']} lost, {counts['reordered']} reordered;"
              f" {counts['whole_frames']} frames whole; jitter {receive['jitter_ms']:.3f} ms")
        psnr = "infinite" if receive["psnr_db"] is None else f"{receive['psnr_db']:.2f} dB"
        same = digests[0].read_bytes() == digests[1].read_bytes()
        print(f"{receive['equal_frames']} frames bit for bit, PSNR {psnr}; digests of sender and receiver"
              f" {'are the same' if same else 'DIFFER'}; pictures {sent}, {received}")
        cores = os.cpu_count()
        shares = ", ".join(f"{who} {100 * share:.0f} %" for who, share in used["cores"].items())
        print(f"of a core: {shares}; {100 * used['idle_cores'] / cores:.0f} % of {cores} cores idle"
              " (the papers' sender, one of four machines: 62 % of its two)")
        counts_by_part = profile_of(profile, used["pids"])
        print_profile(counts_by_part, "samples")
        failed |= not (same and is_whole(send, receive))
        used["profile"] = {"/".join(key) if isinstance(key, tuple) else key: value for key, value in counts_by_part.items()}
        reports[way] = {"send": send, "receive": receive, "used": used}
    (args.out / "report.json").write_text(json.dumps(reports, indent=1), encoding="utf-8")
    if failed:
        sys.exit("not every frame arrived bit for bit")
    print("every frame arrived bit for bit")


def sweep(args):
    """For each MTU the highest rate at which nothing is lost and no frame is late."""
    table = {}
    print(f"Mbit/s of video without loss, {args.seconds:.0f} s a trial")
    print(f"{'MTU':>6} " + " ".join(f"{name:>26}" for _, name in WAYS.values()))
    for mtu in (1500, 3000, 4500, 6000, 7500, 9000):
        row = table[mtu] = {way: highest(args, way, mtu) for way in WAYS}
        print(f"{mtu:>6} " + " ".join(f"{rate:26.0f}" for rate in row.values()), flush=True)
    args.out.write_text(json.dumps(table, indent=1), encoding="utf-8")


def highest(args, way, mtu):
    """Halves the span between a rate that is carried and one that is not, in frames a second, until they are 6 % apart."""
    low, high = 0, None
    rate = 60
    while high is None or high > low * 1.06 + 1:
        send, receive, _ = Stream(args, way, mtu, f"720p{rate}").run(args.seconds)
        if is_whole(send, receive) and send["late_frames"] == 0:
            low = rate
        else:
            high = rate
        rate = low * 2 if high is None else (low + high) // 2
        if rate < 2:
            break
    return low * 1280 * 720 * 16 / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("show", "sweep"))
    parser.add_argument("--convoy", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--gateways", type=int, nargs="*", default=[])
    args = parser.parse_args()
    {"show": show, "sweep": sweep}[args.what](args)


if __name__ == "__main__":
    main()
