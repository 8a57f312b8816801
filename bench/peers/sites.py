"""Two sites in network namespaces, each with a gateway of some kind and one core."""

import os
import pathlib
import re
import secrets
import signal
import subprocess
import time

NAMESPACES = ("convoy-peers-a", "convoy-peers-b")
OUTER = ("192.0.2.1", "192.0.2.2")
INNER = ("10.1.0.1", "10.2.0.1")
# The networks behind the gateways.
NETWORKS = ("10.1.0.0/24", "10.2.0.0/24")
# The ends of the veth pair between the sites.
LINKS = ("va", "vb")
TICKS = os.sysconf("SC_CLK_TCK")


def run(*command: str, check: bool = True) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def inside(site: int, *command: str) -> tuple[str, ...]:
    """The command, to run in the site's namespace and on its core."""
    return ("ip", "netns", "exec", NAMESPACES[site], "taskset", "-c", str(site % (os.cpu_count() or 1)), *command)


class Sites:
    """The namespaces, the veth pair between them, and the processes in them."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.gateways: list[subprocess.Popen] = []
        self.remove()
        for name in NAMESPACES:
            run("ip", "netns", "add", name)
        run("ip", "link", "add", LINKS[0], "netns", NAMESPACES[0], "type", "veth", "peer", "name", LINKS[1], "netns", NAMESPACES[1])
        for site, device in enumerate(LINKS):
            self.ip(site, "link", "set", "lo", "up")
            self.ip(site, "link", "set", device, "up")
            self.ip(site, "addr", "add", f"{OUTER[site]}/24", "dev", device)

    def ip(self, site: int, *words: str) -> None:
        run("ip", "-n", NAMESPACES[site], *words)

    def start(self, site: int, *command: str, env: dict[str, str] | None = None) -> None:
        """Starts a gateway; its output goes to a file."""
        log = (self.folder / f"site-{site}.log").open("w")
        environment = {**os.environ, **(env or {})}
        gateway = subprocess.Popen(inside(site, *command), stdout=log, stderr=log, env=environment, start_new_session=True)
        self.gateways.append(gateway)

    def route(self, site: int, device: str, mtu: int) -> None:
        """Sets the site's own address, and the route to the other's network over the gateway's
        device."""
        self.wait(f"{device} at site {site}", lambda: device in run("ip", "-n", NAMESPACES[site], "-o", "link"))
        self.ip(site, "addr", "add", f"{INNER[site]}/32", "dev", device)
        self.ip(site, "link", "set", device, "mtu", str(mtu), "up")
        self.ip(site, "route", "add", NETWORKS[1 - site], "dev", device, "src", INNER[site])

    def wait(self, what: str, condition, seconds: float = 15) -> None:
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                logs = "\n".join(path.read_text(errors="replace")[-2000:] for path in self.folder.glob("*.log"))
                raise RuntimeError(f"waited in vain for {what}\n{logs}")
            time.sleep(0.05)

    def answers(self) -> bool:
        command = inside(0, "ping", "-c", "1", "-W", "1", "-I", INNER[0], INNER[1])
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def processes(self, site: int | None = None) -> list[int]:
        """The processes of all gateways or of one site's, with their children."""
        gateways = self.gateways if site is None else self.gateways[site : site + 1]
        found, queue = [], [gateway.pid for gateway in gateways]
        while queue:
            process = queue.pop()
            found.append(process)
            for children in pathlib.Path(f"/proc/{process}/task").glob("*/children"):
                queue += [int(child) for child in children.read_text().split()]
        return found

    def cpu_seconds(self) -> float:
        """CPU time of the gateways so far, in seconds, over all threads."""
        total = 0
        for process in self.processes():
            for path in pathlib.Path(f"/proc/{process}/task").glob("*/schedstat"):
                total += int(path.read_text().split()[0])
        return total / 1e9

    def kernel_seconds(self, site: int) -> float:
        """CPU time of one site's gateway in the kernel so far, in seconds."""
        total = 0
        for process in self.processes(site):
            total += int(pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[12])
        return total / TICKS

    def resident_mb(self) -> float:
        """Average memory of a gateway, in megabytes."""
        texts = [pathlib.Path(f"/proc/{process}/status").read_text() for process in self.processes()]
        kilobytes = [int(found[1]) for text in texts if (found := re.search(r"VmRSS:\s+(\d+)", text))]
        return sum(kilobytes) / 1000 / max(len(self.gateways), 1)

    def remove(self) -> None:
        for gateway in self.gateways:
            if gateway.poll() is None:
                os.killpg(gateway.pid, signal.SIGTERM)
        for gateway in self.gateways:
            try:
                gateway.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(gateway.pid, signal.SIGKILL)
                gateway.wait()
        self.gateways = []
        for name in NAMESPACES:
            run("ip", "netns", "del", name, check=False)


def hex_key(size: int) -> str:
    return secrets.token_hex(size)
