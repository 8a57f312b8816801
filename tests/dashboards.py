"""Runs the queries of the dashboard and of the alert rules on a Prometheus that scrapes two gateways.

usage: dashboards.py PROMETHEUS DASHBOARD ALERT...
Fails for a query that returns nothing, for an unknown metric, drop reason or counter of a device, and if
other alerts than these are pending or firing.
"""

import json
import re
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

PROMETHEUS, DASHBOARD = sys.argv[1:3]
EXPECTED = set(sys.argv[3:])
DOCS = Path(__file__).resolve().parents[1] / "docs"
COUNTERS = ("reference/metrics.md", "reference/ports.md", "lab/devices.md")
# What a rate needs, and a rule that is evaluated once a second.
SCRAPES = 8
GATEWAYS = 2
VARIABLES = {"$instance": ".*", "$__rate_interval": "10s"}
# The gateways of this test are in no cluster, so that the names of its metrics alone are compared,
# with the documentation.
OF_CLUSTER = re.compile(r"`(convoy_cluster_\w+)`")
SELECTOR = re.compile(r"\b((?:convoy_|process_)\w+|up|ALERTS)\b(\{[^}]*\})?")


def ask(path, **arguments):
    with urllib.request.urlopen(f"{PROMETHEUS}/api/v1/{path}?{urllib.parse.urlencode(arguments)}", timeout=10) as page:
        return json.load(page)["data"]


def query(text):
    return ask("query", query=text)["result"]


def after_scrapes():
    until = time.monotonic() + 60
    while True:
        seen = query('sum_over_time(up{job="convoy"}[1m])')
        if len(seen) == GATEWAYS and all(int(one["value"][1]) >= SCRAPES for one in seen):
            return
        if time.monotonic() > until:
            sys.exit(f"Prometheus does not scrape the gateways: {ask('targets')}")
        time.sleep(0.2)


def unknown(text, names, reasons, counters):
    """What a query names that there is not."""
    for name, matchers in SELECTOR.findall(text):
        if name not in names and name != "ALERTS":
            yield f"there is no metric {name}"
        for label, values in re.findall(r'(\w+)[!=]~?"([^"]*)"', matchers):
            known = {"reason": reasons, "counter": counters}.get(label)
            yield from (f"there is no {label} {value}" for value in values.split("|") if known and value not in known)


def is_of_cluster(text):
    """Whether a query has only metrics of a cluster."""
    return all(name.startswith("convoy_cluster_") for name, _ in SELECTOR.findall(text))


def targets(dashboard):
    """The queries of the dashboard with their panels."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            text = target["expr"]
            for variable, value in VARIABLES.items():
                text = text.replace(variable, value)
            yield f"panel {panel['title']!r}: {target['expr']}", text


def layout(panels):
    """Faults of the panels themselves."""
    if len({panel["id"] for panel in panels}) < len(panels):
        yield "two panels have the same id"
    taken = {}
    for panel in panels:
        at = panel["gridPos"]
        if at["x"] + at["w"] > 24:
            yield f"panel {panel['title']!r} is wider than the dashboard"
        for cell in ((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])):
            if taken.setdefault(cell, panel["title"]) != panel["title"]:
                yield f"panels {panel['title']!r} and {taken[cell]!r} overlap"
                break


def main():
    after_scrapes()
    names = set(ask("label/__name__/values")) | set(OF_CLUSTER.findall((DOCS / COUNTERS[0]).read_text()))
    reasons = set(ask("label/reason/values", **{"match[]": "convoy_dropped_packets_total"}))
    counters = set(re.findall(r"`(\w+)`", "".join((DOCS / page).read_text() for page in COUNTERS)))
    dashboard = json.loads(Path(DASHBOARD).read_text())
    faults = list(layout(dashboard["panels"]))
    shown = list(targets(dashboard))
    for where, text in shown:
        faults += [f"{where}: {what}" for what in unknown(text, names, reasons, counters)]
        if not is_of_cluster(text) and not query(text):
            faults.append(f"{where}: it returns nothing")
    for annotation in dashboard["annotations"]["list"]:
        faults += [f"annotation {annotation['name']}: {what}" for what in unknown(annotation["expr"], names, reasons, counters)]
    rules = [rule for group in ask("rules")["groups"] for rule in group["rules"]]
    for rule in rules:
        where = f"alert {rule['name']}"
        faults += [f"{where}: {what}" for what in unknown(rule["query"], names, reasons, counters)]
        if rule["health"] != "ok":
            faults.append(f"{where}: {rule['health']}: {rule.get('lastError')}")
        for name, matchers in SELECTOR.findall(rule["query"]):
            if not is_of_cluster(name) and not query(name + matchers):
                faults.append(f"{where}: {name}{matchers} returns nothing")
    active = {rule["name"] for rule in rules if rule["state"] != "inactive"}
    if active != EXPECTED:
        faults.append(f"pending or firing are {sorted(active)}, not {sorted(EXPECTED)}")
    if not shown or not rules:
        faults.append("there are no queries")
    if faults:
        sys.exit("\n".join(faults))
    print(f"{len(shown)} queries of the dashboard and {len(rules)} rules on {len(names)} metrics; active: {', '.join(sorted(active))}")


main()
