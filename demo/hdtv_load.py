"""Profiles the gateways under HDTV and under iperf3 (figure 3 of the GRIP paper on HDTV), and
estimates memory traffic."""

import json
import os
import subprocess
import sys

import hdtv_profile
from hdtv_stream import INSIDE, OUTSIDE, WAYS, Stream, Usage, in_namespace, lost, wait_for_port

IPERF_PORT = 5201
COLUMNS = ("idle", "kernel", "IPsec", "port", "gateway", "application", "library", "other", "other processes")
# The paper's measurements at its sender, in percent: idle, kernel, IPsec, the card's driver,
# application, libc.
PAPER = (("HDTV", 2, 893, "62 / 28 / 4 / 3 / <1 / <1"), ("iperf", 2, 989, "47 / 35 / 4 / 4 / 2 / 8"), ("iperf", 1, 989, "0 / 70 / 9 / 4 / 3 / 12"))


def ports(args):
    """The counters of each gateway's ports, by port name."""
    def of(site):
        command = [args.convoy, "show", "port", "--json", "--control", args.work / f"site-{site}.sock"]
        return {port["name"]: port for port in json.loads(subprocess.run(command, capture_output=True, check=True).stdout)}
    return [of(1), of(2)]


def moved(before, after):
    """Packets that a gateway carried, and their mean lengths in bytes: `(packets, received, sent)`,
    for the direction with more traffic."""
    def since(port, what):
        return after[port][what] - before[port][what]
    came = max(("inside", "outside"), key=lambda port: since(port, "received_bytes"))
    left = "outside" if came == "inside" else "inside"
    packets = max(1, since(came, "received_packets"))
    return packets, since(came, "received_bytes") / packets, since(left, "sent_bytes") / max(1, since(left, "sent_packets"))


def iperf(args, way, record):
    """Runs TCP with iperf3; returns the rate in Mbit/s and the CPU use."""
    to = WAYS[way][0]
    log = args.work / "iperf.json"
    server = in_namespace(OUTSIDE, "iperf3", "-s", "-1", "-B", to, stdout=subprocess.DEVNULL)
    wait_for_port(IPERF_PORT, "-t")
    with open(log, "w", encoding="utf-8") as file:
        client = in_namespace(INSIDE, "iperf3", "-c", to, "-t", round(args.seconds) + 2, "-O", 1, "-J", stdout=file)
    try:
        client.wait(timeout=1.5)
        sys.exit(f"iperf3 failed: {log.read_text(encoding='utf-8')}")
    except subprocess.TimeoutExpired:
        pass
    usage = Usage(dict(zip(("gateway a", "gateway b", "sender", "receiver"), (*args.gateways, client.pid, server.pid))))
    recording = record(args.seconds - 1)
    try:
        client.wait(timeout=args.seconds - 1)
    except subprocess.TimeoutExpired:
        pass
    used = usage.end()
    if recording:
        recording.wait()
    client.wait()
    server.wait()
    return json.loads(log.read_text(encoding="utf-8"))["end"]["sum_received"]["bits_per_second"] / 1e6, used


def profile(args):
    """Adds the rows for the number of processors that this program may use to the results."""
    results = json.loads(args.out.read_text(encoding="utf-8")) if args.out.exists() else {"seconds": args.seconds, "rows": []}
    cores = os.sched_getaffinity(0)
    samples = args.work / "perf.data"

    def record(span):
        samples.unlink(missing_ok=True)
        return hdtv_profile.start_perf(samples, span, cores)

    def add(load, way, mbps, packets_lost, used):
        shares, source = hdtv_profile.shares_of(samples, used)
        row = {"load": load, "protection": WAYS[way][1], "cores": len(cores), "mbps": mbps, "lost": packets_lost, "source": source}
        results["rows"].append(row | {"shares": hdtv_profile.summed(shares), "stolen": used["stolen"] / used["total"]})

    for way in ("ctr", "gcm"):
        before = ports(args)
        send, receive, used = Stream(args, way, 9000, more_send=["--real-time"], more_receive=["--real-time"]).run(args.seconds + 2, record)
        add("HDTV", way, send["ip_mbps"], lost(send, receive), used)
        if way == "ctr" and len(cores) > 1:
            results["memory"] = account(args, send, [moved(*pair) for pair in zip(before, ports(args))])
        mbps, used = iperf(args, way, record)
        add("iperf3", way, mbps, None, used)
    args.out.write_text(json.dumps(results, indent=1), encoding="utf-8")


def account(args, send, gateways):
    """Bytes that each packet of the stream reads and writes in memory, and the rate that one core
    can move."""
    inside = json.loads(subprocess.run([args.convoy, "bench", "inside", "--json", "--lengths", "1450", "--services", "aes128ctr-sha1", "--trial",
                                        "0.05"], capture_output=True, check=True).stdout)
    (service,) = inside["services"].values()
    frame = send["frames"] * 1280 * 720 * 2 / send["packets"]
    steps = [("sender", "the picture is drawn", 2 * frame), ("sender", "the kernel copies header and pixels (sendmsg)", 2 * frame)]
    for name, (_, received, sent) in zip(("gateway a", "gateway b"), gateways):
        steps += [(name, "from the kernel into a frame", 2 * received), (name, "cipher and hash, in place", 2 * sent),
                  (name, "from the frame into the kernel", 2 * sent)]
    steps.append(("receiver", "the kernel writes the pixels to their place (recvmsg)", 2 * frame))
    return {"packets_a_second": send["packets"] / send["seconds"], "bandwidth": service["blocks"][0]["memory"]["bandwidth"], "steps": steps}


def print_load(args):
    """Prints profile and memory traffic as Markdown."""
    results = json.loads(args.out.read_text(encoding="utf-8"))
    sources = {row["source"] for row in results["rows"]}
    print(f"Shares of the processors in percent, sender, both gateways and receiver together ({'; '.join(sorted(sources))}):\n")
    print(f"| load | protection | cores | Mbit/s | packets lost | {' | '.join(COLUMNS)} | stolen by the host |")
    print(f"| --- | --- | --: | --: | --: |{' --: |' * (len(COLUMNS) + 1)}")
    for row in results["rows"]:
        cells = " | ".join(f"{100 * row['shares'].get(column, 0):.1f}" for column in COLUMNS)
        packets_lost = "" if row["lost"] is None else row["lost"]
        print(f"| {row['load']} | {row['protection']} | {row['cores']} | {row['mbps']:.0f} | {packets_lost} | {cells} | {100 * row['stolen']:.1f} |")
    print("\nThe paper's sender, a machine of its own with its cipher on a card (idle / kernel / IPsec / driver / application / libc):")
    for load, cores, mbps, shares in PAPER:
        print(f"  {load}, {cores} processor{'s' * (cores > 1)}, {mbps} Mbit/s: {shares}")
    memory = results.get("memory")
    if not memory:
        return
    print("\n| where | transfer | bytes a packet, read and written |\n| --- | --- | --: |")
    for where, what, size in memory["steps"]:
        print(f"| {where} | {what} | {size:.0f} |")
    each = sum(size for *_, size in memory["steps"])
    rate = each * memory["packets_a_second"]
    print(f"\n{len(memory['steps'])} copies and passes, {each:.0f} bytes a packet: {rate / 1e9:.2f} GB/s at {memory['packets_a_second']:.0f} packets a"
          f" second, {100 * rate / memory['bandwidth']:.0f} % of the {memory['bandwidth'] / 1e9:.1f} GB/s that one core reads and writes by copying.")
