"""Reads callgrind's output with --dump-instr=yes: costs by instruction, and calls with their
inclusive costs."""

import re
from collections import defaultdict
from dataclasses import dataclass, field

NAME = re.compile(r"\((\d+)\)(?: (.*))?")
CASE = "desc: Trigger: Client Request: "


@dataclass
class Function:
    """A function of an object: its own instructions by address, and its callers."""

    object: str
    name: str
    self_cost: dict = field(default_factory=lambda: defaultdict(int))
    # (caller, address of the call) -> inclusive cost of the call.
    callers: dict = field(default_factory=lambda: defaultdict(int))


@dataclass
class Profile:
    """A dump: the words of its title, and its functions by (object, name)."""

    case: str
    functions: dict

    def total(self):
        return sum(sum(function.self_cost.values()) for function in self.functions.values())


class Names:
    """Callgrind writes each name once, and refers to it by a number afterwards."""

    def __init__(self):
        self.known = {}

    def __call__(self, text):
        number, name = NAME.fullmatch(text).groups()
        if name is not None:
            self.known[number] = name
        return self.known[number]


def moved(text, before):
    """A position, which may be relative to the previous one."""
    if text == "*":
        return before
    if text[0] in "+-":
        return before + int(text)
    return int(text, 16) if text.startswith("0x") else int(text)


def read(lines):
    """The profile of one dump."""
    objects, files, names = Names(), Names(), Names()
    functions, case = {}, ""
    here = called = called_object = None
    object_, address, is_call = "", 0, False

    def function(object_, name):
        return functions.setdefault((object_, name), Function(object_, name))

    for line in map(str.rstrip, lines):
        if line.startswith(CASE):
            case = line.removeprefix(CASE)
        elif line.startswith("positions:") and line != "positions: instr line":
            raise ValueError(f"{line}: callgrind must run with --dump-instr=yes")
        elif line.startswith("events:") and line != "events: Ir":
            raise ValueError(f"{line}: only instructions are counted")
        key, is_assignment, value = line.partition("=")
        if is_assignment and key == "ob":
            object_ = objects(value)
        elif is_assignment and key == "cob":
            called_object = objects(value)
        elif is_assignment and key in ("fl", "fi", "fe", "cfi", "cfl"):
            files(value)
        elif is_assignment and key == "fn":
            here = function(object_, names(value))
        elif is_assignment and key == "cfn":
            called = function(called_object or object_, names(value))
        elif is_assignment and key == "calls":
            is_call = True
        elif line and line[0] in "0123456789+-*" and here is not None:
            at, _, cost = line.split()
            address = moved(at, address)
            if is_call:
                called.callers[(here.object, here.name), address] += int(cost)
                is_call, called_object = False, None
            else:
                here.self_cost[address] += int(cost)
    return Profile(case, functions)
