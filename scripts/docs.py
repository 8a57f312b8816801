#!/usr/bin/env python3
"""Checks the book in docs/: its links, line widths and code blocks, and that its lists match the
code.

usage: docs.py [--programs FOLDER]
Code blocks are only checked for their syntax (TOML, and sh with bash -n). With
FOLDER, which has the programs, each configuration must also pass `convoy check`, or `convoy-lab
check` on a page of the laboratory, and the command-line references must be what the programs print.
Needs only Python and bash.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BOOK = ROOT / "docs"
WIDTH = 100
LINK = re.compile(r"!?\[(?:[^\]`]|`[^`]*`)*\]\(([^)\s]+)\)")
# Pages with links into the book from outside.
OUTSIDE = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "bench/simulator/README.md", "card/README.md",
           "python/README.md"]
# Files of mdbook that no page links to.
NOT_LINKED = {"book.toml", "SUMMARY.md"}


def without_code(text):
    """The text with its code replaced by blank lines, which keeps line numbers."""
    lines, fence = [], None
    for line in text.split("\n"):
        mark = re.match(r"\s*(```+)", line)
        is_code = fence is not None or bool(mark) or line.startswith("    ") and not re.match(r"\s+([-*]|\d+\.) ", line)
        if mark and fence is None:
            fence = mark[1]
        elif fence is not None and line.strip() == fence:
            fence = None
        lines.append("" if is_code else line)
    return "\n".join(lines)


def slug(heading):
    """A heading's anchor, as mdbook and common forges generate it."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "").strip().lower()
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", plain))


def anchors(text):
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", without_code(text), re.M)}


def links(pages):
    """Links that lead nowhere or out of the book."""
    text_of = {page: page.read_text() for page in pages}
    reached = set()
    for page, text in text_of.items():
        for number, line in enumerate(without_code(text).split("\n"), 1):
            for link in LINK.findall(line):
                if re.match(r"[a-z]+:", link):
                    continue
                path, _, anchor = link.partition("#")
                target = (page.parent / path).resolve() if path else page
                where = f"{page.relative_to(ROOT)}:{number}: {link}"
                reached.add(target)
                if not target.is_file() and not (page.parent / path).is_dir():
                    yield f"{where}: there is no such file"
                elif page.is_relative_to(BOOK) and not target.is_relative_to(BOOK):
                    yield f"{where}: leads out of the book"
                elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
                    yield f"{where}: the page has no such heading"
    summary = {(BOOK / link).resolve() for link in LINK.findall((BOOK / "SUMMARY.md").read_text())}
    for file in sorted(BOOK.rglob("*")):
        if not file.is_file() or file.name in NOT_LINKED:
            continue
        if file.suffix == ".md" and file not in summary:
            yield f"{file.relative_to(ROOT)}: not in SUMMARY.md"
        elif file.suffix != ".md" and file not in reached:
            yield f"{file.relative_to(ROOT)}: no page links to it"


def wide(pages):
    for page in pages:
        for number, line in enumerate(page.read_text().split("\n"), 1):
            if len(line) > WIDTH:
                yield f"{page.relative_to(ROOT)}:{number}: {len(line)} columns, {WIDTH} at most"


def headings(pages):
    """Headings without a blank line around them, which some renderers take for text: in a list, for
    the end of its last item."""
    for page in pages:
        lines = without_code(page.read_text()).split("\n")
        for number, line in enumerate(lines, 1):
            where = f"{page.relative_to(ROOT)}:{number}"
            if re.match(r"#+ ", line):
                if number > 1 and lines[number - 2].strip() or number < len(lines) and lines[number].strip():
                    yield f"{where}: no blank line around the heading"
            elif re.search(r"\S\s*(?<!#)##+ \S", line) and "`" not in line:
                yield f"{where}: a heading within a line"


def gone():
    """Names of book pages in other files that do not exist."""
    listed = subprocess.run(["git", "grep", "-nIoE", r"docs/[a-z0-9/_-]+\.(md|csv|svg|png)", "--", ".", ":!docs", ":!CHANGELOG.md"],
                            cwd=ROOT, capture_output=True, text=True, check=False).stdout
    for line in listed.splitlines():
        file, number, name = line.split(":", 2)
        if not (ROOT / name).is_file():
            yield f"{file}:{number}: there is no {name}"


def places(pages):
    """Source files that pages name and that do not exist."""
    for page in pages:
        for number, line in enumerate(page.read_text().split("\n"), 1):
            for name in re.findall(r"`((?:bench|card|charon|crates|demo|examples|fuzz|lab|packaging|platforms|python|scripts|tests)/[\w./-]+)`", line):
                if not (ROOT / name).exists():
                    yield f"{page.relative_to(ROOT)}:{number}: there is no {name}"


def blocks(pages):
    """Yields page, line, language and text of each code block."""
    for page in pages:
        language = None
        for number, line in enumerate(page.read_text().split("\n"), 1):
            mark = re.match(r"```(\w*)$", line)
            if language is None and mark:
                language, first, code = mark[1], number, []
            elif language is not None and mark:
                yield page, first, language, "\n".join(code) + "\n"
                language = None
            elif language is not None:
                code.append(line)


def is_whole(config):
    """Whether it is a complete configuration of a gateway."""
    return "[[port]]" in config and ("[[tunnel]]" in config or "[[interface]]" in config)


def syntax(pages):
    for page, number, language, code in blocks(pages):
        if language == "toml":
            try:
                tomllib.loads(code)
            except tomllib.TOMLDecodeError as error:
                yield f"{page.relative_to(ROOT)}:{number}: {error}"
        elif language == "sh":
            done = subprocess.run(["bash", "-n"], input=code, capture_output=True, text=True, check=False)
            if done.returncode:
                yield f"{page.relative_to(ROOT)}:{number}: {done.stderr.strip()}"


def program_of(page, folder):
    """The program that a page is about."""
    return folder / ("convoy-lab" if (BOOK / "lab") in page.parents else "convoy")


def configurations(pages, programs):
    for page, number, language, code in blocks(pages):
        # The configuration with all keys names devices that no machine has; tests of crates/gateway
        # read it.
        if language != "toml" or not is_whole(code) or "kind = \"cryptodev\"" in code:
            continue
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "convoy.toml"
            file.touch(mode=0o600)
            file.write_text(code)
            done = subprocess.run([program_of(page, programs), "check", "-c", file], capture_output=True, text=True, check=False)
            if done.returncode:
                yield f"{page.relative_to(ROOT)}:{number}: {done.stderr.strip()}"


def drop_reasons():
    """Drop reasons that only the code or only the page has."""
    sources = sorted(ROOT.glob("crates/*/src/drops.rs"))
    if len(sources) != 1:
        yield f"{len(sources)} files crates/*/src/drops.rs: which has the reasons?"
        return
    named = set(re.findall(r'^    [A-Z]\w+ = "(\w+)",$', sources[0].read_text(), re.M))
    page = BOOK / "reference" / "drop-reasons.md"
    listed = set(re.findall(r"^- `(\w+)`", page.read_text(), re.M))
    for name in sorted(named ^ listed):
        yield f"{page.relative_to(ROOT)}: {name} is {'not there' if name in named else 'no reason of the code'}"


def command_line(programs):
    """Pages of commands that are not what their program prints."""
    for page in (BOOK / "reference" / "command-line.md", BOOK / "lab" / "command-line.md"):
        name, page_name = program_of(page, programs).name, page.relative_to(ROOT)
        command = [programs / "convoy-lab", "reference", "--of", name]
        if page.read_text() != subprocess.run(command, capture_output=True, text=True, check=True).stdout:
            yield f"{page_name}: not what the program prints; renew it: convoy-lab reference --of {name} >{page_name}"


def main():
    programs = Path(sys.argv[2]).resolve() if len(sys.argv) == 3 and sys.argv[1] == "--programs" else None
    if len(sys.argv) > 1 and not programs:
        sys.exit(__doc__)
    pages = sorted(BOOK.rglob("*.md"))
    outside = [ROOT / page for page in OUTSIDE if (ROOT / page).is_file()]
    faults = [*links(pages + outside), *wide(pages), *headings(pages + outside), *gone(), *places(pages), *syntax(pages), *drop_reasons()]
    if programs:
        faults += [*configurations(pages, programs), *command_line(programs)]
    if faults:
        sys.exit("\n".join(faults))
    print(f"docs: {len(pages)} pages, links, code and lists are good" + ("" if programs else " (without the programs)"))


main()
