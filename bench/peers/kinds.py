"""How each kind of gateway is started on two sites. All have the same inner MTU."""

import pathlib
import socket
import subprocess

from sites import INNER, LINKS, NETWORKS, OUTER, Sites, hex_key, inside, run

ESP_PROPOSAL = "aes128gcm16"


class Convoy:
    """Two convoys with static keys. The inside port is the gateway's own tun interface, or the
    interface named by `inside`, with the same kind of port as outside."""

    def __init__(
        self, binary: str, port: str, settings: str = "", scheduler: str = "", inside: str | None = None, mode: str = "tunnel",
        iptfs: str = "",
    ) -> None:
        self.binary, self.port, self.settings, self.scheduler, self.inside = binary, port, settings, scheduler, inside
        self.mode, self.iptfs = mode, f"[tunnel.iptfs]\n{iptfs}" if iptfs else ""

    def inside_port(self, site: int, mtu: int) -> str:
        if self.inside:
            return f'kind = "{self.port}"\ninterface = "{self.inside}"\naddress = ["{INNER[site]}"]'
        return f'kind = "tun"\ndevice = "convoy0"\nmtu = {mtu}\naddress = ["{INNER[site]}/32"]'

    def start(self, sites: Sites, mtu: int) -> None:
        keys = [hex_key(20), hex_key(20)]
        for site in (0, 1):
            path = sites.folder / f"site-{site}.toml"
            encap = "none" if self.port == "raw" else "udp"
            interface = f'interface = "{LINKS[site]}"' if self.port.startswith("af_") else ""
            path.write_text(f"""
[gateway]
control = "{sites.folder}/site-{site}.sock"
state = ""
{self.settings}
[scheduler]
{self.scheduler}
[[port]]
name = "inside"
{self.inside_port(site, mtu)}
[[port]]
name = "outside"
kind = "{self.port}"
{interface}
address = ["{OUTER[site]}"]
[[tunnel]]
name = "peer"
mode = "{self.mode}"
local = "{OUTER[site]}"
remote = "{OUTER[1 - site]}"
local_ts = ["{NETWORKS[site]}"]
remote_ts = ["{NETWORKS[1 - site]}"]
esp_proposal = "{ESP_PROPOSAL}"
encap = "{encap}"
{self.iptfs}
[tunnel.manual]
spi_in = {0x1001 + site}
spi_out = {0x1002 - site}
key_in = "{keys[site]}"
key_out = "{keys[1 - site]}"
""")
            path.chmod(0o600)
            sites.start(site, self.binary, "run", "-c", str(path))


class StrongSwan:
    """Two stock strongSwans with ESP in user space (kernel-libipsec)."""

    def start(self, sites: Sites, mtu: int) -> None:
        secret = hex_key(16)
        for site in (0, 1):
            folder = sites.folder / f"swan-{site}"
            folder.mkdir()
            (folder / "strongswan.conf").write_text(f"""
charon {{
  load = random nonce openssl gcm hmac kdf kernel-libipsec kernel-netlink socket-default vici
  install_virtual_ip = no
  plugins {{ vici {{ socket = unix://{folder}/vici }} }}
}}
""")
            (folder / "swanctl.conf").write_text(f"""
connections {{ site {{
  version = 2
  local_addrs = {OUTER[site]}
  remote_addrs = {OUTER[1 - site]}
  encap = yes
  proposals = aes128gcm16-prfsha256-x25519
  local {{ auth = psk }}
  remote {{ auth = psk }}
  children {{ net {{
    local_ts = {NETWORKS[site]}
    remote_ts = {NETWORKS[1 - site]}
    esp_proposals = {ESP_PROPOSAL}
  }} }}
}} }}
secrets {{ ike-site {{ secret = 0x{secret} }} }}
""")
            # Each charon needs its own /run.
            script = "mount -t tmpfs tmpfs /run && exec /usr/lib/ipsec/charon"
            configuration = {"STRONGSWAN_CONF": str(folder / "strongswan.conf")}
            sites.ip(site, "addr", "add", f"{INNER[site]}/32", "dev", "lo")
            sites.start(site, "unshare", "--mount", "--propagation", "private", "sh", "-c", script, env=configuration)
            sites.wait(f"charon of site {site}", (folder / "vici").exists)
            sites.wait("ipsec0", lambda: "ipsec0" in run(*inside(site, "ip", "-o", "link")))
            sites.ip(site, "link", "set", "ipsec0", "mtu", str(mtu))
            control = ("--uri", f"unix://{folder}/vici")
            run("swanctl", "--load-all", "--file", str(folder / "swanctl.conf"), *control)
        run("swanctl", "--initiate", "--child", "net", "--uri", f"unix://{sites.folder}/swan-0/vici")


class WireGuard:
    """Two gateways of a WireGuard implementation that is configured over the usual socket."""

    def __init__(self, command: list[str]) -> None:
        self.command = command

    def start(self, sites: Sites, mtu: int) -> None:
        keys = [key_pair(), key_pair()]
        pathlib.Path("/var/run/wireguard").mkdir(parents=True, exist_ok=True)
        for site in (0, 1):
            device = f"wg{site}"
            control = pathlib.Path(f"/var/run/wireguard/{device}.sock")
            control.unlink(missing_ok=True)
            sites.start(site, *self.command, device, env={"WG_PROCESS_FOREGROUND": "1", "WG_SUDO": "1"})
            sites.wait(f"the socket of {device}", control.exists)
            tell(control, {
                "private_key": keys[site][0],
                "listen_port": "51820",
                "public_key": keys[1 - site][1],
                "endpoint": f"{OUTER[1 - site]}:51820",
                "allowed_ip": NETWORKS[1 - site],
            })
            sites.route(site, device, mtu)


def key_pair() -> tuple[str, str]:
    """A private and a public X25519 key, in hexadecimal."""
    private = subprocess.run(["openssl", "genpkey", "-algorithm", "X25519", "-outform", "DER"], capture_output=True, check=True).stdout
    command = ["openssl", "pkey", "-inform", "DER", "-pubout", "-outform", "DER"]
    public = subprocess.run(command, input=private, capture_output=True, check=True).stdout
    return private[-32:].hex(), public[-32:].hex()


def tell(control: pathlib.Path, settings: dict[str, str]) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(control))
        lines = "".join(f"{key}={value}\n" for key, value in settings.items())
        connection.sendall(f"set=1\n{lines}\n".encode())
        answer = connection.recv(4096).decode()
    if "errno=0" not in answer:
        raise RuntimeError(f"{control} refuses its configuration: {answer}")
