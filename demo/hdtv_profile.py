"""CPU time by part of the system, as in figure 3 of the GRIP paper on HDTV, measured by perf, or
from /proc if there is no perf."""

import collections
import re
import subprocess

# Assigns a function to a part of the system by a prefix of its name or by its file; the first match
# decides.
PARTS = (
    ("IPsec", ("convoy_ipsec", "convoy_engine", "aes_", "gcm", "submit_", "flush_", "mb_mgr", "sha1", "sha_", "libIPSec")),
    ("port", ("convoy_port", "tun_rs")),
    ("application", ("convoy_hdtv", "rtp_types", "rtcp_types", "crc32fast", "iperf")),
    ("library", ("libc.so", "ld-linux", "memcpy", "memmove", "__mem", "vdso", "libcrypto", "libm.so")),
    ("gateway", ("convoy_", "core::", "alloc::", "std::", "hashbrown")),
)
# A sample as `perf script` prints it: the thread's name, which may contain spaces and numbers,
# process, address, function, file.
SAMPLE = re.compile(r"\s*.*?\s(\d+)\s+[0-9a-f]{6,}\s+(.*)\s+\((.*)\)$")
ORDER = ("kernel", "IPsec", "port", "gateway", "application", "library", "other")
GATEWAYS = ("gateway a", "gateway b")


def start_perf(path, seconds, cores):
    """Samples these processors with the kernel's clock, which every machine has; `None` if perf
    does not run."""
    on = ",".join(str(core) for core in sorted(cores))
    command = ["perf", "record", "-q", "-C", on, "-e", "cpu-clock", "-F", "997", "-o", str(path)]
    try:
        works = subprocess.run([*command, "--", "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return None
    return works and subprocess.Popen([*command, "--", "sleep", f"{seconds:.1f}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def part_of(symbol, place):
    if place.startswith("[") and "vdso" not in place:
        return "kernel"
    # Rust puts the type of a trait's implementation in angle brackets.
    name = symbol.lstrip("<&")
    return next((part for part, names in PARTS if any(name.startswith(n) or n in place for n in names)), "other")


def by_perf(path, pids):
    """Samples by process and part, as shares of the processors; other processes and idle time have
    their own names."""
    names = {pid: name for name, pid in pids.items()}
    text = subprocess.run(["perf", "script", "-i", str(path), "-F", "pid,comm,ip,sym,dso"], capture_output=True, text=True, check=True).stdout
    counts = collections.Counter()
    for line in text.splitlines():
        match = SAMPLE.match(line)
        if not match:
            continue
        pid, symbol, place = int(match[1]), match[2], match[3]
        name = names.get(pid)
        if pid == 0:
            counts["idle"] += 1
        elif name is None:
            counts["others"] += 1
        else:
            part = part_of(symbol, place)
            if part == "gateway" and name not in GATEWAYS:
                part = "application"
            counts[name, part] += 1
    total = sum(counts.values()) or 1
    return {key: count / total for key, count in counts.items()}


def by_proc(used):
    """The same from /proc, which only distinguishes a process's time in the kernel from the
    rest."""
    shares = {"idle": used["idle"] / used["total"]}
    for name, (program, kernel) in used["processes"].items():
        shares[name, "gateway" if name in GATEWAYS else "application"] = program / used["total"]
        shares[name, "kernel"] = kernel / used["total"]
    return shares | {"others": max(0.0, 1.0 - sum(shares.values()))}


def shares_of(path, used):
    """Uses perf's samples if there are any, else /proc; returns the shares and the source."""
    shares = by_perf(path, used["pids"]) if path.exists() else {}
    return (shares, "samples of perf") if len(shares) > 2 else (by_proc(used), "/proc, which cannot tell IPsec, port and library from gateway")


def summed(shares):
    """Shares by part, summed over all processes."""
    parts = collections.Counter({"idle": shares.get("idle", 0.0), "other processes": shares.get("others", 0.0)})
    for key, value in shares.items():
        if isinstance(key, tuple):
            parts[key[1]] += value
    return dict(parts)


def print_processes(shares, source):
    """Prints a row for each process."""
    print(f"{source}: idle {100 * shares.get('idle', 0):.0f} %, other processes {100 * shares.get('others', 0):.0f} % of the processors")
    rows = sorted({key[0] for key in shares if isinstance(key, tuple)})
    print("  " + " ".join(f"{head:>12}" for head in ("", *ORDER)))
    for row in rows:
        print("  " + " ".join([f"{row:>12}", *(f"{100 * shares.get((row, part), 0):10.1f} %" for part in ORDER)]))
