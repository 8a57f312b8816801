#!/usr/bin/env bash
# Runs every fuzz target for some seconds. A crash is an error, and its input is kept in
# fuzz/artifacts. The target `charon` is the message parser of charon's plugin, in C (charon/fuzz);
# all others are in Rust.
# usage: run.sh SECONDS [TARGET ...]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=$1; shift
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(captures headers inbound outbound sas aggfrag iptfs configuration import control query ike video charon)
seeds=fuzz/corpus/charon-seeds
# Seeds: the gateway's own messages, each of which the plugin must understand.
prepare_charon() {
  scripts/install.sh charon fuzz
  make -s -C charon OUT="$PWD/target/charon" "$PWD/target/charon/fuzz"
  cargo run -q -p convoy-ike --example messages "$seeds"
  CONVOY_MUST_UNDERSTAND=1 target/charon/fuzz "$seeds"/*
  mkdir -p fuzz/corpus/charon fuzz/artifacts/charon
}
# Seeds: the same packets in every format, complete and with a snap length.
prepare_captures() {
  scripts/install.sh fuzz
  mkdir -p fuzz/corpus/captures
  for format in pcap nsecpcap modpcap pcapng; do
    editcap -r -F "$format" demo/traffic.pcap "fuzz/corpus/captures/seed-$format" 1-8
    editcap -r -s 60 -F "$format" demo/traffic.pcap "fuzz/corpus/captures/seed-$format-snapped" 1-8
  done
}
# Seeds: the configurations with which users begin.
prepare_configuration() {
  mkdir -p fuzz/corpus/configuration
  cp examples/site-*.toml examples/card.toml fuzz/corpus/configuration/
}
# Seeds: long inputs, to which libFuzzer would come late.
prepare_long() {
  mkdir -p "fuzz/corpus/$1"
  for bytes in 100 400 1500 4000; do head -c "$bytes" /dev/urandom >"fuzz/corpus/$1/seed-$bytes"; done
}
fuzz_target() {
  local options=(-max_total_time="$seconds" -max_len=4096 -print_final_stats=1)
  case $1 in
    charon) target/charon/fuzz "${options[@]}" -artifact_prefix=fuzz/artifacts/charon/ fuzz/corpus/charon "$seeds" 2>&1 ;;
    *) cargo fuzz run --features libfuzzer "$1" -- "${options[@]}" 2>&1 ;;
  esac
}
[[ " ${targets[*]} " != *" charon "* ]] || prepare_charon >/dev/null
[[ " ${targets[*]} " != *" captures "* ]] || prepare_captures >/dev/null
[[ " ${targets[*]} " != *" configuration "* ]] || prepare_configuration
for target in aggfrag iptfs; do
  [[ " ${targets[*]} " != *" $target "* ]] || prepare_long "$target"
done
[ "${targets[*]}" = charon ] || command -v cargo-fuzz >/dev/null || cargo install --locked --quiet cargo-fuzz
# Sanitizers need a nightly compiler; this enables them in the stable one.
export RUSTC_BOOTSTRAP=1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for target in "${targets[@]}"; do
  echo "=== $target, $seconds s"
  status=0
  fuzz_target "$target" >"$log" || status=$?
  grep -E 'stat::|panicked|ERROR|Assertion|assertion|runtime error|charon was notified' "$log" || true
  [ "$status" = 0 ] || { tail -n 20 "$log" >&2; echo "$target ended with $status; its input, if it had one: fuzz/artifacts/$target" >&2; exit 1; }
done
