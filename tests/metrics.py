"""Reads a gateway's metrics as Prometheus does, and requests them as an attacker would.

usage: metrics.py PID CONFIGURATION REKEY

The gateway PID serves them at 127.0.0.1:9464; the script REKEY of sed gives the tunnel of its CONFIGURATION other SAs.
"""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

from prometheus_client.openmetrics.parser import text_string_to_metric_families

ADDRESS = ("127.0.0.1", 9464)
URL = "http://127.0.0.1:9464"
GATEWAY = int(sys.argv[1])
CONFIGURATION, REKEY = sys.argv[2:]
LONG_REQUEST = 64 << 20


def scrape():
    """All samples of the page: {name: [(labels, value)]}."""
    with urllib.request.urlopen(URL + "/metrics", timeout=10) as page:
        assert page.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0"), page.headers
        text = page.read().decode()
    samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    return samples


def only(samples, name, **labels):
    """The value of the one sample that has these labels."""
    found = [value for have, value in samples[name] if labels.items() <= have.items()]
    assert len(found) == 1, f"{len(found)} samples {name} {labels}: {samples[name]}"
    return found[0]


def status(path, method="GET"):
    try:
        with urllib.request.urlopen(urllib.request.Request(URL + path, method=method), timeout=10) as page:
            return page.status
    except urllib.error.HTTPError as error:
        return error.code


def memory_kib():
    with open(f"/proc/{GATEWAY}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


def descriptors():
    return len(os.listdir(f"/proc/{GATEWAY}/fd"))


def what_is_reported():
    samples = scrape()
    assert only(samples, "convoy_build_info") == 1
    age = time.time() - only(samples, "process_start_time_seconds")
    assert 0 < age < 600, age
    counts = {}
    for direction, spi in (("outbound", "0x00001002"), ("inbound", "0x00001001")):
        sa = dict(tunnel="site-2", direction=direction, protocol="esp", spi=spi, remote="192.0.2.2")
        more = dict(mode="tunnel", local="192.0.2.1", local_port="4500", remote_port="4500", transform="aes128gcm16")
        assert only(samples, "convoy_sa_info", **sa, **more) == 1
        assert only(samples, "convoy_sa_sequence_number", **sa) >= 5
        assert only(samples, "convoy_sa_idle_seconds", **sa) < only(samples, "convoy_sa_age_seconds", **sa)
        counts[direction] = only(samples, "convoy_tunnel_packets_total", tunnel="site-2", direction=direction)
        assert counts[direction] >= 5, counts
        assert only(samples, "convoy_tunnel_bytes_total", tunnel="site-2", direction=direction) > 5 * 84
    assert only(samples, "convoy_tunnels") == 1 and only(samples, "convoy_silent_tunnels") == 0
    assert only(samples, "convoy_sas", direction="outbound") == only(samples, "convoy_sas", direction="inbound") == 1
    mtu = only(samples, "convoy_sa_path_mtu_bytes", direction="outbound")
    assert only(samples, "convoy_sas_path_mtu_bytes_min") == mtu
    assert only(samples, "convoy_protected_packets_total") >= 5
    assert only(samples, "convoy_decrypted_packets_total") >= 5
    assert only(samples, "convoy_dropped_packets_total", reason="integrity_failed") == 0
    print(f"{sum(map(len, samples.values()))} samples, packets of the tunnel {counts}")
    return counts


def a_rekeying():
    """A tunnel's counters continue with its next SAs."""
    before = what_is_reported()
    subprocess.run(["sed", "-i", "-f", REKEY, CONFIGURATION], check=True)
    os.kill(GATEWAY, signal.SIGHUP)
    deadline = time.monotonic() + 20
    samples = scrape()
    while {labels["spi"] for labels, _ in samples["convoy_sa_info"]} != {"0x00002001", "0x00002002"}:
        assert time.monotonic() < deadline, samples["convoy_sa_info"]
        time.sleep(0.1)
        samples = scrape()
    after = {way: only(samples, "convoy_tunnel_packets_total", tunnel="site-2", direction=way) for way in before}
    assert all(after[way] >= before[way] for way in before), (before, after)
    print(f"other SAs: packets of the tunnel {before} -> {after}")


def limit_descriptors(count):
    """Runs as the gateway's user, who may do this without privileges."""
    with open(f"/proc/{GATEWAY}/status") as file:
        ids = {words[0]: int(words[1]) for line in file if (words := line.split())[0] in ("Uid:", "Gid:")}
    command = ["prlimit", f"--pid={GATEWAY}", f"--nofile={count}:"]
    subprocess.run(command, user=ids["Uid:"], group=ids["Gid:"], extra_groups=[], check=True)


def other_pages():
    found = {path: status(path) for path in ("/", "/metrics", "/favicon.ico", "/metrics/x")}
    assert found == {"/": 404, "/metrics": 200, "/favicon.ico": 404, "/metrics/x": 404}, found
    assert (status("/metrics", "HEAD"), status("/metrics", "POST")) == (200, 405)
    print("other paths: 404; other methods: 405")


def a_long_request():
    before = memory_kib()
    with socket.create_connection(ADDRESS, timeout=30) as client:
        sent = client.send(b"GET /")
        try:
            while sent < LONG_REQUEST:
                sent += client.send(b"a" * (1 << 16))
        except ConnectionError:
            pass
        after = memory_kib()
    print(f"a request line of 64 MiB: {sent >> 10} KiB were taken, resident memory {before >> 10} -> {after >> 10} MiB")
    assert after - before < 8 << 10
    scrape()


def a_slow_request():
    began = time.monotonic()
    with socket.create_connection(ADDRESS, timeout=30) as client:
        try:
            while time.monotonic() - began < 30:
                client.send(b"x")
                time.sleep(0.2)
        except ConnectionError:
            pass
    took = time.monotonic() - began
    print(f"a request of five bytes a second: cut off after {took:.1f} s")
    assert took < 20


def idle_connections():
    """Opens more connections than there are file descriptors."""
    before = descriptors()
    limit_descriptors(before + 8)
    idle = [socket.create_connection(ADDRESS, timeout=30) for _ in range(100)]
    time.sleep(1)
    held = descriptors() - before
    for client in idle:
        client.close()
    deadline = time.monotonic() + 30
    while True:
        try:
            scrape()
            break
        except OSError as error:
            assert time.monotonic() < deadline, f"no metrics after 100 idle connections: {error}"
            time.sleep(0.2)
    limit_descriptors(1024)
    print(f"100 idle connections and 8 free descriptors: {held} in use meanwhile, and metrics again afterwards")
    idle = [socket.create_connection(ADDRESS, timeout=60) for _ in range(127)]
    time.sleep(1)
    held = descriptors() - before
    began = time.monotonic()
    while True:
        try:
            scrape()
            break
        except OSError as error:
            assert time.monotonic() - began < 90, f"no metrics beside 127 idle connections: {error}"
    print(f"127 idle connections: {held} descriptors, metrics after {time.monotonic() - began:.1f} s")
    assert held <= 20
    assert time.monotonic() - began < 10
    for client in idle:
        client.close()


scrape()
failures = 0
for check in (a_rekeying, other_pages, a_long_request, a_slow_request, idle_connections):
    try:
        check()
    except (AssertionError, KeyError, OSError, ValueError) as error:
        failures += 1
        print(f"FAILED: {check.__name__}: {error!r}")
sys.exit(failures > 0)
