"""Runs a gateway on a terminal of its own, and closes the terminal once the gateway says
that it is ready.

usage: terminal.py SOCKET COMMAND...
Exits as the command does. SOCKET.closed says that the terminal is closed.
"""

import os
import pty
import sys

socket, command = sys.argv[1], sys.argv[2:]
child, terminal = pty.fork()
if child == 0:
    os.execvp(command[0], command)
# Its control socket is there before it handles SIGHUP.
said = b""
while b" ready" not in said:
    try:
        said += os.read(terminal, 4096)
    except OSError:
        break  # it has ended
os.close(terminal)
open(socket + ".closed", "w").close()
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status) & 0xFF)
