"""What demo/hdtv-card.sh prints: what its gateways' cards did, and the table of a card's cycles."""

import argparse
import csv
import json
import pathlib
import sys
import time

# From `make card-driver`, which fails if the card takes other cycles.
FIGURES = pathlib.Path(__file__).resolve().parents[1] / "docs" / "lab" / "results" / "card-hdtv.csv"
# The rate of the papers' video, in Mbit/s.
PAPERS_MBPS = 893
FRAME_BYTES = 1280 * 720 * 2
# Counters of a card, each of which is a packet that was lost, altered, or not the card's work.
FAULTS = ("wrong_icv", "malformed", "refused", "overrun", "lost", "device_errors", "line_errors")


def card_of(stats):
    """The counters of a gateway's card."""
    (device,) = (port["device"] for port in stats["ports"] if port["kind"] == "card")
    return device


def packets_of(stats, direction):
    """Packets of all SAs of a direction."""
    return sum(sa["packets"] for sa in stats["sas"] if sa["direction"] == direction)


def judge(args):
    """Fails unless every packet was received and every ESP packet was the cards' work."""
    seconds = time.time() - args.began
    sent = [json.loads((args.work / f"send-{at}.json").read_text(encoding="utf-8")) for at in range(args.frames)]
    received = [json.loads((args.work / f"receive-{at}.json").read_text(encoding="utf-8"))["counts"] for at in range(args.frames)]
    sites = [json.loads((args.work / f"stats-{site}.json").read_text(encoding="utf-8")) for site in (1, 2)]
    packets = sum(report["packets"] for report in sent)
    arrived = sum(counts["packets"] for counts in received)
    whole = sum(counts["whole_frames"] for counts in received)
    print(f"{args.frames} frames of {FRAME_BYTES} bytes in {packets} packets of {sent[0]['packet_bytes']} bytes: {arrived} packets arrived,"
          f" {whole} frames whole and bit for bit, in {seconds:.1f} s of simulation")
    faults = [] if (arrived, whole) == (packets, args.frames) else ["packets were lost"]
    for site, stats in enumerate(sites, 1):
        device = card_of(stats)
        print(f"the card of site {site}: {device['encrypted']} packets encrypted, {device['decrypted']} decrypted")
        faults += [f"site {site}: {name} = {device[name]}" for name in FAULTS if device[name]]
        for word, direction in (("encrypted", "outbound"), ("decrypted", "inbound")):
            if device[word] != packets_of(stats, direction):
                faults.append(f"site {site}: {packets_of(stats, direction)} {direction} packets, of which the card {word} {device[word]}")
    if min(card_of(sites[0])["encrypted"], card_of(sites[1])["decrypted"]) < packets:
        faults.append("the cards had fewer packets than the video")
    if faults:
        sys.exit("\n".join(faults))


def table(_):
    """Prints the figures of the page: cycles that were counted, and the rates derived from them."""
    print("=== a card's cycles for one frame of video, with its queues full; the card is a model (RTL, simulated)")
    print(f"{'protection':16}{'way':10}{'direction':16}{'cycles':>12}{'the line':>12}{'MHz':>6}{'Mbit/s of video':>18}")
    for row in csv.DictReader(FIGURES.read_text(encoding="utf-8").splitlines()):
        line = row["line_cycles"] if row["way"] == "inline" else ""
        print(f"{row['protection']:16}{row['way']:10}{row['direction']:16}{row['cycles']:>12}{line:>12}{row['mhz']:>6}{row['video_mbps']:>18}")
    print("counted: the cycles. Derived: the rate, from the cycles and the clock that nextpnr routed on an ECP5, for which there is no board.")
    print(f"inline, the gigabit line bounds the rate. The papers' card carried {PAPERS_MBPS} Mbit/s of video on")
    print("gigabit Ethernet. pipeline: X1 or X2 alone, without a line.")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    what = {"judge": judge, "table": table}
    parser.add_argument("what", choices=what)
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--frames", type=int)
    parser.add_argument("--began", type=float, help="seconds since the epoch")
    args = parser.parse_args()
    what[args.what](args)


if __name__ == "__main__":
    main()
