#!/usr/bin/env python3
"""Draws the figures of the IXP425 paper as measured on a machine, from the tables beside docs/lab/papers/ixp425.md.

With files, the JSON reports of `convoy-lab bench schemes` and `convoy-lab bench inside`, it writes these
tables first; the reports may have a service each. With --check it fails if a picture differs from
its table.
"""

import csv
import json
import pathlib
import sys

from plot_peers import WIDTH, publish

PAPERS = pathlib.Path(__file__).resolve().parent.parent / "docs" / "lab" / "papers"
FIGURES = PAPERS / "figures"
SERVICES = ["forwarding", "des-sha1", "3des-sha1", "aes128-sha1", "aes128gcm16"]
SCHEMES = ["none", "packet I/O", "cryptography", "both"]
THREADS = ["worker", "packet I/O", "cryptography"]
COLOURS = ["#B0B0B0", "#56B4E9", "#D55E00", "#0072B2", "#009E73", "#E69F00"]
# A panel: the axes' origin, and their lengths in pixels.
LEFT, HEIGHT, LEGEND, GAP = 70, 170, 34, 78


def table(name):
    """The path of a table."""
    return PAPERS / f"ixp425-measured-{name}.csv"


def write(name, columns, rows):
    """Writes a table."""
    with open(table(name), "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(columns)
        out.writerows(rows)


def read(name):
    """The rows of a table, as dictionaries."""
    with open(table(name), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def spread(value, digits=1):
    """Median, lowest and highest as cells."""
    return [f"{value[key]:.{digits}f}" for key in ("median", "lowest", "highest")] if value else ["", "", ""]


def state(rounds):
    """Whether the measured rate is that of the gateway."""
    if not all(found["is_settled"] for found in rounds):
        return "search unfinished"
    return "limited by the tester" if any(found["is_limited_by_tester"] for found in rounds) else "final"


def scheme_rows(services):
    """The rows of all services and schemes by length."""
    for service in SERVICES:
        for scheme in services.get(service, []):
            if scheme["unavailable"]:
                continue
            for at in scheme["found"]:
                derived, times = at["derived"], {time["thread"]: time["ns"]["median"] for time in at["threads"]}
                found = at["mbps"]["n"] if at["mbps"] else 0
                head = [service, scheme["off"], at["lengths"], *spread(at["mbps"]), found, state(at["rounds"])]
                tail = [f"{times[thread]:.0f}" if thread in times else "" for thread in THREADS]
                of_derived = [*spread(derived["mbps"]), derived["mbps"]["n"], derived["busiest"]] if derived else [""] * 5
                yield [*head, *of_derived, *tail]


def write_schemes(services):
    """The table of the four schemes."""
    columns = ["service", "off", "bytes", "mbps", "lowest", "highest", "rounds", "state"]
    columns += ["derived_mbps", "derived_lowest", "derived_highest", "derived_rounds", "busiest"]
    write("schemes", columns + ["worker_ns", "packet_io_ns", "cryptography_ns"], scheme_rows(services))


def write_inside(services):
    """The tables from inside: load, turnaround, blocks and shares."""
    found = [(service, services[service]) for service in SERVICES if service in services]
    load = [
        [service, loads["lengths"], f"{point['packets_per_second']['median']:.0f}"]
        + [f"{100 * point[key]['median']:.1f}" for key in ("utilisation", "kernel", "success")]
        for service, inside in found
        for loads in inside["utilisation"]
        for point in loads["points"]
    ]
    write("load", ["service", "bytes", "packets_per_s", "busy_percent", "kernel_percent", "arrive_percent"], load)
    alone = [
        [service, length, f"{ns:.0f}"]
        for service, inside in found
        if inside["turnaround"]
        for length, ns in inside["turnaround"]["points"]
    ]
    write("turnaround", ["service", "bytes", "ns"], alone)
    blocks = [
        [service, at["lengths"], block["name"], f"{block['ns']:.0f}"] + [f"{ns:.0f}" for ns in block["quartiles_ns"]]
        for service, inside in found
        for at in inside["blocks"]
        for block in at["blocks"]
    ]
    write("blocks", ["service", "bytes", "block", "ns", "first_quartile", "third_quartile"], blocks)


def import_reports(paths):
    """Writes the tables from reports."""
    schemes, inside = {}, {}
    for path in paths:
        report = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        schemes.update(report.get("real", {}))
        inside.update(report.get("services", {}))
    if schemes:
        write_schemes(schemes)
    if inside:
        write_inside(inside)


def text(x, y, words, more=""):
    """A text element."""
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{words}</text>'


def legend(lines, names):
    """Appends a legend of colours at the top."""
    for at, name in enumerate(names):
        x = LEFT + at * 116
        lines.append(f'<rect x="{x}" y="10" width="12" height="12" fill="{COLOURS[at]}"/>')
        lines.append(text(x + 18, 20, name))


class Panel:
    """Axes with a title, and the scales of both."""

    def __init__(self, lines, top, title, labels, most):
        self.lines, self.top, self.most_x, self.most_y = lines, top, most[0], most[1]
        bottom, right = top + HEIGHT, WIDTH - 20
        lines.append(text(LEFT, top - 14, title, 'font-size="14" font-weight="bold"'))
        lines.append(f'<path d="M{LEFT} {top}V{bottom}H{right}" fill="none" stroke="#404040"/>')
        lines.append(text(LEFT + (right - LEFT) / 2, bottom + 36, labels[0], 'text-anchor="middle"'))
        y = top + HEIGHT / 2
        lines.append(text(16, y, labels[1], f'text-anchor="middle" transform="rotate(-90 16 {y})"'))
        for part in (0, 0.25, 0.5, 0.75, 1):
            y = self.y(self.most_y * part)
            lines.append(f'<path d="M{LEFT - 4} {y:.1f}h4" stroke="#404040"/>')
            lines.append(text(LEFT - 8, y + 4, f"{self.most_y * part:g}", 'text-anchor="end" font-size="11"'))

    def x(self, value):
        """The position of a value along the panel."""
        return LEFT + (WIDTH - 20 - LEFT) * value / self.most_x

    def y(self, value):
        """The position of a value up the panel."""
        return self.top + HEIGHT * (1 - value / self.most_y)

    def mark(self, value, words):
        """A label below the axis."""
        self.lines.append(text(self.x(value), self.top + HEIGHT + 16, words, 'text-anchor="middle" font-size="11"'))

    def bar(self, left, right, values, colour):
        """A bar from one value to another."""
        low, high = values
        x, y = self.x(left), self.y(high)
        size = f'width="{self.x(right) - x:.1f}" height="{self.y(low) - y:.1f}"'
        self.lines.append(f'<rect x="{x:.1f}" y="{y:.1f}" {size} fill="{colour}"/>')

    def stroke(self, points, colour="black", width=2, more=""):
        """A line through points."""
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        look = f'fill="none" stroke="{colour}" stroke-width="{width}" {more}'
        self.lines.append(f'<polyline points="{path}" {look}/>')


def rounded(value):
    """A round number at or above a value, for the end of an axis."""
    unit = 10 ** (len(str(int(value))) - 1) if value >= 1 else 1
    return next(unit * step for step in (1, 2, 4, 6, 8, 10) if unit * step >= value)


def draw_schemes():
    """Figures 8 to 10: rates by length and scheme."""
    rows, lines, top = read("schemes"), [], LEGEND + 44
    legend(lines, [f"off: {scheme}" for scheme in SCHEMES])
    names = {"forwarding": "Figure 8: forwarding", "des-sha1": "Figure 9: DES", "3des-sha1": "Figure 10: 3DES"}
    for service, name in names.items():
        own = [row for row in rows if row["service"] == service]
        lengths = list(dict.fromkeys(row["bytes"] for row in own))
        most = rounded(max(float(row[key] or 0) for row in own for key in ("derived_highest", "highest")))
        labels = ("packet length / bytes", "Mbit/s")
        title = f"{name}. Bars: derived for a core for each thread. Black: measured on one shared core"
        panel = Panel(lines, top, title, labels, (len(lengths), most))
        for at, length in enumerate(lengths):
            panel.mark(at + 0.5, length)
            for row in (row for row in own if row["bytes"] == length):
                left = at + 0.1 + 0.2 * SCHEMES.index(row["off"])
                panel.bar(left, left + 0.18, (0, float(row["derived_mbps"])), COLOURS[SCHEMES.index(row["off"])])
                if row["mbps"]:
                    panel.stroke([(left, float(row["mbps"])), (left + 0.18, float(row["mbps"]))], width=3)
        top += HEIGHT + GAP
    publish(FIGURES / "ixp425-measured-schemes.svg", lines, top - 30)


def draw_load():
    """Figures 12 and 13 by load: how busy the worker is, and how many packets arrive."""
    rows, lines, top = [row for row in read("load") if row["service"] == "3des-sha1"], [], LEGEND + 44
    lengths = list(dict.fromkeys(row["bytes"] for row in rows))
    legend(lines, [f"{length} bytes" for length in lengths])
    most = rounded(max(float(row["packets_per_s"]) for row in rows) / 1e3)
    by_load = Panel(lines, top, "Figure 12: 3DES, one worker", ("load / 1000 packets/s", "busy / %"), (most, 100))
    labels = ("load / 1000 packets/s", "arrive / %")
    success = Panel(lines, top + HEIGHT + GAP, "Figure 13: 3DES, one worker, by load", labels, (most, 100))
    for part in (0, 0.25, 0.5, 0.75, 1):
        for panel in (by_load, success):
            panel.mark(most * part, f"{most * part:g}")
    for colour, length in zip(COLOURS, lengths):
        points = [row for row in rows if row["bytes"] == length]
        points.sort(key=lambda row: float(row["packets_per_s"]))
        for panel, column in ((by_load, "busy_percent"), (success, "arrive_percent")):
            panel.stroke([(float(row["packets_per_s"]) / 1e3, float(row[column])) for row in points], colour)
    publish(FIGURES / "ixp425-measured-load.svg", lines, top + 2 * (HEIGHT + GAP) - 30)


def draw_turnaround():
    """Figure 14: the time of cryptography of one packet."""
    rows, lines, top = read("turnaround"), [], LEGEND + 44
    services = [service for service in SERVICES if any(row["service"] == service for row in rows)]
    legend(lines, services)
    most = rounded(max(float(row["ns"]) for row in rows) / 1e3)
    title = "Figure 14: cryptography of a single packet, on the worker's core"
    panel = Panel(lines, top, title, ("packet length / bytes", "us"), (1500, most))
    for length in (0, 250, 500, 750, 1000, 1250, 1500):
        panel.mark(length, length)
    for colour, service in zip(COLOURS, services):
        points = [row for row in rows if row["service"] == service]
        panel.stroke([(float(row["bytes"]), float(row["ns"]) / 1e3) for row in points], colour)
    publish(FIGURES / "ixp425-measured-turnaround.svg", lines, top + HEIGHT + GAP - 30)


def draw_blocks():
    """Figure 15: the time of a packet by functional block."""
    rows, lines, top = read("blocks"), [], LEGEND + 44
    blocks = list(dict.fromkeys(row["block"] for row in rows))
    legend(lines, blocks)
    bars = list(dict.fromkeys((row["service"], row["bytes"]) for row in rows))
    of_bar = {bar: [float(row["ns"]) for row in rows if (row["service"], row["bytes"]) == bar] for bar in bars}
    most = rounded(max(sum(values) for values in of_bar.values()) / 1e3)
    title = "Figure 15: a packet by functional block, everything on the worker's core"
    panel = Panel(lines, top, title, ("service, packet length in bytes", "us"), (len(bars), most))
    for at, bar in enumerate(bars):
        low = 0
        for colour, ns in zip(COLOURS, of_bar[bar]):
            panel.bar(at + 0.15, at + 0.85, (low, low + ns / 1e3), colour)
            low += ns / 1e3
        panel.mark(at + 0.5, bar[1])
    for service in dict.fromkeys(service for service, _ in bars):
        places = [at for at, bar in enumerate(bars) if bar[0] == service]
        middle = panel.x(sum(places) / len(places) + 0.5)
        lines.append(text(middle, panel.top + 12, service, 'text-anchor="middle" font-size="11"'))
    publish(FIGURES / "ixp425-measured-blocks.svg", lines, top + HEIGHT + GAP - 30)


def main():
    """Writes the tables of given reports, and the pictures."""
    import_reports([word for word in sys.argv[1:] if not word.startswith("--")])
    draw_schemes()
    draw_load()
    draw_turnaround()
    draw_blocks()


if __name__ == "__main__":
    main()
