# shellcheck shell=bash disable=SC2034,SC2154
# Machines for tests that follow a guide: each is a clean Debian of this machine's release with its
# own systemd as the first process, in namespaces of its own. Sourced after lib.sh and debian.sh, in
# the repository's folder, with $work and $debs, the packages, set.
#
# /srv/peers/HOST of each machine is the file system of another one, for its scp.
declare -A pids boots typed written
machines=()
# The Debian that all machines begin with, of mmdebstrap's variant `important`, as debootstrap makes
# it. Archives of packages that guides install are in its cache, so that no machine needs the
# internet, and none of the seconds is a download's.
base=$PWD/target/setups/debian
clean_debian() { # "PACKAGE ..."...: what is installed at a time, for the cache; names or .deb files
  if [ ! -e "$base.done" ]; then
    rm -rf "$base"
    mkdir -p "${base%/*}"
    debian important "$base"
    cp /etc/resolv.conf "$base/etc/resolv.conf"
    printf 'APT::Sandbox::User "root";\nAPT::Get::Assume-Yes "true";\n' >"$base/etc/apt/apt.conf.d/99setups"
    touch "$base.done"
  fi
  mkdir -p "$base/root"
  rm -f "$base"/root/*.deb
  cp "${debs[@]}" "$base/root/"
  install -m 755 tests/setups/scp "$base/usr/local/bin/scp"
  local set
  for set in "$@"; do
    # shellcheck disable=SC2086 # several words
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive chroot "$base" sh -c "
      cd /root; apt-get -q update; apt-get -q install --download-only $set" >"$work/archives.log" 2>&1 || fail "no archives of $set"
  done
}
# machine NAME@HOST...: boots them, and returns when the systemd of each says that it is up. Their
# cables are made before, to network namespaces of these names. The others reach a machine's files
# by scp under HOST, an address or a name.
machine() {
  local one name own
  for one; do
    name=${one%@*} own=$work/machines/${one%@*}
    mkdir -p "$own"/{upper,work,root} "$work/peers/${one#*@}"
    mount -t overlay overlay -o "lowerdir=$base,upperdir=$own/upper,workdir=$own/work" "$own/root"
    mount --bind "$own/root" "$work/peers/${one#*@}"
    machines+=("$name")
    echo "$name" >"$own/root/etc/hostname"
    printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$name" >"$own/root/etc/hosts"
    : >"$own/root/etc/machine-id"
    : >"$own/root/etc/resolv.conf"
    typed[$name]=0 written[$name]=0
  done
  for one; do boot "${one%@*}"; done
  for one; do
    name=${one%@*}
    wait_until "no first process of $name" first_process "$name"
    pids[$name]=$(first_process "$name")
    wait_until "systemd of $name is not up" is_up "$name"
  done
}
# A control group of its own is what a systemd needs to start services.
control_group() { echo "$(findmnt -nro TARGET -t cgroup2 | head -n 1)/convoy-setups-${work##*.}-$1"; }
boot() { # name
  local group
  group=$(control_group "$1")
  mkdir -p "$group"
  {
    echo $BASHPID >"$group/cgroup.procs"
    exec ip netns exec "$1" unshare --mount --pid --uts --ipc --cgroup --fork --kill-child tests/setups/boot.sh "$1" "$work"
  } >"$work/$1.boot.log" 2>&1 &
  boots[$1]=$!
}
first_process() { ps --ppid "${boots[$1]}" -o pid= | tr -d ' ' | grep .; }
enter() { # machine command...
  nsenter -t "${pids[$1]}" -m -p -u -i -n -C -r -w env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "${@:2}"
}
# Degraded is a systemd of which a unit has failed, such as one that loads modules.
is_up() { case $(enter "$1" systemctl is-system-running 2>&1) in running | degraded) ;; *) return 1 ;; esac; }
end_machines() {
  local name
  for name in "${machines[@]}"; do
    [ -z "${pids[$name]:-}" ] || kill_and_wait "${pids[$name]}"
    [ -z "${boots[$name]:-}" ] || wait "${boots[$name]}" 2>/dev/null || true
  done
  for name in "$work"/peers/*; do ! mountpoint -q "$name" || umount -l "$name"; done
  rm -rf "$work/peers"
  for name in "${machines[@]}"; do
    ! mountpoint -q "$work/machines/$name/root" || umount -l "$work/machines/$name/root"
    remove_namespace "$name"
    find "$(control_group "$name")" -depth -type d -exec rmdir {} + 2>/dev/null || true
  done
  rm -rf "$work/machines"
  machines=() pids=() boots=() typed=() written=()
}

# What a person does. The clock of a way begins with the first of it; $apt_ms is what apt takes.
began='' apt_ms=0
clock() { [ -n "$began" ] || began=$EPOCHREALTIME; }
since_began() { awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.0f", b - a }'; }
# types MACHINE COMMANDS: has a shell of root run what a person types there, in /root. Lines count,
# without comments; what stands in a here-document counts as written.
types() {
  local counts log=$work/$1.typed.log start
  clock
  start=$(date +%s%3N)
  read -r -a counts < <(awk '
    document != "" { if ($0 == document) document = ""; else lines++; next }
    /^ *(#|$|done$)/ { next }
    !continued { commands++ }
    { continued = /\\$/ }
    match($0, /<<.?[A-Z]+/) { document = substr($0, RSTART, RLENGTH); gsub(/[^A-Z]/, "", document) }
    END { print commands + 0, lines + 0 }' <<<"$2")
  typed[$1]=$((${typed[$1]} + counts[0])) written[$1]=$((${written[$1]} + counts[1]))
  printf '%s\n' "$2" | sed "s/^/$(since_began) s $1# /" >>"$work/typed.log"
  printf '%s\n' "$2" >>"$log"
  (cd /; enter "$1" bash -ec "cd /root; $2") >"$work/said" 2>&1 </dev/null || fail "$1: $2: $(tail -n 20 "$work/said")"
  cat "$work/said" >>"$log"
  [[ $2 != *"apt-get install"* ]] || apt_ms=$((apt_ms + $(date +%s%3N) - start))
}
# follows MACHINE PAGE NAME [SED]: types a block of the page, changed by a script of sed.
follows() {
  local text
  text=$(marked "docs/$2" "$3" | sed -E "${4:-}")
  types "$1" "$text"
}
# writes MACHINE FILE MODE PAGE NAME [FILTER...]: adds a block of the page to a file, as by an
# editor. Its lines count, without comments.
writes() {
  local text filter=("${@:6}")
  clock
  text=$(marked "docs/$4" "$5" | "${filter[@]:-cat}")
  written[$1]=$((${written[$1]} + $(grep -cvE '^ *(#|!|$)' <<<"$text")))
  [ -e "$work/machines/$1/root$2" ] || install -D -m "$3" /dev/null "$work/machines/$1/root$2"
  printf '%s\n' "$text" >>"$work/machines/$1/root$2"
  printf '%s\n' "$text" | sed "s#^#$(since_began) s $1:$2: #" >>"$work/typed.log"
}
pings_once() { enter "$1" ping -q -c 1 -W 1 "${@:2}"; } # machine argument...
# reached MACHINE ARGUMENT...: waits until a ping passes, which ends the way's time.
reached() {
  wait_until "no ping passes" pings_once "$@"
  seconds=$(since_began)
}
