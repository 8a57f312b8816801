"""Runs a gateway on a terminal of its own, and closes the terminal once the gateway's control socket is there.

usage: terminal.py SOCKET COMMAND...
Exits as the command does. SOCKET.closed says that the terminal is closed.
"""

import os
import pty
import sys
import time

socket, command = sys.argv[1], sys.argv[2:]
child, terminal = pty.fork()
if child == 0:
    os.execvp(command[0], command)
until = time.monotonic() + 20
while not os.path.exists(socket) and time.monotonic() < until:
    time.sleep(0.05)
time.sleep(0.5)
os.close(terminal)
open(socket + ".closed", "w").close()
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status) & 0xFF)
