"""Sends a forged "too big" message to a gateway, about its packets to another one; needs root.

usage: forge.py PORT GATEWAY PEER WHAT SPI
"""

import sys

from scapy.all import ESP, ICMP, IP, UDP, ICMPv6PacketTooBig, IPv6, Raw, raw, send

port, gateway, peer, what, spi = sys.argv[1:]
is_v6 = ":" in gateway
spi = int(spi, 0) ^ (0x00FF0000 if what == "wrong-spi" else 0)
# A number that was never sent; the other cases use one that may have been.
sequence = 0x7FFFFFFF if what == "wrong-sequence" else 5
esp = raw(ESP(spi=spi, seq=sequence, data=bytes(64)))
if what == "no-spi":
    # The minimum that RFC 792 requires a router to quote: of ESP in UDP that is the UDP header, of
    # native ESP 8 bytes, here without an SPI.
    esp = esp[:0] if port == "udp" else bytes(8)
header = (IPv6 if is_v6 else IP)(src=gateway, dst=peer)
if port == "udp":
    quoted = header / UDP(sport=4500, dport=4500, len=1400) / Raw(esp)
elif is_v6:
    quoted = IPv6(src=gateway, dst=peer, nh=50) / Raw(esp)
else:
    quoted = IP(src=gateway, dst=peer, proto=50, flags="DF") / Raw(esp)
if is_v6:
    send(IPv6(dst=gateway) / ICMPv6PacketTooBig(mtu=1280) / Raw(raw(quoted)), verbose=False)
else:
    send(IP(dst=gateway) / ICMP(type=3, code=4, nexthopmtu=552) / Raw(raw(quoted)), verbose=False)
