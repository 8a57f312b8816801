#!/usr/bin/env bash
# Tests the systemd units: Debian's systemd boots in Debian's user-mode Linux, over this machine's
# /usr, and follows docs/guide/first-tunnel.md, docs/guide/site-to-site.md and
# docs/guide/strongswan.md; see systemd/guest.sh. Needs root for the TAP device; the guest has its
# own namespaces.
# usage: systemd.sh CONVOY PLUGIN
set -euo pipefail
exec </dev/null
convoy=$(realpath "$1") plugin=$(realpath "$2")
cd "$(dirname "$0")/.."
source tests/lib.sh
need_root
work_dir
packages=$PWD/target/systemd-packages

# The packages of the page's apt-get would start services on this machine, so only the guest gets
# them.
version=$(dpkg-query -W -f '${Version}' strongswan-charon)
fetch() { (cd "$packages.part" && apt-get -qq -o APT::Sandbox::User=root download apparmor "charon-systemd=$version" >&2); }
if [ ! -e "$packages/$version" ]; then
  rm -rf "$packages" "$packages.part"
  mkdir -p "$packages.part"
  fetch 2>/dev/null || { apt-get -qq update && fetch; }
  for package in "$packages.part"/*.deb; do dpkg-deb -x "$package" "$packages.part"; done
  for folder in lib sbin; do cp -a "$packages.part/$folder/." "$packages.part/usr/$folder/"; done
  touch "$packages.part/$version"
  mv "$packages.part" "$packages"
fi

mkdir -p "$work"/{first/{bin,dev,proc,machine,root},out,uml,tree/{etc/systemd/system,usr/lib/modules,src/tests}}
cp "$(command -v busybox)" "$work/first/bin/busybox"
cp tests/systemd/init "$work/first/init"
cp -a "$packages"/usr "$work/tree/"
for item in passwd group shadow nsswitch.conf ld.so.conf ld.so.conf.d ld.so.cache login.defs protocols services pam.d alternatives \
  strongswan.conf strongswan.d swanctl apparmor.d; do
  [ ! -e "/etc/$item" ] || cp -a "/etc/$item" "$work/tree/etc/"
done
cp -a "$packages/etc/." "$work/tree/etc/"
touch "$work/tree/etc/apparmor.d/local/usr.sbin."{charon-systemd,swanctl} # as the packages' installation does
for modules in /usr/lib/uml/modules/*; do ln -s "$modules" "$work/tree/usr/lib/modules/"; done
cc -D_GNU_SOURCE -shared -fPIC -O1 -Wall -Wextra -Werror -o "$work/tree/src/probe.so" tests/systemd/probe.c
# What the pages install.
scripts/packages.sh "$(dirname "$convoy")" "$plugin" "$work/packages" >"$work/packages.log" 2>&1 || { cat "$work/packages.log" >&2; exit 1; }
cp "$work"/packages/*.deb "$work/tree/src/"
cp -a docs "$work/tree/src/"
cp -a tests/charon tests/systemd tests/lib.sh "$work/tree/src/tests/"

etc=$work/tree/etc
head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$etc/machine-id" # without one systemd asks at the console
echo convoy >"$etc/hostname"
: >"$etc/fstab"
ln -s /lib/systemd/system/multi-user.target "$etc/systemd/system/default.target"
# Services that the units do not need and that would slow down the guest, which is a process of this
# machine without a console.
for unit in getty.target rescue.service timers.target systemd-{timesyncd,firstboot,binfmt,sysusers,random-seed,networkd,network-generator}.service \
  systemd-{udevd,udev-trigger,update-utmp,update-utmp-runlevel,journal-flush,pstore,remount-fs}.service systemd-udevd-{control,kernel}.socket \
  systemd-networkd.socket nftables.service modprobe@{configfs,dm_mod,drm,efi_pstore,fuse,loop}.service proc-sys-fs-binfmt_misc.automount; do
  ln -s /dev/null "$etc/systemd/system/$unit"
done
cat >"$etc/systemd/system/guest.service" <<'UNIT'
[Unit]
After=multi-user.target
IgnoreOnIsolate=yes
[Service]
Type=oneshot
ExecStart=/src/tests/systemd/guest.sh
ExecStopPost=/bin/systemctl poweroff --force
StandardOutput=append:/out/log
StandardError=inherit
UNIT
printf '[Unit]\nRequires=basic.target\nAfter=basic.target\nAllowIsolate=yes\n' >"$etc/systemd/system/down.target"
mkdir "$etc/systemd/system/multi-user.target.wants"
ln -s ../guest.service "$etc/systemd/system/multi-user.target.wants/"

TMPDIR=$work unshare --pid --mount-proc --kill-child \
  tests/kernel/uml.sh mem=512M uml_dir="$work/uml/" umid=convoy rootfstype=hostfs rootflags="$work/first" rw init=/init "work=$work" \
  security=apparmor apparmor=1 systemd.show_status=0 con=null con0=null,fd:1 panic=1 >"$work/console" 2>&1 & guest=$!
touch "$work/out/log"
timeout 600 tail -n +1 -f --pid=$guest "$work/out/log" & reader=$!
wait $reader || echo "the guest takes too long" >&2
[ -e "$work/out/status" ] || { tail -n 30 "$work/console" >&2; exit 1; }
