"""The driver's side of the card's formats (docs/internals/card.md): prefixes, SAs, status; and ESP by the `cryptography` package as the reference."""

import hashlib
import hmac
import struct
from dataclasses import dataclass

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

PACKET, SA_INSTALL, SA_REMOVE, SLOT_LOAD, FILTER_WRITE = range(5)
CRYPTO, IP_CHECKSUM, UDP_CHECKSUM, FILTER, SIGNATURE = 1, 2, 4, 8, 16
OK, BAD_ICV, NO_SA, NO_FUNCTION, MALFORMED, BROKEN, FILTERED = range(7)
GCM, CTR_SHA1, CBC_SHA1, DES3_SHA1, CTR_SHA512, NULL_SHA1 = 0x01, 0x12, 0x13, 0x14, 0x22, 0x10
FUNCTION = {GCM: 1, CTR_SHA1: 2, CBC_SHA1: 3, DES3_SHA1: 4, CTR_SHA512: 5, NULL_SHA1: 2}


def prefix(
    length, op=PACKET, to_mac=0, decrypt=0, functions=0, argument=0, sa=0, cookie=0, seq_hi=b"\0\0\0\0", ip_off=0, esp_off=0, esp_end=0
):
    """The 32 bytes before a frame of `length` bytes."""
    return struct.pack(
        "<BBBBHHI4sHHH10x", op, to_mac | decrypt << 1, functions, argument, sa, length, cookie, seq_hi, ip_off, esp_off, esp_end
    )


@dataclass
class Status:
    """The 16 bytes before a frame that goes to the host."""

    code: int
    flags: int
    signature: int
    rule: int
    sa: int
    length: int
    cookie: int
    esp_off: int
    cycles: int

    @classmethod
    def of(cls, data):
        return cls(*struct.unpack("<BBBBHHIHH", data[:16]))


@dataclass
class Sa:
    """An SA as the card and the reference know it."""

    index: int
    alg: int
    key: bytes = b""
    auth_key: bytes = b""
    salt: bytes = bytes(4)
    spi: bytes = b"\0\0\x10\0"
    icv_bytes: int = 16
    esn: int = 0
    mapped: int = 0
    tunnel: int = 0

    def install(self, cookie=0):
        """The command that puts it into the cache."""
        flags = self.esn | self.mapped << 1 | self.tunnel << 2
        body = self.spi + self.salt + bytes([self.alg, len(self.key), self.icv_bytes, flags, 0, 0, 0, 0])
        body += self.key.ljust(32, b"\0") + self.auth_key.ljust(64, b"\0")
        return prefix(len(body), SA_INSTALL, sa=self.index, cookie=cookie) + body

    @property
    def iv_bytes(self):
        return {3: 16, 0: 0}.get(self.alg & 15, 8)

    def seal(self, esp, iv, payload, seq_hi=bytes(4)):
        """(ciphertext, ICV) of a payload behind the 8 bytes of ESP header and the IV."""
        if self.alg == GCM:
            aad = esp[:4] + seq_hi + esp[4:] if self.esn else esp
            sealed = AESGCM(self.key).encrypt(self.salt + iv, payload, aad)
            return sealed[:-16], sealed[-16:][: self.icv_bytes]
        text = payload
        if self.alg & 15:
            cipher = {
                2: lambda: Cipher(algorithms.AES(self.key), modes.CTR(self.salt + iv + b"\0\0\0\x01")),
                3: lambda: Cipher(algorithms.AES(self.key), modes.CBC(iv)),
                4: lambda: Cipher(TripleDES(self.key), modes.CBC(iv)),
            }[self.alg & 15]().encryptor()
            text = cipher.update(payload) + cipher.finalize()
        digest = {1: hashlib.sha1, 2: hashlib.sha512}[self.alg >> 4]
        mac = hmac.new(self.auth_key, esp + iv + text + (seq_hi if self.esn else b""), digest).digest()
        return text, mac[: self.icv_bytes]


def sa_of(alg, index, rng, **options):
    """A random SA of an algorithm."""
    keys = {GCM: rng.choice([16, 24, 32]), CTR_SHA1: rng.choice([16, 24, 32]), CBC_SHA1: rng.choice([16, 24, 32]), DES3_SHA1: 24}
    keys |= {CTR_SHA512: rng.choice([16, 24, 32]), NULL_SHA1: 0}
    auth = {0: 0, 1: 20, 2: 64}[alg >> 4]
    icv = {0: rng.choice([8, 12, 16]), 1: rng.choice([12, 20]), 2: 32}[alg >> 4]
    return Sa(index, alg, rng.randbytes(keys[alg]), rng.randbytes(auth), rng.randbytes(4), rng.randbytes(4), icv, **options)


def payload_of(alg, rng, most=300):
    """A random payload of a length that the cipher takes."""
    unit = {3: 16, 4: 8}.get(alg & 15, 4)
    return rng.randbytes(unit * rng.randrange(1, most // unit))
