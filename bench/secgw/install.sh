#!/usr/bin/env bash
# Builds the example ipsec-secgw of the installed DPDK version in FOLDER. apt fetches the source
# with a separate list, so the machine's configuration is not changed.
# usage: install.sh FOLDER
set -euo pipefail
folder=$(realpath -m "$1")
[ ! -x "$folder/ipsec-secgw" ] || exit 0
version=$(dpkg-query -W -f '${Version}' libdpdk-dev)
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
mkdir -p "$folder" "$temporary"/{parts,lists/partial,source}
# The distribution's archives, with source packages.
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
  [ -f "$list" ] && grep -qE 'debian\.org|ubuntu\.com' "$list" || continue
  sed -e 's/^Types: deb$/Types: deb-src/' -e 's/^deb /deb-src /' "$list" >"$temporary/parts/$(basename "$list")"
done
apt=(apt-get -qq -o "Dir::Etc::sourcelist=-" -o "Dir::Etc::sourceparts=$temporary/parts" -o "Dir::State::lists=$temporary/lists" -o "APT::Sandbox::User=root")
"${apt[@]}" update
(cd "$temporary/source" && "${apt[@]}" --download-only source "dpdk=$version")
tar -C "$temporary/source" --strip-components=1 -xf "$temporary"/source/dpdk_*.orig.tar.*
example=$temporary/source/examples/ipsec-secgw
# Ports that are files have no checksum offload, which the example requires.
sed -i 's/\.offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM,/.offloads = 0,/' "$example/ipsec-secgw.c"
grep -q '\.offloads = 0,' "$example/ipsec-secgw.c" || { echo "the line to change is not in ipsec-secgw.c of DPDK $version" >&2; exit 1; }
make -C "$example" shared >"$folder/build.log" 2>&1 || { tail -20 "$folder/build.log" >&2; exit 1; }
cp "$example/build/ipsec-secgw-shared" "$folder/ipsec-secgw"
echo "$version" >"$folder/version"
