"""The MTU sweep of figure 1 of the GRIP paper on network security."""

import json
import math
import time

from hdtv_stream import WAYS, Stream, broken, lost

MTUS = (1500, 3000, 4500, 6000, 7500, 9000)
# Largest ratio between the lowest failing and the highest carried rate at the end of a search, and
# the ratio of its steps until it has one of each.
PRECISION, STEP = 1.06, 1.25
MOST_TRIALS = 14


def is_carried(args, way, mtu, rate):
    """Whether one of two trials loses nothing: a shared host sometimes interrupts one. A sender
    that keeps its rate is late for some frames; one that cannot is late for most of them."""
    for _ in range(2):
        send, receive, _ = Stream(args, way, mtu, f"720p{rate}").run(args.seconds)
        late = send["late_frames"]
        if lost(send, receive) == 0 and broken(send, receive) <= late <= send["frames"] / 10:
            return True
    return False


def highest(trial, rate):
    """Returns the highest carried rate in frames per second, within 6 %, and the trials. The search
    begins at `rate`, goes up or down by a quarter until it has both a carried and a failing rate,
    and then bisects."""
    low, high = 0, None
    for trials in range(1, MOST_TRIALS + 1):
        if trial(rate):
            low = rate
        else:
            high = rate
        if high is None:
            rate = math.ceil(low * STEP)
        elif low == 0:
            rate = int(high / STEP)
        elif high <= low * PRECISION + 1:
            break
        else:
            rate = (low + high) // 2
        if rate < 1:
            break
    return low, trials


def sweep(args):
    """Adds one window's rates to the results. Without a tunnel the window has no effect, so the
    first one's rates are reused."""
    results = json.loads(args.out.read_text(encoding="utf-8")) if args.out.exists() else {"seconds_a_trial": args.seconds, "points": []}
    known = {(point["way"], point["mtu"], point["window"]): point["frames_a_second"] for point in results["points"]}
    began = time.monotonic()
    for way, (_, protection) in WAYS.items():
        if way == "plain" and ("plain", args.mtus[0], None) in known:
            continue
        window, rate = (None if way == "plain" else args.window), 60
        for mtu in args.mtus:
            # The best first guess is another window's rate at this MTU, then this window's rate at
            # the previous MTU.
            rate = next((found for (of, at, _), found in known.items() if (of, at) == (way, mtu) and found), rate)
            found, trials = highest(lambda rate, way=way, mtu=mtu: is_carried(args, way, mtu, rate), rate)
            mbps = found * 1280 * 720 * 16 / 1e6
            results["points"].append({"mtu": mtu, "way": way, "protection": protection, "window": window, "frames_a_second": found,
                                      "mbps": mbps, "trials": trials})
            print(f"{protection}, {'' if window is None else f'window {window}, '}MTU {mtu}: {mbps:.0f} Mbit/s ({trials} rates tried,"
                  f" {time.monotonic() - began:.0f} s)", flush=True)
            rate = found or rate
    args.out.write_text(json.dumps(results, indent=1), encoding="utf-8")


def table(args):
    """Prints the results of all windows as Markdown."""
    results = json.loads(args.out.read_text(encoding="utf-8"))
    columns, cells = [], {}
    for point in results["points"]:
        window = "" if point["window"] is None else f", window {point['window']}"
        column = f"{point['protection']}{window}"
        if column not in columns:
            columns.append(column)
        cells[point["mtu"], column] = point["mbps"]
    print(f"Mbit/s of video without loss, {results['seconds_a_trial']:g} s a trial:\n")
    print(f"| MTU | {' | '.join(columns)} |")
    print(f"| --: |{' --: |' * len(columns)}")
    for mtu in sorted({mtu for mtu, _ in cells}):
        print(f"| {mtu} | {' | '.join(f'{cells[mtu, column]:.0f}' if (mtu, column) in cells else '' for column in columns)} |")
