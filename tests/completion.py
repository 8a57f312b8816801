"""Types command lines into an interactive shell, and prints what its completion makes of each.

usage: completion.py SHELL SCRIPT <LINES
SHELL is bash, zsh or fish. For each line of input, whose last word is unfinished, it prints the
line with all completions of that word in its place.
"""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

PATIENCE = 60
# What each shell does first, and the keys that insert all completions of the word before the
# cursor.
SETUP = {
    "bash": "bind 'set enable-bracketed-paste off'; bind 'set bell-style none'",
    "zsh": "autoload -Uz compinit; compinit -u -D; zstyle ':completion:all-matches::::' completer _all_matches _complete; "
    "zstyle ':completion:all-matches:*' insert true; "
    "zle -C all-matches complete-word _generic; bindkey -e; bindkey '^X*' all-matches; unsetopt zle_bracketed_paste",
}
START = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}
INSERT_ALL = {"bash": "\033*", "zsh": "\030*"}
BEGIN, END = "\001", "\005"  # of the line


class Shell:
    """An interactive shell on a terminal of its own."""

    def __init__(self, shell, script):
        self.insert_all = INSERT_ALL[shell]
        child, self.terminal = pty.fork()
        if child == 0:
            os.execvpe(shell, START[shell], {**os.environ, "TERM": "dumb", "PS1": "$ ", "PROMPT_COMMAND": ""})
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 2000, 0, 0))
        self.said = ""
        self.enter(f"{SETUP[shell]}; source {script}; printf '<%s>' READY\r", "<READY>")

    def enter(self, keys, answer):
        """Types keys; returns what the shell says until the answer."""
        self.said = ""
        os.write(self.terminal, keys.encode())
        until = time.monotonic() + PATIENCE
        while answer not in self.said:
            if not select.select([self.terminal], [], [], max(until - time.monotonic(), 0))[0]:
                sys.exit(f"no answer to {keys!r}: {self.said!r}")
            self.said += os.read(self.terminal, 65536).decode(errors="replace")
        return self.said

    def completed(self, line):
        """The words of a line with all completions of its last one."""
        said = self.enter(f"{line}{self.insert_all}{BEGIN}printf '<%s>' {END} READY\r", "<READY>")
        if "error" in said:
            sys.exit(f"an error on the terminal: {said!r}")
        words = re.findall(r"<([^<>%]*)>", said)[:-1]
        finished = line.count(" ")
        # Each shell has an order of its own.
        return " ".join(words[:finished] + sorted(words[finished:]))


def in_fish(script, line):
    """The words of a line with all completions of its last one, by fish, which prints them itself."""
    command = ["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"]
    shell = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    if shell.stderr:
        sys.exit(f"fish: {shell.stderr}")
    *words, unfinished = line.split(" ")
    found = [candidate.split("\t")[0] for candidate in shell.stdout.splitlines()]
    return " ".join(words + (sorted(found) or ([unfinished] if unfinished else [])))


def main():
    """Completes each line of standard input."""
    name, script = sys.argv[1:]
    shell = None if name == "fish" else Shell(name, script)
    for line in sys.stdin.read().splitlines():
        print(shell.completed(line) if shell else in_fish(script, line), flush=True)


main()
