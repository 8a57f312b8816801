#!/usr/bin/env python3
"""Checks that no comment is longer than 100 columns.

Tables, aligned text, code in fences and lines without a space to break at are let through.
"""

import re
import subprocess
import sys

COLUMNS = 100
SLASHES = re.compile(r"\s*(///|//!|//) ?(.*)")
HASH = re.compile(r"\s*(#)(?!!) ?(.*)")
BY_ENDING = {"rs": SLASHES, "sv": SLASHES, "c": SLASHES, "h": SLASHES, "cpp": SLASHES, "py": HASH, "sh": HASH}


def too_long(path, comment):
    """Yields the numbers of the lines that are too long."""
    in_fence = False
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            match = comment.match(line)
            if not match:
                in_fence = False
                continue
            text = match[2].strip()
            if text.startswith("```"):
                in_fence = not in_fence
            is_free = in_fence or text.startswith("|") or "   " in text or " " not in text
            if len(line.rstrip("\n")) > COLUMNS and not is_free:
                yield number


def main():
    """Prints each comment that is too long, and fails if there are any."""
    names = subprocess.run(["git", "ls-files", "-z"], check=True, capture_output=True, text=True)
    found = 0
    for path in filter(None, names.stdout.split("\0")):
        comment = BY_ENDING.get(path.rsplit(".", 1)[-1])
        for number in too_long(path, comment) if comment else ():
            print(f"{path}:{number}: a comment of more than {COLUMNS} columns; wrap it")
            found += 1
    sys.exit(found > 0)


if __name__ == "__main__":
    main()
