"""Synthesises, places and routes the designs of card/fpga.toml, and writes what the tools report: the table of docs/lab/results/card.md, and
docs/lab/results/card-fpga.csv with more columns.

usage: fpga.py route [WORD ...]   runs the tools for all designs, or those whose title or module is one of the words; keeps their reports
       fpga.py table              writes both from the reports that are kept in card/reports.json
"""

import csv
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RTL = ROOT / "card" / "rtl"
BUILD = ROOT / "target" / "card" / "fpga"
REPORTS = ROOT / "card" / "reports.json"
RATES = ROOT / "target" / "card" / "rates"
PAGE = ROOT / "docs" / "lab" / "results" / "card.md"
DATA = PAGE.with_name("card-fpga.csv")
BEGIN, END = "<!-- card-fpga: written by card/fpga.py -->", "<!-- card-fpga: end -->"


def tool(name, *arguments, log):
    """Runs a tool in BUILD; its words go to a file, whose end is shown when it fails."""
    with open(BUILD / log, "w") as out:
        done = subprocess.run([f"yowasp-{name}", *arguments], cwd=BUILD, stdout=out, stderr=subprocess.STDOUT)
    if done.returncode:
        lines = (BUILD / log).read_text().splitlines()[-20:]
        sys.exit("\n".join([*lines, f"{name} failed: see target/card/fpga/{log}"]))


def designs():
    """Designs, device and the paper's rows, with a design for each function that is routed in a module."""
    listed = tomllib.loads((ROOT / "card" / "fpga.toml").read_text())
    functions = tomllib.loads((ROOT / "card" / "functions.toml").read_text())["function"]
    every = []
    for design in listed["design"]:
        parameters = design.pop("functions", [])
        known = [function for function in functions if design["module"] in function["routed_in"] + function.get("counted_in", [])]
        every += [with_function(design, parameters, function) for function in known] if parameters else [design]
    return listed | {"design": every}


def with_function(design, parameters, function):
    """The design with a function in its slots; a rate that has no goal stands beside nothing of the paper."""
    made = design | {"title": f"{design['title']} {function['name']}", "parameters": dict.fromkeys(parameters, 1 << function["id"])}
    made["routed"] = design["module"] in function["routed_in"]
    if "target_mhz" in function:
        made["target_mhz"] = function["target_mhz"]
    if "rate" in design:
        made["rate"] = design["rate"].format(id=function["id"])
        if "goal" in function:
            made["goal"] = function["goal"]
        else:
            made.pop("paper", None)
    return made


def sources(module, seen=None):
    """The files of a module and of what it instantiates, found by their names."""
    seen = {} if seen is None else seen
    if module not in seen:
        text = (RTL / f"{module}.sv").read_text()
        seen[module] = RTL / f"{module}.sv"
        for other in RTL.glob("*.sv"):
            if any(f"{start}{other.stem} {open_}" in text for start in ("  ", "\n") for open_ in ("#(", "")):
                sources(other.stem, seen)
    return list(seen.values())


def reading(design):
    """Yosys commands that read a design and set its parameters."""
    module = design["module"]
    files = " ".join(os.path.relpath(file, BUILD) for file in sources(module))
    parameters = "".join(f" -set {name} {value}" for name, value in design.get("parameters", {}).items())
    chparam = f"chparam{parameters} {module}; " if parameters else ""
    return f"read_verilog -sv {files}; {chparam}"


def cells(report, top):
    """Counts of the cells in a netlist that yosys wrote, those in modules that were kept apart included."""
    modules, counts = json.loads((BUILD / report).read_text())["modules"], {}

    def count(module):
        for cell in modules[module]["cells"].values():
            kind = cell["type"]
            # Libraries' cells are modules as well, marked as boxes.
            if kind in modules and not {"blackbox", "whitebox"} & modules[kind]["attributes"].keys():
                count(kind)
            else:
                counts[kind] = counts.get(kind, 0) + 1

    count(top)
    return counts


def clocks_of(design):
    """The design's clocks in MHz to aim at, and what the ports of each begin with: those of the first are all others."""
    return {"clk": (design.get("target_mhz", 150), "")} | {
        name: (clock["mhz"], clock["ports"]) for name, clock in design.get("clocks", {}).items()
    }


def wrapper(module, netlist, clocks):
    """A module whose pins are the clocks and two serial lines for each: registers feed every port of the design and catch its outputs."""
    ports = json.loads((BUILD / netlist).read_text())["modules"][module]["ports"]

    def ports_of(direction, clock):
        named = {name: len(port["bits"]) for name, port in ports.items() if port["direction"] == direction and name not in clocks}
        others = [start for _, start in clocks.values() if start]
        start = clocks[clock][1]
        return {name: bits for name, bits in named.items() if (name.startswith(start) if start else not name.startswith(tuple(others)))}

    listed, pins, body, connected = [], [], "", []
    for clock in clocks:
        inputs, outputs = ports_of("input", clock), ports_of("output", clock)
        given, caught = sum(inputs.values()), sum(outputs.values())
        listed += [f"input {clock}"] + [f"input [{width - 1}:0] {name}" for name, width in inputs.items()]
        listed += [f"output [{width - 1}:0] {name}" for name, width in outputs.items()]
        pins += [f"input {clock}", f"input {clock}_in", f"input {clock}_catch", f"output {clock}_out"]
        body += f"""  reg [{given - 1}:0] {clock}_given;
  reg [{caught - 1}:0] {clock}_caught;
  wire [{caught - 1}:0] {clock}_made;
  always @(posedge {clock}) {clock}_given <= {{{clock}_given[{given - 2}:0], {clock}_in}};
  always @(posedge {clock}) {clock}_caught <= {clock}_catch ? {clock}_made : {{{clock}_caught[{caught - 2}:0], 1'b0}};
  assign {clock}_out = {clock}_caught[{caught - 1}];
"""
        connected += [f".{clock}({clock})", connections(inputs, f"{clock}_given"), connections(outputs, f"{clock}_made")]
    return f"""(* blackbox *) module {module} ({", ".join(listed)});
endmodule
module wrapper ({", ".join(pins)});
{body}  {module} design ({", ".join(connected)});
endmodule
"""


def put_inside(netlist, around, combined):
    """Puts a design's netlist into that of its wrapper, which knows it as a box."""
    inner, outer = (json.loads((BUILD / file).read_text()) for file in (netlist, around))
    for name, module in inner["modules"].items():
        if not {"blackbox", "whitebox"} & module["attributes"].keys():
            module["attributes"].pop("top", None)
            outer["modules"][name] = module
    (BUILD / combined).write_text(json.dumps(outer))


def connections(widths, bus):
    at, text = 0, []
    for name, width in widths.items():
        text.append(f".{name}({bus}[{at + width - 1}:{at}])")
        at += width
    return ", ".join(text)


def achieved(report, clocks):
    """MHz of each clock, from nextpnr's report, in which a clock has the name of the net that it drives."""
    found = json.loads((BUILD / report).read_text())["fmax"]
    return {clock: min(net["achieved"] for name, net in found.items() if clock in name.split("$")) for clock in clocks}


def route(design, device):
    """Runs all tools on one design, and returns what they report; without a clock if it is only to be counted."""
    module, name = design["module"], design["title"].replace(" ", "_").replace(",", "").replace("/", "_")
    tool("yosys", "-p", f"{reading(design)}synth_ecp5 -top {module} -json {name}.alone.json", log=f"{name}.ecp5.log")
    mhz = place_and_route(design, name, device) if design.get("routed", True) else {}
    script = f"{reading(design)}synth_xilinx -family xcv -flatten -noiopad -top {module}; write_json {name}.virtex.json"
    tool("yosys", "-p", script, log=f"{name}.virtex.log")
    return {
        "mhz": mhz,
        "ecp5": cells(f"{name}.alone.json", module),
        "virtex": cells(f"{name}.virtex.json", module),
    }


def place_and_route(design, name, device):
    """MHz of each clock of a design whose netlist yosys has written."""
    clocks, module = clocks_of(design), design["module"]
    (BUILD / f"{name}.wrapper.v").write_text(wrapper(module, f"{name}.alone.json", clocks))
    tool("yosys", "-p", f"read_verilog {name}.wrapper.v; synth_ecp5 -top wrapper -json {name}.around.json", log=f"{name}.wrapper.log")
    put_inside(f"{name}.alone.json", f"{name}.around.json", f"{name}.json")
    place = ["--json", f"{name}.json", "--report", f"{name}.report.json", "--seed", str(device["seed"])]
    (BUILD / f"{name}.lpf").write_text("".join(f'FREQUENCY PORT "{clock}" {mhz} MHZ;\n' for clock, (mhz, _) in clocks.items()))
    place += ["--lpf", f"{name}.lpf", "--timing-allow-fail", "--lpf-allow-unconstrained"]
    tool("nextpnr-ecp5", *device["options"], *place, log=f"{name}.nextpnr.log")
    return achieved(f"{name}.report.json", clocks)


def kept_reports():
    return json.loads(REPORTS.read_text()) if REPORTS.exists() else {}


def rate_files(design):
    """Where the module's tests have put what they counted (card/tests/rates.py)."""
    names = design.get("rate", [])
    return [RATES / f"{name.replace(' ', '_')}.json" for name in ([names] if isinstance(names, str) else names)]


COLUMNS = ["module", "design", "LUT4", "carry", "LUT RAM", "registers", "block RAM", "MHz", "line MHz", "bits a cycle", "Gbit/s", "goal",
           "XCV: LUTs", "XCV: RAMB4", "the paper's XCV1000"]
IN_PAGE = ["design", "LUT4", "registers", "block RAM", "MHz", "line MHz", "Gbit/s", "goal"]


def rows(listed, reports):
    """Of each design what COLUMNS names. LUTs, registers and memories are the design's own; the clock is that of the routed wrapper."""
    for design in listed["design"]:
        report = reports.get(design["title"])
        if report is None:
            continue
        ecp5, virtex = report["ecp5"], report["virtex"]
        # A dual-port RAM of 16 bits takes two LUTs of a Virtex.
        luts = sum(count for cell, count in virtex.items() if cell.startswith("LUT"))
        luts += virtex.get("RAM16X1S", 0) + 2 * virtex.get("RAM16X1D", 0)
        ram = sum(count for cell, count in virtex.items() if cell.startswith("RAMB4"))
        per_cycle = [bits / cycles for bits, cycles in report.get("rates", [])]
        bits = ", ".join(f"{rate:.2f}" for rate in per_cycle)
        mhz = report["mhz"]
        speed = ", ".join(f"{rate * mhz[design.get('rate_clock', 'clk')] / 1000:.2f}" for rate in per_cycle if mhz)
        cells_of = [ecp5.get(cell, 0) for cell in ("LUT4", "CCU2C", "TRELLIS_DPR16X4", "TRELLIS_FF", "DP16KD")]
        clocks = [f"{mhz[clock]:.0f}" if clock in mhz else "" for clock in ("clk", "mac_clk")]
        figures = [*cells_of, *clocks, bits, speed, design.get("goal", ""), luts, ram]
        yield [design["module"], design["title"], *figures, listed["paper"].get(design.get("paper"), "")]


def table(listed, reports):
    """The columns that matter most, as Markdown."""
    yield "| " + " | ".join(IN_PAGE) + " |"
    yield "| --- |" + " --: |" * (len(IN_PAGE) - 1)
    for row in rows(listed, reports):
        yield "| " + " | ".join(str(row[COLUMNS.index(column)]) for column in IN_PAGE) + " |"


def write_table(listed, reports):
    before, rest = PAGE.read_text().split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(before + BEGIN + "\n" + "\n".join(table(listed, reports)) + "\n" + END + after)
    with open(DATA, "w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows(listed, reports))


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in ("route", "table"):
        sys.exit(__doc__)
    command, words = sys.argv[1], sys.argv[2:]
    listed = designs()
    reports = kept_reports()
    BUILD.mkdir(parents=True, exist_ok=True)
    for design in listed["design"]:
        title = design["title"]
        if command == "route" and (not words or {title, design["module"]} & set(words)):
            counted = reports.get(title, {}).get("rates")
            if not counted and not all(file.exists() for file in rate_files(design)):
                sys.exit(f"no test has counted the cycles of {title!r} yet: run `make card-test` first")
            routed = route(design, listed["device"])
            # Read again: another run may have added to it meanwhile.
            reports = kept_reports() | {title: routed | ({"rates": counted} if counted else {})}
            print(f"{title}: {routed['mhz'] or 'no'} MHz", flush=True)
            REPORTS.write_text(json.dumps(reports, indent=1, sort_keys=True) + "\n")
    for design in listed["design"]:
        # Cycles do not change with the routing: those last counted hold.
        files = rate_files(design)
        if design["title"] in reports and files and all(file.exists() for file in files):
            counted = [json.loads(file.read_text()) for file in files]
            reports[design["title"]]["rates"] = [[count["bits"], count["cycles"]] for count in counted]
    REPORTS.write_text(json.dumps(reports, indent=1, sort_keys=True) + "\n")
    write_table(listed, reports)


if __name__ == "__main__":
    main()
