"""Polls what a gateway says of a fault until each of its tools has said it; prints after how long.

usage: faults.py --convoy PROGRAM --folder FOLDER --since NUMBER --log-from BYTES NAME TUNNEL FROM TO WHAT=PATTERN...

WHAT is show, explain, event, log, check (regular expressions), or up (the value of the metric convoy_tunnel_up, for
which the alert ConvoyTunnelDown waits another minute). FOLDER has the gateway's gateway.toml, control.sock and
convoy.log; events up to NUMBER and the first BYTES of the log are older than the fault.
"""

import argparse
import json
import re
import subprocess
import sys
import time
import urllib.request

# A limit for machines that are busy; what is said later is not said.
PATIENCE_S = 60


def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("--convoy", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--since", type=int, required=True)
    parser.add_argument("--log-from", type=int, required=True)
    parser.add_argument("name")
    parser.add_argument("tunnel")
    parser.add_argument("packet", nargs=2)
    parser.add_argument("wanted", nargs="+")
    return parser.parse_args()


ARGS = parsed()


def convoy(*words, socket=True):
    control = ["--control", f"{ARGS.folder}/control.sock"] if socket else []
    return subprocess.run([ARGS.convoy, *words, *control], capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def show():
    rows = json.loads(convoy("show", "tunnel", "--json").stdout or "[]")
    return "\n".join(f"{row['state']} {json.dumps(row)}" for row in rows if row["tunnel"] == ARGS.tunnel)


def explain():
    text = convoy("explain", *ARGS.packet).stdout
    if "!" in text:
        assert "= protected" not in text, f"a fault, and yet it says protected:\n{text}"
    return " ".join(text.split())


def event():
    events = json.loads(convoy("show", "events", "--json").stdout or "[]")
    return "\n".join(json.dumps({"event": one["event"], **one}) for one in events if one["number"] > ARGS.since)


def log():
    with open(f"{ARGS.folder}/convoy.log") as file:
        file.seek(ARGS.log_from)
        return "\n".join(line for line in file.read().splitlines() if re.search("WARN|ERROR|INFO.*path MTU", line))


def check():
    return " ".join((lambda done: done.stdout + done.stderr)(convoy("check", "-c", f"{ARGS.folder}/gateway.toml", socket=False)).split())


def up():
    with urllib.request.urlopen("http://127.0.0.1:9464/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found = re.search(rf'^convoy_tunnel_up{{tunnel="{ARGS.tunnel}"}} (\S+)$', text, re.MULTILINE)
    return str(int(float(found.group(1)))) if found else ""


TOOLS = {"show": show, "explain": explain, "event": event, "log": log, "check": check, "up": up}


def main():
    began = time.monotonic()
    wanted = dict(word.split("=", 1) for word in ARGS.wanted)
    said, last = {}, {}
    while len(said) < len(wanted):
        for tool in wanted.keys() - said.keys():
            try:
                last[tool] = TOOLS[tool]()
            except (OSError, ValueError, subprocess.TimeoutExpired) as error:
                last[tool] = f"no answer: {error}"
                continue
            if re.search(wanted[tool], last[tool]):
                said[tool] = time.monotonic() - began
        if time.monotonic() - began > PATIENCE_S:
            for tool in wanted.keys() - said.keys():
                print(f"FAILED: {ARGS.name}: {tool} does not say {wanted[tool]!r}:\n{last[tool][-3000:]}")
            sys.exit(1)
        time.sleep(0.05)
    words = ", ".join(f"{tool} {said[tool]:.1f} s" for tool in TOOLS if tool in said)
    print(f"{ARGS.name:34} {words}")


main()
