#!/usr/bin/env bash
# Builds the IP-TFS peer: OUT/vmlinuz, Debian's newest kernel of trixie-backports, and OUT/base.gz,
# an initramfs with xfrm_iptfs.ko, which Debian does not build but whose source it has. What is
# there already is kept; a kernel stays until OUT is deleted. See README.md. Root, for chroot.
# usage: build.sh [OUT]: ../../target/iptfs by default
set -euo pipefail
here=$(dirname "$(realpath "$0")")
out=$(realpath -m "${1:-$here/../../target/iptfs}")
cd "$here"
export PATH=$PATH:/sbin:/usr/sbin
programs="sa.c burst.c reflect.c ../kernel/espinudp.c"
suites="trixie trixie-backports"
flavour=cloud-amd64
fail() { echo "build.sh: $1" >&2; exit 1; }
# The kernel is not rebuilt for another version of this script.
is_current() {
  [ -e "$out/linux/vmlinuz" ] && [ -e "$out/vmlinuz" ] || return 1
  for source in build.sh init $programs "$out/linux/vmlinuz"; do [ "$out/base.gz" -nt "$source" ] || return 1; done
}
! is_current || exit 0
[ "$(id -u)" = 0 ] || fail "needs root"
for tool in dpkg-deb tar xz depmod cpio gzip cc busybox flock; do
  command -v $tool >/dev/null || fail "needs $tool; run scripts/install.sh test iptfs"
done
mkdir -p "$out"
exec 9>"$out/lock"
flock 9
! is_current || exit 0
work=$(mktemp -d "$out/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 129' INT TERM HUP

# repair FILE VERSION: mends two faults of memory in the module of Linux 7.3, after which the
# guest's kernel panics sooner or later. What is sent and how it is read stay the same.
# - The receiver shares pages of outer packets with inner ones. It miscounts the references of pages
#   that belong to a page pool, as virtio_net's do, and writes a link header over the end of what it
#   has just shared. Without sharing it copies.
# - The sender links packets to the first one of those that it puts together, even if TCP keeps a
#   clone of that one, which then is sent again with links to packets that are gone.
repair() {
  local shares='skb_has_frag_list(skb) || skb->pp_recycle != walk->pp_recycle'
  local links='remaining = mtu - (skb->len - sizeof(struct ip_iptfs_hdr));'
  if [ "$(grep -cF "if ($shares)" "$1")$(grep -cF "$links" "$1")" = 11 ]; then
    sed -i "s/$shares/true/; s/$links/&\nif (skb_unclone(skb, GFP_ATOMIC)) { kfree_skb(skb); continue; }/" "$1"
  else
    echo "build.sh: xfrm_iptfs.c of Linux $2 is another than that of 7.3, and is not repaired" >&2
  fi
}
# kernel FOLDER: vmlinuz, the modules that the guest needs, ip and tc with their libraries.
kernel() {
  local root=$work/root version revision series module
  echo "building the IP-TFS peer's kernel module; this takes a minute and downloads 300 MB" >&2
  ./unpack.sh "$root" "$suites" "linux-headers-$flavour/trixie-backports" make binutils libc6-dev dash coreutils sed grep \
    mawk findutils iproute2 >"$work/packages"
  version=$(basename "$root"/usr/src/linux-headers-*-$flavour)
  version=${version#linux-headers-}
  revision=$(awk -v name="linux-headers-$version" '$1 == name { print $2 }' "$work/packages")
  series=$(grep -oE '^[0-9]+\.[0-9]+' <<<"$version") || fail "no version in linux-headers-$version"
  ./unpack.sh --alone "$root" "$suites" "linux-modules-$version=$revision" "linux-binary-$version=$revision" "linux-source-$series=$revision" >/dev/null
  local source=$root/usr/src/linux-source-$series.tar.xz modules=$root/usr/lib/modules/$version

  ln -s mawk "$root/usr/bin/awk" # else set up as the package is installed
  # The module, and nothing else of the folder that it is in.
  mkdir "$root/build"
  tar -xJf "$source" -C "$root/build" --strip-components=3 --wildcards '*/net/xfrm/*.[ch]' || fail "no net/xfrm in ${source##*/}"
  [ -e "$root/build/xfrm_iptfs.c" ] || fail "Linux $version has no xfrm_iptfs.c"
  repair "$root/build/xfrm_iptfs.c" "$version"
  sed -i 's|^#define TRACE_INCLUDE_PATH .*|#define TRACE_INCLUDE_PATH .|' "$root/build/trace_iptfs.h"
  printf 'obj-m := xfrm_iptfs.o\nccflags-y := -I$(src)\n' >"$root/build/Makefile"
  ./enter.sh "$root" make -s -C "/usr/src/linux-headers-$version" M=/build modules >"$work/make.log" 2>&1 ||
    { tail -20 "$work/make.log" >&2; fail "xfrm_iptfs.ko does not build"; }
  install -D -m 644 "$root/build/xfrm_iptfs.ko" "$modules/kernel/net/xfrm/xfrm_iptfs.ko"

  # The closure of what is wanted, decompressed: the guest's modprobe is busybox's.
  depmod -b "$root/usr" "$version" 2>"$work/depmod.log" || { cat "$work/depmod.log" >&2; fail "depmod fails"; }
  mkdir -p "$1/lib/modules/$version"
  awk -F '[: ]+' '
    { all[$1] = $0 }
    function want(path, parts, count, i) {
      if (path in wanted || !(path in all)) return
      wanted[path]
      count = split(all[path], parts, /[: ]+/)
      for (i = 2; i <= count; i++) if (parts[i] != "") want(parts[i])
    }
    END {
      for (path in all)
        if (path ~ /^kernel\/(crypto|arch\/x86\/crypto|lib\/crypto)\/[^\/]+$|\/(xfrm_[a-z]+|xfrm[46]_tunnel|tunnel[46]|esp[46]|ip6?_tunnel|wireguard|af_packet|nf_tables|veth|tun|virtio_(net|pci|console|ring|rng)|sch_(netem|tbf|fq_codel|prio)|ipv6)\.ko/)
          want(path)
      for (path in wanted) print path
    }' "$modules/modules.dep" >"$work/wanted"
  for module in xfrm_iptfs xfrm_user esp4 esp6 wireguard sch_netem; do
    grep -q "/$module\.ko" "$work/wanted" || fail "Linux $version has no module $module"
  done
  while read -r module; do
    install -D -m 644 "$modules/$module" "$1/lib/modules/$version/$module"
  done <"$work/wanted"
  find "$1/lib/modules" -name '*.ko.xz' -exec xz -d {} +
  cp "$modules"/modules.{builtin*,order} "$1/lib/modules/$version/"
  depmod -b "$1" "$version" || fail "depmod fails on the guest's modules"

  # The libraries keep their places, as the programs' interpreter has a fixed path.
  local binary library
  for binary in ip tc; do
    binary=$(find "$root/usr/bin" "$root/usr/sbin" -name "$binary" -type f | head -n 1)
    [ -n "$binary" ] || fail "iproute2 has no ip or tc"
    install -D -m 755 "$binary" "$1/bin/${binary##*/}"
    ./enter.sh "$root" /lib64/ld-linux-x86-64.so.2 --list "${binary#"$root"}" | grep -oE '/[^ ]+\.so[^ ]*' >>"$work/libraries"
  done
  sort -u "$work/libraries" | while read -r library; do install -D -m 755 "$root$library" "$1$library"; done
  install -m 644 "$(find "$root/boot" "$root/usr/lib/modules/$version" -name 'vmlinuz*' -type f 2>/dev/null | head -n 1)" "$1/vmlinuz" ||
    fail "no vmlinuz in the kernel's packages"
}
if [ ! -e "$out/linux/vmlinuz" ]; then
  mkdir "$work/kernel"
  kernel "$work/kernel"
  rm -rf "$out/linux"
  mv "$work/kernel" "$out/linux"
fi

guest=$work/guest
mkdir -p "$guest"/{bin,sbin,proc,sys,dev,run,tmp,www}
cp "$(command -v busybox)" "$guest/bin/busybox"
for applet in $(busybox --list); do [ "$applet" = busybox ] || ln -s busybox "$guest/bin/$applet"; done
rm -f "$guest"/bin/{ip,tc} # those of iproute2 come instead
cp -a "$out/linux/bin" "$out/linux/lib"* "$guest/"
# The kernel calls it for ciphers.
ln -s /bin/busybox "$guest/sbin/modprobe"
for program in $programs; do
  name=$(basename "$program" .c)
  [ ! -e "$guest/bin/$name" ] || fail "busybox has $name as well"
  cc -static -Os -s -Wall -Wextra -Werror -o "$guest/bin/$name" "$program"
done
install -m 755 init "$guest/init"
(cd "$guest" && find . | cpio -o -H newc --quiet | gzip -1) >"$out/base.gz.part"
mv "$out/base.gz.part" "$out/base.gz"
ln -sf linux/vmlinuz "$out/vmlinuz"
