"""The cases of convoy and the Linux kernel as peers, and the data that both sides need."""

import itertools
import os
from dataclasses import dataclass, field

# Bytes of ICMP payload, in the guest's notation: FIRST-LAST is every length between. From 3000 on,
# packets are fragmented, which transport mode does not allow (RFC 4303 section 3.3.4). The kernel
# fragments after IPsec, so the ESP packet of about 20000 bytes is longer than any jumbo frame.
SIZES = {"tunnel": "0,56,511,1300,3000,20000", "transport": "0,56,511,1300"}
# Up to the inner interface's MTU with IPv4, which is more than the tunnel leaves of the link's MTU.
EVERY_SIZE = "0-1472"
OUTER = {4: ("198.51.100.1", "198.51.100.2"), 6: ("2001:db8::1", "2001:db8::2")}
MAC = {"convoy": "02:00:00:00:00:01", "peer": "02:00:00:00:00:02"}
ANYWHERE = {4: "0.0.0.0", 6: "::"}


@dataclass(frozen=True)
class Proposal:
    """A proposal in swanctl's notation and in the kernel's; lengths in bytes, the cipher key's with
    its salt."""

    words: str
    cipher: str
    cipher_len: int
    integrity: str = ""
    integrity_len: int = 0
    icv_bits: int = 128
    protocol: str = "esp"

    def algorithms(self, key):
        cut = 2 * self.cipher_len
        cipher, integrity = f"0x{key[:cut]}", f"0x{key[cut:]}"
        if not self.integrity:
            return f"aead {self.cipher} {cipher} {self.icv_bits}"
        words = f"auth-trunc {self.integrity} {integrity} {self.icv_bits}"
        return words + (f" enc {self.cipher} {cipher}" if self.cipher else "")


SHA1, SHA256, SHA512 = ("hmac(sha1)", 20, 96), ("hmac(sha256)", 32, 128), ("hmac(sha512)", 64, 256)
PROPOSALS = (
    Proposal("aes128gcm16", "rfc4106(gcm(aes))", 20),
    Proposal("aes256gcm16", "rfc4106(gcm(aes))", 36),
    Proposal("chacha20poly1305", "rfc7539esp(chacha20,poly1305)", 36),
    Proposal("aes128-sha1", "cbc(aes)", 16, *SHA1),
    Proposal("aes128-sha256", "cbc(aes)", 16, *SHA256),
    Proposal("aes256-sha512", "cbc(aes)", 32, *SHA512),
    Proposal("aes128ctr-sha256", "rfc3686(ctr(aes))", 20, *SHA256),
    Proposal("3des-sha1", "cbc(des3_ede)", 24, *SHA1),
    Proposal("sha1", "", 0, *SHA1, "ah"),
    Proposal("sha256", "", 0, *SHA256, "ah"),
    Proposal("sha512", "", 0, *SHA512, "ah"),
)

# The DPDK device that is the gateway's only engine, if it is set, and the proposals that it must
# support.
DEVICE = os.environ.get("DEVICE", "")
DEVICES = {
    "": PROPOSALS,
    "crypto_aesni_mb0": PROPOSALS,
    "crypto_aesni_gcm0": [proposal for proposal in PROPOSALS if "gcm" in proposal.words],
    "crypto_openssl0": [proposal for proposal in PROPOSALS if proposal.words != "chacha20poly1305"],
}
# Proposals that get every size, in their first case: one with a stream cipher, and two that pad.
EVERY_SIZE_OF = ("aes128gcm16", "aes128-sha1", "aes128-sha256")


@dataclass
class Case:
    """A tunnel between convoy and the peer, with its own keys."""

    number: int
    proposal: Proposal
    encap: str
    outer: int
    mode: str
    esn: bool
    sizes: str
    keys: tuple = field(init=False)  # to convoy, to the peer

    def __post_init__(self):
        size = self.proposal.cipher_len + self.proposal.integrity_len
        self.keys = os.urandom(size).hex(), os.urandom(size).hex()

    @property
    def name(self):
        esn = " ESN" if self.esn else ""
        way = "in UDP" if self.encap == "udp" else "native"
        return f"{self.proposal.protocol} {self.proposal.words} {way} IPv{self.outer} {self.mode}{esn}"

    @property
    def spis(self):
        """SPIs to convoy and to the peer."""
        return 0x10000 + self.number, 0x20000 + self.number

    @property
    def outers(self):
        """convoy's address and the peer's. In transport mode the peer has an address for each case,
        since there are no inner ones."""
        if self.mode == "tunnel":
            return OUTER[self.outer]
        index = self.number // 2
        peer = f"198.51.100.{128 + index}" if self.outer == 4 else f"2001:db8::1:{index:x}"
        return OUTER[self.outer][0], peer

    @property
    def hosts(self):
        """Pairs of inner addresses, convoy's first; a tunnel has both families."""
        if self.mode == "transport":
            return [self.outers]
        n = self.number
        return [(f"10.1.{n}.1", f"10.2.{n}.1"), (f"fd00:1:{n:x}::1", f"fd00:2:{n:x}::1")]

    def toml(self):
        local, remote = self.outers
        selectors = [", ".join(f'"{pair[side]}"' for pair in self.hosts) for side in (0, 1)]
        return f"""
[[tunnel]]
name = "{self.name}"
protocol = "{self.proposal.protocol}"
mode = "{self.mode}"
local = "{local}"
remote = "{remote}"
local_ts = [{selectors[0]}]
remote_ts = [{selectors[1]}]
esp_proposal = "{self.proposal.words}"
encap = "{self.encap}"
esn = {str(self.esn).lower()}
[tunnel.manual]
spi_in = {self.spis[0]}
spi_out = {self.spis[1]}
key_in = "{self.keys[0]}"
key_out = "{self.keys[1]}"
"""

    def batch(self):
        """Input for `ip -batch` in the guest; addresses and routes may exist already."""
        convoy, peer = self.outers
        request = f"reqid {self.number + 1} mode {self.mode}"
        protocol = self.proposal.protocol
        # Without align4 the kernel pads AH to 8 bytes over IPv4 too, contrary to RFC 4302 section
        # 3.3.3.2.1.
        is_padded = protocol == "ah" and self.outer == 4
        flags = ["esn"] * self.esn + ["af-unspec"] * (self.mode == "tunnel") + ["align4"] * is_padded
        flags = "flag " + " ".join(flags) if flags else ""
        window = 128 if self.esn else 32
        encap = f"encap espinudp 4500 4500 {ANYWHERE[self.outer]}" if self.encap == "udp" else ""
        for source, destination, spi, key in (
            (peer, convoy, self.spis[0], self.keys[0]),
            (convoy, peer, self.spis[1], self.keys[1]),
        ):
            yield (
                f"xfrm state add src {source} dst {destination} proto {protocol} spi {spi} {request} "
                f"replay-window {window} {flags} {self.proposal.algorithms(key)} {encap}"
            )
        for ours, theirs in self.hosts:
            bits = 128 if ":" in ours else 32
            if self.mode == "tunnel":
                yield f"addr replace {theirs}/{bits} dev lo" + " nodad" * (bits == 128)
                via = f"via {OUTER[6 if ':' in ours else 4][0]}"
                yield f"route replace {ours}/{bits} {via} dev vec0 src {theirs}"
            for way, source, destination, ends in (
                ("out", theirs, ours, (peer, convoy)),
                ("in", ours, theirs, (convoy, peer)),
            ):
                yield (
                    f"xfrm policy add src {source}/{bits} dst {destination}/{bits} dir {way} "
                    f"tmpl src {ends[0]} dst {ends[1]} proto {protocol} {request}"
                )


def cases():
    number = itertools.count()
    swept = set(EVERY_SIZE_OF)
    for proposal, encap in itertools.product(DEVICES[DEVICE], ("none", "udp")):
        if proposal.protocol == "ah" and encap == "udp":
            continue
        for outer, esn, mode in itertools.product((4, 6), (False, True), ("tunnel", "transport")):
            sizes = SIZES[mode]
            if mode == "tunnel" and proposal.words in swept:
                swept.remove(proposal.words)
                sizes = f"{EVERY_SIZE},{sizes}"
            yield Case(next(number), proposal, encap, outer, mode, esn, sizes)


def lengths(sizes):
    """The sizes in `sizes`."""
    for part in sizes.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def engine():
    return f"""[[engine]]
kind = "cryptodev"
device = "{DEVICE}"
""" if DEVICE else ""


def toml(table, control):
    inside = ", ".join(f'"{pair[0]}"' for case in table if case.mode == "tunnel" for pair in case.hosts)
    outside = ", ".join(f'"{OUTER[family][0]}"' for family in (4, 6))
    head = f"""[gateway]
control = "{control}"
state = "{control}.state"
allow_weak = true
[[port]]
name = "inside"
kind = "tun"
device = "convoy0"
address = [{inside}]
[[port]]
name = "in UDP"
kind = "udp"
address = [{outside}]
[[port]]
name = "native"
kind = "raw"
address = [{outside}]
"""
    return head + engine() + "".join(case.toml() for case in table)


def network():
    """Commands for the guest's interface before it is up."""
    return [f"link set vec0 address {MAC['peer']}"]


def outer(table):
    """The guest's outer addresses. Transport mode would also protect neighbour discovery; static
    entries avoid it."""
    lines = [f"addr add {OUTER[4][1]}/24 dev vec0", f"addr add {OUTER[6][1]}/64 dev vec0 nodad"]
    for case in table:
        if case.mode == "transport":
            lines.append(f"addr add {case.outers[1]}/{'24 dev vec0' if case.outer == 4 else '64 dev vec0 nodad'}")
    return lines + [f"neigh replace {OUTER[family][0]} lladdr {MAC['convoy']} dev vec0 nud permanent" for family in (4, 6)]


def host(table):
    """Input for `ip -batch` on convoy's side."""
    yield f"link set convoy-tap address {MAC['convoy']}"
    yield "link set convoy-tap up"
    yield f"addr add {OUTER[4][0]}/24 dev convoy-tap"
    yield f"addr add {OUTER[6][0]}/64 dev convoy-tap nodad"
    for case in table:
        if case.mode == "transport":
            yield f"neigh replace {case.outers[1]} lladdr {MAC['peer']} dev convoy-tap nud permanent"
