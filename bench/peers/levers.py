"""One TCP flow through two convoys, with one setting of convoy or of the kernel changed at a time, in turns;
and what the kernel takes for a message of a UDP socket that is connected, or sends no checksum.

usage: levers.py --convoy CONVOY [--rounds N]    root, on an idle machine
"""

import argparse
import pathlib
import statistics
import subprocess
import tempfile
from collections.abc import Callable

from kinds import Convoy
from peers import MTU, tcp
from sites import LINKS, NAMESPACES, OUTER, Sites, inside, run

Change = Callable[[Sites], None]
MESSAGE_PORT, MESSAGES = 9001, 2_000
# Connected, without a checksum, segments, bytes of each.
MESSAGE_CASES = ((0, 0, 44, 1442), (1, 0, 44, 1442), (0, 1, 44, 1442), (0, 0, 1, 1442), (1, 0, 1, 1442), (0, 1, 1, 1442))


def nothing(_: Sites) -> None:
    """Leaves the kernel as it is."""


def at_both(*command: str) -> Change:
    """Runs a command at each site; LINK stands for its end of the wire."""

    def change(sites: Sites) -> None:
        for site in (0, 1):
            run("ip", "netns", "exec", NAMESPACES[site], *(word.replace("LINK", LINKS[site]) for word in command))

    return change


def threaded_napi(sites: Sites) -> None:
    at_both("ethtool", "-K", "LINK", "gro", "on")(sites)
    at_both("sh", "-c", "echo 1 >/sys/class/net/LINK/threaded")(sites)


# Port, settings of the gateway, and the change of the kernel.
LEVERS: dict[str, tuple[str, str, Change]] = {
    "as it is": ("udp", "", nothing),
    "GRO of the wire's ends": ("udp", "", at_both("ethtool", "-K", "LINK", "gro", "on")),
    "the same with NAPI on threads": ("udp", "", threaded_napi),
    "a TUN queue of 1,000": ("udp", "", at_both("ip", "link", "set", "convoy0", "txqueuelen", "1000")),
    "a TUN queue of 5,000": ("udp", "", at_both("ip", "link", "set", "convoy0", "txqueuelen", "5000")),
    "`moderation_us = 50`": ("udp", "moderation_us = 50", nothing),
    "`busy_poll_us = 50`": ("udp", "busy_poll_us = 50", nothing),
    "outside port `af_packet`": ("af_packet", "", nothing),
}


def transfers(convoy: str, rounds: int) -> None:
    results: dict[str, list[tuple[float, ...]]] = {name: [] for name in LEVERS}
    for _ in range(rounds):
        for name, (port, settings, change) in LEVERS.items():
            with tempfile.TemporaryDirectory() as folder:
                sites = Sites(pathlib.Path(folder))
                try:
                    Convoy(convoy, port, settings).start(sites, MTU)
                    sites.wait("an answered ping", sites.answers, 20)
                    change(sites)
                    results[name].append(tcp(sites, 1))
                finally:
                    sites.remove()
    print("| changed | Gbit/s | ns of CPU a byte | if convoy's code took none, Gbit/s |\n| --- | --: | --: | --: |")
    for name, values in results.items():
        columns = [sorted(column) for column in zip(*values)]
        cells = [f"{statistics.median(column):.3g} ({column[0]:.3g} to {column[-1]:.3g})" for column in columns]
        print(f"| {name} | " + " | ".join(cells) + " |")


def messages() -> None:
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/message"
        run("cc", "-O2", "-o", program, str(pathlib.Path(__file__).with_name("message.c")))
        sites = Sites(pathlib.Path(folder))
        try:
            sink = f"import socket; s = socket.socket(2, 2); s.bind(('{OUTER[1]}', {MESSAGE_PORT})); input()"
            receiver = subprocess.Popen(inside(1, "python3", "-c", sink), stdin=subprocess.PIPE)
            sites.wait("the receiver", lambda: str(MESSAGE_PORT) in run("ip", "netns", "exec", NAMESPACES[1], "ss", "-Hlun"))
            for case in MESSAGE_CASES:
                words = [str(number) for number in case]
                print(run(*inside(0, program, OUTER[1], str(MESSAGE_PORT), *words, str(MESSAGES))).strip())
            receiver.communicate(b"\n")
        finally:
            sites.remove()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--convoy", required=True, help="the program")
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    messages()
    transfers(options.convoy, options.rounds)


if __name__ == "__main__":
    main()
