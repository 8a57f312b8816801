"""Makes the guest side B of a test in this folder: Linux, set up by a strongSwan of its own.

usage: guest_peer.py FOLDER [CHILD]
FOLDER is the guest's, see ../iptfs/guest.py; CHILD is a setting of the child, instead of `mode = iptfs`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "iptfs"))

import ike
from guest import Guest

NETWORK = """
set -e
ip netns add b
ip link set eth0 netns b
ip -n b link set lo up; ip -n b link set eth0 up
ip -n b addr add 192.0.2.2/24 dev eth0
ip -n b addr add 10.2.0.1/32 dev lo; ip -n b addr add fd00:2::1/128 dev lo nodad
ip -n b route add 10.1.0.0/24 via 192.0.2.1 src 10.2.0.1
ip -n b addr add 2001:db8::2/64 dev eth0 nodad
ip -n b route add fd00:1::/64 via 2001:db8::1 dev eth0 src fd00:2::1
"""


def main():
    with Guest(Path(sys.argv[1])) as guest:
        print(guest.ready())
        guest.run(NETWORK)
        inner = ("10.2.0.0/24,fd00:2::/64", "10.1.0.0/24,fd00:1::/64")
        ike.start(guest, 1, "192.0.2.2", "192.0.2.1", "aes128gcm16", True, *inner, *sys.argv[2:])


if __name__ == "__main__":
    main()
