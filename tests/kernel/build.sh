#!/usr/bin/env bash
# Builds the initramfs of the kernel peer, unless it is newer than its sources. Debian's user-mode
# Linux boots it; see ../kernel.sh and ../charon/libreswan.sh.
# usage: build.sh OUT.gz
set -euo pipefail
out=$(realpath -m "$1")
cd "$(dirname "$0")"
is_new=y
for source in build.sh init espinudp.c probe.c /usr/lib/uml/modules; do [ "$out" -nt "$source" ] || is_new=; done
[ -z "$is_new" ] || exit 0
export PATH=$PATH:/sbin:/usr/sbin
modules=$(echo /usr/lib/uml/modules/*)
version=$(basename "$modules")
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,sbin,proc,sys,dev,tmp,www} "$root/lib/modules/$version/kernel" "$(dirname "$out")"

cp "$(command -v busybox)" "$root/bin/busybox"
for applet in sh mount cat grep httpd sleep uname; do ln -s busybox "$root/bin/$applet"; done
# The kernel runs modprobe for ciphers.
ln -s /bin/busybox "$root/sbin/modprobe"
cp -L "$(command -v ip)" "$root/bin/ip"
while read -r library; do
  mkdir -p "$root$(dirname "$library")"
  cp -L "$library" "$root$library"
done < <(ldd "$root/bin/ip" | grep -oE '/[^ ]+\.so[^ ]*')
for program in espinudp probe; do cc -static -Os -s -Wall -Wextra -Werror -o "$root/bin/$program" $program.c; done

for folder in crypto lib net/ipv4 net/ipv6 net/xfrm; do
  mkdir -p "$root/lib/modules/$version/kernel/$(dirname $folder)"
  cp -r "$modules/kernel/$folder" "$root/lib/modules/$version/kernel/$(dirname $folder)/"
done
cp "$modules"/modules.{builtin,order} "$root/lib/modules/$version/"
depmod -b "$root" "$version" 2>/dev/null
install -m 755 init "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$out.part"
mv "$out.part" "$out"
