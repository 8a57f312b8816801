#!/bin/sh
# The first process of a machine of machines.sh, in its namespaces: makes its root and becomes
# Debian's systemd.
# usage: boot.sh NAME WORK
set -e
work=$2
mount --make-rprivate /
cd "$work/machines/$1/root"
mount --bind . .
cd "$work/machines/$1/root"
mkdir -p srv/peers
mount --rbind "$work/peers" srv/peers
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mkdir dev/pts dev/shm dev/net
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
for one in null zero full random urandom tty net/tun; do
  touch "dev/$one"
  mount --bind "/dev/$one" "dev/$one"
done
hostname "$1"
mkdir -p old
pivot_root . old
umount -l old
rmdir old
exec env -i container=namespaces /lib/systemd/systemd
