"""The guest with Linux' IP-TFS: started in the caller's network namespace, asked by scripts.

usage: guest.py start FOLDER TAP[,TAP ...] [ARCHIVE ...]
           in the foreground until it is killed; eth0 is the first TAP; archives as base.gz add files
       guest.py run FOLDER SCRIPT
           what the script prints, and its exit status

FOLDER gets the control socket and the console's log. A Python test uses Guest instead. A script is one of
busybox' shell, run in a shell of its own; see init for what is there.
"""

import base64
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

BUILT = Path(__file__).resolve().parent.parent.parent / "target" / "iptfs"
BOOT_SECONDS, RUN_SECONDS = 120, 60
MEMORY_MIB = 768


class Failed(Exception):
    """A script that ended with another status than 0, or not in time."""


def mac(index):
    return f"02:00:00:00:01:{index:02x}"


def command(folder, taps, archives=(), options=()):
    """qemu's, with options of its own. Without hardware virtualisation, as test machines may have none; no offloads, so that what is captured is what is on a wire."""
    initrd = Path(folder) / "initrd.gz"
    initrd.write_bytes(b"".join(Path(archive).read_bytes() for archive in (BUILT / "base.gz", *archives)))
    network = []
    for index, tap in enumerate(taps):
        network += ["-netdev", f"tap,id=n{index},ifname={tap},script=no,downscript=no,vnet_hdr=off"]
        network += ["-device", f"virtio-net-pci,netdev=n{index},mac={mac(index)},romfile="]
    # The kernel's check of its timer at the start fails on a machine that is busy, and it panics.
    words = "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check"
    return [
        "qemu-system-x86_64", "-M", "pc", "-accel", os.environ.get("IPTFS_ACCEL", "tcg"), "-cpu", "max", "-smp", os.environ.get("GUEST_CPUS", "1"), "-m", str(MEMORY_MIB),
        "-nodefaults", "-no-reboot", "-display", "none", "-serial", f"file:{folder}/console",
        "-chardev", f"socket,id=control,path={folder}/guest.sock,server=on,wait=off",
        "-device", "virtio-serial-pci", "-device", "virtserialport,chardev=control,name=control",
        *network,
        *options,
        "-kernel", str(BUILT / "vmlinuz"), "-initrd", str(initrd), "-append", words,
    ]  # fmt: skip


class Guest:
    """A connection to a guest; with taps, the guest itself as well, which ends with this."""

    def __init__(self, folder, taps=(), archives=(), options=()):
        self.folder = Path(folder)
        self.numbers = itertools.count(time.time_ns() % 10**9)
        self.qemu = None
        if taps:
            self.qemu = subprocess.Popen(command(self.folder, taps, archives, options), stdin=subprocess.DEVNULL)
        self.socket = self.connect()
        self.rest = b""

    def connect(self):
        end = time.monotonic() + 10
        while True:
            control = socket.socket(socket.AF_UNIX)
            try:
                control.connect(str(self.folder / "guest.sock"))
                return control
            except OSError as error:
                control.close()
                if time.monotonic() > end or (self.qemu and self.qemu.poll() is not None):
                    raise Failed(f"no guest in {self.folder}: {error}") from error
                time.sleep(0.05)

    def ready(self):
        """Waits until it has started, and returns what it says of itself."""
        return self.run("uname -r").strip()

    def ask(self, script, seconds=RUN_SECONDS):
        """The exit status of a script, and what it printed."""
        number = next(self.numbers)
        # The guest itself ends what takes too long, and says so.
        self.socket.settimeout(seconds + BOOT_SECONDS)
        end = re.compile(rb"\n=== %d (\d+)\n" % number)
        try:
            self.socket.sendall(b"%d %d %s\n" % (number, seconds, base64.b64encode(script.encode())))
            while not (found := end.search(self.rest)):
                got = self.socket.recv(65536)
                if not got:
                    raise Failed(f"the guest is gone; see {self.folder}/console")
                self.rest += got
        except TimeoutError as error:
            raise Failed(f"not done in {seconds} s: {script}") from error
        except OSError as error:
            raise Failed(f"the guest is gone; see {self.folder}/console: {error}") from error
        printed, self.rest = self.rest[: found.start()], self.rest[found.end() :]
        return int(found[1]), printed.decode(errors="replace")

    def run(self, script, seconds=RUN_SECONDS):
        """What a script printed, which must end with 0."""
        status, printed = self.ask(script, seconds)
        if status:
            raise Failed(f"status {status} of {script}: {printed.strip()}")
        return printed

    def close(self):
        self.socket.close()
        if self.qemu:
            self.qemu.kill()
            self.qemu.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def main():
    what, folder, *rest = sys.argv[1:]
    if what == "start":
        os.execvp("qemu-system-x86_64", command(folder, rest[0].split(","), rest[1:]))
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        with Guest(folder) as guest:
            status, printed = guest.ask(" ".join(rest), BOOT_SECONDS)
    except Failed as error:
        sys.exit(str(error))
    sys.stdout.write(printed)
    return status


if __name__ == "__main__":
    sys.exit(main())
