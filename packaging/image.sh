#!/usr/bin/env bash
# Makes an OCI image that holds the gateway, the cluster's agent, the libraries that they need, and
# nothing else.
# usage: image.sh BINARY ARCHIVE    BINARY has convoy-cluster-agent beside it; needs buildah; root, or user namespaces
#
# It needs NET_ADMIN and /dev/net/tun beside what every container may do:
#   podman run --network host --cap-add NET_ADMIN --device /dev/net/tun \
#     -v /etc/convoy:/etc/convoy:ro -v convoy-state:/var/lib/convoy IMAGE
set -euo pipefail
binary=$(realpath "$1") agent=$(dirname "$(realpath "$1")")/convoy-cluster-agent archive=$(realpath -m "$2")
command -v buildah >/dev/null || { echo "image.sh: needs buildah; run scripts/install.sh packages" >&2; exit 1; }
root=$(mktemp -d)
container=
clean() {
  [ -z "$container" ] || buildah rm "$container" >/dev/null
  rm -rf "$root"
}
trap clean EXIT
mkdir -p "$root"/{etc/convoy,run/convoy,tmp,usr/bin,usr/libexec/convoy,var/lib/convoy,var/cache}
chmod 700 "$root/run/convoy" "$root/var/lib/convoy"
cp "$binary" "$root/usr/bin/convoy"
cp "$agent" "$root/usr/libexec/convoy/"
# Libraries stay where the loader looks for them; /lib is /usr/lib, as on Debian.
ln -s usr/lib "$root/lib"
ln -s usr/lib64 "$root/lib64"
ldd "$binary" "$agent" | grep -oE '/[^ :]+\.so[^ ]*' | sort -u | while read -r library; do
  install -D -m 755 "$library" "$root/usr/${library#/}"
done
printf 'root:x:0:0::/:/sbin/nologin\nconvoy:x:999:999::/:/sbin/nologin\n' >"$root/etc/passwd"
printf 'root:x:0:\nconvoy:x:999:\n' >"$root/etc/group"
container=$(buildah from scratch)
buildah add -q "$container" "$root" / >/dev/null
buildah config --entrypoint '["/usr/bin/convoy"]' --cmd 'run -c /etc/convoy/convoy.toml' \
  --stop-signal SIGTERM --volume /var/lib/convoy --label org.opencontainers.image.title=convoy \
  --label org.opencontainers.image.licenses='Apache-2.0 OR MIT' "$container"
rm -f "$archive"
buildah commit -q "$container" "oci-archive:$archive:convoy" >/dev/null
