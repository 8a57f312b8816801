"""Counts instructions per packet over the whole path with callgrind, and samples its cycles with
perf.

usage: python3 bench/instructions [measure|compare|baseline|cycles]
`measure` prints the counts and saves them in target/bench/instructions.json; `compare` also fails
if a case takes over 3 % more than in bench/baseline/instructions.json; `baseline` rewrites that
file, the table in docs/results/cycles.md and docs/results/instructions.csv; `cycles` prints the
cycles by stage, and `cycles page` writes them to that page too.
"""

import json
import os
import shutil
import subprocess
import sys

import compare
import measure
import sample
import tables

RESULT = measure.ROOT / "target" / "bench" / "instructions.json"
BASELINE = measure.ROOT / "bench" / "baseline" / "instructions.json"


def print_table(title, lines):
    print(f"\n## {title}\n", *lines, sep="\n")


def save(path, measured):
    path.parent.mkdir(parents=True, exist_ok=True)
    # One case per line, so that changes of the baseline are readable in a diff.
    cases = ",\n".join("  " + json.dumps(case) for case in measured["cases"])
    path.write_text(f'{{\n"tools": {json.dumps(measured["tools"])},\n"cases": [\n{cases}\n]\n}}\n')
    print(f"\nsaved in {path.relative_to(measure.ROOT)}")


def show(measured):
    print_table("The whole path: instructions per packet", tables.packets(measured))
    print_table("The same, stage by stage", tables.account(measured))


def take_compiler_of(baseline):
    """Makes cargo use the baseline's compiler, because another compiler generates other
    instructions."""
    wanted, here = baseline["tools"]["rustc"], measure.tools("")["rustc"]
    if wanted == here:
        return
    if not shutil.which("rustup"):
        raise SystemExit(f"the baseline is of Rust {wanted} and this is {here}: without rustup there is nothing to compare with")
    subprocess.run(["rustup", "toolchain", "install", "--profile", "minimal", wanted], check=True)
    os.environ["RUSTUP_TOOLCHAIN"] = wanted


def main(words):
    if words == ["compare"]:
        baseline = json.loads(BASELINE.read_text())
        take_compiler_of(baseline)
        now = measure.measure()
        save(RESULT, now)
        rows = compare.rows(baseline, now)
        print_table("Instructions per packet, without cipher", tables.comparison(rows))
        for difference in compare.incomparable(baseline, now):
            print(f"not as in the baseline: {difference}")
        if faults := compare.faults(rows):
            print("\nmore than 3 % more instructions than the baseline; if that is meant, `make bench-baseline` and say why:", *faults,
                  sep="\n", file=sys.stderr)
            raise SystemExit(1)
    elif words == ["baseline"]:
        now = measure.measure()
        save(BASELINE, now)
        tables.PAGE.write_text(tables.in_page(tables.PAGE.read_text(), now, tables.OF_THE_BASELINE))
        tables.DATA.write_text(tables.data(now))
        show(now)
    elif words in (["cycles"], ["cycles", "page"]):
        now = sample.measure_cycles()
        print_table("Where the cycles go", tables.cycles(now))
        save(RESULT.with_name("cycles.json"), now)
        if words[1:]:
            tables.PAGE.write_text(tables.in_page(tables.PAGE.read_text(), now, ["cycles"]))
    elif words in ([], ["measure"]):
        now = measure.measure()
        show(now)
        save(RESULT, now)
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
