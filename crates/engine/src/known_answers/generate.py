#!/usr/bin/env python3
"""Writes answers.txt: what sealing the packet of known_answers.rs gives with each transform, as
OpenSSL computes it. The engines `software` and `multibuffer` do not use OpenSSL.

usage: generate.py >answers.txt    with Python's `cryptography`
"""

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

# Name, bytes of key, bytes of ICV, hash.
HASHES = {
    "sha256": (32, 16, hashes.SHA256), "sha384": (48, 24, hashes.SHA384), "sha512": (64, 32, hashes.SHA512),
    "sha1": (20, 12, hashes.SHA1), "md5": (16, 12, hashes.MD5),
}  # fmt: skip
BODY = bytes((at * 11 + 1) & 0xFF for at in range(32))


def key(length):
    return bytes((at * 29 + 5) & 0xFF for at in range(length))


def head(length):
    return bytes((at * 7 + 3) & 0xFF for at in range(length))


def gcm(aes, salt, clear, authenticated, plain, icv):
    sealer = Cipher(algorithms.AES(aes), modes.GCM(salt + clear[8:16])).encryptor()
    sealer.authenticate_additional_data(authenticated)
    return sealer.update(plain) + sealer.finalize() + sealer.tag[:icv]


def aeads():
    for bits in (128, 192, 256):
        material, clear = key(bits // 8 + 4), head(16)
        aes, salt = material[:-4], material[-4:]
        for icv in (8, 12, 16):
            yield f"aes{bits}gcm{icv}", gcm(aes, salt, clear, clear[:8], BODY, icv)
        yield f"aes{bits}gmac", BODY + gcm(aes, salt, clear, clear + BODY, b"", 16)
    material, clear = key(36), head(16)
    yield "chacha20poly1305", ChaCha20Poly1305(material[:32]).encrypt(material[32:] + clear[8:], BODY, clear[:8])


def ciphers():
    """Name, bytes of key and salt, the head, and the sealed body by key material."""

    def sealed(algorithm, mode):
        return Cipher(algorithm, mode).encryptor().update(BODY)

    yield "null", 0, head(8), lambda material: BODY
    for bits in (128, 192, 256):
        bytes_ = bits // 8
        clear = head(24)
        yield f"aes{bits}", bytes_, clear, lambda material, iv=clear[8:]: sealed(algorithms.AES(material), modes.CBC(iv))
        clear = head(16)

        def counted(material, iv=clear[8:]):
            return sealed(algorithms.AES(material[:-4]), modes.CTR(material[-4:] + iv + bytes((0, 0, 0, 1))))

        yield f"aes{bits}ctr", bytes_ + 4, clear, counted
    clear = head(16)
    yield "3des", 24, clear, lambda material: sealed(TripleDES(material), modes.CBC(head(16)[8:]))
    # DES is triple DES with one key.
    yield "des", 8, clear, lambda material: sealed(TripleDES(material * 3), modes.CBC(head(16)[8:]))


def chained():
    for name, length, clear, seal in ciphers():
        if name != "null":
            yield name, seal(key(length))
        for hashed, (key_bytes, icv, algorithm) in HASHES.items():
            material = key(length + key_bytes)
            body = seal(material[:length])
            mac = hmac.HMAC(material[length:], algorithm())
            mac.update(clear + body)
            yield f"{name}-{hashed}", body + mac.finalize()[:icv]


for name, answer in (*aeads(), *chained()):
    print(name, answer.hex())
