#!/usr/bin/env python3
"""Writes what RTL, driver and page need of card/functions.toml: the functions of the card's slot.

usage: functions.py [check]      check: fails if a file is not what would be written
"""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "card" / "functions.toml"
PAGE = ROOT / "docs" / "lab" / "card.md"
BEGIN, END = "<!-- card-functions: written by card/functions.py -->", "<!-- card-functions: end -->"
NOTE = "// Written by card/functions.py from card/functions.toml; change that."
# The port of every function.
PORT = """\
    input  logic         clk,
    input  logic         rst,
    input  logic         cmd_valid,
    output logic         cmd_ready,
    input  logic         cmd_dec,
    input  logic         cmd_null,
    input  logic         cmd_rekey,
    input  logic [255:0] cmd_key,
    input  logic [1:0]   cmd_key_len,
    input  logic [511:0] cmd_auth_key,
    input  logic [31:0]  cmd_salt,
    input  logic [127:0] cmd_iv,
    input  logic [63:0]  cmd_esp,
    input  logic         cmd_esn,
    input  logic [31:0]  cmd_seq_hi,
    input  logic         in_valid,
    output logic         in_ready,
    input  logic [127:0] in_block,
    input  logic [4:0]   in_bytes,
    input  logic         in_last,
    output logic         out_valid,
    input  logic         out_ready,
    output logic [127:0] out_block,
    output logic [4:0]   out_bytes,
    output logic         out_last,
    output logic         icv_valid,
    input  logic         icv_ready,
    output logic [255:0] icv"""


def read():
    """The table, checked."""
    table = tomllib.loads(TABLE.read_text())
    ids = [function["id"] for function in table["function"]]
    if ids != list(range(1, len(ids) + 1)) or len(ids) > 15:
        sys.exit(f"{TABLE}: expected the ids 1 to at most 15 in order, found {ids}")
    routed = ["mhz" in function for function in table["function"]]
    if routed != sorted(routed, reverse=True):
        sys.exit(f"{TABLE}: functions without mhz must stand behind all others")
    known = {kind: {entry["number"] for entry in table[kind]} for kind in ("cipher", "hash")}
    for function in table["function"]:
        if not (ROOT / "card" / "rtl" / f"{function['module']}.sv").exists():
            sys.exit(f"{TABLE}: {function['name']}: there is no card/rtl/{function['module']}.sv")
        for alg in function["algorithms"]:
            if alg & 15 not in known["cipher"] or alg >> 4 not in known["hash"]:
                sys.exit(f"{TABLE}: {function['name']}: {alg:#04x} has a cipher or a hash that is not in the table")
    return table


def serving(table):
    """Of each `alg`, in the order of the table, the ids of the functions that do it."""
    ids = {}
    for function in table["function"]:
        for alg in function["algorithms"]:
            ids.setdefault(alg, []).append(function["id"])
    return ids


def slot_function(table):
    """The SystemVerilog module that stands for any of the functions."""
    branches = ""
    for function in table["function"]:
        given = ", ".join(f".{name}({value})" for name, value in function.get("parameters", {}).items())
        parameters = f" #({given})" if given else ""
        branches += f"if (ID == {function['id']}) begin : g // {function['name']}\n"
        branches += f"    {function['module']}{parameters} u (.*);\n  end else "
    empty = "".join(
        f"    assign {line.rstrip(',').split()[-1]} = '0;\n" for line in PORT.splitlines() if line.strip().startswith("output")
    )
    return f"""\
{NOTE}
// A function of the slot by its id; 0 is none, which neither takes nor gives anything. Each
// function has this port, though not all of them use all of a command.
// verilator lint_off UNUSEDSIGNAL
module slot_function #(
    parameter int ID = 0
) (
{PORT}
);
  {branches}begin : g
{empty}  end
endmodule
"""


def esp_table(table):
    """The SystemVerilog module with what an SA's algorithms need."""
    needs = ""
    for alg, (first, *others) in serving(table).items():
        active = " || ".join(f"slot_active == 4'd{other}" for other in others)
        need = f"{active} ? slot_active : 4'd{first}" if others else f"4'd{first}"
        needs += f"      8'h{alg:02x}: need = {need};\n"
    shapes = "".join(
        f"      4'd{cipher['number']}: {{iv_bytes, block_bytes}} = {{5'd{cipher['iv_bytes']}, 5'd{cipher['block_bytes']}}}; "
        f"// {cipher['name']}\n"
        for cipher in table["cipher"]
    )
    return f"""\
{NOTE}
// What an SA's algorithms need: the function in the slot, bytes of IV, and whole blocks. Where
// several functions do the same, the one that is in the slot will do.
module esp_table (
    input  logic [7:0] alg,
    input  logic [3:0] slot_active,
    output logic [3:0] need,        // 0: none does this
    output logic [4:0] iv_bytes,
    output logic [4:0] block_bytes
);
  always_comb begin
    case (alg)
{needs}      default: need = 4'd0;
    endcase
    case (alg[3:0])
{shapes}      default: {{iv_bytes, block_bytes}} = {{5'd0, 5'd1}};
    endcase
  end
endmodule
"""


def enum(doc, name, entries):
    """A Rust enum of ciphers or hashes by their numbers."""
    variants = "".join(
        f"    /// {entry['name'][0].upper()}{entry['name'][1:]}.\n    {entry['rust']} = {entry['number']},\n" for entry in entries
    )
    return f"""\
/// {doc}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum {name} {{
{variants}}}
"""


def bytes_of(table, field):
    """The arms of a Rust match that gives a field of each cipher."""
    return "".join(f"            Self::{cipher['rust']} => {cipher[field]},\n" for cipher in table["cipher"])


def proposals(table, function):
    """The ESP proposals of a function's own algorithms, by the length of the key, with its variant."""
    alg = function["algorithms"][0]
    (cipher,) = (entry for entry in table["cipher"] if entry["number"] == alg & 15)
    (hashed,) = (entry for entry in table["hash"] if entry["number"] == alg >> 4)
    integrity = f"-{hashed['proposal']}" if "proposal" in hashed else ""
    variant = f"-{function['variant']}" if "variant" in function else ""
    return [cipher["proposal"].format(8 * length) + integrity + variant for length in cipher["key_bytes"]]


def rust(table):
    """The module of lab/card, with the functions whose clock is known."""
    functions, names, words = "", "", ""
    routed = [function for function in table["function"] if "mhz" in function]
    for function in routed:
        algorithms = ", ".join(f"{alg:#04x}" for alg in function["algorithms"])
        names += f'    "{function["name"]}",\n'
        words += "".join(f'    ("{proposal}", {function["id"]}),\n' for proposal in proposals(table, function))
        functions += f"    Function {{ id: {function['id']}, algorithms: &[{algorithms}], routed_mhz: {function['mhz']} }},\n"
    return f"""\
{NOTE}

//! The functions of the slot, and the ciphers and hashes that an SA names.

{enum("The cipher of an SA, by the card's number.", "Cipher", table["cipher"])}
impl Cipher {{
    /// Bytes of IV in the packet.
    pub const fn iv_bytes(self) -> usize {{
        match self {{
{bytes_of(table, "iv_bytes")}        }}
    }}

    /// A payload has a multiple of these bytes.
    pub const fn block_bytes(self) -> usize {{
        match self {{
{bytes_of(table, "block_bytes")}        }}
    }}
}}

{enum("The integrity algorithm of an SA, by the card's number.", "Hash", table["hash"])}
/// A function of the slot.
pub(crate) struct Function {{
    /// What SLOT_LOAD names.
    pub(crate) id: u8,
    /// The SAs that it does, as byte 8 of an SA names them.
    pub(crate) algorithms: &'static [u8],
    /// MHz of the whole card, or of its slowest part, as routed.
    pub(crate) routed_mhz: u32,
}}

/// MHz of the card with nothing in its slots.
pub(crate) const EMPTY_MHZ: u32 = {table["empty_mhz"]};

/// All functions, by their ids from 1 on.
pub(crate) const FUNCTIONS: [Function; {len(routed)}] = [
{functions}];

/// The functions by the ESP proposals that they process, with the variant where several do.
pub const PROPOSALS: [(&str, u8); {words.count(chr(10))}] = [
{words}];

/// Their names, as in card/reports.json.
#[cfg(test)]
pub(crate) const NAMES: [&str; {len(routed)}] = [
{names}];
"""


def numbers(listed):
    """Numbers in a cell of the page; 0 alone is nothing."""
    return ", ".join(str(number) for number in listed if number)


def tables(table):
    """The tables of the page: functions, ciphers, hashes."""
    lines = ["| id | function | `alg` | proposal |", "| --: | --- | --- | --- |", "| 0 | none: packets only pass | | |"]
    for function in table["function"]:
        algorithms = ", ".join(f"{alg:#04x}" for alg in function["algorithms"])
        lines.append(f"| {function['id']} | {function['name']} | {algorithms} | `{proposals(table, function)[0]}` |")
    lines += ["", "| bits 3:0 of `alg` | cipher | key bytes | IV bytes | block bytes |", "| --: | --- | --- | --: | --: |"]
    for cipher in table["cipher"]:
        lines.append(
            f"| {cipher['number']} | {cipher['name']} | {numbers(cipher['key_bytes'])} | {cipher['iv_bytes']} | {cipher['block_bytes']} |"
        )
    lines += ["", "| bits 7:4 of `alg` | hash | key bytes | ICV bytes |", "| --: | --- | --- | --- |"]
    for hashed in table["hash"]:
        lines.append(f"| {hashed['number']} | {hashed['name']} | {numbers([hashed['key_bytes']])} | {numbers(sorted(hashed['icv_bytes']))} |")
    return "\n".join(lines)


def page(table):
    """The page with its tables again."""
    before, rest = PAGE.read_text().split(BEGIN)
    return f"{before}{BEGIN}\n\n{tables(table)}\n\n{END}{rest.split(END)[1]}"


def main():
    if sys.argv[1:] not in ([], ["check"]):
        sys.exit(__doc__)
    table = read()
    written = {
        ROOT / "card" / "rtl" / "slot_function.sv": slot_function(table),
        ROOT / "card" / "rtl" / "esp_table.sv": esp_table(table),
        ROOT / "lab" / "card" / "src" / "functions.rs": rust(table),
        PAGE: page(table),
    }
    stale = [file for file, text in written.items() if not file.exists() or file.read_text() != text]
    for file in stale:
        if sys.argv[1:]:
            print(f"{file.relative_to(ROOT)} is not what card/functions.toml says; run card/functions.py", file=sys.stderr)
        else:
            file.write_text(written[file])
    sys.exit(bool(stale and sys.argv[1:]))


if __name__ == "__main__":
    main()
