"""Where tests put the cycles that they counted, for card/fpga.py to multiply with the clock of the routed design."""

import json
from pathlib import Path

RATES = Path(__file__).resolve().parents[2] / "target" / "card" / "rates"


def record(name, bits, cycles):
    """`bits` passed in `cycles`, back to back."""
    RATES.mkdir(parents=True, exist_ok=True)
    (RATES / f"{name.replace(' ', '_')}.json").write_text(json.dumps({"name": name, "bits": bits, "cycles": cycles}) + "\n")
