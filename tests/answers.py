"""Runs a command on a terminal of its own and answers its questions.

usage: answers.py COMMAND... <ANSWERS
Each line of ANSWERS is a part of a question, " = " and the answer, in the order of the questions.
The command's output is printed. Exits as the command does, or with 1 if a question does not come.
"""

import os
import pty
import select
import sys
import time

SECONDS = 30


def read(terminal, until):
    """What the command prints next, or nothing when it has ended or is silent for too long."""
    ready, _, _ = select.select([terminal], [], [], max(0, until - time.monotonic()))
    try:
        return os.read(terminal, 4096).decode() if ready else ""
    except OSError:
        return ""


def main():
    answers = [line.rstrip("\n").split(" = ", 1) for line in sys.stdin if line.strip()]
    child, terminal = pty.fork()
    if child == 0:
        os.execvp(sys.argv[1], sys.argv[1:])
    said, seen = "", 0
    for question, answer in answers:
        until = time.monotonic() + SECONDS
        # A question is the last line, without an end, so that the same words above are not taken.
        while question not in said[seen:].rsplit("\n", 1)[-1] or not said.endswith(": "):
            more = read(terminal, until)
            if not more:
                print(said)
                sys.exit(f"it does not ask for {question!r}")
            said += more
        seen = len(said)
        os.write(terminal, answer.encode() + b"\n")
    while more := read(terminal, time.monotonic() + SECONDS):
        said += more
    print(said)
    _, status = os.waitpid(child, 0)
    sys.exit(os.waitstatus_to_exitcode(status) & 0xFF)


main()
