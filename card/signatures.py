"""Compiles a small Snort rule set to the tables of the card's signature scanner (an Aho-Corasick automaton): the reference for
lab/card/src/signature.rs, which does it for the gateway."""

import re
import struct
from collections import deque
from dataclasses import dataclass

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

    def plain(part):
        return re.sub(r"\\(.)", r"\1", part).encode()

    return b"".join(plain(part) if n % 2 == 0 else bytes.fromhex(part) for n, part in enumerate(parts))


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
                rule.contents.append(content(value[1:-1] if value.startswith('"') else value))
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


def pages(rules):
    """The tables as SIGNATURE_WRITE has them (docs/lab/card.md, Signatures): [(page, bytes)], the rules last."""
    contents = list(dict.fromkeys(content for rule in rules for content in rule.contents))
    table, output = automaton(contents)
    # Bytes that no content tells apart share a class, which keeps the table small.
    columns = [tuple(row[value] for row in table) for value in range(256)]
    classes = list(dict.fromkeys(columns))
    for what, count, most in [("rules", len(rules), 32), ("contents", len(contents), 32), ("states", len(table), 256), ("classes", len(classes), 64)]:
        if count > most:
            raise ValueError(f"{count} {what}: the card has room for {most}")
    following = b"".join(bytes(column[state] for column in classes).ljust(64, b"\0") for state in range(len(table)))
    by_byte = bytes(classes.index(column) for column in columns).ljust(1024, b"\0")
    ends = b"".join(struct.pack("<I", seen) for seen in output)
    made = [(page, following[8192 * page : 8192 * page + 8192]) for page in range(2)]
    made.append((2, by_byte + ends + bytes(-len(ends) % 8)))

    def word(rule):
        needed = sum(1 << contents.index(content) for content in set(rule.contents))
        return struct.pack("<IBHB", needed, rule.protocol, rule.port, 0)

    return [(page, body) for page, body in made if body] + [(3, b"".join(word(rule) for rule in rules))]


def first_hit(rules, packet, protocol, port):
    """The number of the first rule that a packet hits, from 1; 0 for none."""
    for number, rule in enumerate(rules, 1):
        if rule.protocol in (0, protocol) and rule.port in (0, port) and all(content in packet for content in rule.contents):
            return number
    return 0
