#!/usr/bin/env bash
# Makes what strongSwan's own test suite needs, once: OUT/testing is the suite of the newest
# strongSwan that Debian has, with its certificates; OUT/root is a system with that strongSwan and
# the programs that the suite calls; OUT/plugin is convoy's plugin for it. Nothing is installed, and
# nothing of it is in the repository. Root.
# usage: prepare.sh OUT
set -euo pipefail
out=$(realpath -m "$1")
cd "$(dirname "$0")/../iptfs"
suite=forky
packages="charon-systemd strongswan-swanctl strongswan-pki libstrongswan-standard-plugins libstrongswan-extra-plugins
  libcharon-extra-plugins libcharon-extauth-plugins bash dash coreutils iproute2 iptables iputils-ping tcpdump openssl
  procps psmisc grep sed mawk gawk util-linux findutils conntrack perl-base diffutils hping3"
fail() { echo "prepare.sh: $1" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "needs root"
made_from() { cat ../foreign/prepare.sh ../../charon/*.[ch] ../../charon/Makefile; }
! made_from | cmp -s - "$out/made-from" || exit 0
rm -rf "$out"
mkdir -p "$out"
echo "unpacking strongSwan, its suite, and making the suite's certificates; this takes minutes, once" >&2
# shellcheck disable=SC2086 # one argument for each package
./unpack.sh "$out/root" $suite $packages >"$out/packages"
# What the packages' installation makes of them.
rmdir "$out/root/var/run" && ln -s /run "$out/root/var/run"
echo root:x:0:0:root:/root:/bin/bash >"$out/root/etc/passwd"
printf '%s\n' root:x:0: nogroup:x:65534: >"$out/root/etc/group"
for tables in iptables ip6tables; do
  for tool in "" -restore -save; do ln -s "$tables-legacy$tool" "$out/root/usr/sbin/$tables$tool"; done
done
revision=$(awk '$1 == "charon-systemd" { print $2 }' "$out/packages")
version=${revision%-*}
./unpack.sh --source "$out" $suite "strongswan=$revision"
source=$out/strongswan-$version
[ -d "$source/testing/tests" ] || fail "the source of strongSwan $revision has no testing/tests"
mv "$source/testing" "$out/testing"

# RSA keys of 16,384 and 8,192 bits, for scenarios of EAP-TLS alone, would take fifteen minutes.
# Debian's strongSwan has no SHA-3 of its own, so certificates with it are not made, and what needs
# them fails with each data plane.
sed -i -E -e 's/^(TLS_FRAG_(CA|EE)_RSA_SIZE|MONSTER_(CA|EE)_RSA_SIZE)=.*/\1="3072"/' -e 's/^set -o errexit$//' \
  "$out/testing/scripts/build-certs-chroot"
./enter.sh "$out/root" --with "$out/testing" bash "$out/testing/scripts/build-certs-chroot" >"$out/certificates.log" 2>&1 || true
for file in moon/etc/swanctl/x509/moonCert.pem sun/etc/swanctl/rsa/sunKey.pem; do
  [ -s "$out/testing/hosts/$file" ] ||
    fail "the suite's certificates cannot be made: $(tail -n 5 "$out/certificates.log")"
done

make -s -C ../../charon STRONGSWAN="$source" OUT="$out/plugin" ||
  fail "convoy's plugin cannot be built for strongSwan $version"
rm -rf "$source"
echo "$version" >"$out/version"
made_from >"$out/made-from"
