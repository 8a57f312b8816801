"""The driver's side of the card's formats (docs/lab/card.md): prefixes, SAs, status; and ESP by the `cryptography` package as the reference."""

import hashlib
import hmac
import struct
import tomllib
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

PACKET, SA_INSTALL, SA_REMOVE, SLOT_LOAD, FILTER_WRITE, SIGNATURE_WRITE = range(6)
CRYPTO, IP_CHECKSUM, UDP_CHECKSUM, FILTER, SIGNATURE = 1, 2, 4, 8, 16
OK, BAD_ICV, NO_SA, NO_FUNCTION, MALFORMED, BROKEN, FILTERED = range(7)
TABLE = tomllib.loads((Path(__file__).resolve().parents[1] / "functions.toml").read_text())
CIPHERS = {cipher["number"]: cipher for cipher in TABLE["cipher"]}
HASHES = {hashed["number"]: hashed for hashed in TABLE["hash"]}
FUNCTIONS = {function["id"]: function for function in TABLE["function"]}
ALL_FUNCTIONS = sum(1 << function for function in FUNCTIONS)


def serving(alg):
    """The functions that do an algorithm, the one that the card asks for first."""
    return [number for number, function in FUNCTIONS.items() if alg in function["algorithms"]]


FUNCTION = {alg: serving(alg)[0] for function in FUNCTIONS.values() for alg in function["algorithms"]}


def algorithm(cipher, hashed="none"):
    """The byte of an SA that names both."""
    number = {entry["name"]: entry["number"] for entry in CIPHERS.values()}[cipher]
    return number | {entry["name"]: entry["number"] for entry in HASHES.values()}[hashed] << 4


def cipher_of(alg):
    return CIPHERS[alg & 15]


def hash_of(alg):
    return HASHES[alg >> 4]


GCM = algorithm("AES-GCM")
CTR_SHA1 = algorithm("AES-CTR", "HMAC-SHA-1")


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
        return cipher_of(self.alg)["iv_bytes"]

    def seal(self, esp, iv, payload, seq_hi=bytes(4)):
        """(ciphertext, ICV) of a payload behind the 8 bytes of ESP header and the IV."""
        if self.alg == GCM:
            aad = esp[:4] + seq_hi + esp[4:] if self.esn else esp
            sealed = AESGCM(self.key).encrypt(self.salt + iv, payload, aad)
            return sealed[:-16], sealed[-16:][: self.icv_bytes]
        text = payload
        if self.alg & 15:
            cipher = {
                "AES-CTR": lambda: Cipher(algorithms.AES(self.key), modes.CTR(self.salt + iv + b"\0\0\0\x01")),
                "AES-CBC": lambda: Cipher(algorithms.AES(self.key), modes.CBC(iv)),
                "3DES-CBC": lambda: Cipher(TripleDES(self.key), modes.CBC(iv)),
            }[cipher_of(self.alg)["name"]]().encryptor()
            text = cipher.update(payload) + cipher.finalize()
        digest = {"HMAC-SHA-1": hashlib.sha1, "HMAC-SHA-512": hashlib.sha512}[hash_of(self.alg)["name"]]
        mac = hmac.new(self.auth_key, esp + iv + text + (seq_hi if self.esn else b""), digest).digest()
        return text, mac[: self.icv_bytes]


def sa_of(alg, index, rng, **options):
    """A random SA of an algorithm."""
    cipher, hashed = cipher_of(alg), hash_of(alg)
    key, icv = rng.choice(cipher["key_bytes"]), rng.choice(hashed["icv_bytes"])
    return Sa(index, alg, rng.randbytes(key), rng.randbytes(hashed["key_bytes"]), rng.randbytes(4), rng.randbytes(4), icv, **options)


def payload_of(alg, rng, most=300):
    """A random payload of a length that the cipher takes."""
    unit = max(4, cipher_of(alg)["block_bytes"])
    return rng.randbytes(unit * rng.randrange(1, most // unit))
