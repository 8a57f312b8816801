"""Two charons of a strongSwan with IP-TFS in one guest, whose kernel is their data path: they agree on IP-TFS, and pings cross.

usage: ike.py FOLDER TAP_A TAP_B    in the network namespace of the TAPs
"""

import sys
from pathlib import Path

from guest import BUILT, Failed, Guest
from selftest import INNER, NETWORK, OUTER

SWANCTL = """
connections {{ site {{
  version = 2
  local_addrs = {ours}
  remote_addrs = {theirs}
  encap = {encap}
  local {{ auth = psk
    id = {me} }}
  remote {{ auth = psk
    id = {peer} }}
  children {{ net {{
    {child}
    local_ts = {inner_ours}
    remote_ts = {inner_theirs}
    esp_proposals = {proposal}
  }} }} }} }}
secrets {{ ike-1 {{ secret = a secret of the test }} }}
"""
STRONGSWAN = """
charon {
  load = random nonce aes sha1 sha2 hmac kdf drbg openssl pem pkcs1 pkcs8 x509 pubkey gcm chapoly kernel-netlink socket-default vici
  install_routes = no
  iptfs { init_delay = 20000 }
}
swanctl { load = pem pkcs1 pkcs8 x509 pubkey openssl random }
"""
# A /run of its own, where charon's sockets are.
START = """
set -e
mkdir -p /tmp/{space}/run
cat >/tmp/{space}/start <<'END'
set -e
for folder in dev proc sys; do mount -o bind /$folder /strongswan/$folder; done
mount -o bind /tmp/{space} /strongswan/etc/swanctl
mount -o bind /tmp/{space}/run /strongswan/run
export STRONGSWAN_CONF=/etc/swanctl/strongswan.conf
exec chroot /strongswan "$@"
END
cat >/tmp/{space}/strongswan.conf <<'END'
{strongswan}
END
cat >/tmp/{space}/swanctl.conf <<'END'
{swanctl}
END
ip netns exec {space} unshare -m sh /tmp/{space}/start /usr/lib/ipsec/charon >/tmp/{space}/log 2>&1 &
for wait in $(seq 200); do [ ! -S /tmp/{space}/run/charon.vici ] || break; sleep 0.1; done
ip netns exec {space} unshare -m sh /tmp/{space}/start swanctl --load-all --noprompt
"""
STOP = "for space in a b; do kill $(cat /tmp/$space/run/charon.pid) || true; done; sleep 1; rm -rf /tmp/a /tmp/b"


def swanctl(guest, space, words):
    return guest.run(f"ip netns exec {space} unshare -m sh /tmp/{space}/start swanctl {words}")


def inner(side):
    return f"{INNER[4][side]}/32,{INNER[6][side]}/128"


def start(guest, side, ours, theirs, proposal, encap, inner_ours, inner_theirs, child="mode = iptfs"):
    """Starts the charon of a side, 0 or 1, in its network namespace, a or b."""
    conf = SWANCTL.format(
        ours=ours, theirs=theirs, encap="yes" if encap else "no", me=f"{'ab'[side]}.example", peer=f"{'ba'[side]}.example",
        proposal=proposal, inner_ours=inner_ours, inner_theirs=inner_theirs, child=child,
    )  # fmt: skip
    guest.run(START.format(space="ab"[side], swanctl=conf, strongswan=STRONGSWAN))


def attempt(guest, proposal, family, encap):
    """What is wrong, if anything."""
    for me, peer in ((0, 1), (1, 0)):
        start(guest, me, OUTER[family][me], OUTER[family][peer], proposal, encap, inner(me), inner(peer))
    swanctl(guest, "a", "--initiate --child net")
    shown = swanctl(guest, "a", "--list-sas")
    if "IPTFS" not in shown:
        yield f"no IP-TFS: {shown}"
    if not guest.run("ip -n a xfrm state | grep -c 'mode \\(5\\|iptfs\\)'").startswith("2"):
        yield "the kernel has other SAs than two of IP-TFS"
    for inner in (4, 6):
        ours, theirs = INNER[inner]
        status, words = guest.ask(f"ip netns exec a burst {ours} {theirs} 24 1,60,1400,8000 3000")
        if status:
            yield f"IPv{inner}: {words.strip()}"


def main():
    folder, tap_a, tap_b = sys.argv[1:]
    failed = passed = 0
    with Guest(Path(folder), [tap_a, tap_b], [BUILT / "strongswan" / "guest.gz"]) as guest:
        print(f"Peer: Linux {guest.ready()}, strongSwan {(BUILT / 'strongswan' / 'version').read_text().strip()}")
        guest.run(NETWORK.replace('ip netns exec $1 espinudp', 'true'))
        for proposal, family, encap in (("aes128gcm16", 4, False), ("aes256gcm16-esn", 6, False), ("chacha20poly1305", 4, True)):
            name = f"{proposal}, {'in UDP' if encap else 'native'}, IPv{family}"
            try:
                wrong = list(attempt(guest, proposal, family, encap))
                guest.run(STOP)
            except Failed as error:
                wrong = [str(error)]
                wrong += [f"--- charon of {space}: {guest.ask(f'tail -n 20 /tmp/{space}/log')[1]}" for space in "ab"]
                guest.ask(STOP)
            print(f"{name}: {'; '.join(wrong) or 'passed'}", flush=True)
            failed, passed = failed + bool(wrong), passed + (not wrong)
    print(f"\n{passed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
