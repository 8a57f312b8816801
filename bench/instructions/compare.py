"""Compares instructions per packet with a baseline."""

from dataclasses import dataclass

# The largest increase that a case may have.
LIMIT = 0.03


@dataclass
class Row:
    """A case with its instructions per packet in the baseline and now; None where one of them lacks
    it."""

    case: str
    before: float | None
    now: float | None

    def change(self):
        return None if self.before is None or self.now is None else self.now / self.before - 1

    def fault(self):
        """Why this case fails the comparison; None if it does not."""
        if self.now is None:
            return f"{self.case}: is in the baseline and was not measured"
        if self.before is None:
            return f"{self.case}: is not in the baseline"
        if self.now > self.before * (1 + LIMIT):
            return f"{self.case}: {self.change():+.1%}, from {self.before:.0f} to {self.now:.0f} instructions a packet"
        return None


def rows(baseline, now):
    """The cases of both, in the order of measurement, and then those that are missing."""
    before = {case["case"]: case["instructions"] for case in baseline["cases"]}
    after = {case["case"]: case["instructions"] for case in now["cases"]}
    return [Row(case, before.get(case), after.get(case)) for case in dict.fromkeys([*after, *before])]


def incomparable(baseline, now):
    """Other differences that change counts: names of tools, each with its versions then and now."""
    return [
        f"{tool}: {baseline['tools'].get(tool)} in the baseline, {version} here"
        for tool, version in now["tools"].items() if baseline["tools"].get(tool) != version
    ]


def faults(rows_):
    return [fault for row in rows_ if (fault := row.fault())]
