#!/usr/bin/env bash
# Makes packages of the gateway and of charon's plugin, in OUT: .deb, .rpm (of the gateway only: the
# plugin fits the strongSwan that it was built with), a tarball, and with `image` an OCI image.
# usage: packages.sh BINARY PLUGIN OUT [image]
#   BINARY: target/release/convoy; PLUGIN: libstrongswan-convoy.so, with its version beside it
set -euo pipefail
binary=$(realpath "$1") plugin=$(realpath "$2") out=$(realpath -m "$3") image=${4:-}
cd "$(dirname "$0")/.."
fail() { echo "packages.sh: $1" >&2; exit 1; }
nfpm_version=v2.43.0
nfpm=$(command -v nfpm || echo "$PWD/target/tools/nfpm")
if [ ! -x "$nfpm" ]; then
  command -v go >/dev/null || fail "needs nfpm (https://nfpm.goreleaser.com/docs/install), or Go to build it"
  echo "building nfpm $nfpm_version; this takes a minute" >&2
  GOBIN=$(dirname "$nfpm") GOFLAGS=-mod=mod go install "github.com/goreleaser/nfpm/v2/cmd/nfpm@$nfpm_version" >&2
fi

VERSION=${VERSION:-$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)}
RELEASE=${RELEASE:-1}
HOMEPAGE=$(sed -n 's/^repository = "\(.*\)"/\1/p' Cargo.toml)
ARCH=$(dpkg --print-architecture)
STAGE=$out/stage
# The files' time, so that packages of the same source are the same.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH
# filled FILE: with the variables above in place of ${NAME}.
filled() {
  local name text; text=$(cat "$1")
  for name in VERSION RELEASE HOMEPAGE ARCH STAGE; do text=${text//"\${$name}"/"${!name}"}; done
  echo "$text"
}
rm -rf "$out"
mkdir -p "$STAGE/debian"
strip -o "$STAGE/convoy" "$binary"
cp "$plugin" "$STAGE/libstrongswan-convoy.so"
strip --strip-unneeded "$STAGE/libstrongswan-convoy.so"
"$binary" reference --manuals "$STAGE"
gzip -9n "$STAGE"/man/*.1

# What the program needs: for Debian the packages with their versions, for others the libraries.
printf 'Source: convoy\n\nPackage: convoy\nArchitecture: any\n' >"$STAGE/debian/control"
depends=$(cd "$STAGE" && dpkg-shlibdeps -O convoy 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
[ -n "$depends" ] || fail "dpkg-shlibdeps finds no libraries in $binary"
libraries=$(objdump -p "$binary" | awk '$1 == "NEEDED" && $2 !~ /^ld-/ { print $2 "()(64bit)" }')
strongswan=$(cat "$(dirname "$plugin")/version")
next=$(awk -F. '{ print $1 "." $2 "." $3 + 1 }' <<<"$strongswan")
as_list() { sed 's/^/      - "/; s/$/"/'; }
{
  filled packaging/convoy.yaml
  printf 'overrides:\n  deb:\n    depends:\n'
  { tr ',' '\n' <<<"$depends" | sed 's/^ *//'; echo 'systemd | systemd-standalone-sysusers'; } | as_list
  printf '    recommends: [nftables]\n  rpm:\n    depends:\n'
  as_list <<<"$libraries"
} >"$STAGE/convoy.yaml"
{
  filled packaging/convoy-charon.yaml
  printf 'overrides:\n  deb:\n    depends:\n'
  printf 'convoy (>= %s~)\nstrongswan-libcharon (>= %s)\nstrongswan-libcharon (<< %s~)\n' "${VERSION%.*}" "$strongswan" "$next" | as_list
  printf '    recommends: ["charon-systemd (>= %s)"]\n' "$strongswan"
} >"$STAGE/convoy-charon.yaml"
for package in "deb convoy" "deb convoy-charon" "rpm convoy"; do
  read -r kind name <<<"$package"
  "$nfpm" package --config "$STAGE/$name.yaml" --packager "$kind" --target "$out/" >"$STAGE/said" || fail "nfpm: $(cat "$STAGE/said")"
done

# The same files from the root on, for systems without these packagers.
tar=convoy-$VERSION-linux-$ARCH
dpkg-deb -x "$out"/convoy_"$VERSION"*.deb "$STAGE/$tar"
cp packaging/README.tarball "$STAGE/$tar/README"
tar -C "$STAGE" --sort=name --owner=0 --group=0 --mtime="@$SOURCE_DATE_EPOCH" -czf "$out/$tar.tar.gz" "$tar"
[ -z "$image" ] || packaging/image.sh "$STAGE/convoy" "$out/convoy-$VERSION-oci.tar"
rm -rf "$STAGE"
ls -l "$out"
