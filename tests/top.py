"""Drives `convoy top` in tmux, and holds what it shows against `convoy show --json`.

usage: top.py CONVOY CONTROL_SOCKET FOLDER GATEWAY_PID COMMAND_THAT_STARTS_IT_AGAIN
"""

import json
import math
import os
import re
import select
import signal
import subprocess
import sys
import time

convoy, control, folder, gateway, again = sys.argv[1:]
server = folder  # the socket of the tmux in use
TUNNELS = ["site-2", "site-21", "site-22", "site-23"]
UNITS = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}


def tmux(*arguments):
    return subprocess.run(["tmux", "-S", server, *arguments], check=True, capture_output=True, text=True).stdout


def screen():
    return tmux("capture-pane", "-p").split("\n")[:-1]


def press(*keys):
    tmux("send-keys", *keys)


def wait_for(what, see):
    """The screen, once `see` finds in it what it looks for."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        lines = screen()
        found = see(lines)
        if found:
            return found
        time.sleep(0.1)
    sys.exit("top: {} is not on the screen:\n{}".format(what, "\n".join(screen())))


def has(text):
    return lambda lines: any(text in line for line in lines)


def show(*what):
    return json.loads(subprocess.check_output([convoy, "show", *what, "--json", "--control", control]))


def number(text):
    """Not a number if the screen was read while it was drawn."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([kMG]?)", text)
    return float(match[1]) * UNITS[match[2]] if match else math.nan


def tunnels(lines):
    """The rows of tunnels as (name, peer, state, SAs, bit/s in, bit/s out, ...), once all have rates."""
    rows = [line.split() for line in lines if line.startswith("site-2")]
    return rows if len(rows) == len(TUNNELS) and all(len(row) > 5 and "-" not in row[4:6] for row in rows) else None


def is_near(shown, expected):
    return expected / 2 <= shown <= expected * 2


def check_overview(width, height):
    """A screen may be read while it is drawn, and its state be older than what `show` prints."""
    until = time.monotonic() + 60
    while True:
        lines = wait_for("every tunnel with its rates", lambda lines: lines if tunnels(lines) else None)
        try:
            return is_overview(lines, width, height)
        except (AssertionError, AttributeError, IndexError, StopIteration):
            if time.monotonic() > until:
                raise
        time.sleep(0.1)


def is_overview(lines, width, height):
    assert len(lines) == height and all(len(line) <= width for line in lines), lines
    # A line that is broken would leave a row without its last columns, or a number without its
    # head.
    rows = tunnels(lines)
    columns = 8 if width < 120 else 11
    assert all(len(row) == columns for row in rows), rows
    known = {row["tunnel"]: row for row in show("tunnel")}
    assert sorted(row[0] for row in rows) == sorted(known) == TUNNELS, rows
    for row in rows:
        tunnel = known[row[0]]
        sas = tunnel["outbound"]["sas"] + tunnel["inbound"]["sas"]
        assert row[1:4] == [tunnel["remote"], tunnel["state"], str(sas)], (row, tunnel)
        if width >= 120:
            assert row[10] == str(tunnel["path_mtu"]), (row, tunnel)
    first = lines[0].split()
    assert first[0] == "convoy" and "3 of 4 tunnels up, 1 silent" in lines[0], lines[0]
    header = next(at for at, line in enumerate(lines) if line.startswith("ENGINE"))
    for engine in show("engine"):
        name, worker = engine["name"], str(engine["worker"])
        rows = [line.split() for line in lines[header + 1:] if line.startswith(name)]
        assert [row for row in rows if row[:3] == [name, worker, "up"] and len(row) == 8], (engine, lines)
    header = next(at for at, line in enumerate(lines) if line.startswith("WORKER"))
    for scheduler in show("scheduler"):
        rows = [line.split() for line in lines[header + 1:]]
        wanted = [str(scheduler["worker"]), str(scheduler["window"])]
        assert [row for row in rows if row[:2] == wanted and row[4:5] == ["%"]], (scheduler, lines)
    assert show("stats")["drops"]["unknown_spi"] == 7
    assert has(re.search(r"unknown_spi +[0-9]+ +7$", "\n".join(lines), re.MULTILINE).group(0))(lines), lines


def check_rates():
    """Rates are those of the counters; the busiest tunnel comes first."""
    def of_counters():
        taken = []
        for _ in range(2):
            stats = show("stats")
            taken.append((stats["uptime_s"], {row["tunnel"]: row["bytes"] for row in stats["tunnels"] if row["direction"] == "outbound"}))
            time.sleep(2)
        (before, old), (now, new) = taken
        return {name: 8 * (new[name] - old[name]) / (now - before) for name in TUNNELS}

    def is_right(lines):
        rows = tunnels(lines)
        if not rows or [row[0] for row in rows] != TUNNELS:
            return False
        shown = {row[0]: number(row[5]) for row in rows}
        return shown["site-23"] == 0 and all(is_near(shown[name], rates[name]) for name in TUNNELS[:2])

    until = time.monotonic() + 60
    while True:
        rates = of_counters()
        is_ordered = rates["site-2"] > 4 * rates["site-21"] > 4 * rates["site-22"] > 0 == rates["site-23"]
        if is_ordered and is_right(screen()):
            break
        if time.monotonic() > until:
            sys.exit(f"top: the rates {rates} are not on the screen:\n" + "\n".join(screen()))
    # Full blocks and less: the sparklines.
    wait_for("a sparkline", lambda lines: all(re.search("[▁▂▃▄▅▆▇█]", line) for line in lines[1:3]))


def check_keys(width, height):
    names = lambda lines: [row[0] for row in tunnels(lines) or []]
    press("S")
    wait_for("the order by name", lambda lines: has("by name ")(lines) and names(lines) == TUNNELS)
    press("r")
    wait_for("the reversed order", lambda lines: has("by name reversed")(lines) and names(lines) == TUNNELS[::-1])
    press("r", "s")
    wait_for("the order by rate", has("by rate"))
    press("/", "2", "2")
    only = lambda lines: [line.split()[0] for line in lines if line.startswith("site-2")] == ["site-22"]
    wait_for("the filter", lambda lines: has("filter: 22_")(lines) and only(lines))
    press("Enter")
    wait_for("the number of tunnels", lambda lines: has('filter "22": 1 tunnel')(lines) and only(lines))
    press("Enter")
    details = lambda lines: lines if has("site-22: up")(lines) and has("SA 1")(lines) else None
    lines = wait_for("the details", details)
    assert len(lines) == height and all(len(line) <= width for line in lines), lines
    [tunnel] = show("tunnel", "site-22")
    spis = {sa["direction"]: "{:#010x}".format(sa["spi"]) for sa in tunnel["sas"]}
    wait_for("the SPIs", lambda lines: any(line.split() == ["SPI", spis["outbound"], spis["inbound"]] for line in lines))
    wait_for("the policy", has("{} === {}".format(tunnel["policies"][0]["local"], tunnel["policies"][0]["remote"])))
    press("End")
    wait_for("the end of the details", has("replay window"))
    press("Escape")
    wait_for("the overview", has("by rate"))
    press("Escape")
    wait_for("all tunnels", lambda lines: len(names(lines)) == 4)
    press("?")
    wait_for("the help", has("PageUp, PageDown"))
    press("Escape")
    wait_for("the overview", tunnels)


def start(width, height):
    """A tmux of this size with `convoy top` in a shell."""
    global server
    server = f"{folder}/tmux-{time.monotonic_ns()}"
    tmux("new-session", "-d", "-x", str(width), "-y", str(height), "bash --norc --noprofile")
    tmux("set-option", "-g", "escape-time", "0")
    press("PS1='prompt: '; clear; echo before; stty -g >" + server + ".before", "Enter")
    wait_for("the shell", has("before"))
    begin()


def begin():
    press(f"{convoy} top --control {control}; echo status $?", "Enter")
    wait_for("the overview", tunnels)


def is_given_back(status):
    """The shell's own screen is back, with its settings."""
    wait_for("what was there before", lambda lines: has("before")(lines) and has(f"status {status}")(lines))
    press("clear; stty -g | cmp - " + server + ".before && echo same", "Enter")
    wait_for("the terminal's settings", lambda lines: "same" in lines)
    press("clear; echo before", "Enter")


def processes():
    return [int(pid) for pid in subprocess.check_output(["pgrep", "-f", f"^{convoy} top --control {control}$"], text=True).split()]


for size in [(80, 24), (200, 50)]:
    start(*size)
    check_overview(*size)
    check_rates()
    check_keys(*size)
    print("\n".join(screen()))
    press("q")
    is_given_back(0)
    tmux("kill-server")

# The terminal changes its size.
start(80, 24)
tmux("resize-window", "-x", "200", "-y", "50")
wait_for("the other layout", has("pkt/s out"))
check_overview(200, 50)
tmux("resize-window", "-x", "80", "-y", "24")
wait_for("the first layout", lambda lines: not has("pkt/s out")(lines) and tunnels(lines))
check_overview(80, 24)

# The gateway ends, and another one starts: it may take the device and the state once it has ended.
ends = os.pidfd_open(int(gateway))
os.kill(int(gateway), signal.SIGTERM)
wait_for("that there is no gateway", lambda lines: lines[0].startswith("NO ANSWER for ") and "trying again" in lines[0])
assert has("site-23")(screen()), "its last state is still there"
if not select.select([ends], [], [], 60)[0]:
    sys.exit("top: the gateway does not end")
with open(control + ".log", "w") as log:
    started = subprocess.Popen(again.split(), stderr=log)
try:
    wait_for("the new gateway", lambda lines: "running for" in lines[0] and tunnels(lines))
    check_overview_after = screen()
    assert "NO ANSWER" not in check_overview_after[0], check_overview_after
    # A signal ends it as well, and gives the terminal back.
    [top] = processes()
    os.kill(top, signal.SIGTERM)
    is_given_back(0)
    # An error does not touch the terminal.
    press(f"{convoy} top --control {control} </dev/null; echo status $?", "Enter")
    wait_for("the error", lambda lines: has("needs a terminal")(lines) and has("status 2")(lines))
finally:
    started.terminate()
    started.wait()
print("top: two sizes, keys, a resized terminal, a gateway that stops and comes back, the terminal given back")
