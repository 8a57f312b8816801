#!/usr/bin/env python3
"""Draws what IP-TFS carries for each core beside tunnel mode and wireguard-go, a panel for each path,
from docs/results/iptfs.csv, which `make bench-iptfs` writes.
"""

import csv

from plot_peers import LEFT, RESULTS, TOP, WIDTH, publish

DATA = RESULTS / "iptfs.csv"
OUT = RESULTS / "figures" / "iptfs.svg"
# README's picture: one mix, by path.
SMALL = RESULTS / "figures" / "iptfs-64.svg"
SMALLEST = "64 bytes"
COLOURS = {"tunnel": "#56B4E9", "iptfs": "#0072B2", "iptfs, 1 ms": "#D55E00", "wireguard-go": "#B0B0B0"}
BAR, BETWEEN = 13, 9
# Of an overloaded gateway or link the CPU time a packet says little.
MOST_LOSS = 0.01


def of_paths(rows):
    """For each path and workload the modes with thousands of packets a second of CPU time of both
    gateways, in the order of the file."""
    paths = {}
    for row in rows:
        if row["us_packet"] and float(row["loss"] or 0) <= MOST_LOSS and row["mode"] in COLOURS:
            bars = paths.setdefault(row["path"], {}).setdefault(row["workload"], {})
            bars[row["mode"]] = 1e3 / float(row["us_packet"])
    return paths


def highest(paths):
    """The longest bar."""
    return max(value for workloads in paths.values() for bars in workloads.values() for value in bars.values())


def panel(lines, top, title, workloads, scale):
    """Appends the elements of one path; returns the position of the next."""
    lines.append(f'<text x="10" y="{top - 12}" font-size="14" font-weight="bold">{title}</text>')
    y = top
    for workload, bars in workloads.items():
        lines.append(f'<text x="{LEFT - 8}" y="{y + 11}" text-anchor="end">{workload}</text>')
        for mode, value in bars.items():
            size = f'width="{value * scale:.1f}" height="{BAR - 2}" fill="{COLOURS[mode]}"'
            lines.append(f'<rect x="{LEFT}" y="{y}" {size}/>')
            lines.append(f'<text x="{LEFT + value * scale + 6:.1f}" y="{y + 10}" font-size="11">{value:.0f}</text>')
            y += BAR
        y += BETWEEN
    return y - BETWEEN + TOP


def legend(lines):
    """Appends what is drawn, and the colours of the modes; returns where the first path begins."""
    title = "Thousands of packets a second of CPU time, both gateways together"
    lines.append(f'<text x="10" y="20" font-size="14" font-weight="bold">{title}</text>')
    for at, (mode, colour) in enumerate(COLOURS.items()):
        x = 10 + at * 130
        lines.append(f'<rect x="{x}" y="32" width="12" height="12" fill="{colour}"/>')
        lines.append(f'<text x="{x + 18}" y="42">{mode}</text>')
    return 42 + TOP


def main():
    """Writes the pictures; with --check, fails if they differ from the data."""
    with open(DATA, encoding="utf-8", newline="") as file:
        paths = of_paths(csv.DictReader(file))
    lines = []
    below = legend(lines)
    scale = (WIDTH - LEFT - 70) / highest(paths)
    for path, workloads in paths.items():
        below = panel(lines, below, path, workloads, scale)
    publish(OUT, lines, below - TOP + 10)
    lines = []
    below = legend(lines)
    by_path = {path: workloads[SMALLEST] for path, workloads in paths.items() if SMALLEST in workloads}
    below = panel(lines, below, "64-byte packets, by outside port", by_path, scale)
    publish(SMALL, lines, below - TOP + 10)


if __name__ == "__main__":
    main()
