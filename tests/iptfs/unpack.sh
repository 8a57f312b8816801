#!/usr/bin/env bash
# Unpacks packages of other Debian suites, with all that they depend on, into a folder to chroot to.
# Nothing is installed: apt works with lists, cache and state of its own, which are deleted at the
# end. The archive is that of the machine's own sources; apt checks signatures and checksums.
# usage: unpack.sh ROOT "SUITE ..." PACKAGE ...
#        unpack.sh --alone ROOT "SUITE ..." PACKAGE ...    without what they depend on
#        unpack.sh --source ROOT "SUITE ..." PACKAGE       the source package's upstream tarball
# PACKAGE is a name, name=version or name/suite. Prints the name and the version of each.
set -euo pipefail
how=
case $1 in --alone | --source) how=$1; shift ;; esac
root=$1 suites=$2; shift 2
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
fail() { echo "$0: $1" >&2; exit 1; }
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || fail "needs Debian's apt and dpkg"
[ -e "$keyring" ] || fail "needs $keyring, of the package debian-archive-keyring"
# Of several archives the first is Debian's main one; security and updates end otherwise.
archive=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | awk '/\/debian\/?$/ && !found++ { print } END { exit !found }') ||
  fail "apt has no source that ends in /debian"

mkdir -p "$root"
root=$(realpath "$root")
apt=$(mktemp -d)
trap 'rm -rf "$apt"' EXIT
mkdir -p "$apt"/{lists,archives}/partial
touch "$apt/status"
kind=deb
[ "$how" != --source ] || kind=deb-src
for suite in $suites; do echo "$kind [signed-by=$keyring] $archive $suite main"; done >"$apt/sources.list"
cat >"$apt/conf" <<CONF
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt";
Dir::Cache::archives "$apt/archives";
APT::Sandbox::User "root";
APT::Install-Recommends "false";
Acquire::Languages "none";
Acquire::Retries "3";
CONF
export APT_CONFIG=$apt/conf
apt-get -qq update >&2 || fail "apt cannot read the lists of $suites"
if [ "$how" = --source ]; then
  (cd "$apt/archives" && apt-get -qq source --tar-only --download-only --only-source "$@" >&2) || fail "apt cannot download the source of $*"
  for tarball in "$apt"/archives/*.orig.tar.*; do
    case $tarball in *.asc) ;; *) tar -C "$root" --no-same-owner -xf "$tarball" || fail "cannot unpack ${tarball##*/}" ;; esac
  done
  exit 0
fi
if [ "$how" = --alone ]; then
  (cd "$apt/archives" && apt-get -qq download "$@" >&2) || fail "apt cannot download $*"
else
  apt-get -qq -y --download-only install "$@" >&2 || fail "apt cannot download $* and what they need"
fi
# As on an installed Debian, where the packages' own folders are all in /usr.
for folder in bin sbin lib lib64; do
  mkdir -p "$root/usr/$folder"
  [ -e "$root/$folder" ] || ln -s "usr/$folder" "$root/$folder"
done
mkdir -p "$root"/{dev,etc,proc,run,sys,tmp,var}
[ -e "$root/var/run" ] || ln -s ../run "$root/var/run"
for package in "$apt"/archives/*.deb; do
  dpkg-deb -x "$package" "$root" || fail "cannot unpack ${package##*/}"
  dpkg-deb -W --showformat='${Package} ${Version}\n' "$package"
done
