"""Assigns instructions to the stages of a packet's path.

An instruction belongs to the innermost function inlined around it that a rule names. If no rule
names any of them (standard library, header views, tables that several stages use), it belongs to
its callers, in proportion to what the calls cost.
"""

import re
import subprocess
from collections import Counter
from functools import lru_cache

CIPHER = "cipher"
UPKEEP = "upkeep"
REST = "elsewhere"
# In the order in which a packet passes them.
STAGES = [
    "receive", "classify", "prepare", "window", "choice", "engine", CIPHER, "completion and order", "finish", "transmit",
    "clock", "worker's round", UPKEEP, REST,
]
# Stage, source file, function (or any). The first rule that matches a frame decides.
RULES = [
    (stage, re.compile(file), re.compile(function))
    for stage, file, function in [
        (CIPHER, r"/(aes|aes-gcm|cbc|ctr|chacha20|cipher|ghash|polyval|hmac|sha1|sha2|digest|ring)-\d[^/]*/", ""),
        ("clock", r"/crates/dataplane/src/", r"now_ns"),
        (UPKEEP, r"/crates/dataplane/src/", r"\btick$"),
        ("transmit", r"/crates/port/src/", r"send"),
        ("receive", r"/crates/port/src/", ""),
        ("transmit", r"/crates/dataplane/src/worker\.rs", r"\bsend|queue|choose_outside"),
        ("receive", r"/crates/dataplane/src/worker\.rs", r"\bread$"),
        ("finish", r"/crates/dataplane/src/pipeline/(mod|path)\.rs", r"finish|remove_retired"),
        ("window", r"/crates/dataplane/src/pipeline/stage/admission\.rs", ""),
        ("engine", r"/crates/dataplane/src/pipeline/stage/dispatch\.rs", r"carry_out|do_here|does_here|hand_over|submit|cut_to_frames"),
        ("choice", r"/crates/dataplane/src/pipeline/stage/dispatch\.rs", ""),
        ("completion and order", r"/crates/dataplane/src/pipeline/stage(/again)?\.rs", r"apply_reports|put_in_order|release|again"),
        ("engine", r"/crates/dataplane/src/pipeline/engine_s", r"submit|begin|install"),
        ("completion and order", r"/crates/dataplane/src/pipeline/engine_s", ""),
        ("engine", r"/crates/(engine|ipsec-mb)/", ""),
        ("window", r"/crates/scheduler/src/(window|classes)\.rs", ""),
        ("window", r"/crates/scheduler/src/(scheduler|train)\.rs", r"push|admission"),
        ("completion and order", r"/crates/scheduler/src/order\.rs", ""),
        ("completion and order", r"/crates/scheduler/src/", r"complete|recycle"),
        ("choice", r"/crates/scheduler/src/", ""),
        ("finish", r"/crates/ipsec/src/(path/(in|out)bound|sad/(in|out)bound_sa)\.rs", r"finish"),
        ("finish", r"/crates/ipsec/src/path/(delivery|plain_inner)\.rs", ""),
        ("finish", r"/crates/ipsec/src/esp/open_template\.rs", r"strip"),
        ("prepare", r"/crates/ipsec/src/(sad/(in|out)bound_sa|esp/)", ""),
        ("prepare", r"/crates/ipsec/src/path/lay_out\.rs", ""),
        ("classify", r"/crates/ipsec/src/path", ""),
        ("worker's round", r"/crates/dataplane/src/(worker\.rs|pipeline/)", ""),
    ]
]
# Objects that only contain ciphers.
CIPHER_OBJECTS = re.compile(r"/libIPSec_MB\.so")


class Source:
    """Source locations of one program's instructions, by addr2line."""

    def __init__(self, program):
        self.program = program
        self.frames = {}

    def learn(self, addresses):
        """Looks up all unknown addresses in one run."""
        wanted = sorted(set(addresses) - self.frames.keys())
        if not wanted:
            return
        text = subprocess.run(
            ["addr2line", "-e", self.program, "-a", "-i", "-f", "-C"],
            input="\n".join(map(hex, wanted)), capture_output=True, text=True, check=True,
        ).stdout
        frames = None
        lines = iter(text.splitlines())
        for line in lines:
            if line.startswith("0x"):
                frames = self.frames[int(line, 16)] = []
            else:
                frames.append((next(lines), line))


def stage_of(frames):
    """The stage of an instruction from its frames, (file, function) from the innermost outwards;
    None if the caller decides."""
    return next((stage for frame in frames if (stage := stage_of_frame(*frame))), None)


@lru_cache(maxsize=None)
def stage_of_frame(file, function):
    return next((stage for stage, files, functions in RULES if files.search(file) and functions.search(function)), None)


def attribute(profile, source):
    """Instructions by stage. `source` is the program under test; all other objects are
    libraries."""
    own = [function for function in profile.functions.values() if function.object == source.program]
    source.learn(address for function in own for address in function.self_cost)
    calls = [caller for function in profile.functions.values() for caller in function.callers]
    source.learn(address for (object_, _), address in calls if object_ == source.program)

    def stage_at(object_, address):
        if CIPHER_OBJECTS.search(object_):
            return CIPHER
        return stage_of(source.frames[address]) if object_ == source.program else None

    shares = {}

    def shares_of(key):
        """How a function's cost is shared among its callers, as stages."""
        if key not in shares:
            shares[key] = {}  # A recursive function belongs to its outer caller.
            parts = Counter()
            for (caller, address), cost in profile.functions[key].callers.items():
                stage = stage_at(caller[0], address)
                for name, part in ({stage: 1} if stage else shares_of(caller)).items():
                    parts[name] += part * cost
            whole = sum(parts.values())
            shares[key] = {name: part / whole for name, part in parts.items()} if whole else {}
        return shares[key]

    stages = Counter()
    for key, function in profile.functions.items():
        for address, cost in function.self_cost.items():
            stage = stage_at(function.object, address)
            for name, part in ({stage: 1} if stage else shares_of(key) or {REST: 1}).items():
                stages[name] += part * cost
    return stages


def clock_readings(profile, source):
    """How often the time was read: each load of the simulated time is one instruction."""
    return sum(
        cost
        for function in profile.functions.values() if function.object == source.program
        for address, cost in function.self_cost.items() if is_clock_reading(source.frames[address])
    )


def is_clock_reading(frames):
    return "/core/src/sync/atomic.rs" in frames[0][0] and any(file.split(":")[0].endswith("/dataplane/src/clock.rs") for file, _ in frames)
