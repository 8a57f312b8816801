"""The part of demo/hdtv.sh that runs between its namespaces: streams of HDTV, and measurements of
them."""

import argparse
import json
import os
import pathlib
import sys

import hdtv_load
import hdtv_profile
import hdtv_sweep
from hdtv_stream import WAYS, Stream, broken, lost, share

# The receiver's buffer in the demonstration. A virtual machine may pause for some 100 ms, and
# frames that are late for that reason should not count as lost.
DELAY_MS = 250


def judge(send, receive):
    """Describes the faults of a stream. Late frames are counted, but are not lost, and no fault of
    the network."""
    counts = receive["counts"]
    faults = []
    if lost(send, receive) > 0:
        faults.append(f"{lost(send, receive)} packets were lost")
    if broken(send, receive) > 0 and counts["late"] == 0:
        faults.append(f"{broken(send, receive)} frames were not whole")
    if receive["equal_frames"] + receive["skipped_frames"] < counts["whole_frames"]:
        faults.append(f"{counts['whole_frames'] - receive['equal_frames']} whole frames differ from what was sent")
    return faults


def show_one(args, way):
    """Runs one stream of the demonstration; returns its report and its faults."""
    sent, received = args.out / f"{way}-sent.png", args.out / f"{way}-received.png"
    at = int(args.seconds * 60 / 2)
    digests = [args.work / f"digests-{end}" for end in ("sent", "received")]
    stream = Stream(args, way, 9000, more_send=["--real-time", "--snapshot", f"{at}:{sent}", "--digests", digests[0]],
                    more_receive=["--real-time", "--delay-ms", DELAY_MS, "--snapshot", f"{at}:{received}", "--digests", digests[1], "--compare"])
    samples = args.work / "perf.data"
    samples.unlink(missing_ok=True)
    cores = range(args.cores)
    send, receive, used = stream.run(args.seconds, lambda span: hdtv_profile.start_perf(samples, span, cores))
    counts = receive["counts"]
    print(f"--- 720p60, 4:2:2, 8 bits, packets of 9000 bytes, {WAYS[way][1]}")
    print(f"sent {send['frames']} frames in {send['packets']} packets, {send['seconds']:.0f} s: {send['video_mbps']:.1f} Mbit/s of video,"
          f" {send['ip_mbps']:.1f} with its headers")
    print(f"late at the sender: {send['late_frames']} frames, {send['late_from_source']} of them by their source; at most"
          f" {send['latest_us'] / 1000:.1f} ms; its packet thread waited {1000 * send['packet_cpu']['waiting']:.0f} ms for a processor")
    print(f"received {counts['packets']} packets, {lost(send, receive)} lost, {counts['late']} too late for the buffer of {DELAY_MS} ms,"
          f" {counts['reordered']} reordered; {counts['whole_frames']} frames whole; jitter {receive['jitter_ms']:.3f} ms")
    psnr = "infinite" if receive["psnr_db"] is None else f"{receive['psnr_db']:.2f} dB"
    same = digests[0].read_bytes() == digests[1].read_bytes()
    print(f"{receive['equal_frames']} frames bit for bit, PSNR {psnr}; digests of sender and receiver {'are the same' if same else 'differ'};"
          f" pictures {sent}, {received}")
    shares = ", ".join(f"{who} {100 * share(used, who):.0f} %" for who in used["processes"])
    print(f"of a core: {shares}; {100 * used['idle'] / used['total']:.0f} % of {args.cores} cores idle, {100 * used['stolen'] / used['total']:.1f} %"
          " taken by the host (the papers' sender, one of four machines: 62 % of its two idle)")
    by_part, source = hdtv_profile.shares_of(samples, used)
    hdtv_profile.print_processes(by_part, source)
    used["profile"] = {"/".join(key) if isinstance(key, tuple) else key: value for key, value in by_part.items()}
    return {"send": send, "receive": receive, "used": used}, judge(send, receive)


def show(args):
    """The demonstration: with both proposals, and without protection."""
    reports, faults = {}, []
    for way, (_, name) in WAYS.items():
        reports[way], found = show_one(args, way)
        faults += [f"{name}: {fault}" for fault in found]
    (args.out / "report.json").write_text(json.dumps(reports, indent=1), encoding="utf-8")
    if faults:
        sys.exit("\n".join(faults))
    print("nothing was lost, and every frame that was whole in time arrived bit for bit")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    what = {"show": show, "sweep": hdtv_sweep.sweep, "table": hdtv_sweep.table, "profile": hdtv_load.profile, "load": hdtv_load.print_load}
    parser.add_argument("what", choices=what)
    parser.add_argument("--convoy", type=pathlib.Path)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--gateways", type=int, nargs="*", default=[])
    parser.add_argument("--window", type=int, help="of the gateways' scheduler, for the sweep")
    parser.add_argument("--mtus", type=int, nargs="+", default=hdtv_sweep.MTUS)
    args = parser.parse_args()
    args.cores = len(os.sched_getaffinity(0))
    what[args.what](args)


if __name__ == "__main__":
    main()
