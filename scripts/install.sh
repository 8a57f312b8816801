#!/usr/bin/env bash
# Installs what convoy needs: with apt on Debian and Ubuntu; on other systems it lists what is
# missing. usage: install.sh PURPOSE ..., of build, lint, card, card-test, test, packages,
# packages-test, wheel, routing, cluster, monitoring, hdtv, peers, wireguard, xdp, secgw, bench,
# instructions, sampling, charon, charon-test, iptfs, fuzz, browser
set -euo pipefail

# The needs of each purpose: "command or file:package". Intel's library and DPDK are optional.
declare -A needs=(
  [build]="cc:gcc /usr/include/stdio.h:libc6-dev pkg-config:pkg-config protoc:protobuf-compiler /usr/include/google/protobuf/descriptor.proto:libprotobuf-dev"
  [lint]="shellcheck:shellcheck"
  [card]="g++:g++ make:make perl:perl python3:python3"
  [card-test]="python3-config:python3-dev berkeley-abc:berkeley-abc"
  [test]="ip:iproute2 sysctl:procps pgrep:procps /etc/protocols:netbase tcpdump:tcpdump tshark:tshark editcap:wireshark-common iperf3:iperf3 perf:linux-perf ping:iputils-ping curl:curl python3:python3 tmux:tmux zsh:zsh fish:fish ethtool:ethtool /usr/share/doc/libfaketime:libfaketime
    /usr/bin/linux.uml:user-mode-linux busybox:busybox-static cpio:cpio /sbin/depmod:kmod /lib/systemd/systemd:systemd cc:gcc /usr/include/stdio.h:libc6-dev
    nft:nftables iptables:iptables openssl:openssl certutil:libnss3-tools
    ffmpeg:ffmpeg gst-launch-1.0:gstreamer1.0-tools /usr/share/doc/gstreamer1.0-plugins-base:gstreamer1.0-plugins-base /usr/share/doc/gstreamer1.0-plugins-good:gstreamer1.0-plugins-good"
  [routing]="/usr/lib/frr/bgpd:frr ip:iproute2 tcpdump:tcpdump nft:nftables openssl:openssl ping:iputils-ping"
  [cluster]="etcd:etcd-server etcdctl:etcd-client ip:iproute2 openssl:openssl"
  [monitoring]="prometheus:prometheus promtool:prometheus ip:iproute2 curl:curl python3:python3 ping:iputils-ping"
  [browser]="chromium:chromium /usr/share/fonts/truetype/dejavu:fonts-dejavu-core ip:iproute2 nft:nftables curl:curl python3:python3"
  [packages]="buildah:buildah dpkg-shlibdeps:dpkg-dev objdump:binutils gzip:gzip go-md2man:go-md2man"
  [packages-test]="mmdebstrap:mmdebstrap rpm:rpm"
  [wheel]="python3:python3"
  [hdtv]="ip:iproute2 python3:python3 perf:linux-perf iperf3:iperf3 taskset:util-linux"
  [charon]="cc:gcc /usr/include/stdio.h:libc6-dev make:make bzip2:bzip2 /usr/lib/ipsec/libcharon.so.0:strongswan-libcharon"
  [charon-test]="/usr/lib/ipsec/charon:strongswan-charon swanctl:strongswan-swanctl
    /usr/lib/ipsec/plugins/libstrongswan-openssl.so:libstrongswan-standard-plugins
    /usr/lib/ipsec/plugins/libstrongswan-ctr.so:libstrongswan-extra-plugins
    /usr/lib/ipsec/plugins/libstrongswan-kernel-libipsec.so:libcharon-extra-plugins
    /usr/lib/ipsec/plugins/libstrongswan-eap-mschapv2.so:libcharon-extauth-plugins pki:strongswan-pki"
  [iptfs]="qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio xz:xz-utils /sbin/depmod:kmod flock:util-linux cc:gcc /usr/include/stdio.h:libc6-dev make:make bzip2:bzip2
    ip:iproute2 tcpdump:tcpdump python3:python3 /usr/share/keyrings/debian-archive-keyring.gpg:debian-archive-keyring"
  [fuzz]="clang:clang editcap:wireshark-common /usr/share/doc/libclang-rt-dev:libclang-rt-dev"
  [peers]="cc:gcc ip:iproute2 iperf3:iperf3 ping:iputils-ping taskset:util-linux openssl:openssl ethtool:ethtool nft:nftables /usr/lib/ipsec/charon:strongswan-charon swanctl:strongswan-swanctl
    /usr/lib/ipsec/plugins/libstrongswan-kernel-libipsec.so:libcharon-extra-plugins /usr/lib/ipsec/plugins/libstrongswan-openssl.so:libstrongswan-standard-plugins"
  [wireguard]="wg:wireguard-tools ip:iproute2"
  [xdp]="cc:gcc /usr/include/stdio.h:libc6-dev ip:iproute2 taskset:util-linux ethtool:ethtool nft:nftables python3:python3"
  [secgw]="cc:gcc make:make pkg-config:pkg-config python3:python3 taskset:util-linux stdbuf:coreutils xz:xz-utils /usr/include/dpdk/rte_ethdev.h:libdpdk-dev
    /usr/share/doc/librte-meta-net:librte-meta-net /usr/share/doc/librte-meta-crypto:librte-meta-crypto"
  [bench]="g++:g++ /usr/include/systemc:libsystemc-dev python3:python3"
  [instructions]="valgrind:valgrind addr2line:binutils python3:python3"
  [sampling]="perf:linux-perf addr2line:binutils python3:python3"
)
declare -A wants=(
  [build]="/usr/include/intel-ipsec-mb.h:libipsec-mb-dev /usr/include/dpdk/rte_cryptodev.h:libdpdk-dev"
  [lint]=""
  [card]=""
  [card-test]=""
  [test]=""
  [routing]=""
  [cluster]=""
  [monitoring]=""
  [browser]=""
  [packages]=""
  [packages-test]=""
  [wheel]=""
  [hdtv]=""
  [charon]=""
  [charon-test]=""
  [iptfs]=""
  [secgw]="/usr/include/intel-ipsec-mb.h:libipsec-mb-dev"
  [peers]=""
  [wireguard]=""
  [xdp]=""
  [bench]=""
  [instructions]="/usr/include/intel-ipsec-mb.h:libipsec-mb-dev"
  [sampling]="/usr/include/intel-ipsec-mb.h:libipsec-mb-dev"
  [fuzz]=""
)

has() { case $1 in /*) [ -e "$1" ];; *) command -v "$1" >/dev/null;; esac; }
packages_of() { for pair in $1; do has "${pair%%:*}" || echo "${pair#*:}"; done; }

needed=() wanted=()
for purpose in "$@"; do
  while read -r package; do [ -z "$package" ] || needed+=("$package"); done < <(packages_of "${needs[$purpose]}")
  while read -r package; do [ -z "$package" ] || wanted+=("$package"); done < <(packages_of "${wants[$purpose]}")
done

run_as_root() { if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else return 1; fi; }
apt_install() {
  run_as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq >/dev/null &&
    run_as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# Services that were not asked for: strongswan-charon installs strongswan-starter, which runs a
# second charon besides the one that convoy's documentation sets up; the tests run prometheus and
# etcd themselves.
services=() # that are not there yet
has_unit() { systemctl cat "$1.service" >/dev/null 2>&1; }
for service in strongswan-starter prometheus etcd; do has_unit $service || services+=("$service"); done
if [ ${#needed[@]} -gt 0 ]; then
  echo "installing: ${needed[*]}"
  if ! command -v apt-get >/dev/null || ! apt_install "${needed[@]}"; then
    echo "convoy needs these, and they could not be installed here: ${needed[*]}" >&2
    echo "(named as on Debian; install their counterparts and run this again)" >&2
    exit 1
  fi
fi
for service in "${services[@]}"; do
  ! has_unit "$service" || run_as_root systemctl disable -q --now "$service.service" || true
done
if [ ${#wanted[@]} -gt 0 ]; then
  echo "installing: ${wanted[*]}"
  command -v apt-get >/dev/null && apt_install "${wanted[@]}" ||
    echo "going on without ${wanted[*]}: the multibuffer engine needs libipsec-mb-dev, DPDK's devices need libdpdk-dev" >&2
fi

if ! command -v cargo >/dev/null; then
  echo "convoy needs Rust $(grep -m1 rust-version Cargo.toml | cut -d'"' -f2) or later: https://rustup.rs" >&2
  exit 1
fi

# On Debian, `python3 -m venv` needs a separate package.
need_venv() { python3 -c 'import ensurepip' 2>/dev/null || apt_install python3-venv; }

# make_venv FOLDER REQUIREMENTS MODULES: installs Python packages, unless these modules are present.
make_venv() {
  [ -x "$1/bin/python" ] && "$1/bin/python" -c "import $3" 2>/dev/null && return
  need_venv
  python3 -m venv "$1"
  "$1/bin/pip" install -q -r "$2"
}
case " $* " in *" card "* | *" wheel "*) need_venv ;; esac
case " $* " in *" test "*) make_venv target/test-venv tests/requirements.txt scapy,cryptography,prometheus_client ;; esac
case " $* " in *" bench "*) make_venv target/bench-venv bench/simulator/requirements.txt simpy ;; esac
