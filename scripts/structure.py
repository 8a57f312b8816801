#!/usr/bin/env python3
"""Counts what makes the source hard to read, and lets it only go down.

- words that CONTRIBUTING.md replaces, in all files but the changelog and recorded results
- modules of a crate, and files, that depend on each other in a circle: a folder is one module
- parameters that are tuples
- names of types of the product that are defined more than once

The counts so far are in scripts/structure.toml; `structure.py lower` writes lower ones there.
It also checks that ARCHITECTURE.md lists every file that has unsafe code, and the lines of each
crate; `lower` writes these as well.
"""

import collections
import functools
import re
import subprocess
import sys
import tomllib
from pathlib import Path

LIMITS = Path("scripts/structure.toml")
PAGE = Path("ARCHITECTURE.md")
HEAD = "# What scripts/structure.py counted last. Each number may only go down: `scripts/structure.py lower`.\n"
WORDS = ["told", "nobody", "whoever", "anew", "untold", "homeless", "heeded", "The same,"]
# The account of that name.
USER_NOBODY = re.compile(r"[\"`]nobody[\"`]|(?:user|chown|--reuid) nobody")
# Records, and the pages that list the words.
NO_PROSE = ("CHANGELOG.md", "CONTRIBUTING.md", "docs/results/", "scripts/structure", "bench/", "Cargo.lock", "card/rtl/")
CRATES = ["config", "report", "metrics", "state", "assembly", "host", "gateway", "dataplane", "ipsec", "engine", "kernel", "port", "cli"]
TEST_MODULE = re.compile(r"\n#\[cfg\(test\)\]\nmod \w+ \{.*", re.DOTALL)


def files(*patterns):
    """The files of the tree that match."""
    names = subprocess.run(["git", "ls-files", "-z", *patterns], check=True, capture_output=True, text=True)
    return [name for name in names.stdout.split("\0") if name and Path(name).is_file()]


def product(text):
    """A Rust file without its tests."""
    return TEST_MODULE.sub("\n", text)


@functools.cache
def simulations():
    """Modules that a crate has for its tests alone, as paths without the ending."""
    found = set()
    for path in files("crates/*/src/lib.rs", "lab/*/src/lib.rs"):
        text = Path(path).read_text(encoding="utf-8")
        found |= {str(Path(path).parent / name) for name in re.findall(r"#\[cfg\(test\)\]\nmod (\w+);", text)}
    return found


def is_test(path):
    """Whether a Rust file is for tests, models of loom or benches alone."""
    place = Path(path)
    parts = set(place.parts)
    is_named_so = place.name in ("tests.rs", "models.rs") or place.name.startswith("loom_")
    return bool(parts & {"tests", "benches"}) or is_named_so or any(str(module) in simulations() for module in (place.with_suffix(""), *place.parents))


def count_words():
    """How often each word stands in prose, names and messages."""
    counts = dict.fromkeys(WORDS, 0)
    patterns = {word: re.compile(rf"(?<![A-Za-z]){word}(?![A-Za-z])") for word in WORDS}
    for path in files():
        if path.startswith(NO_PROSE):
            continue
        try:
            text = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        text = USER_NOBODY.sub("", text)
        for word, pattern in patterns.items():
            counts[word] += len(pattern.findall(text))
    return counts


def dependencies(crate):
    """The modules of a crate, each with those that it names."""
    source = Path("crates", crate, "src")
    root = product((source / "lib.rs").read_text(encoding="utf-8"))
    names = re.findall(r"^(?:pub(?:\(crate\))? )?mod (\w+);", root, re.MULTILINE)
    exported = {}
    for module, items in re.findall(r"^pub(?:\(crate\))? use (\w+)::(\{[^}]*\}|\w+);", root, re.MULTILINE):
        exported |= dict.fromkeys(re.findall(r"\w+", items), module)
    graph = {name: set() for name in names}
    for path in files(f"crates/{crate}/src/*.rs"):
        module = Path(path).relative_to(source).parts[0].removesuffix(".rs")
        if module not in graph or is_test(path):
            continue
        text = re.sub(r"//.*", "", product(Path(path).read_text(encoding="utf-8")))
        named = set(re.findall(r"\bcrate::(\w+)", text))
        for group in re.findall(r"\bcrate::\{([^;]*)\};", text):
            named |= set(re.findall(r"(?:^|,)\s*(\w+)", group))
        if Path(path).parent == source:
            named |= set(re.findall(r"\bsuper::(\w+)", text))
        graph[module] |= {exported.get(name, name) for name in named} & graph.keys() - {module}
    return graph


def reachable(graph, start):
    """What a module depends on, directly or not."""
    seen, open_ = set(), [start]
    while open_:
        for other in graph[open_.pop()] - seen:
            seen.add(other)
            open_.append(other)
    return seen


def count_circular():
    """How many modules of each crate depend on themselves by way of others."""
    graphs = {crate: dependencies(crate) for crate in CRATES}
    return {crate: sum(name in reachable(graph, name) for name in graph) for crate, graph in graphs.items()}


def file_dependencies(crate):
    """The files of a crate, as modules, each with those that it names; a folder has its own."""
    source = Path("crates", crate, "src")
    paths = {}
    for path in files(f"crates/{crate}/src/*.rs"):
        parts = Path(path).relative_to(source).with_suffix("").parts
        if not is_test(path) and parts != ("lib",):
            paths[parts[:-1] if parts[-1] == "mod" else parts] = path

    def found(parts):
        return next((parts[:end] for end in range(len(parts), 0, -1) if parts[:end] in paths), None)

    graph = {}
    for module, path in paths.items():
        text = re.sub(r"//.*", "", product(Path(path).read_text(encoding="utf-8")))
        named = {found(tuple(name.split("::"))) for name in re.findall(r"\bcrate::((?:\w+::)*\w+)", text)}
        beside = {found(module[:-1] + tuple(name.split("::"))) for name in re.findall(r"\bsuper::((?:\w+::)*\w+)", text)}
        # What a file has of its folder may be in any file there.
        named |= {other for other in beside if other != module[:len(other or ())]}
        graph[module] = named - {None, module}
    return graph


def count_circular_files():
    """How many files of each crate depend on themselves by way of others."""
    graphs = {crate: file_dependencies(crate) for crate in CRATES}
    return {crate: sum(name in reachable(graph, name) for name in graph) for crate, graph in graphs.items()}


def count_tuples():
    """How many parameters of functions of the product are tuples."""
    count = 0
    for path in files("crates/*.rs", "lab/*.rs"):
        if not is_test(path):
            text = product(Path(path).read_text(encoding="utf-8"))
            for parameters in re.findall(r"\bfn \w+[^(]*\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)", text):
                count += len(re.findall(r"(?:^|[,\n(])\s*(?:\w+|\([^()]*\)): (?:&mut |&)?\((?!dyn |impl )", parameters))
    return {"parameters": count}


def count_types():
    """How many names several types of the product have. What stands in for a missing library has its names."""
    definition = re.compile(r"^(?:pub(?:\([^)]*\))? )?(?:unsafe )?(?:struct|enum|union|trait|type) (\w+)", re.MULTILINE)
    counts = collections.Counter()
    for path in files("crates/*.rs"):
        if not is_test(path) and "examples" not in Path(path).parts and not path.endswith("/unbound.rs"):
            counts.update(definition.findall(product(Path(path).read_text(encoding="utf-8"))))
    return {"repeated": sum(count > 1 for count in counts.values())}


def unlisted_unsafe():
    """Yields the files with unsafe code that ARCHITECTURE.md does not list."""
    page = PAGE.read_text(encoding="utf-8")
    item = re.search(r"^- \*\*`unsafe`\*\*(?:.+\n)+", page, re.MULTILINE)[0]
    listed = re.findall(r"`([\w./-]+)`", item)
    for path in files("crates/*.rs", "lab/*.rs"):
        if not re.search(r"\bunsafe (?:\{|fn|impl|extern)", Path(path).read_text(encoding="utf-8")):
            continue
        if not any(("/" + path).endswith("/" + name) or name.endswith("/") and name in path for name in listed):
            yield path


def lines_of(crate):
    """A crate's lines of code, without tests, comments and blank lines, in hundreds of lines."""
    count = 0
    for path in files(f"{crate}/*.rs"):
        if is_test(path) or "examples" in Path(path).parts:
            continue
        lines = map(str.strip, product(Path(path).read_text(encoding="utf-8")).splitlines())
        count += sum(bool(line) and not line.startswith("//") for line in lines)
    return max(100, round(count, -2))


def with_lines(page):
    """ARCHITECTURE.md with the lines of each crate in its tables, and of all in their headings."""
    sums = collections.Counter()

    def crate_row(match):
        folder = "crates" if match.start() < page.index("**The laboratory**") else "lab"
        lines = lines_of(f"{folder}/{match[1]}")
        sums[folder] += lines
        return f"| `{match[1]}` | {lines:,} |"

    page = re.sub(r"^\| `([\w-]+)` \| [\d,]+ \|", crate_row, page, flags=re.MULTILINE)
    for folder, what in (("crates", "product"), ("lab", "laboratory")):
        page = re.sub(rf"(\*\*The {what}\*\*, in `{folder}/`, )[\d,]+( lines)", rf"\g<1>{sums[folder]:,}\g<2>", page)
    return page


def far_from(page, counted):
    """Yields the rows whose numbers differ by more than a tenth from those that were counted."""
    for row, other in zip(page.splitlines(), counted.splitlines()):
        numbers = [int(re.search(r"[\d,]*\d", line)[0].replace(",", "")) for line in (row, other) if row != other]
        if numbers and abs(numbers[0] - numbers[1]) > max(100, numbers[1] / 10):
            yield f"ARCHITECTURE.md: {row}: there are {numbers[1]:,} lines; run scripts/structure.py lower"


def main():
    """Compares, or lowers the limits."""
    counts = {"words": count_words(), "circular_modules": count_circular(), "circular_files": count_circular_files(), "tuples": count_tuples(), "types": count_types()}
    limits = tomllib.loads(LIMITS.read_text(encoding="utf-8")) if LIMITS.exists() else {}
    problems = [f"{path}: it has unsafe code, and ARCHITECTURE.md does not list it" for path in unlisted_unsafe()]
    lower = sys.argv[1:] == ["lower"]
    page = PAGE.read_text(encoding="utf-8")
    if lower:
        PAGE.write_text(with_lines(page), encoding="utf-8")
    else:
        problems += far_from(page, with_lines(page))
    for group, values in counts.items():
        for name, count in values.items():
            limit = limits.get(group, {}).get(name, count)
            if count > limit:
                problems.append(f"{group}: {name}: {count}, which may be {limit} at most")
                values[name] = limit
            elif count < limit and not lower:
                problems.append(f"{group}: {name}: {count}, down from {limit}; run scripts/structure.py lower")
    if lower:
        lines = [f"\n[{group}]\n" + "".join(f'"{k}" = {v}\n' for k, v in values.items()) for group, values in counts.items()]
        LIMITS.write_text(HEAD + "".join(lines), encoding="utf-8")
    for problem in problems:
        print(problem)
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
