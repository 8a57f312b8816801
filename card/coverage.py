"""What the card's tests cover: counts of the runs under CARD_COVERAGE=1, merged, as docs/lab/results/card-coverage.csv and, of all modules
together, the table of docs/lab/results/card.md.

usage: coverage.py table|missing [module ...]
`table` writes both, and fails if a point of card/tests/points was never met; `missing` prints the lines and points that no test reached.
"""

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILDS = ROOT / "target" / "card-coverage"
PAGE = ROOT / "docs" / "lab" / "results" / "card.md"
DATA = PAGE.with_name("card-coverage.csv")
POINTS = ROOT / "card" / "tests" / "points"
BEGIN, END = "<!-- card-coverage: written by card/coverage.py -->", "<!-- card-coverage: end -->"
RECORD = re.compile(r"^C '(.*)' (\d+)$")


def records(file):
    """Each point of one run: its fields by Verilator's one-letter keys (f file, l line, n column, o what, S lines, h where), and its count."""
    for line in file.read_text(errors="replace").splitlines():
        if found := RECORD.match(line):
            yield dict(field.split("\x02", 1) for field in found[1].split("\x01") if field), int(found[2])


def merged():
    """Module by module: the counts of its lines, of its signals' edges, and of the points beside it, over all runs and instances."""
    kinds = defaultdict(lambda: {"line": Counter(), "toggle": Counter(), "user": Counter()})
    for file in sorted(BUILDS.glob("*/coverage.dat")):
        for point, count in records(file):
            source = Path(point["f"])
            kind, page = point["page"].split("/", 1)[0].removeprefix("v_"), source.stem
            if source.parent.name == "rtl" and kind == "toggle":
                kinds[page]["toggle"][point["o"]] += count
            elif source.parent.name == "rtl" and kind in ("line", "branch"):
                kinds[page]["line"][int(point["l"]), int(point["n"]), kind, point.get("o", ""), point.get("S", "")] += count
            elif source.parent.name == "points" and kind == "user":
                # Where below the module: the indices of a `for`, without the path to the instance.
                name = point["h"].rpartition("u_points.")[2].replace("__BRA__", "[").replace("__KET__", "]").replace("__DOT__", ".")
                kinds[page.removesuffix("_points")]["user"][name] += count
    return kinds


def share(counts):
    """How many were met, of how many."""
    return sum(count > 0 for count in counts.values()), len(counts)


def total(kinds):
    """The same of all modules together."""
    every = {"line": Counter(), "toggle": Counter(), "user": Counter()}
    for module, counts in kinds.items():
        for kind, points in counts.items():
            every[kind].update({(module, point): count for point, count in points.items()})
    return every


def table(kinds):
    yield "| | reached | of | % |"
    yield "| --- | --: | --: | --: |"
    for name, counts in zip(("lines and branches", "edges of signals", "points"), total(kinds).values()):
        met, of = share(counts)
        yield f"| {name} | {met:,} | {of:,} | {100 * met / of:.1f} |"


def data(kinds):
    yield "module,lines and branches,of,edges of signals,of,points,of"
    for module, counts in [*sorted(kinds.items()), ("all", total(kinds))]:
        yield ",".join([module, *(f"{met},{of}" if of else "," for met, of in map(share, counts.values()))])


def unmet(kinds):
    with_points = [file.stem.removesuffix("_points") for file in sorted(POINTS.glob("*_points.sv"))]
    silent = [f"{module}: no test counts its points" for module in with_points if module not in kinds or not kinds[module]["user"]]
    return silent + [f"{module}: {point}" for module, counts in sorted(kinds.items()) for point, count in counts["user"].items() if count == 0]


def write_table(kinds):
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(before + BEGIN + "\n" + "\n".join(table(kinds)) + "\n" + END + rest.split(END)[1])
    DATA.write_text("\n".join(data(kinds)) + "\n")


def missing(kinds, modules):
    for module, counts in sorted(kinds.items()):
        if not modules or module in modules:
            for (line, _, kind, what, lines), count in sorted(counts["line"].items()):
                if count == 0:
                    print(f"{module}.sv:{line}: {kind} {what} {lines}")
            edges = sorted({what.rsplit(":", 1)[0] for what, count in counts["toggle"].items() if count == 0})
            if edges:
                print(f"{module}.sv: {len(edges)} bits never seen both ways: {' '.join(edges[:12])}")
    print("\n".join(unmet(kinds)))


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in ("table", "missing"):
        sys.exit(__doc__)
    kinds = merged()
    if not kinds:
        sys.exit("no counts yet: `make card-coverage` runs the tests that make them")
    if sys.argv[1] == "missing":
        return missing(kinds, sys.argv[2:])
    write_table(kinds)
    if never := unmet(kinds):
        sys.exit("points that no test met:\n" + "\n".join(never))


main()
