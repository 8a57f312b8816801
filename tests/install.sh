#!/usr/bin/env bash
# The packages in a clean Debian of this machine's release: two sites are installed by apt, set up
# by `convoy init` and started, with the commands counted and timed up to the first packet; then one
# is run, upgraded, removed and purged. The laboratory's package is installed beside it, without
# which the commands that it has say so. The tarball and the .rpm have the same files; the image
# runs with a container's privileges. Needs root.
# usage: install.sh CONVOY PLUGIN    CONVOY has convoy-cluster-agent and convoy-lab beside it
set -euo pipefail
convoy=$(realpath "$1") plugin=$(realpath "$2")
cd "$(dirname "$0")/.."
source tests/lib.sh
source tests/debian.sh
need_root
work_dir
container=
ns=convoy-install-a-$$ ns_b=convoy-install-b-$$
root=$work/root root_b=$work/root-b
leave() {
  for one in $ns $ns_b; do ip netns pids $one 2>/dev/null | xargs -r kill -9 || true; done
  for folder in {"$root","$root_b"}/{dev/net,proc,sys} "$work"/image/{dev,proc}; do mountpoint -q "$folder" && umount -l "$folder" || true; done
  [ -z "$container" ] || buildah rm "$container" >/dev/null 2>&1 || true
}
at_exit leave
# in_root ROOT COMMAND...: in the file system under ROOT, after the command $within, if any.
# shellcheck disable=SC2086 # several words
in_root() { ${within:-} env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive chroot "$@"; }
inside() { in_root "$root" "$@"; }
install=(apt-get -o APT::Sandbox::User=root -y --no-install-recommends)
# apt INSTRUCTION...: its words only if it fails.
apt() { inside "${install[@]}" "$@" >"$work/apt.log" 2>&1 || fail "apt-get $*: $(tail -n 20 "$work/apt.log")"; }

packages first 1 image
packages second 2
deb=$(echo "$work"/first/convoy_*.deb) rpm=$(echo "$work"/first/convoy-[0-9]*.rpm) tar=$(echo "$work"/first/convoy-*.tar.gz)
deb_lab=$(echo "$work"/first/convoy-lab_*.deb) rpm_lab=$(echo "$work"/first/convoy-lab-*.rpm)
# The three have the same files, apart from where zsh looks for completions.
plain() { sed -E 's#^\./?#/#; s#/zsh/(site-functions|vendor-completions)/#/zsh/#' | grep -v '/$' | sort; }
# same_files DEB RPM NAME: both have the same files, whose list is NAME.files.
same_files() {
  dpkg-deb --fsys-tarfile "$1" | tar -t | plain >"$work/$3.files"
  rpm -qpl --nosignature "$2" 2>/dev/null | plain | grep -vx /etc/convoy | diff "$work/$3.files" - || fail "the .rpm of $3 has other files than the .deb"
}
same_files "$deb" "$rpm" deb
same_files "$deb_lab" "$rpm_lab" lab
tar -tzf "$tar" | sed 's#^[^/]*/#/#' | plain | grep -vx /README >"$work/tar.files"
diff "$work/deb.files" "$work/tar.files" || fail "the tarball has other files than the .deb"
rpm -qp --nosignature --requires "$rpm" 2>/dev/null | contains '^libc.so.6()(64bit)' || fail "the .rpm does not say what it needs"
# kilobytes DEB FILE: the size of a file in a package.
kilobytes() { echo "$(($(dpkg-deb --fsys-tarfile "$1" | tar -xO ".$2" | wc -c) / 1000)) kB"; }
ok "$(wc -l <"$work/deb.files") files in the .deb, the .rpm and the tarball; $(($(stat -c %s "$deb") / 1000)) kB"
ok "stripped: convoy $(kilobytes "$deb" /usr/bin/convoy), convoy-cluster-agent $(kilobytes "$deb" /usr/libexec/convoy/convoy-cluster-agent), convoy-lab $(kilobytes "$deb_lab" /usr/bin/convoy-lab)"

debian apt "$root"
apt update
cp -a "$root" "$root_b"
for one in "$root" "$root_b"; do
  mkdir -p "$one/dev/net" "$one/packages" "$one/run/convoy"
  mount --bind /dev/net "$one/dev/net"
  mount -t proc proc "$one/proc"
  mount -t sysfs sysfs "$one/sys"
  cp "$work"/first/*.deb "$one/packages/"
done
! inside sh -c 'command -v cc' >/dev/null || fail "the clean Debian has a compiler"
add_namespace $ns $ns_b
cable $ns wan0 192.0.2.1/24 $ns_b wan0 192.0.2.2/24

# Two sites as an operator sets them up. `convoy run` stands for systemctl, and cp for scp. apt has
# its lists, but no packages.
typed=()
# types ROOT LOG COMMAND...: what an operator types at the site with this root.
types() {
  local at=$1 log=$work/$2.log; shift 2
  typed+=("$*")
  in_root "$at" "$@" >"$log" 2>&1 || fail "$*: $(tail -n 20 "$log")"
}
first_ping() { ip netns exec $ns ping -q -c 1 -W 1 -I 10.1.0.1 10.2.0.1 >/dev/null 2>&1; }
began=$SECONDS
for site in root root_b; do types "${!site}" apt "${install[@]}" install "/packages/${deb##*/}"; done
installed=$((SECONDS - began))
within="ip netns exec $ns" types "$root" init convoy init --remote 192.0.2.2 --local-ts 10.1.0.1 --remote-ts 10.2.0.1
! grep warning: "$work/init.log" || fail "init warns"
typed+=("scp /site-b/etc/convoy/convoy.toml root@192.0.2.2:/etc/convoy/")
grep -qF "${typed[-1]}" "$work/init.log" || fail "init does not say: ${typed[-1]}"
cp -p "$root/site-b/etc/convoy/convoy.toml" "$root_b/etc/convoy/"
pair=()
for site in "$ns $root" "$ns_b $root_b"; do
  typed+=("systemctl enable --now convoy")
  ip netns exec ${site% *} chroot "${site#* }" /usr/bin/convoy run >"$work/gateway-${#typed[@]}.log" 2>&1 & pair+=($!)
done
until first_ping; do [ $((SECONDS - began)) -lt 300 ] || fail "no packet after 300 s: $(cat "$work"/gateway-*.log)"; done
ok "two sites from packages, ${#typed[@]} commands: first packet after $((SECONDS - began)) s, of which installing took $installed s"
printf '  %s\n' "${typed[@]}"
[ ${#typed[@]} -le 6 ] || fail "${#typed[@]} commands are more than three a site"
for one in "${pair[@]}"; do end_well "$one" "a gateway"; done

! inside sh -c 'command -v cc' >/dev/null || fail "the package brings a compiler"
inside id convoy >/dev/null || fail "the package makes no user"
[ "$(inside convoy --version)" = "$("$convoy" --version)" ] || fail "another version: $(inside convoy --version)"
inside convoy engines >"$work/engines" || fail "no engine: $(cat "$work/engines")"
grep -q multibuffer "$work/engines" || fail "the installed program has no multibuffer engine: $(cat "$work/engines")"
[ -e "$root/usr/share/man/man1/convoy-check.1.gz" ] && [ -e "$root/usr/share/bash-completion/completions/convoy" ] || fail "man pages or completions are missing"
zcat "$root/usr/share/man/man5/convoy.toml.5.gz" | contains 'replay_window' || fail "convoy.toml(5) is missing"
for page in guide/strongswan operation/troubleshooting reference/configuration; do
  [ -e "$root/usr/share/doc/convoy/$page.md" ] || fail "the package has no page $page"
done
# A terminal of 80 columns breaks longer lines.
help_lines=$(inside convoy --help | fold -s -w 80 | wc -l)
[ "$help_lines" -le 40 ] || fail "convoy --help has $help_lines lines of 80 columns, and a screen 40"
ok "convoy --help has $help_lines lines of 80 columns"
ok "installed by one command; also $(grep -c '^Setting up' "$work/apt.log") packages in all, no compiler"

# The laboratory is a package of its own, without which its commands name it.
! inside convoy demo >"$work/demo.log" 2>&1 || fail "convoy demo runs without the laboratory"
grep -q 'install the package convoy-lab' "$work/demo.log" || fail "convoy demo does not name its package: $(cat "$work/demo.log")"
apt install "/packages/${deb_lab##*/}"
[ "$(inside convoy-lab --version | sed 's/.* //')" = "$(inside convoy --version | sed 's/.* //')" ] || fail "the programs have different versions"
inside convoy-lab sim run pci-accelerators >"$work/simulated" || fail "the installed laboratory does not simulate: $(cat "$work/simulated")"
inside convoy sim run pci-accelerators | diff "$work/simulated" - || fail "convoy sim is not convoy-lab sim"
inside convoy-lab engines >"$work/engines" || fail "the laboratory lists no engines: $(cat "$work/engines")"
grep -q '^model' "$work/engines" || fail "the installed laboratory has no modelled engine: $(cat "$work/engines")"
[ -e "$root/usr/share/man/man1/convoy-lab-sim-run.1.gz" ] && [ -e "$root/usr/share/bash-completion/completions/convoy-lab" ] || fail "the laboratory's man pages or completions are missing"
ok "the laboratory's package: convoy demo names it, and convoy sim runs it once it is installed"

# It runs as its user, from the installed files.
# runs ROOT WHAT [COMMAND...]: the gateway in a root file system, by a command.
runs() {
  local at=$1 what=$2 gateway; shift 2
  : >"$work/gateway.log"
  ip netns exec $ns "$@" chroot "$at" /usr/bin/convoy run -c /etc/convoy/convoy.toml >"$work/gateway.log" 2>&1 & gateway=$!
  wait_for_line ' ready' "$work/gateway.log" "$what does not start"
  [ "$(stat -c %u "/proc/$gateway")" != 0 ] || fail "$what runs as root"
  chroot "$at" /usr/bin/convoy show sa >"$work/shown" || fail "$what does not answer: $(cat "$work/shown")"
  end_well $gateway "$what"
}
runs "$root" "the installed gateway"
[ -e "$root/var/lib/convoy/state" ] || fail "there is no state file"
ok "the installed gateway runs as its own user and stops"

# What a container may do beside NET_ADMIN, which it needs, is by default more than this.
container=$(buildah from -q "oci-archive:$(echo "$work"/first/*-oci.tar)" 2>/dev/null) || fail "the image is not one"
mkdir "$work/image"
cp -a "$(buildah mount "$container")/." "$work/image/"
mkdir -p "$work"/image/{dev,proc}
mount --bind /dev "$work/image/dev"
mount -t proc proc "$work/image/proc"
cp -p "$root/etc/convoy/convoy.toml" "$work/image/etc/convoy/"
may=-all,+net_admin,+net_raw,+net_bind_service,+setuid,+setgid,+sys_chroot
runs "$work/image" "the image's gateway" setpriv --bounding-set $may --inh-caps $may --no-new-privs
ok "the image's gateway runs with NET_ADMIN and what every container may"

cp "$work"/second/*.deb "$root/packages/"
apt install "/packages/$(basename "$(echo "$work"/second/convoy_*.deb)")"
[ "$(inside dpkg-query -W -f '${Version}' convoy | sed 's/.*-//')" = 2 ] || fail "not upgraded"
[ -e "$root/etc/convoy/convoy.toml" ] && [ -e "$root/var/lib/convoy/state" ] || fail "an upgrade loses configuration or state"
apt install "/packages/$(basename "$(echo "$work"/second/convoy-charon_*.deb)")"
[ -e "$root/usr/lib/ipsec/plugins/libstrongswan-convoy.so" ] && [ -e "$root/usr/lib/ipsec/libcharon.so.0" ] || fail "the plugin comes without charon's library"
allowed() {
  grep -qx '/run/convoy/charon.sock rw,' "$root/etc/apparmor.d/local/usr.sbin.charon-systemd" &&
    grep -qx '/run/convoy-charon/vici rw,' "$root/etc/apparmor.d/local/usr.sbin.swanctl"
}
allowed || fail "the plugin's package does not let charon reach the gateway under AppArmor"
ok "upgraded; charon's plugin comes with the strongSwan that it fits"
# A gateway that is killed leaves what drops the packets of its tunnels, and so does its package,
# until it is purged.
ip netns exec $ns chroot "$root" /usr/bin/convoy run -c /etc/convoy/convoy.toml >"$work/gateway.log" 2>&1 & killed=$!
wait_for_line ' ready' "$work/gateway.log" "the upgraded gateway does not start"
kill_and_wait $killed
no_process() { [ -z "$(ip netns pids $ns)" ]; }
wait_until "the helper of a killed gateway does not end" no_process
blocks() { ip -n $ns route show table all | contains '^blackhole.*10\.2\.0\.1'; }
wait_until "a killed gateway leaves nothing that drops packets" blocks
within="ip netns exec $ns"
apt remove convoy convoy-charon
cp "$work/apt.log" "$work/removed.log"
[ ! -e "$root/usr/bin/convoy" ] && [ -e "$root/etc/convoy/convoy.toml" ] && [ -e "$root/var/lib/convoy/state" ] || fail "removing it removes too little, or the operator's files"
inside convoy-lab --version >/dev/null || fail "the laboratory goes with the gateway"
apt remove convoy-lab
[ ! -e "$root/usr/bin/convoy-lab" ] || fail "the laboratory is not removed"
grep -q 'unblock -c /etc/convoy/convoy.toml' "$work/removed.log" || fail "the removal does not say that packets are still dropped: $(cat "$work/removed.log")"
blocks || fail "the removal lets packets pass in clear"
apt purge convoy convoy-charon
! allowed || fail "a purged plugin leaves its line in AppArmor's file"
! blocks || fail "a purged package still drops packets: $(cat "$work/apt.log")"
! ip netns exec $ns nft list tables | contains convoy || fail "a purged package leaves its guard"
[ ! -e "$root/var/lib/convoy" ] && [ -e "$root/etc/convoy/convoy.toml" ] || fail "purging keeps the state, or removes the operator's keys"
ok "removed; purged without the operator's configuration"
