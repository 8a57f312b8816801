"""Opens the ESP echoes between two gateways with scapy, and sends one with a forged return SPI.

usage: echo.py CAPTURE CONFIGURATION OUR_ADDRESS PEER

The configuration is that of the gateway that sends echoes, with one tunnel of aes128gcm16 in UDP.
Each request and response of the capture must be what the draft says (encrypted-esp-ping): next
header 144, sub-type 2 or 3, a return SPI that is the requester's own, and an answer for most. The
forged request has the next keys and a sequence number ahead, so that only its return SPI is wrong.
"""

import logging
import sys
import tomllib
from collections import Counter

logging.getLogger("scapy").setLevel(logging.ERROR)

from scapy.layers import ipsec  # noqa: E402
from scapy.layers.inet import IP, UDP  # noqa: E402
from scapy.packet import Raw  # noqa: E402
from scapy.sendrecv import send  # noqa: E402
from scapy.utils import PcapReader  # noqa: E402

AGGFRAG = 144
REQUEST, RESPONSE, HAS_SPI = 2, 3, 0x80


def security_association(spi, key):
    return ipsec.SecurityAssociation(ipsec.ESP, spi=spi, crypt_algo="AES-GCM", crypt_key=bytes.fromhex(key))


def opened(association, packet):
    """The payload and the next header of an ESP packet."""
    esp = ipsec.ESP(bytes(packet))
    plain = association.crypt_algo.decrypt(association, esp, association.crypt_key)
    return bytes(plain.data), plain.nh


def main(capture, configuration, ours, peer):
    with open(configuration, "rb") as file:
        [tunnel] = tomllib.load(file)["tunnel"]
    manual = tunnel["manual"]
    ways = {manual["spi_out"]: manual["key_out"], manual["spi_in"]: manual["key_in"]}
    ways = {spi: security_association(spi, key) for spi, key in ways.items()}
    seen, last = Counter(), 0
    for frame in PcapReader(capture):
        if UDP not in frame:
            continue
        esp = bytes(frame[UDP].payload)
        spi, sequence = int.from_bytes(esp[:4], "big"), int.from_bytes(esp[4:8], "big")
        payload, next_header = opened(ways[spi], esp)
        if spi == manual["spi_out"]:
            last = max(last, sequence)
        if next_header != AGGFRAG:
            seen["other"] += 1
            continue
        sub_type, flags, length = payload[0], payload[1], int.from_bytes(payload[2:4], "big")
        if sub_type == REQUEST:
            assert (spi, flags) == (manual["spi_out"], HAS_SPI), f"a request by {spi:#x}, flags {flags:#x}"
            assert int.from_bytes(payload[8:12], "big") == manual["spi_in"], payload.hex()
            seen["requests"] += 1
        else:
            assert (sub_type, spi, flags) == (RESPONSE, manual["spi_in"], 0), payload.hex()
            seen["responses"] += 1
        seen["padded"] += length > 0
    assert seen["requests"] > 10 and seen["responses"] > 10 and seen["other"] > 10, seen
    association = ways[manual["spi_out"]]
    message = bytes([REQUEST, HAS_SPI, 0, 0, 0, 1, 0, 1]) + (0x9999).to_bytes(4, "big")
    iv = (1 << 63 | last).to_bytes(8, "big")
    plain = ipsec._ESPPlain(spi=manual["spi_out"], seq=last + 900, iv=iv, data=Raw(message), nh=AGGFRAG)
    algorithm = association.crypt_algo
    sealed = algorithm.encrypt(association, algorithm.pad(plain), association.crypt_key)
    send(IP(src=ours, dst=peer) / UDP(sport=4500, dport=4500, chksum=0) / Raw(bytes(sealed)), verbose=False)
    assert seen["padded"] > 10, seen
    print(f"scapy opens {seen['requests']} requests and {seen['responses']} responses, {seen['padded']} of them padded")


main(*sys.argv[1:])
