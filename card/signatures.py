#!/usr/bin/env python3
"""Compiles a small Snort rule set to the tables of the card's signature scanner (an Aho-Corasick automaton).

usage: signatures.py [RULES [TABLE]]      default: card/signatures.rules card/rtl/signature_table.sv
"""

import re
import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PROTOCOLS = {"ip": 0, "tcp": 6, "udp": 17}
RULE = re.compile(r"alert (\w+) any any -> any (\w+) \((.*)\)$")
OPTION = re.compile(r'\s*(\w+):("(?:[^"\\]|\\.)*"|[^;]*);')


@dataclass
class Rule:
    """A rule: hits when all contents are in the packet, and protocol and destination port fit (0: any)."""

    protocol: int
    port: int
    contents: list[bytes]
    sid: int


def content(text):
    """The bytes of a content: text with |hex| in between."""
    parts = text.split("|")
    if len(parts) % 2 == 0:
        raise ValueError(f"content {text!r}: a | without its second")
    return b"".join(part.encode("latin-1") if n % 2 == 0 else bytes.fromhex(part) for n, part in enumerate(parts))


def parse(text):
    """The rules of a rule text, in order; the first is number 1."""
    rules = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        found = RULE.match(line)
        if not found:
            raise ValueError(f"line {number}: expected alert PROTOCOL any any -> any PORT (...)")
        if found[1] not in PROTOCOLS:
            raise ValueError(f"line {number}: protocol {found[1]}: expected ip, tcp or udp")
        rule = Rule(PROTOCOLS[found[1]], 0 if found[2] == "any" else int(found[2]), [], 0)
        rest = OPTION.sub("", found[3]).strip()
        if rest:
            raise ValueError(f"line {number}: {rest!r} is not an option with a value")
        for name, value in OPTION.findall(found[3]):
            if name == "content":
                rule.contents.append(content(value.strip('"')))
            elif name == "sid":
                rule.sid = int(value)
            elif name != "msg":
                raise ValueError(f"line {number}: the card does not know the option {name}")
        if not all(rule.contents) or not rule.contents:
            raise ValueError(f"line {number}: a rule needs content")
        rules.append(rule)
    return rules


def automaton(contents):
    """(transitions[state][byte], contents seen in each state as bits)."""
    children, output = [{}], [0]
    for bit, pattern in enumerate(contents):
        state = 0
        for value in pattern:
            if value not in children[state]:
                children[state][value] = len(children)
                children.append({})
                output.append(0)
            state = children[state][value]
        output[state] |= 1 << bit
    # Breadth first: a state's fallback is nearer to the root, so it is complete.
    table, fallback = [[0] * 256 for _ in children], [0] * len(children)
    queue = deque([0])
    while queue:
        state = queue.popleft()
        output[state] |= output[fallback[state]] if state else 0
        for value in range(256):
            below = table[fallback[state]][value] if state else 0
            table[state][value] = children[state].get(value, below)
            if value in children[state]:
                fallback[children[state][value]] = below
                queue.append(children[state][value])
    return table, output


def packed(values, width):
    """One literal, the first value lowest."""
    total = sum(value << (width * n) for n, value in enumerate(values))
    return f"{width * len(values)}'h{total:x}"


def module(rules):
    """The SystemVerilog text of the tables."""
    contents = list(dict.fromkeys(c for rule in rules for c in rule.contents))
    if len(contents) > 16 or len(rules) > 255:
        raise ValueError(f"{len(contents)} contents, {len(rules)} rules: the card has room for 16 and 255")
    table, output = automaton(contents)
    # Bytes that no content tells apart share a class, which keeps the table small.
    columns = [tuple(row[value] for row in table) for value in range(256)]
    classes = list(dict.fromkeys(columns))
    class_bits = max(1, (len(classes) - 1).bit_length())
    state_bits = max(1, (len(table) - 1).bit_length())
    width = 1 << class_bits
    rows = [[column[state] for column in classes] + [0] * (width - len(classes)) for state in range(len(table))]
    next_rows = ",\n      ".join(packed(row, state_bits) for row in reversed(rows))
    outputs = packed(output, 16)
    tests = []
    for number, rule in reversed(list(enumerate(rules, 1))):
        mask = sum(1 << contents.index(c) for c in set(rule.contents))
        terms = [f"(seen & 16'h{mask:04x}) == 16'h{mask:04x}"]
        if rule.protocol:
            terms.append(f"protocol == 8'd{rule.protocol}")
        if rule.port:
            terms.append(f"port == 16'd{rule.port}")
        tests.append(f"    if ({' && '.join(terms)}) number = 8'd{number}; // sid {rule.sid}")
    return f"""// Compiled by card/signatures.py from card/signatures.rules; change those.
// {len(rules)} rules, {len(contents)} contents, {len(table)} states, {len(classes)} classes of bytes.
// A step: `value` in; four clocks later `matched` has the contents that end there.
module signature_table (
    input  logic        clk,
    input  logic        start,
    input  logic        step,
    input  logic [7:0]  value,
    output logic [15:0] matched,
    input  logic [15:0] seen,
    input  logic [7:0]  protocol,
    input  logic [15:0] port,
    output logic        hit,
    output logic [7:0]  number
);
  localparam int STATES = {len(table)}, CLASSES = {width}, SBITS = {state_bits}, CBITS = {class_bits};
  localparam logic [256*CBITS-1:0] CLASS_OF = {packed([classes.index(c) for c in columns], class_bits)};
  localparam logic [STATES*CLASSES*SBITS-1:0] NEXT = {{
      {next_rows}
  }};
  localparam logic [STATES*16-1:0] CONTENTS = {outputs};

  logic [SBITS-1:0] table_mem[0:STATES * CLASSES - 1];
  initial for (int i = 0; i < STATES * CLASSES; i++) table_mem[i] = NEXT[SBITS*i +: SBITS];

  logic [CBITS-1:0] kind;
  logic [SBITS-1:0] state, from, passed; // `passed`: the RAM's slow output in a register
  logic             move, fresh;
  assign from = fresh ? '0 : state;
  always_ff @(posedge clk) begin
    kind <= CLASS_OF[CBITS*value +: CBITS];
    move <= step && !start;
    passed <= state;
    matched <= CONTENTS[16*passed +: 16];
    if (move) state <= table_mem[{{from, kind}}];
    if (start) fresh <= 1'b1;
    else if (move) fresh <= 1'b0;
  end

  always_comb begin
    number = '0;
{chr(10).join(tests)}
  end
  assign hit = number != '0;
endmodule
"""


def main(arguments):
    rules = Path(arguments[0]) if arguments else HERE / "signatures.rules"
    table = Path(arguments[1]) if len(arguments) > 1 else HERE / "rtl" / "signature_table.sv"
    try:
        table.write_text(module(parse(rules.read_text())))
    except (ValueError, OSError) as error:
        sys.exit(f"{rules}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
