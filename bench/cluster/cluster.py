#!/usr/bin/env python3
"""Measures what happens to traffic through a cluster of two gateways when something fails, by the
number of tunnels and the lease, and what the cluster costs at rest and under load. See world.sh for
the set-up. Prints tables of medians over the rounds, with the highest value, and writes all
values as JSON. Fails if a sequence number came twice, or if the peer refused a packet."""

import argparse
import csv
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
EVENTS = {
    "nothing": "nothing",
    "stop": "leader stopped",
    "drain": "`convoy drain`",
    "killed": "its process killed",
    "freeze": "it stands still, 10 s",
    "cut": "cable to etcd cut, 6 s",
    "inside": "inside cable cut, 6 s",
    "outside": "outside cable cut, 6 s",
    "etcd_leader": "etcd's leader killed",
    "quorum": "two of etcd killed, 6 s",
    "full": "etcd has no room, 8 s",
    "both": "both gateways killed",
}
ALL = [event for event in EVENTS if event != "full"]
MOVES = ["stop", "drain", "killed"]
# Tunnels, those with traffic, lease in seconds, other settings, and what is measured.
WORLDS = {
    "lease-1": (1, 1, 1, {}, ALL),
    "lease-2": (1, 1, 2, {}, ALL),
    "room-1": (1, 1, 1, {"QUOTA": "16000000"}, ["full"]),
    "tunnels-1": (1, 1, 1, {}, ["rest", "load", *MOVES]),
    "tunnels-1000": (1_000, 50, 1, {}, ["rest", "load", *MOVES]),
    "tunnels-10000": (10_000, 50, 1, {}, ["rest", "load", *MOVES]),
    "tunnels-10000-1": (10_000, 1, 1, {}, MOVES),
    # As many numbers are reserved a second as if 500 SAs carried 1,000,000 packets/s.
    "tunnels-10000-500": (10_000, 500, 1, {}, ["load"]),
}
# A receiver that heard nothing for so long at the end has lost its traffic.
GONE_S = 0.5
PROCESSES = ["gateway", "agent", "second gateway", "its agent", "etcd 1", "etcd 2", "etcd 3"]


def measured(convoy: pathlib.Path, traffic: pathlib.Path, name: str, rounds: int, logs: pathlib.Path) -> list[dict]:
    tunnels, flows, lease_s, more, events = WORLDS[name]
    settings = {"TUNNELS": tunnels, "FLOWS": flows, "LEASE_S": lease_s, "ROUNDS": rounds, "LOGS": logs, **more}
    environment = {**os.environ, **{key: str(value) for key, value in settings.items()}}
    command = [HERE / "../../tests/own-run.sh", HERE / "world.sh", convoy, traffic, *events]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    rows = [{**json.loads(line), "world": name} for line in done.stdout.splitlines()]
    if done.returncode:
        print(done.stderr[-4000:], file=sys.stderr)
        rows.append({"failed": name})
    return rows


def silence(arrivals: dict, since: float, until: float) -> float:
    """The longest time without a packet after the event; infinite if none came any more."""
    if until - arrivals["last"] > GONE_S:
        return float("inf")
    return max((end - begin for begin, end in arrivals["silences"] if end > since), default=0.0)


def summary(row: dict) -> dict:
    """The figures of one event."""
    since, host, peer = row["at"], row["host"], row["peer"]
    until = max(host["last"], peer["last"], row["back"])
    leads = [time - since for gateway, time in row["led_again"] if gateway != row["led"] or row["event"] in ("both", "quorum")]
    return {
        "to host": silence(host, since, until),
        "to peer": silence(peer, since, until),
        "to host, worst flow": max(silence(flow, since, until) for flow in host["flows"]),
        "to peer, worst flow": max(silence(flow, since, until) for flow in peer["flows"]),
        "lost to host": peer["sent"] - host["received"],
        "lost to peer": host["sent"] - peer["received"],
        "leads": min(leads, default=None),
        "tcp": silence(row["tcp"], since, until),
        "refused": row["refused"],
        "twice": host["twice"] + peer["twice"],
    }


def shown(values: list, digits: int) -> str:
    values = [value for value in values if value is not None]
    if not values:
        return "–"
    # Shorter silences are not noted.
    texts = [{0.0: "< 0.02", float("inf"): "not back"}.get(value, f"{value:,.{digits}f}") if digits else f"{value:,}" for value in (statistics.median_low(values), max(values))]
    return texts[0] if len(set(texts)) == 1 else f"{texts[0]} ({texts[1]})"


def table(columns: list[str], rows: list[list[str]]) -> None:
    print("| " + " | ".join(columns) + " |\n|" + " --- |" * len(columns))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


TIMES = {"to host": "to the host, s", "to peer": "to the peer, s", "leads": "another leads, s", "tcp": "TCP stands, s"}
LOSSES = {"lost to host": "lost to the host", "lost to peer": "lost to the peer"}
WORST = {"leads": "another leads, s", "to host, worst flow": "worst to the host, s", "to peer, worst flow": "worst to the peer, s", "tcp": "TCP stands, s"}


def cells(rows: list[dict], keys: dict[str, str]) -> list[str]:
    found = [summary(row) for row in rows]
    return [shown([one[key] for one in found], 0 if key in LOSSES else 2) for key in keys]


def of_tunnels(row: dict) -> bool:
    """Whether a row is about the number of tunnels, not about an event and the lease."""
    return row["world"].startswith("tunnels-")


def events_table(rows: list[dict], lease_s: int) -> None:
    of = {event: [row for row in rows if row.get("event") == event and row["lease_s"] == lease_s and not of_tunnels(row)] for event in EVENTS}
    print(f"A lease of {lease_s} s, one tunnel: how long no packet came, and when another gateway leads:\n")
    table(["event", *TIMES.values()], [[EVENTS[event], *cells(found, TIMES)] for event, found in of.items() if found])
    table(["event", *LOSSES.values()], [[EVENTS[event], *cells(found, LOSSES)] for event, found in of.items() if found])


def tunnels_table(rows: list[dict]) -> None:
    sizes = sorted({(row["tunnels"], row["flows"]) for row in rows if "event" in row and of_tunnels(row)})
    of = {}
    for event in MOVES:
        for size in sizes:
            of[event, size] = [row for row in rows if row.get("event") == event and of_tunnels(row) and (row["tunnels"], row["flows"]) == size]
    lines = [(f"{EVENTS[event]}", f"{size[0]:,}, {size[1]:,}", found) for (event, size), found in of.items() if found]
    print("By tunnels, and those with traffic; of the flow that waited for longest:\n")
    table(["event", "tunnels", *WORST.values()], [[event, size, *cells(found, WORST)] for event, size, found in lines])
    table(["event", "tunnels", *LOSSES.values()], [[event, size, *cells(found, LOSSES)] for event, size, found in lines])


def cost_table(rows: list[dict]) -> None:
    lines = []
    for row in sorted(rows, key=lambda row: (row.get("tunnels", 0), row.get("flows", 0))):
        if "cost" in row and of_tunnels(row):
            figures = [f"{used / row['seconds'] / 1e7:.1f} % {kilobytes / 1000:.0f} MB" for used, kilobytes in row["processes"]]
            puts = [f"{row[key] / row['seconds']:.1f}" for key in ("puts", "proposals")]
            what = "no" if row["cost"] == "rest" else str(row["flows"])
            lines.append([f"{row['tunnels']:,}", what, *puts, *figures])
    print("Cost, by the number of tunnels with traffic; CPU of a core and memory:\n")
    table(["tunnels", "with traffic", "puts/s", "proposals/s", *PROCESSES], lines)


def write_csv(path: pathlib.Path, rows: list[dict]) -> None:
    """A line for each event of each round."""
    with path.open("w", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        columns = None
        for row in rows:
            if "event" not in row:
                continue
            one = summary(row)
            if columns is None:
                columns = list(one)
                lines.writerow(["lease_s", "tunnels", "with traffic", "event", "round", *columns])
            values = (f"{value:.3f}" if isinstance(value, float) else value for value in one.values())
            lines.writerow([row["lease_s"], row["tunnels"], row["flows"], row["event"], row["round"], *values])


def faults(rows: list[dict]) -> list[str]:
    found = [f"{row['failed']} did not end" for row in rows if "failed" in row]
    for row in rows:
        if "capture" in row:
            print(f"{row['world']}: {row['capture']['packets']:,} packets seen on the wire, {row['dropped']} missed, "
                  f"{len(row['capture']['twice'])} numbers came twice, {row['capture']['moves']} times another gateway sent")
            if row["capture"]["twice"]:
                found.append(f"{row['world']}: numbers came twice: {row['capture']['twice'][:5]}")
        elif "event" in row:
            one = summary(row)
            found += [f"{row['world']}: {row['event']}: {one[what]} {what}" for what in ("refused", "twice") if one[what]]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--convoy", type=pathlib.Path, help="the program")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worlds", nargs="*", choices=list(WORLDS), default=list(WORLDS))
    parser.add_argument("--json", type=pathlib.Path, required=True, help="the file for all values; worlds that are not measured are kept")
    parser.add_argument("--csv", type=pathlib.Path, help="a file for the figures of each event")
    options = parser.parse_args()
    known = json.loads(options.json.read_text())["rows"] if options.json.exists() else []
    rows = [row for row in known if row.get("world") and row["world"] not in options.worlds]
    etcd = subprocess.run(["etcd", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    machine = {"kernel": platform.release(), "cores": os.cpu_count(), "etcd": etcd}
    with tempfile.TemporaryDirectory() as folder:
        traffic = pathlib.Path(folder) / "traffic"
        subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", traffic, HERE / "traffic.c"], check=True)
        for name in options.worlds if options.convoy else []:
            print(f"{name}: {', '.join(WORLDS[name][4])}", file=sys.stderr, flush=True)
            logs = options.json.parent / "cluster-logs" / name
            logs.mkdir(parents=True, exist_ok=True)
            rows += measured(options.convoy.resolve(), traffic, name, options.rounds, logs.resolve())
            options.json.write_text(json.dumps({"machine": machine, "rows": rows}))
    for lease_s in (1, 2):
        events_table(rows, lease_s)
    tunnels_table(rows)
    cost_table(rows)
    if options.csv:
        write_csv(options.csv, rows)
    found = faults(rows)
    sys.exit("\n".join(found) if found else 0)


if __name__ == "__main__":
    main()
