"""The table of strongSwan's suite: how many scenarios of each kind pass, and a line for each that
does not, with its reason. Fails if one fails without a reason in KNOWN, or passes with one.

usage: summary.py CONVOY STOCK KNOWN <SCENARIOS    results of suite.py; KNOWN has lines `SCENARIO REASON`
"""

import collections
import json
import sys
from pathlib import Path

HARNESS = "fails here with the kernel's IPsec too"


def rows(file):
    return {row["scenario"]: row for row in map(json.loads, Path(file).read_text().splitlines())} if Path(file).exists() else {}


def main(convoy, stock, known):
    ours, theirs = rows(convoy), rows(stock)
    reasons = dict(line.split(maxsplit=1) for line in Path(known).read_text().splitlines() if line and not line.startswith("#"))
    table = collections.defaultdict(collections.Counter)
    failures, surprises = [], []
    for name in sorted(sys.stdin.read().split()):
        row = ours[name]
        count = table[name.split("/")[0]]
        stock_passes = row["passed"] or theirs.get(name, {}).get("passed", False)
        kind = "passed" if row["passed"] else "of convoy" if stock_passes else "of the harness"
        count[kind] += 1
        if row["passed"]:
            if name in reasons:
                surprises.append(f"{name} passes, but {known} has a reason why not")
            continue
        reason = reasons.get(name) if stock_passes else HARNESS
        if reason is None:
            surprises.append(f"{name} fails, and passes with the kernel's IPsec: {row['wrong'][0]}")
        failures.append(f"| {name} | {reason or row['wrong'][0]} |")
    print("| | scenarios | pass | fail with convoy | fail with the kernel too |\n| --- | --- | --- | --- | --- |")
    whole = collections.Counter()
    for kind, count in table.items():
        whole.update(count)
        print(f"| {kind} | {count.total()} | {count['passed']} | {count['of convoy']} | {count['of the harness']} |")
    print(f"| all | {whole.total()} | {whole['passed']} | {whole['of convoy']} | {whole['of the harness']} |\n")
    print("| fails | why |\n| --- | --- |", *failures, sep="\n")
    for surprise in surprises:
        print(f"summary.py: {surprise}", file=sys.stderr)
    return bool(surprises)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
