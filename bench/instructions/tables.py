"""Writes measurements as Markdown, to the terminal and docs/results/cycles.md, and as CSV beside
that page."""

import csv
import io
import re
from pathlib import Path

import sample
import stages

PAGE = Path(__file__).resolve().parents[2] / "docs" / "results" / "cycles.md"
DATA = PAGE.with_name("instructions.csv")
WAYS = ("out", "in")


def table(columns, rows):
    yield "| " + " | ".join(columns) + " |"
    yield "|" + " --- |" * len(columns)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def of_load(case):
    return "one at a time" if case["at_hand"] == 1 else "steady"


def cases_of(measured):
    """Instructions per packet of every case, both directions side by side: convoy's own, and the
    cipher's. Returns columns and rows."""
    pairs = {}
    for case in measured["cases"]:
        key = tuple(case[name] for name in ("engine", "proposal", "headers", "bytes", "sas", "window")) + (of_load(case),)
        pairs.setdefault(key, {})[case["way"]] = case
    columns = ["engine", "proposal", "headers", "bytes", "SAs", "window", "load"]
    columns += [f"{way}{what}" for way in WAYS for what in ("", ", cipher")]
    return columns, [
        [*key, *(round(ways[way][what]) for way in WAYS for what in ("instructions", "cipher"))] for key, ways in pairs.items()
    ]


def packets(measured):
    columns, rows = cases_of(measured)
    return table(columns, [[f"{part:,}" if isinstance(part, int) else part for part in row] for row in rows])


def data(measured):
    """The same as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns, rows = cases_of(measured)
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()


def account(measured, engine="multibuffer", proposal="aes128gcm16", headers="ipv4", window=32):
    """Instructions of one packet by stage, with few SAs and with many."""
    cases = [
        case for case in measured["cases"]
        if (case["engine"], case["proposal"], case["headers"], case["bytes"], case["window"]) == (engine, proposal, headers, 64, window)
        and case["at_hand"] > 1
    ]
    cases.sort(key=lambda case: (WAYS.index(case["way"]), case["sas"]))
    columns, rows = by_case(cases, stages.STAGES, lambda case: case["stages"], lambda case: sum(case["stages"].values()))
    rows.append(["readings of the clock", *(f"{case['clock_readings']:.2f}" for case in cases)])
    return table(columns, rows)


def comparison(rows):
    def number(value):
        return "-" if value is None else f"{value:,.0f}"

    return table(["case", "baseline", "now", "change"], [
        [row.case, number(row.before), number(row.now), "-" if row.change() is None else f"{row.change():+.1%}"] for row in rows
    ])


def by_case(cases, stages_, parts, total):
    """A row for each stage and a column for each case."""
    columns = ["stage"] + [f"{case['way']}, {case['sas']:,} SA{'s' if case['sas'] > 1 else ''}" for case in cases]
    rows = [[stage, *(f"{parts(case)[stage]:,.0f}" for case in cases)] for stage in stages_ if any(parts(case)[stage] >= 0.5 for case in cases)]
    return columns, [*rows, ["all", *(f"{total(case):,.0f}" for case in cases)]]


def cycles(measured):
    """Cycles of one packet by stage."""
    cases = sorted(measured["cases"], key=lambda case: (WAYS.index(case["way"]), case["sas"]))
    return table(*by_case(cases, sample.STAGES, lambda case: case["stages"], lambda case: case["ticks"]))


TABLES = {"account": account, "cycles": cycles}
OF_THE_BASELINE = ["account"]


def in_page(text, measured, names):
    """The page, with these of its tables replaced."""
    for name in names:
        begin, end = re.search(rf"<!-- {name}: written by .* -->", text)[0], f"<!-- {name}: end -->"
        before, rest = text.split(begin)
        text = before + begin + "\n" + "\n".join(TABLES[name](measured)) + "\n" + end + rest.split(end)[1]
    return text
