"""A stream of HDTV between the namespaces of demo/hdtv.sh, and the CPU use of the four processes
meanwhile."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

PORT = 5004
TICKS = os.sysconf("SC_CLK_TCK")
# The paths of a stream: the receiver's address, and the protection.
WAYS = {
    "plain": ("192.0.2.2", "no tunnel"),
    "gcm": ("10.2.0.1", "AES-128-GCM"),
    "ctr": ("10.2.1.1", "AES-128-CTR, HMAC-SHA1-96"),
}
INSIDE, OUTSIDE = "convoy-a", "convoy-b"


def used_by(pid):
    """CPU time of a process over all its threads, in seconds: in user mode and in the kernel."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[11]) / TICKS, int(fields[12]) / TICKS


def of_processors(cores):
    """Seconds of these processors in total: all, idle, and stolen by the host of the virtual
    machine."""
    total = idle = stolen = 0
    for line in pathlib.Path("/proc/stat").read_text(encoding="utf-8").splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cores:
            times = [int(field) for field in fields[:8]]
            total, idle, stolen = total + sum(times), idle + times[3] + times[4], stolen + times[7]
    return total / TICKS, idle / TICKS, stolen / TICKS


class Usage:
    """CPU use of processes and processors over a span of time."""

    def __init__(self, pids):
        self.pids, self.cores = pids, os.sched_getaffinity(0)
        self.began, self.before = time.monotonic(), self.read()

    def read(self):
        return {name: used_by(pid) for name, pid in self.pids.items()}, of_processors(self.cores)

    def end(self):
        """The seconds of each process in user mode and in the kernel; total, idle and stolen
        seconds of the processors."""
        length = time.monotonic() - self.began
        (processes, processors), (before, processors_before) = self.read(), self.before
        used = {name: [now - then for now, then in zip(processes[name], before[name])] for name in before}
        total, idle, stolen = (now - then for now, then in zip(processors, processors_before))
        return {"seconds": length, "pids": self.pids, "processes": used, "total": total, "idle": idle, "stolen": stolen}


def share(used, name):
    """The share of a core that a process used."""
    return sum(used["processes"][name]) / used["seconds"]


def in_namespace(namespace, *command, **options):
    return subprocess.Popen(["ip", "netns", "exec", namespace, *map(str, command)], **options)


class Stream:
    """A sender and a receiver, and the path between them."""

    def __init__(self, args, way, mtu, rate="720p60", more_send=(), more_receive=()):
        self.args, self.mtu, self.rate = args, mtu, rate
        self.to, _ = WAYS[way]
        self.gateways = args.gateways if way != "plain" else []
        self.more_send, self.more_receive = list(more_send), list(more_receive)

    def start(self, namespace, name, *command):
        with open(self.args.work / f"{name}.json", "w", encoding="utf-8") as log:
            return in_namespace(namespace, self.args.convoy, "hdtv", *command, "--json", stdout=log, stderr=subprocess.STDOUT)

    def read(self, name):
        text = (self.args.work / f"{name}.json").read_text(encoding="utf-8")
        try:
            return json.loads(text)
        except ValueError:
            sys.exit(f"convoy-lab hdtv {name} failed: {text}")

    def run(self, seconds, record=None):
        """Streams for `seconds`; returns the reports of sender and receiver, and the CPU use in the
        middle part. `record` is called with the length of that part, and returns a process that
        ends with it."""
        frames = round(seconds * float(self.rate.partition("p")[2]))
        first = ("--first-timestamp", 1000)
        receiver = self.start(OUTSIDE, "receive", "receive", "--listen", f"{self.to}:{PORT}", "--format", self.rate, *first,
                              *self.more_receive)
        wait_for_port(PORT, "-u")
        sender = self.start(INSIDE, "send", "send", "--to", f"{self.to}:{PORT}", "--format", self.rate, "--mtu", self.mtu,
                            "--frames", frames, *first, *self.more_send)
        time.sleep(min(1.0, seconds / 4))
        pids = dict(zip(("gateway a", "gateway b"), self.gateways)) | {"sender": sender.pid, "receiver": receiver.pid}
        span = max(seconds - 2.0, seconds / 2)
        usage, recording = Usage(pids), record and record(span)
        time.sleep(span)
        used = usage.end()
        if recording:
            recording.wait()
        sender.wait()
        try:
            receiver.wait(timeout=5)
        except subprocess.TimeoutExpired:
            receiver.send_signal(signal.SIGTERM)
            receiver.wait()
        return self.read("send"), self.read("receive"), used


def wait_for_port(port, kind):
    """Waits until a process listens in the outer namespace."""
    for _ in range(200):
        listening = subprocess.run(["ip", "netns", "exec", OUTSIDE, "ss", "-Hln", kind, f"sport = :{port}"], capture_output=True, check=True)
        if listening.stdout:
            return
        time.sleep(0.02)
    sys.exit(f"nothing listens on port {port}")


def lost(send, receive):
    """Number of packets that did not arrive."""
    return send["packets"] - receive["counts"]["packets"]


def broken(send, receive):
    """Number of frames that were incomplete when they were due."""
    return send["frames"] - receive["counts"]["whole_frames"]
