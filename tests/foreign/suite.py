"""Runs scenarios of strongSwan's own test suite in this guest: its hosts as namespaces, with the
files of the suite, a stock charon with the kernel's IPsec, or convoy in its place.

usage: suite.py --root ROOT --testing TESTING --plugin PLUGIN --convoy CONVOY --results FILE
                [--gateways moon,sun] SCENARIO ...

For each scenario one line of JSON: its name, `passed` or not, what was not as the suite expects,
and what was left out because it asks the kernel for SAs that a convoy has. `--gateways` are the hosts that are convoys where they are IPsec hosts of the scenario; of
several, the first one only, unless `--all`. Without it, all hosts are stock.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

# Addresses as in the suite's testing.conf: of each interface, IPv4 and IPv6.
LAN, MOONS, SUNS = "lan", "moons", "suns"
HOSTS = {
    "alice": [(MOONS, "10.1.0.10/16", "fec1::10/16"), (LAN, "192.168.0.50/24", "fec0::5/16")],
    "venus": [(MOONS, "10.1.0.20/16", "fec1::20/16")],
    "moon": [(LAN, "192.168.0.1/24", "fec0::1/16"), (MOONS, "10.1.0.1/16", "fec1::1/16")],
    "carol": [(LAN, "192.168.0.100/24", "fec0::10/16")],
    "winnetou": [(LAN, "192.168.0.150/24", "fec0::15/16")],
    "dave": [(LAN, "192.168.0.200/24", "fec0::20/16")],
    "sun": [(LAN, "192.168.0.2/24", "fec0::2/16"), (SUNS, "10.2.0.1/16", "fec2::1/16")],
    "bob": [(SUNS, "10.2.0.10/16", "fec2::10/16")],
}
# The router of each network; that of the LAN is the suite's own machine, which is a bridge here.
ROUTERS = {LAN: ("192.168.0.254", None), MOONS: ("10.1.0.1", "fec1::1"), SUNS: ("10.2.0.1", "fec2::1")}
# Interfaces that a scenario brings up itself.
DOWN = {("alice", 1)}
# Second addresses, of virtual IPs.
INNER = {"carol": ("10.3.0.1", "fec3::1"), "dave": ("10.3.0.2", "fec3::2")}
COMMAND_SECONDS = 60
# What asks the kernel for SAs and policies, which a convoy's kernel does not have.
KERNELS_SAS = re.compile(r"\bip (-s )?xfrm\b")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# What each host has in place of systemd, ifupdown and rsyslog.
SHIMS = {
    "systemctl": r"""#!/bin/bash
# A pause without another process, which takes long here.
[ -p /tmp/pause ] || mkfifo /tmp/pause
exec 9<>/tmp/pause
pause() { read -rt 0.05 -u 9; }
verb=$1; shift
[ "$1" != --no-block ] || shift
[ "$1" = strongswan ] || [ "$1" = strongswan.service ] || { echo "no unit $1"; exit 5; }
start() {
  [ ! -x /usr/local/bin/before-charon ] || /usr/local/bin/before-charon || exit 1
  STRONGSWAN_CONF=/etc/strongswan.conf.testing setsid /usr/sbin/charon-systemd </dev/null >>/var/log/charon.out 2>&1 &
  for ((i = 0; i < 600; i++)); do [ ! -S /run/charon.vici ] || break; pause; done
  swanctl --load-all --noprompt >>/var/log/swanctl.out 2>&1
}
stop() {
  local charon
  charon=$(pgrep -x charon-systemd) && kill "$charon"
  for ((i = 0; i < 200; i++)); do [ -e "/proc/${charon:-none}" ] || break; pause; done
  [ ! -e "/proc/${charon:-none}" ] || kill -KILL "$charon"
  rm -f /run/charon.vici
  [ ! -x /usr/local/bin/after-charon ] || /usr/local/bin/after-charon
}
case $verb in
  start) start ;;
  stop) stop ;;
  restart) stop; start ;;
  reload) swanctl --load-all --noprompt >>/var/log/swanctl.out 2>&1 ;;
  kill) pkill -KILL -x charon-systemd ;;
  *) echo "no verb $verb"; exit 5 ;;
esac
""",
    "ifup": '#!/bin/bash\nip link set "$1" up\nwhile read -r name address; do [ "$name" != "$1" ] || ip addr add "$address" dev "$1" nodad; done </etc/addresses\n',
    "ifdown": '#!/bin/bash\nip addr flush dev "$1"\nip link set "$1" down\n',
}
# The firewall of a convoy lets the tunnel's interface pass, as docs/guide/site-to-site.md says: in
# place of the rules for IPsec policies, which the kernel does not see.
FIREWALL = """#!/bin/bash
/usr/sbin/{tool} "$@" || exit
/usr/sbin/{tables} -S | grep -q -- '-P FORWARD DROP' || exit 0
for chain in INPUT FORWARD; do /usr/sbin/{tables} -A $chain -i convoy0 -j ACCEPT; done
for chain in OUTPUT FORWARD; do /usr/sbin/{tables} -A $chain -o convoy0 -j ACCEPT; done
"""
CONF = """charon {
  retransmit_tries = 2
  retransmit_timeout = 1.0
  retransmit_base = 1
  plugins {
    kernel-netlink {
      xfrm_acq_expires = 60
    }
    convoy {
      socket = /run/convoy/charon.sock
    }
  }
  filelog {
    daemon {
      path = /var/log/daemon.log
      flush_line = yes
      default = 1
    }
    auth {
      path = /var/log/auth.log
      flush_line = yes
      default = 0
    }
  }
}
include strongswan.conf
"""


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, **options)


class Host:
    """A namespace with the suite's files over the system's, in a file system of its own."""

    def __init__(self, name, base, options):
        self.name, self.root = name, base / name / "root"
        for folder in ("upper", "work", "root"):
            (base / name / folder).mkdir(parents=True)
        layers = f"lowerdir={options.root},upperdir={base / name}/upper,workdir={base / name}/work"
        script = f"""
          mount --make-rprivate /
          mount -t overlay overlay -o {layers} {self.root}
          mount -t proc proc {self.root}/proc; mount -t sysfs sysfs {self.root}/sys; mount --rbind /dev {self.root}/dev
          mount -t tmpfs tmpfs {self.root}/run; mount -t tmpfs tmpfs {self.root}/tmp; mount -t proc proc /proc
          mount -t tmpfs tmpfs /var/lib
          hostname {name}; ip link set lo up
          sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.all.accept_dad=0
          echo ready; while :; do sleep 3600 & wait $!; done"""
        self.holder = subprocess.Popen(
            ["unshare", "-m", "-n", "-p", "-u", "--fork", "--kill-child", "sh", "-c", script], stdout=subprocess.PIPE, text=True
        )
        if self.holder.stdout.readline() != "ready\n":
            raise OSError(f"{name} does not start")
        self.pid = int(Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children").read_text().split()[0])
        self.captured = None

    def enter(self, command, chroot=True):
        inside = ["chroot", self.root, "/usr/bin/env", "-i", f"PATH={PATH}", "HOME=/root", "/bin/bash", "-c", command]
        return ["nsenter", "-t", self.pid, "-m", "-n", "-p", "-u", *(inside if chroot else ["/bin/bash", "-c", command])]

    def ask(self, command, chroot=True, seconds=COMMAND_SECONDS):
        """What a command prints, on its standard output, and beside it; never an error."""
        words = [str(word) for word in self.enter(command, chroot)]
        with subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True
        ) as process:
            try:
                return process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return "", f"no end within {seconds} s"

    def install(self, testing):
        """The files that a host has before any scenario."""
        for source in (testing / "hosts" / "default" / "etc", testing / "hosts" / self.name / "etc"):
            shutil.copytree(source, self.view("etc"), dirs_exist_ok=True, symlinks=False, ignore_dangling_symlinks=True)
        for name in ("expect-connection", "expect-file", "set-cpu-affinity"):
            self.put(f"usr/local/bin/{name}", (testing / "hosts/default/usr/local/bin" / name).read_text())
        for name, text in SHIMS.items():
            self.put(f"usr/local/bin/{name}", text)
        self.view("usr/local/bin/ping6").symlink_to("/usr/bin/ping")
        self.view("usr/local/libexec").mkdir(parents=True, exist_ok=True)
        self.view("usr/local/libexec/ipsec").symlink_to("/usr/lib/ipsec")
        self.put("etc/strongswan.conf.testing", CONF)
        addresses = [f"eth{index} {address}\n" for index, (_, *both) in enumerate(HOSTS[self.name]) for address in both]
        self.put("etc/addresses", "".join(addresses))

    def view(self, path):
        """A path of the host as this process sees it."""
        return Path(f"/proc/{self.pid}/root{self.root}") / path

    def put(self, path, text):
        file = self.view(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755 if "/bin/" in path else 0o644)

    def capture(self):
        self.ask("tcpdump -Z root -l --immediate-mode -i eth0 not port domain >/tmp/tcpdump.log 2>/tmp/tcpdump.err & sleep 0.3")
        self.captured = None

    def capture_ends(self):
        if self.captured is None:
            self.ask("sleep 0.3; pkill tcpdump; sleep 0.2")
            self.captured = self.ask("cat /tmp/tcpdump.log")[0]
        return self.captured

    def end(self):
        self.holder.kill()
        self.holder.wait()


class Convoy:
    """The gateway of a host, whose file is what `convoy import` makes of the host's swanctl.conf."""

    def __init__(self, host, options):
        self.host, self.convoy = host, options.convoy
        self.file = f"{host.root}/etc/convoy.toml"
        shutil.copy(options.plugin, host.view("usr/lib/ipsec/plugins/libstrongswan-convoy.so"))
        conf = host.view("etc/strongswan.conf")
        conf.write_text(re.sub(r"kernel-netlink(\s+socket-default)?", "convoy! kernel-netlink", conf.read_text(), count=1))
        for tables in ("iptables", "ip6tables"):
            host.put(f"usr/local/bin/{tables}-restore", FIREWALL.format(tool=f"{tables}-restore", tables=tables))
        self.process = None

    def configure(self):
        """Returns what is wrong, or nothing."""
        root = self.host.root
        said = "".join(self.host.ask(f"cd {root}/etc && {self.convoy} import --format swanctl swanctl/swanctl.conf --output {self.file} 2>&1", chroot=False))
        self.host.put("var/log/import", said)
        file = self.host.view("etc/convoy.toml")
        text = file.read_text() if file.exists() else self.written()
        text = text.replace('"/run/convoy/charon.sock"', f'"{root}/run/convoy/charon.sock"')
        text = text.replace("[gateway]", f'[gateway]\nguard = false\ncontrol = "{root}/run/convoy/control.sock"', 1)
        file.write_text(text)

    def written(self):
        """What an operator writes where the other end alone names the networks behind it."""
        both = [address.split("/")[0] for address in HOSTS[self.host.name][0][1:]]
        conf = self.host.view("etc/swanctl/swanctl.conf").read_text()
        names = re.findall(r"^ {1,4}([\w-]+) \{", conf.split("secrets")[0], re.M)
        tunnels = "".join(f'[[tunnel]]\nname = "{name}"\n' for name in dict.fromkeys(names))
        ports = "".join(
            f'[[port]]\nname = "{kind}"\nkind = "{kind}"\naddress = {json.dumps(both)}\n' for kind in ("udp", "raw")
        )
        return f'[gateway]\ncharon = "/run/convoy/charon.sock"\n[[port]]\nname = "inside"\nkind = "tun"\ndevice = "convoy0"\n{ports}{tunnels}'

    def install(self):
        """Started and stopped with charon, as the packages' units do."""
        root = self.host.root
        self.host.put(
            "usr/local/bin/before-charon",
            "#!/bin/bash\n[ -p /tmp/pause ] || mkfifo /tmp/pause\nexec 9<>/tmp/pause\n>/run/convoy/start; for ((i = 0; i < 300; i++)); do [ ! -e /run/convoy/started ] || exit 0; read -rt 0.05 -u 9; done\nexit 1\n",
        )
        self.host.put("usr/local/bin/after-charon", "#!/bin/bash\n[ -p /tmp/pause ] || mkfifo /tmp/pause\nexec 9<>/tmp/pause\n>/run/convoy/stop; for ((i = 0; i < 300; i++)); do [ -e /run/convoy/started ] || exit 0; read -rt 0.05 -u 9; done\n")
        log = f"{root}/var/log/convoy.log"
        loop = f"""mkdir -p {root}/run/convoy; cd {root}/run/convoy; mkfifo pause; exec 9<>pause; pause() {{ read -rt 0.05 -u 9; }}
          while :; do
            until [ -e start ]; do pause; done
            rm -f start stop
            {self.convoy} run -c {self.file} >>{log} 2>&1 & gateway=$!
            until {self.convoy} show stats --control {root}/run/convoy/control.sock >/dev/null 2>&1; do
              kill -0 $gateway 2>/dev/null || break; pause
            done
            > started
            until [ -e stop ]; do pause; done
            kill $gateway; wait $gateway; rm -f started stop
          done"""
        words = [str(word) for word in self.host.enter(loop, chroot=False)]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def logs(self):
        pieces = []
        for name in ("etc/convoy.toml", "var/log/import", "var/log/convoy.log"):
            file = self.host.view(name)
            pieces.append(f"--- {name}\n{file.read_text() if file.exists() else 'none'}")
        return "\n".join(pieces)

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()


def batch(commands, *options):
    run("ip", *options, "-batch", "-", input="\n".join(commands), text=True)


def network(hosts):
    """The three networks as bridges, with the router of the LAN."""
    links = [f"link {verb} {bridge} {rest}" for bridge in (LAN, MOONS, SUNS) for verb, rest in (("add", "type bridge"), ("set", "up"))]
    links.append(f"addr add 192.168.0.254/24 dev {LAN}")
    for name, host in hosts.items():
        for index, (bridge, *_) in enumerate(HOSTS[name]):
            links.append(f"link add {name}{index} type veth peer name eth{index} netns {host.pid}")
            links.append(f"link set {name}{index} master {bridge} up")
    batch(links)
    for name, host in hosts.items():
        mine = []
        for index, (_, *both) in enumerate(HOSTS[name]):
            if (name, index) not in DOWN:
                mine += [f"link set eth{index} up", *(f"addr add {address} dev eth{index}{' nodad' if ':' in address else ''}" for address in both)]
        own = [address.split("/")[0] for _, *both in HOSTS[name] for address in both]
        mine += [f"route add default via {router}" for router in ROUTERS[HOSTS[name][0][0]] if router and router not in own]
        words = "\n".join(mine)
        said = host.ask(f"ip -batch - <<'END'\n{words}\nEND", chroot=False)
        if said[1]:
            raise OSError(f"{name}: {said[1]}")


def unmake():
    for bridge in (LAN, MOONS, SUNS):
        subprocess.run(["ip", "link", "del", bridge], capture_output=True)


def placeholders(testing):
    """The suite's words for addresses."""
    words = {}
    for name, interfaces in HOSTS.items():
        both = [address.split("/")[0] for address in interfaces[0][1:]]
        second = INNER.get(name) or ([a.split("/")[0] for a in interfaces[1][1:]] if len(interfaces) > 1 else None)
        words[f"PH_IP_{name.upper()}"], words[f"PH_IP6_{name.upper()}"] = both
        if second:
            words[f"PH_IP_{name.upper()}1"], words[f"PH_IP6_{name.upper()}1"] = second
    return dict(sorted(words.items(), key=lambda word: -len(word[0])))


def replaced(text, words):
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def lines(file, words):
    for line in replaced(file.read_text(), words).splitlines():
        if line.strip() and not line.startswith("#") and "::" in line:
            yield line


def shell_variables(file):
    said = subprocess.run(["bash", "-c", f". {shlex.quote(str(file))}; declare -p"], capture_output=True, text=True).stdout
    return dict(re.findall(r'^declare -- (\w+)="(.*)"$', said, re.M))


class Scenario:
    def __init__(self, name, options, base):
        self.name, self.options, self.base = name, options, base
        self.folder = options.testing / "tests" / name
        self.settings = shell_variables(self.folder / "test.conf")
        self.words = placeholders(options.testing)
        self.console, self.wrong, self.without, self.hosts, self.convoys = [], [], [], {}, {}

    def prepare(self):
        # In the suite all hosts always run; here those that the scenario names.
        text = "".join((self.folder / file).read_text() for file in ("pretest.dat", "evaltest.dat"))
        names = {name for name in HOSTS if re.search(rf"^{name}\s*::|PH_IP6?_{name.upper()}|\b{name}1?\.strongswan", text, re.M)}
        names |= set(self.settings["VIRTHOSTS"].split()) | {"moon"}
        self.hosts = {name: Host(name, self.base, self.options) for name in HOSTS if name in names}
        for host in self.hosts.values():
            host.install(self.options.testing)
            own = self.folder / "hosts" / host.name / "etc"
            if own.is_dir():
                shutil.copytree(own, host.view("etc"), dirs_exist_ok=True, ignore_dangling_symlinks=True)
                for file in own.rglob("*"):
                    if file.is_file():
                        target = host.view("etc") / file.relative_to(own)
                        target.write_bytes(replaced(target.read_bytes().decode("latin1"), self.words).encode("latin1"))
            conf = host.view("etc/strongswan.conf")
            # Debian does not ship checksums of the libraries, nor test vectors.
            text = re.sub(r"^\s*integrity_test.*$|\bleak-detective\b", "", conf.read_text(), flags=re.M)
            conf.write_text(text)
        network(self.hosts)
        ours = [name for name in self.options.gateways if name in self.settings["IPSECHOSTS"].split()]
        for name in ours if self.options.all else ours[:1]:
            self.convoys[name] = Convoy(self.hosts[name], self.options)
            self.convoys[name].configure()
            self.convoys[name].install()
        for name in self.settings.get("TCPDUMPHOSTS", "").split():
            self.hosts[name].capture()

    def do(self, file):
        for line in lines(self.folder / file, self.words):
            host, command = line.split("::")[:2]
            host = host.strip()
            out, err = self.hosts[host].ask(command)
            self.console.append(f"{host}# {command}\n{out}{err}")

    def evaluate(self):
        for line in lines(self.folder / "evaltest.dat", self.words):
            host, command, pattern, expected = (line.split("::") + ["", ""])[:4]
            host = host.strip()
            if host in self.convoys and KERNELS_SAS.search(command):
                self.without.append(f"{host}: {command.strip()}")
                continue
            if command.strip() == "tcpdump":
                out, err = self.hosts[host].capture_ends(), ""
            else:
                out, err = self.hosts[host].ask(command)
            found = subprocess.run(["grep", pattern], input=out, capture_output=True, text=True)
            right = {"YES": found.returncode == 0, "NO": found.returncode != 0}.get(expected.strip())
            if right is None:  # a number of lines; anything else, as of a pattern with "::", is taken as right by the suite too
                right = not expected.strip().isdigit() or len(found.stdout.splitlines()) == int(expected)
            if not right:
                self.wrong.append(f"{host}: {command.strip()}: {pattern} [{expected.strip()}]")
            self.console.append(f"{'' if right else 'WRONG '}{host}# {command} | grep '{pattern}' [{expected}]\n{out}{err}")

    def run(self):
        try:
            self.prepare()
            self.do("pretest.dat")
            self.evaluate()
            for name in self.settings["IPSECHOSTS"].split():
                log = self.hosts[name].view("var/log/daemon.log")
                self.console.append(f"--- {name}: daemon.log\n{log.read_text(errors='replace') if log.exists() else 'none'}")
            for name, convoy in self.convoys.items():
                self.console.append(f"--- {name}\n{convoy.logs()}")
        except (OSError, subprocess.SubprocessError, KeyError, ValueError) as error:
            self.wrong.append(f"the harness: {type(error).__name__}: {error}")
        finally:
            for convoy in self.convoys.values():
                convoy.end()
            for host in self.hosts.values():
                host.end()
            unmake()


def main():
    parser = argparse.ArgumentParser()
    for name in ("root", "testing", "plugin", "convoy", "results"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--gateways", type=lambda text: text.split(","), default=[])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("scenarios", nargs="+")
    options = parser.parse_args()
    for number, name in enumerate(options.scenarios):
        base = Path("/tmp/hosts") / str(number)
        began = time.monotonic()
        scenario = Scenario(name, options, base)
        scenario.run()
        row = {"scenario": name, "convoys": list(scenario.convoys), "passed": not scenario.wrong, "wrong": scenario.wrong}
        row |= {"without": scenario.without, "seconds": round(time.monotonic() - began, 1)}
        console = options.results.parent / "consoles" / f"{name.replace('/', '_')}{'' if scenario.convoys else '-stock'}"
        console.parent.mkdir(exist_ok=True)
        console.write_text("\n".join(scenario.console))
        with options.results.open("a") as file:
            file.write(json.dumps(row) + "\n")
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
