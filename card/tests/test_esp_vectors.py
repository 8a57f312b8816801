"""x1 and x2: published ESP packets, or published messages as ESP packets, through every function, sealed and opened.

draft-mcgrew-gcm-test-01 (AES-GCM), RFC 3602 (AES-CBC), RFC 3686 (AES-CTR), RFC 2202 and RFC 4231 (NULL with HMAC: SPI and sequence number
are the message's first 8 bytes). RFC 3602 and 3686 have no ICV: there it is Python's.
"""

import struct

import card
import cocotb
import pytest
from card import CRYPTO, Sa, prefix
from esp_vectors import MCGREW, RFC_3602
from harness import run
from test_core_ctr import PLAINS, RFC_3686
from test_core_hmac import RFC_2202, RFC_4231
from stream import start_clock
from test_pipeline import Pipe
from test_x2 import ETHERNET, Receiver

NULL_SHA1, NULL_SHA512 = card.algorithm("none", "HMAC-SHA-1"), card.algorithm("none", "HMAC-SHA-512")


def with_cipher(name):
    """The algorithms with this cipher and a hash, each with some key for the hash and the usual ICV."""
    for alg in card.FUNCTION:
        hashed = card.hash_of(alg)
        if card.cipher_of(alg)["name"] == name:
            yield alg, b"\x0b" * hashed["key_bytes"], hashed["icv_bytes"][0]


def packets():
    """(function, SA, high half of the sequence number, sealed ESP packet, plain one) of each vector."""
    for key, nonce, aad, plain, sealed, icv in (map(bytes.fromhex, vector) for vector in MCGREW):
        esp, high = aad[:4] + aad[-4:], aad[4:8]
        sa = Sa(0, card.GCM, key, salt=nonce[:4], spi=aad[:4], esn=len(aad) // 12)
        for function in card.serving(card.GCM):
            yield function, sa, high if sa.esn else bytes(4), esp + nonce[4:] + sealed + icv, esp + nonce[4:] + plain
    for key, esp, iv, plain, sealed in (map(bytes.fromhex, vector) for vector in RFC_3602):
        for alg, auth_key, icv_bytes in with_cipher("AES-CBC"):
            sa = Sa(0, alg, key, auth_key, spi=esp[:4], icv_bytes=icv_bytes)
            yield card.FUNCTION[alg], sa, bytes(4), authentic(sa, esp + iv + sealed), esp + iv + plain
    for n, (key, nonce, sealed) in enumerate(RFC_3686):
        key, nonce, sealed = (bytes.fromhex(part) for part in [key, nonce, sealed])
        esp = struct.pack(">II", 0x3686, n)
        for alg, auth_key, icv_bytes in with_cipher("AES-CTR"):
            sa = Sa(0, alg, key, auth_key, nonce[:4], esp[:4], icv_bytes=icv_bytes)
            yield card.FUNCTION[alg], sa, bytes(4), authentic(sa, esp + nonce[4:] + sealed), esp + nonce[4:] + PLAINS[n % 3]
    for alg, vectors, icv_bytes in [(NULL_SHA1, RFC_2202, 20), (NULL_SHA512, RFC_4231, 32)]:
        for key, message, mac in vectors:
            if len(message) > 8:
                sa = Sa(0, alg, b"", key, spi=message[:4], icv_bytes=icv_bytes)
                for function in card.serving(alg):
                    yield function, sa, bytes(4), message + bytes.fromhex(mac)[:icv_bytes], message


def authentic(sa, packet):
    """The packet with the ICV that the vector lacks."""
    return packet + Sa(0, sa.alg & 0xF0, auth_key=sa.auth_key, icv_bytes=sa.icv_bytes).seal(packet, b"", b"")[1]


def on_the_wire(esp):
    """The packet as it comes from the MAC."""
    return ETHERNET + struct.pack(">BBHHHBBH8x", 0x45, 0, 20 + len(esp), 1, 0x4000, 64, 50, 0) + esp


@cocotb.test()
async def published_packets_are_sealed_and_opened(dut):
    receiver = hasattr(dut, "s_from_mac")
    pipe = Receiver(dut, 0.0, 0.0) if receiver else Pipe(dut)
    if receiver:
        dut.look.value = 0
    await start_clock(dut)
    loaded, count, header = 0, 0, ETHERNET + bytes(20)
    for function, sa, seq_hi, sealed, plain in packets():
        if function != loaded:
            await pipe.load(function)
            loaded = function
        sa.mapped = 1 - sa.esn
        await pipe.install(sa)
        fields = {"functions": CRYPTO, "esp_off": len(header), "seq_hi": seq_hi}
        status, made = await pipe.ask(prefix(len(header + plain), **fields) + header + plain)
        assert (status.code, made) == (card.OK, header + sealed), (function, count, made.hex())
        status, opened = await pipe.ask(prefix(len(header + sealed), decrypt=1, **fields) + header + sealed)
        assert (status.code, status.flags & 1, opened) == (card.OK, 1, header + plain), (function, count, opened.hex())
        # No packet on the wire has SPI 0 (RFC 4303, 2.1), and the parser passes it up as it came.
        if receiver and not sa.esn and any(sa.spi):
            wire = on_the_wire(sealed)
            status, opened = await pipe.ask(wire, from_mac=1)
            assert (status.code, status.flags & 0x61) == (card.OK, 0x61), (function, count, status)
            assert opened == wire[:34] + plain, (function, count, opened.hex())
        count += 1
    ciphers = 14 * len(card.serving(card.GCM)) + 4 * len([*with_cipher("AES-CBC")]) + 9 * len([*with_cipher("AES-CTR")])
    assert count == ciphers + 4 * len(card.serving(NULL_SHA1)) + 3 * len(card.serving(NULL_SHA512)), "a vector set is not whole"


@pytest.mark.parametrize("pipeline", ["x1", "x2"])
def test_published_packets(pipeline):
    run(pipeline, {"FUNCTIONS": card.ALL_FUNCTIONS, "LOAD_CYCLES": 20, "DEPTH_LOG2": 8}, name=f"{pipeline}_vectors")
