#!/usr/bin/env bash
# Makes packages of the gateway (convoy), of the laboratory (convoy-lab) and of charon's plugin
# (convoy-charon), in OUT: .deb of all three, .rpm of the first two (the plugin fits the strongSwan
# that it was built with); and of the gateway a tarball, and with `image` an OCI image.
# usage: packages.sh DIR PLUGIN OUT [image]
#   DIR: target/release, with convoy, convoy-cluster-agent and convoy-lab
#   PLUGIN: libstrongswan-convoy.so, with its version beside it
set -euo pipefail
programs=$(realpath "$1") plugin=$(realpath "$2") out=$(realpath -m "$3") image=${4:-}
cd "$(dirname "$0")/.."
fail() { echo "packages.sh: $1" >&2; exit 1; }
for program in convoy convoy-cluster-agent convoy-lab; do
  [ -x "$programs/$program" ] || fail "$programs has no $program; build it: cargo build --release -p $program"
done
nfpm_version=v2.43.0
nfpm=$(command -v nfpm || echo "$PWD/target/tools/nfpm")
if [ ! -x "$nfpm" ]; then
  command -v go >/dev/null || fail "needs nfpm (https://nfpm.goreleaser.com/docs/install), or Go to build it"
  echo "building nfpm $nfpm_version; this takes a minute" >&2
  GOBIN=$(dirname "$nfpm") GOFLAGS=-mod=mod go install "github.com/goreleaser/nfpm/v2/cmd/nfpm@$nfpm_version" >&2
fi

VERSION=${VERSION:-$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)}
RELEASE=${RELEASE:-1}
# shellcheck disable=SC2034 # `filled` takes it
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
for program in convoy convoy-cluster-agent convoy-lab; do strip -o "$STAGE/$program" "$programs/$program"; done
cp "$plugin" "$STAGE/libstrongswan-convoy.so"
strip --strip-unneeded "$STAGE/libstrongswan-convoy.so"
for program in convoy convoy-lab; do
  "$programs/convoy-lab" reference --of "$program" --manuals "$STAGE/manuals/$program"
  gzip -9n "$STAGE/manuals/$program"/man/*.1
done
# convoy.toml(5) is the book's page on the configuration.
mkdir -p "$STAGE/manuals/convoy/man5"
{
  printf '%% convoy.toml 5\n\n# NAME\n\nconvoy.toml - configuration of the IPsec gateway convoy\n\n'
  cat docs/reference/configuration.md
} | go-md2man | gzip -9n >"$STAGE/manuals/convoy/man5/convoy.toml.5.gz"

printf 'Source: convoy\n\nPackage: convoy\nArchitecture: any\n' >"$STAGE/debian/control"
as_list() { sed 's/^/      - "/; s/$/"/'; }
# packages_of PROGRAM...: the packages of Debian that programs need, with their versions, as a list.
packages_of() {
  local depends
  depends=$(cd "$STAGE" && dpkg-shlibdeps -O "$@" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
  [ -n "$depends" ] || fail "dpkg-shlibdeps finds no libraries in $*"
  tr ',' '\n' <<<"$depends" | sed 's/^ *//' | as_list
}
# libraries_of PROGRAM...: the libraries that programs need, as a list, for systems without Debian's
# packages.
libraries_of() {
  (cd "$STAGE" && objdump -p "$@") | awk '$1 == "NEEDED" && $2 !~ /^ld-/ { print $2 "()(64bit)" }' | sort -u | as_list
}
strongswan=$(cat "$(dirname "$plugin")/version")
next=$(awk -F. '{ print $1 "." $2 "." $3 + 1 }' <<<"$strongswan")
{
  filled packaging/convoy.yaml
  printf 'overrides:\n  deb:\n    depends:\n'
  packages_of convoy convoy-cluster-agent
  echo 'systemd | systemd-standalone-sysusers' | as_list
  printf '    recommends: [nftables]\n  rpm:\n    depends:\n'
  libraries_of convoy convoy-cluster-agent
} >"$STAGE/convoy.yaml"
{
  filled packaging/convoy-lab.yaml
  printf 'overrides:\n  deb:\n    depends:\n'
  packages_of convoy-lab
  printf '  rpm:\n    depends:\n'
  libraries_of convoy-lab
} >"$STAGE/convoy-lab.yaml"
{
  filled packaging/convoy-charon.yaml
  printf 'overrides:\n  deb:\n    depends:\n'
  printf 'convoy (>= %s~)\nstrongswan-libcharon (>= %s)\nstrongswan-libcharon (<< %s~)\n' "${VERSION%.*}" "$strongswan" "$next" | as_list
  printf '    recommends: ["charon-systemd (>= %s)", libstrongswan-standard-plugins, libstrongswan-extra-plugins]\n' "$strongswan"
} >"$STAGE/convoy-charon.yaml"
for package in "deb convoy" "deb convoy-lab" "deb convoy-charon" "rpm convoy" "rpm convoy-lab"; do
  read -r kind name <<<"$package"
  "$nfpm" package --config "$STAGE/$name.yaml" --packager "$kind" --target "$out/" >"$STAGE/said" || fail "nfpm: $(cat "$STAGE/said")"
done

# The gateway's files from the root on, for systems without these packagers.
tar=convoy-$VERSION-linux-$ARCH
dpkg-deb -x "$out"/convoy_"$VERSION"*.deb "$STAGE/$tar"
cp packaging/README.tarball "$STAGE/$tar/README"
tar -C "$STAGE" --sort=name --owner=0 --group=0 --mtime="@$SOURCE_DATE_EPOCH" -czf "$out/$tar.tar.gz" "$tar"
[ -z "$image" ] || packaging/image.sh "$STAGE/convoy" "$out/convoy-$VERSION-oci.tar"
rm -rf "$STAGE"
ls -l "$out"
