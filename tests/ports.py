"""Measures for ports.sh: CPU time of idle gateways, and system calls counted by the kernel's
tracepoints."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

IDLE_SECONDS = 5
# Share of a core, with a release build; a debug build takes several times as much.
IDLE_MOST = 0.005
# Wake-ups per second of all threads of an idle gateway, for any build and machine.
WAKES_MOST = 60
CALLS = ["read", "readv", "write", "writev", "sendmmsg", "sendmsg", "sendto", "recvmmsg", "recvmsg", "recvfrom"]
WAITS = ["epoll_pwait", "epoll_pwait2", "epoll_wait", "poll", "ppoll"]
# The most system calls per packet, of the gateway that receives the traffic inside and of the one
# that delivers it.
FLOORS = {
    # The kernel passes segments of a bulk transfer as super-packets in both directions.
    ("tcp", "reads inside"): 0.25,
    ("tcp", "sends outside"): 0.25,
    # A receiver that keeps up reads few packets at a time, and `raw` also polls its sockets for AH
    # and ICMP.
    ("tcp", "receives outside"): 0.5,
    ("tcp", "writes inside"): 0.25,
    # The application sends packets one at a time, so they are read one at a time, but they are
    # batched in the three calls that follow.
    ("udp", "reads inside"): 2.2,
    ("udp", "sends outside"): 0.7,
    ("udp", "receives outside"): 0.7,
    ("udp", "writes inside"): 0.7,
    # Each packet wakes both gateways.
    ("lone packets", "calls in the first gateway"): 4.5,
    ("lone packets", "calls in the second gateway"): 3.5,
    # Each packet is held back in the window, with one sleep until its time is up.
    ("held packets", "calls in the first gateway"): 5.5,
    ("held packets", "calls in the second gateway"): 4.5,
}


def cpu_seconds(process: str) -> float:
    """CPU time of all threads of a process, in seconds."""
    times = pathlib.Path(f"/proc/{process}/task").glob("*/schedstat")
    return sum(int(path.read_text().split()[0]) for path in times) / 1e9


def wakes(process: str) -> int:
    """The number of voluntary context switches of all threads of a process."""
    texts = [path.read_text() for path in pathlib.Path(f"/proc/{process}/task").glob("*/status")]
    return sum(int(text.split("\nvoluntary_ctxt_switches:")[1].split()[0]) for text in texts)


def idle(processes: list[str]) -> bool:
    is_release = not any("debug" in pathlib.Path(f"/proc/{process}/exe").readlink().parts for process in processes)
    # Engines are measured in the background after a start.
    for _ in range(4):
        before = [(cpu_seconds(process), wakes(process)) for process in processes]
        time.sleep(IDLE_SECONDS)
        after = [(cpu_seconds(process), wakes(process)) for process in processes]
        shares = [(now[0] - was[0]) / IDLE_SECONDS for now, was in zip(after, before)]
        often = [(now[1] - was[1]) / IDLE_SECONDS for now, was in zip(after, before)]
        print("idle: " + ", ".join(f"{share:.2%}" for share in shares) + " of a core, " + ", ".join(f"{one:.0f}" for one in often) + " wakes a second")
        if all(share < IDLE_MOST or not is_release for share in shares) and all(one < WAKES_MOST for one in often):
            if not is_release:
                print("idle: this is a debug build, so wakes alone are held")
            return True
    return False


def ports(convoy: str, work: str, site: int) -> dict[str, dict]:
    command = [convoy, "show", "port", "--json", "--control", f"{work}/site-{site}.sock"]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return {row["name"]: row for row in rows}


class Watcher:
    """A perf that counts the system calls of a process."""

    def __init__(self, process: str, events: str):
        orders, self.orders = os.pipe()
        self.answers, answers = os.pipe()
        command = ["perf", "stat", "-x", ";", "-D", "-1", "--control", f"fd:{orders},{answers}", "-e", events, "-p", process]
        self.perf = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, pass_fds=(orders, answers))
        os.close(orders)
        os.close(answers)

    def begin(self):
        """Returns once it counts, however long perf takes to start."""
        os.write(self.orders, b"enable\n")
        if not os.read(self.answers, 16).startswith(b"ack"):
            sys.exit(f"perf does not count: {self.end()}")

    def end(self) -> str:
        self.perf.send_signal(signal.SIGINT)
        return self.perf.communicate()[1]


def counted(processes: list[str], command: list[str]) -> list[dict[str, int]]:
    """System calls of each process while the command runs."""
    events = ",".join(f"syscalls:sys_enter_{call}" for call in CALLS + WAITS)
    watchers = [Watcher(process, events) for process in processes]
    for watcher in watchers:
        watcher.begin()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    counts = []
    for watcher in watchers:
        said = watcher.end()
        lines = [line.split(";") for line in said.splitlines() if ":sys_enter_" in line]
        if len(lines) != len(CALLS + WAITS):
            sys.exit(f"perf did not count: {said}")
        counts.append({line[2].rpartition("sys_enter_")[2]: int(line[0]) for line in lines})
    return counts


def count(kind: str, traffic: str, convoy: str, work: str, processes: list[str], command: list[str]) -> bool:
    before = [ports(convoy, work, site) for site in (1, 2)]
    calls = counted(processes, command)
    after = [ports(convoy, work, site) for site in (1, 2)]

    def grown(site: int, port: str, counter: str) -> int:
        return after[site][port][counter] - before[site][port][counter]

    packets = grown(1, "inside", "sent_packets")
    if packets < 1000:
        sys.exit(f"{traffic}: only {packets} packets")
    here, there = calls
    ratios = {
        "reads inside": (here["read"] + here["readv"]) / packets,
        "sends outside": sum(here[call] for call in ("sendmmsg", "sendmsg", "sendto")) / packets,
        "receives outside": sum(there[call] for call in ("recvmmsg", "recvmsg", "recvfrom")) / packets,
        "writes inside": (there["write"] + there["writev"]) / packets,
        "calls in the first gateway": sum(here.values()) / packets,
        "calls in the second gateway": sum(there.values()) / packets,
    }
    good = True
    for (_, what), most in ((of, most) for of, most in FLOORS.items() if of[0] == traffic):
        ratio = ratios[what]
        good &= ratio <= most
        print(f"{traffic} over {kind}: {ratio:.3f} {what} a packet, at most {most}" + ("" if ratio <= most else ": TOO MANY"))
    bytes_a_write = grown(1, "inside", "sent_bytes") / max(there["write"] + there["writev"], 1)
    print(f"{traffic} over {kind}: {packets} packets, {bytes_a_write:.0f} bytes a write")
    for site, real in enumerate(calls):
        said = sum(grown(site, port, "system_calls") for port in ("inside", "outside"))
        made = sum(real[call] for call in CALLS)
        # The gateway's counters include calls from before perf started and after it ended, and
        # those for reading the counters.
        if not 0.9 * made - 200 <= said <= 1.1 * made + 2000:
            print(f"{traffic} over {kind}: site {site + 1} says {said} system calls and made {made}")
            good = False
    return good


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["idle", *processes]:
            sys.exit(not idle(processes))
        case ["count", kind, traffic, convoy, work, first, second, "--", *command]:
            sys.exit(not count(kind, traffic, convoy, work, [first, second], command))
        case _:
            sys.exit(__doc__)
