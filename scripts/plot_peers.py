#!/usr/bin/env python3
"""Draws README's picture of convoy and other gateways from the measurements in docs/results."""

import csv
import pathlib
import sys

RESULTS = pathlib.Path(__file__).resolve().parent.parent / "docs" / "results"
OUT = RESULTS / "figures" / "peers.svg"
RUN = "EPYC (Zen 4), three rounds"
PACKETS = "64-byte UDP, less than 0.5 % lost, kpps"
TCP = "TCP, one flow, Gbit/s"
# Other settings of one port, which have rows of their own.
VARIANTS = ("convoy, udp moderated", "convoy, udp with a second multibuffer")
WIDTH, ROW, BAR, LEFT, TOP = 780, 26, 16, 226, 44
OWN, OTHER = "#0072B2", "#B0B0B0"


def other_vpns(column):
    """Names and medians of a column, the highest first."""
    with open(RESULTS / "vpns.csv", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["run"] == RUN and row["gateway"] not in VARIANTS]
    # The range stands behind the median.
    bars = [(row["gateway"], float(row[column].split(" ")[0])) for row in rows]
    return sorted(bars, key=lambda bar: -bar[1])


def beside_vpp():
    """Names and cycles per packet with one SA, VPP's before convoy's."""
    bars = []
    with open(RESULTS / "vpp.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    for name, vpp, convoy, _ in rows:
        short = name.replace("AES-128-", "").replace("CBC, HMAC-SHA-1", "CBC-SHA1")
        for who, values in (("VPP", vpp), ("convoy", convoy)):
            first = values.split(" / ")[0]
            if "-" not in (vpp.split(" / ")[0], first):
                bars.append((f"{who}, {short}", float(first)))
    return bars


def panel(lines, top, title, bars):
    """Appends the elements of one bar chart; returns the position of the next one."""
    scale = (WIDTH - LEFT - 70) / max(value for _, value in bars)
    lines.append(f'<text x="10" y="{top - 16}" font-size="14" font-weight="bold">{title}</text>')
    for at, (name, value) in enumerate(bars):
        y = top + at * ROW
        colour = OWN if name.startswith("convoy") else OTHER
        lines.append(f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{name}</text>')
        lines.append(f'<rect x="{LEFT}" y="{y}" width="{value * scale:.1f}" height="{BAR}" fill="{colour}"/>')
        figure = f"{value:.1f}" if value < 10 else f"{value:.0f}"
        lines.append(f'<text x="{LEFT + value * scale + 6:.1f}" y="{y + 13}">{figure}</text>')
    return top + len(bars) * ROW + TOP


def publish(out, lines, height):
    """Writes a picture of elements; with --check, fails if it differs from the data."""
    start = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
    start += 'font-family="sans-serif" font-size="12" fill="#404040">'
    back = f'<rect width="{WIDTH}" height="{height}" fill="white"/>'
    picture = "\n".join([start, back, *lines, "</svg>"]) + "\n"
    if "--check" not in sys.argv:
        out.write_text(picture, encoding="utf-8")
    elif not out.exists() or out.read_text(encoding="utf-8") != picture:
        sys.exit(f"{out.relative_to(RESULTS.parent)} is not what its data has: run make plot")


def main():
    """Draws the panels."""
    lines = []
    title = "64-byte packets with less than 0.5 % lost, kpps, one core for each site"
    below = panel(lines, TOP, title, other_vpns(PACKETS))
    below = panel(lines, below, "TCP with one flow, Gbit/s, one core for each site", other_vpns(TCP))
    below = panel(lines, below, "Cycles per packet of the whole path in memory, one SA", beside_vpp())
    publish(OUT, lines, below - TOP + 10)


if __name__ == "__main__":
    main()
