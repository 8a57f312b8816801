"""The cases in which convoy is compared with scapy: every proposal in every mode, family and
encapsulation."""

import hashlib
import itertools
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.ciphers import algorithms, modes
from scapy.layers import ipsec
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Raw


def gcm(icv):
    """AES-GCM with a shorter ICV, which scapy does not define."""
    name = f"AES-GCM-{icv}"
    ipsec.CRYPT_ALGOS[name] = ipsec.CryptAlgo(
        name,
        cipher=algorithms.AES,
        key_size=(16, 24, 32),
        mode=modes.GCM,
        salt_size=4,
        iv_size=8,
        icv_size=icv,
        format_mode_iv=ipsec._salt_format_mode_iv,
    )
    return name


@dataclass(frozen=True)
class Proposal:
    """A proposal in swanctl's notation, with scapy's and tshark's names of its parts."""

    words: str
    crypt: str
    key_len: int  # bytes, without salt
    salt_len: int = 0
    auth: str = "NULL"
    auth_len: int = 0
    protocol: str = "esp"

    @property
    def material_len(self):
        return self.key_len + self.salt_len + self.auth_len

    def scapy_esp(self, material, **options):
        """An ESP SA for scapy."""
        crypt_len = self.key_len + self.salt_len
        return ipsec.SecurityAssociation(
            ipsec.ESP,
            crypt_algo=self.crypt,
            crypt_key=material[:crypt_len],
            auth_algo=self.auth,
            auth_key=material[crypt_len:] or None,
            **options,
        )


SHA1, SHA256, SHA384, SHA512, MD5 = (
    ("HMAC-SHA1-96", 20),
    ("SHA2-256-128", 32),
    ("SHA2-384-192", 48),
    ("SHA2-512-256", 64),
    ("HMAC-MD5-96", 16),
)


def proposals():
    for bits in (128, 192, 256):
        yield Proposal(f"aes{bits}gcm16", "AES-GCM", bits // 8, 4)
    yield Proposal("aes128gcm8", gcm(8), 16, 4)
    yield Proposal("aes256gcm12", gcm(12), 32, 4)
    yield Proposal("chacha20poly1305", "CHACHA20-POLY1305", 32, 4)
    yield Proposal("aes128gmac", "AES-NULL-GMAC", 16, 4)
    for bits, (auth, auth_len), word in (
        (128, SHA1, "sha1"),
        (192, SHA256, "sha256"),
        (256, SHA384, "sha384"),
        (256, SHA512, "sha512"),
        (128, MD5, "md5"),
    ):
        yield Proposal(f"aes{bits}-{word}", "AES-CBC", bits // 8, 0, auth, auth_len)
    for bits in (128, 192, 256):
        yield Proposal(f"aes{bits}ctr-sha256", "AES-CTR", bits // 8, 4, *SHA256)
    yield Proposal("3des-sha1", "3DES", 24, 0, *SHA1)
    yield Proposal("des-md5", "DES", 8, 0, *MD5)
    yield Proposal("null-sha256", "NULL", 0, 0, *SHA256)
    yield Proposal("aes128", "AES-CBC", 16)
    for (auth, auth_len), word in ((SHA1, "sha1"), (SHA256, "sha256"), (SHA512, "sha512")):
        yield Proposal(word, "NULL", 0, 0, auth, auth_len, "ah")


@dataclass
class Case:
    """A tunnel: a proposal with mode, families and encapsulation, and its packets."""

    number: int
    proposal: Proposal
    mode: str
    inner: int
    outer: int
    encap: str
    esn: bool
    packets: list = field(default_factory=list)

    @property
    def spi(self):
        return 0x10000 + self.number

    @property
    def name(self):
        esn = "-esn" if self.esn else ""
        return f"{self.proposal.words}-{self.proposal.protocol}-{self.mode}-{self.inner}in{self.outer}-{self.encap}{esn}"

    def material(self, way):
        """Key material for one direction: different for each case, the same in each run."""
        digest = hashlib.shake_256(f"{self.name} {way}".encode())
        return digest.digest(self.proposal.material_len)

    def host(self, side, family=None, outer=False):
        """An address of one side. In transport mode the inner addresses are the outer ones."""
        family = family or self.inner
        high, low = divmod(self.number, 256)
        if self.mode == "transport" or not outer:
            return f"10.{side * 64 + high}.{low}.7" if family == 4 else f"fd00:{side}:{self.number:x}::7"
        return f"192.0.2.{side}" if family == 4 else f"2001:db8::{side}"

    def selector(self, side):
        host = self.host(side)
        if self.mode == "transport":
            return host + ("/32" if self.inner == 4 else "/128")
        return host[:-1] + ("0/24" if self.inner == 4 else "/64")

    def scapy_sa(self, way, sequence=1):
        """The SA of one direction for scapy; "out" leaves side 1, "in" arrives there."""
        material = self.material(way)
        proposal = self.proposal
        source, destination = (1, 2) if way == "out" else (2, 1)
        extra = {}
        if self.mode == "tunnel":
            header = IP if self.outer == 4 else IPv6
            extra["tunnel_header"] = header(
                src=self.host(source, self.outer, True), dst=self.host(destination, self.outer, True)
            )
        if self.encap == "udp":
            extra["nat_t_header"] = UDP(sport=4500, dport=4500)
        if self.esn:
            extra["esn_en"] = True
            extra["esn"] = 0
        if proposal.protocol == "ah":
            return ipsec.SecurityAssociation(
                ipsec.AH, spi=self.spi, seq_num=sequence, auth_algo=proposal.auth, auth_key=material, **extra
            )
        return proposal.scapy_esp(material, spi=self.spi, seq_num=sequence, **extra)

    def toml(self):
        local, remote = self.host(1, self.outer, True), self.host(2, self.outer, True)
        return f"""
[[tunnel]]
name = "{self.name}"
mode = "{self.mode}"
protocol = "{self.proposal.protocol}"
local = "{local}"
remote = "{remote}"
local_ts = ["{self.selector(1)}"]
remote_ts = ["{self.selector(2)}"]
esp_proposal = "{self.proposal.words}"
encap = "{self.encap}"
esn = {str(self.esn).lower()}
[tunnel.manual]
spi_in = {self.spi}
spi_out = {self.spi}
key_in = "{self.material("in").hex()}"
key_out = "{self.material("out").hex()}"
"""


SIZES = (0, 1, 7, 24, 63, 64, 128, 255, 512, 1000, 1458, 1472, 8800)


def cases():
    number = itertools.count()
    for proposal in proposals():
        ah = proposal.protocol == "ah"
        for mode, inner, outer in (
            ("tunnel", 4, 4),
            ("tunnel", 4, 6),
            ("tunnel", 6, 4),
            ("tunnel", 6, 6),
            ("transport", 4, 4),
            ("transport", 6, 6),
        ):
            for encap in ("none",) if ah else ("none", "udp"):
                yield Case(next(number), proposal, mode, inner, outer, encap, False)
        # scapy supports ESN with AEADs and with separate integrity algorithms, so every proposal
        # has a case with it.
        yield Case(next(number), proposal, "tunnel", 4, 4, "none", True)


def packet(case, way, size, index):
    """An inner packet with `size` bytes of payload: UDP, and every third one TCP."""
    source, destination = (1, 2) if way == "out" else (2, 1)
    header = IP if case.inner == 4 else IPv6
    ip = header(src=case.host(source), dst=case.host(destination))
    if case.inner == 4:
        ip.id, ip.ttl = index + 1, 63
        if index % 4 == 1:
            ip.flags = "DF"
        if index % 5 == 2:
            ip.tos = 0xB8
    else:
        ip.hlim = 63
        ip.tc = 0xB8 if index % 5 == 2 else 0
    layer4 = TCP(sport=4000, dport=80, seq=index, flags="PA") if index % 3 == 2 else UDP(sport=4000 + index, dport=5004)
    body = hashlib.shake_256(f"{case.name}{way}{index}".encode()).digest(size)
    return ip.__class__(bytes(ip / layer4 / Raw(body)))


