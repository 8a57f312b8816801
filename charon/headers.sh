#!/usr/bin/env bash
# Brings the headers of the installed strongSwan, for which no package exists: its source package,
# by the machine's own apt sources (their keys and checksums are apt's affair). Prints the folder,
# which has src/libstrongswan and src/libcharon.
# usage: headers.sh FOLDER [VERSION]
set -euo pipefail
folder=$1
version=${2:-$(dpkg-query -W -f '${source:Upstream-Version}' strongswan-libcharon 2>/dev/null || true)}
if [ -z "$version" ]; then
  echo "strongSwan's charon is not installed as a Debian package; scripts/install.sh charon does that," >&2
  echo "or say which headers to take: make charon STRONGSWAN=/path/to/strongswan-5.9.x" >&2
  exit 1
fi
tree=$folder/strongswan-$version
if [ -e "$tree/src/libcharon/daemon.h" ]; then echo "$tree"; exit 0; fi

mkdir -p "$folder/apt/parts" "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial"
apt_folder=$(cd "$folder/apt" && pwd)
list='' parts=''
eval "$(apt-config shell list Dir::Etc::sourcelist/f parts Dir::Etc::sourceparts/d)"
: >"$apt_folder/sources.list"
# Only Debian's and Ubuntu's own archives: strongSwan comes from there.
[ ! -e "$list" ] || sed -nE 's/^deb(-src)? /deb-src /p' "$list" >"$apt_folder/sources.list"
for file in "$parts"/debian*.sources "$parts"/ubuntu*.sources; do
  [ ! -e "$file" ] || sed -E 's/^Types:.*/Types: deb-src/' "$file" >"$apt_folder/parts/${file##*/}"
done
options=(-o "Dir::Etc::sourcelist=$apt_folder/sources.list" -o "Dir::Etc::sourceparts=$apt_folder/parts"
  -o "Dir::State::lists=$apt_folder/lists" -o "Dir::Cache=$apt_folder/cache" -o "APT::Sandbox::User=root")
apt-get "${options[@]}" -qq update >&2
# The revision that is installed, or else another of the same upstream version, which has the same
# tarball.
revision=$(apt-cache "${options[@]}" showsrc --only-source strongswan |
  sed -nE "s/^Version: (([0-9]+:)?${version//./\\.}-.*)/\1/p" | tail -n 1)
if [ -z "$revision" ]; then
  echo "apt has no source of strongSwan $version, which is installed; update it, or set STRONGSWAN" >&2
  exit 1
fi
(cd "$folder" && apt-get "${options[@]}" -qq source --tar-only --download-only --only-source "strongswan=$revision" >&2)
tar -C "$folder" --no-same-owner -xf "$folder"/strongswan_"$version".orig.tar.*
rm -rf "$apt_folder"
echo "$tree"
