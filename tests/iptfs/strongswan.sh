#!/usr/bin/env bash
# Unpacks a strongSwan that has IP-TFS (6.0.2 and later; Debian 13 has 6.0.1) with the libraries
# that it needs, and builds convoy's plugin for it: OUT/root, to be run with enter.sh, has charon
# and swanctl; OUT/plugin/libstrongswan-convoy.so is the plugin, OUT/version says which strongSwan
# it is, and OUT/guest.gz brings the same into the guest of guest.py, as /strongswan. Nothing is
# installed. Root.
# usage: strongswan.sh [OUT]: ../../target/iptfs/strongswan by default
set -euo pipefail
here=$(dirname "$(realpath "$0")")
out=$(realpath -m "${1:-$here/../../target/iptfs/strongswan}")
cd "$here"
suite=forky
packages="strongswan-charon strongswan-swanctl libstrongswan-standard-plugins libstrongswan-extra-plugins libcharon-extra-plugins dash coreutils iproute2"
plugins=/usr/lib/ipsec/plugins
fail() { echo "strongswan.sh: $1" >&2; exit 1; }
is_current() {
  [ -e "$out/version" ] && [ -e "$out/guest.gz" ] || return 1
  for source in ../../charon/*.[ch] ../../charon/Makefile strongswan.sh; do
    [ "$out/plugin/libstrongswan-convoy.so" -nt "$source" ] || return 1
  done
}
! is_current || exit 0
[ "$(id -u)" = 0 ] || fail "needs root"
for tool in dpkg-deb tar bzip2 cc make flock cpio gzip; do command -v $tool >/dev/null || fail "needs $tool; run scripts/install.sh charon iptfs"; done
mkdir -p "$out"
exec 9>"$out/lock"
flock 9
! is_current || exit 0

if [ ! -e "$out/version" ]; then
  echo "unpacking a strongSwan with IP-TFS; this takes a minute and downloads 60 MB" >&2
  work=$(mktemp -d "$out/work.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  trap 'exit 129' INT TERM HUP
  ./unpack.sh "$work/root" $suite $packages >"$work/packages"
  revision=$(awk '$1 == "strongswan-charon" { print $2 }' "$work/packages")
  version=${revision%-*}
  [ "$(printf '%s\n' 6.0.2 "$version" | sort -V | head -n 1)" = 6.0.2 ] || fail "$suite has strongSwan $version, which has no IP-TFS"
  [ -d "$work/root$plugins" ] || fail "strongSwan $version has its plugins elsewhere than in $plugins"
  # Of the source only the headers are of use.
  ./unpack.sh --source "$work" $suite "strongswan=$revision"
  mkdir "$work/headers"
  (cd "$work/strongswan-$version" && find src/libstrongswan src/libcharon -name '*.h' -print0 | tar -c --null -T -) |
    tar -x -C "$work/headers"
  rm -rf "$out/root" "$out"/strongswan-* "$out/guest.gz"
  mv "$work/headers" "$out/strongswan-$version"
  ./enter.sh "$work/root" /usr/lib/ipsec/charon --version >/dev/null || fail "strongSwan $version does not run here"
  mv "$work/root" "$out/root"
  echo "$version" >"$out/version.part"
  mv "$out/version.part" "$out/version"
fi
if [ ! -e "$out/guest.gz" ]; then
  stage=$(mktemp -d "$out/work.XXXXXX")
  trap 'rm -rf "${work:-}" "$stage"' EXIT
  trap 'exit 129' INT TERM HUP
  cp -a "$out/root" "$stage/strongswan"
  rm -rf "$stage"/strongswan/usr/share "$stage"/strongswan/usr/lib/x86_64-linux-gnu/{gconv,perl*,security}
  (cd "$stage" && find . | cpio -o -H newc --quiet | gzip -1) >"$out/guest.gz.part"
  mv "$out/guest.gz.part" "$out/guest.gz"
fi
make -s -C ../../charon STRONGSWAN="$out/strongswan-$(cat "$out/version")" OUT="$out/plugin"
# Else a change that compiles to the same would be built again each time.
touch "$out/plugin/libstrongswan-convoy.so"
