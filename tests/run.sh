#!/usr/bin/env bash
# Runs the system tests of list.sh: against other implementations and in network namespaces. They
# need root, and a missing implementation is a failure. JOBS (three for each core) run at a time, as
# they wait more than they compute, the longest first; those that measure the machine run at the
# end, one at a time. Prints the wall time of each and the CPU time of all its processes.
# usage: [JOBS=N] run.sh TIER DIR [PATTERN]
#   TIER: product, what a contributor to the gateway must not break; or all, with the laboratory,
#         and what is slow
#   DIR: has the programs convoy, convoy-cluster-agent and convoy-lab, and libstrongswan-convoy.so
#         if that is not in target/charon
#   PATTERN: only tests whose names match
set -euo pipefail
tier=$1 programs=$(realpath "$2") pattern=${3:-}
case $tier in product | all) ;; *) echo "run.sh: $tier: expected product or all" >&2; exit 2 ;; esac
cd "$(dirname "$0")/.."
jobs=${JOBS:-$((3 * $(nproc)))}
names=() commands=() order=()
declare -A running=()
passed=0 failed=() company=0 companies=()
logs=$(mktemp -d)
chmod 755 "$logs" # some daemons give their privileges up
# All processes of a test end with the one that made its namespace.
end() {
  for pid in "${!running[@]}"; do pkill -KILL -P "$pid" || true; done
  wait
  rm -rf "$logs"
}
trap end EXIT
trap 'exit 130' INT TERM HUP

# The vocabulary of list.sh. The seconds are what a test takes, roughly; the longest start first. A
# test's company is 0 among others, 1 idle, 2 alone.
product() { add "$@"; } # seconds name command...
slow() { [ "$tier" = product ] || add "$@"; } # the same, in the tier `all` alone
# product or slow..., for what measures the machine: `idle` for what mostly waits meanwhile, beside
# which one that is `alone` may run.
idle() { company=1; "$@"; company=0; }
alone() { company=2; "$@"; company=0; }
add() {
  [[ $2 =~ $pattern ]] || return 0
  order+=("$company $1 ${#names[@]}")
  companies+=("$company")
  names+=("$2")
  commands+=("$(printf '%q ' "${@:3}")")
}
has_room() { # company
  local count=${#running[@]} one
  case $1 in
    0) [ "$count" -lt "$jobs" ] ;;
    1) [ "$count" = 0 ] ;;
    2) for one in "${running[@]}"; do [ "${companies[$one]}" != 1 ] || count=$((count - 1)); done
      [ "$count" = 0 ] ;;
  esac
}
begin() { # test
  mkdir "$logs/$1.tmp"
  {
    local status=0
    TIMEFORMAT='%R %U %S'
    time { eval "TMPDIR=$logs/$1.tmp tests/own-run.sh ${commands[$1]}" >"$logs/$1" 2>&1 </dev/null || status=$?; }
    exit $status
  } 2>"$logs/$1.time" &
  running[$!]=$1
}
finish() { # waits for one
  local one pid='' status=0 word=passed test wall user system
  # Not wait -n, which does not report a process that ended while another was waited for.
  while [ -z "$pid" ]; do
    for one in "${!running[@]}"; do kill -0 "$one" 2>/dev/null || pid=$one; done
    [ -n "$pid" ] || sleep 0.2
  done
  wait "$pid" || status=$?
  test=${running[$pid]}
  unset "running[$pid]"
  read -r wall user system <<<"$(tail -n 1 "$logs/$test.time")"
  if [ $status = 0 ]; then passed=$((passed + 1)); else failed+=("$test") word=FAILED; fi
  awk -v wall="$wall" -v user="$user" -v kernel="$system" -v what="${names[$test]}" \
    'BEGIN { printf "%6.1f s wall, %6.1f s CPU: %s\n", wall, user + kernel, what }' | tee -a "$logs/times" | sed "s/^ */=== $word, /"
  cat "$logs/$test"
  rm -rf "$logs/$test.tmp"
}
source tests/list.sh
[ ${#names[@]} -gt 0 ] || { echo "run.sh: no test of tier $tier has a name that matches '$pattern'" >&2; exit 2; }
began=$SECONDS
mapfile -t order < <(printf '%s\n' "${order[@]}" | sort -k 1,1n -k 2,2nr)
for one in "${order[@]}"; do
  read -r company _ test <<<"$one"
  until has_room "$company"; do finish; done
  begin "$test"
done
while [ ${#running[@]} -gt 0 ]; do finish; done
# Here for anyone who sees only the end of the output.
for test in "${failed[@]}"; do
  echo "=== FAILED: ${names[$test]}"
  grep '^FAILED' "$logs/$test" | head -n 3 || true
  tail -n 8 "$logs/$test"
done
echo "=== the slowest"
# Not head, which ends before it has read all: by pipefail, SIGPIPE of sort would be a failure.
sort -nr "$logs/times" | sed -n 1,10p
echo "system tests, $tier: $passed passed, ${#failed[@]} failed in $((SECONDS - began)) s, $jobs at a time"
[ ${#failed[@]} = 0 ] && [ "$passed" = ${#names[@]} ]
