# shellcheck shell=bash
# What the tests share: failing, waiting, processes, network namespaces, captures, and cleaning up.
# Sourced by every script that runs gateways, mostly by way of demo/sites.sh, hosts.sh,
# charon/lib.sh or cluster/lib.sh. $convoy, the gateway's program, is set before.
PATIENCE=${PATIENCE:-60}
spaces=("${spaces[@]}") exit_commands=("${exit_commands[@]}") # more than one may source it
declare -A captures
# The laboratory's program, beside the gateway's.
lab=${CONVOY_LAB:-$(dirname "${convoy:-.}")/convoy-lab}
[ -x "$lab" ] || lab=${convoy:-}
# The program that runs gateways: the laboratory's if IN_LAB is set, for those with its devices.
gateway_program=${convoy:-}
[ -z "${IN_LAB:-}" ] || gateway_program=$lab

# The start and the end of a test.
need_root() { [ "$(id -u)" = 0 ] || { echo "${0##*/} needs root for network namespaces" >&2; exit 1; }; }
# work_dir: makes the folder $work. However the test ends, `clean` then removes it, with all
# processes and namespaces of the test. With KEEP_LOGS, the folder of a test that failed stays.
work_dir() {
  [ -d "${work:-}" ] || work=$(mktemp -d)
  trap clean EXIT
}
# at_exit COMMAND...: has `clean` run this before anything else, the latest first.
at_exit() { exit_commands=("$(printf '%q ' "$@")" "${exit_commands[@]}"); }
clean() {
  local status=$? command space
  for command in "${exit_commands[@]}"; do eval "$command" || true; done
  {
    # shellcheck disable=SC2046 # several words
    kill -KILL $(jobs -p) || true
    for space in "${spaces[@]}"; do remove_namespace "$space"; done
    wait || true
  } 2>/dev/null # else bash reports each
  if [ $status != 0 ] && [ -n "${KEEP_LOGS:-}" ]; then echo "logs: $work" >&2; else rm -rf "$work"; fi
}
# fail TEXT: prints it with what show_logs prints, and ends the test.
fail() {
  echo "FAILED: $*" >&2
  show_logs >&2 || true
  exit 1
}
# show_logs: the ends of the logs in $work. A test that has more to show defines it again.
show_logs() {
  local log
  for log in "$work"/*.log; do [ ! -s "$log" ] || { echo "--- ${log##*/}"; tail -n 20 "$log"; }; done
}
ok() { echo "ok: $*"; }
# marked PAGE NAME: the code block that a page marks with this name.
marked() {
  local code
  code=$(sed -n "/^<!-- $2 -->\$/,/^\`\`\`\$/p" "$1" | sed '1,2d; $d')
  [ -n "$code" ] || fail "$1 has no code under \"$2\""
  printf '%s\n' "$code"
}
passed() { printf '%-34s %s\n' "$1" "$2"; }

# Waiting.
# wait_until FAULT COMMAND...: until the command succeeds. If it has not for PATIENCE seconds, fails
# with FAULT. That is long on purpose: no test is about it, and a busy machine must not fail one.
wait_until() {
  local fault=$1 end=$((SECONDS + PATIENCE)); shift
  until "$@" >"$work/waited" 2>&1; do
    [ $SECONDS -lt $end ] || fail "$fault; for $PATIENCE s it was not so: $*; $(tail -n 3 "$work/waited")"
    sleep 0.1
  done
}
# wait_for_line PATTERN FILE FAULT: until a line of the file matches.
wait_for_line() { wait_until "$3" grep -qs -- "$1" "$2"; }
# contains OPTION... PATTERN: as grep -q, but reads all its input: with pipefail, the SIGPIPE of a
# program that still writes would fail the whole pipeline.
contains() { grep "$@" >/dev/null; }

# Processes.
# start LOG NAMESPACE COMMAND...: runs it in the background, as the process $started. Its log is
# empty at once, so that nothing is found in an older one.
start() {
  : >"$work/$1"
  ip netns exec "${@:2}" >"$work/$1" 2>&1 & started=$!
}
# run_gateway LOG NAMESPACE CONFIGURATION: the same, until the gateway is ready, not
# only listening: routes come last.
run_gateway() {
  start "$1" "$2" "$gateway_program" run -c "$3"
  wait_for_line ' ready' "$work/$1" "the gateway of ${3##*/} does not start"
}
no_gateway_in() { ! ip netns pids "$1" | xargs -r ps -o comm= -p | contains convoy; } # namespace
# Of any of its threads: the first may have ended before those that have its sockets.
is_running() { grep -qs '^State:[[:space:]][^ZX]' "/proc/$1/task/"*/status; }
is_gone() { ! is_running "$1"; }
# end_process PID...: SIGTERM; returns when they have ended, whatever their exit status.
end_process() {
  kill "$@"
  local process
  for process; do
    wait_until "process $process does not end" is_gone "$process"
    wait "$process" 2>/dev/null || true
  done
}
# end_well PID WHAT: SIGTERM; fails unless it ends with status 0.
end_well() {
  kill "$1" || fail "$2 has ended by itself"
  wait_until "$2 does not end" is_gone "$1"
  wait "$1" || fail "$2 does not end well: exit status $?"
}
# kill_and_wait PID...: SIGKILL; returns when they have ended, children of this shell or not.
kill_and_wait() {
  { kill -KILL "$@" && wait "$@" || true; } 2>/dev/null # else bash reports each
  local process
  for process; do wait_until "process $process does not end" is_gone "$process"; done
}
# stop_process PID...: SIGSTOP; returns when every thread stands still, which is not yet so when
# kill returns.
stop_process() {
  kill -STOP "$@"
  local process
  for process; do wait_until "process $process does not stand still" stands_still "$process"; done
}
stands_still() {
  cat "/proc/$1/task"/*/stat | awk '{ sub(/.*\) /, "") } !/^T/ { moves = 1 } END { exit moves || NR == 0 }'
}

# Namespaces.
in_ns() { ip netns exec "$@"; } # namespace command...; not for the background, where it is a shell
# add_namespace NAME...: with the loopback interface up. Removes what a killed test has left.
add_namespace() {
  local ns
  for ns; do
    remove_namespace "$ns"
    ip netns add "$ns"
    ip -n "$ns" link set lo up
    spaces+=("$ns")
  done
}
remove_namespace() { # with its processes
  [ -e "/run/netns/$1" ] || return 0
  ip netns pids "$1" | xargs -r kill -KILL 2>/dev/null || true
  ip netns del "$1" || true
}
# cable NAMESPACE DEVICE "ADDRESS ..." NAMESPACE DEVICE "ADDRESS ...": a veth pair, up.
cable() {
  ip link add "$2" netns "$1" type veth peer name "$5" netns "$4"
  up_with "$1" "$2" "$3"
  up_with "$4" "$5" "$6"
}
up_with() { # namespace device "address ..."
  local address
  ip -n "$1" link set "$2" up
  for address in $3; do
    case $address in
      *:*) ip -n "$1" addr add "$address" dev "$2" nodad ;;
      *) ip -n "$1" addr add "$address" dev "$2" ;;
    esac
  done
}
forward() { in_ns "$1" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1; } # namespace
# serve_files NAMESPACE FOLDER PORT [ADDRESS]: by HTTP; the log is NAMESPACE.log.
serve_files() {
  local host=${4:-127.0.0.1}
  [[ $host != *:* ]] || host="[$host]"
  start "$1.log" "$1" python3 -m http.server "$3" --directory "$2" --bind "${4:-::}"
  wait_until "no HTTP server in $1" in_ns "$1" curl -s -o /dev/null "http://$host:$3/"
}
# take_udp_port NAMESPACE ADDRESS PORT: binds it, as the process $started.
take_udp_port() {
  start taken.log "$1" python3 -c 'import socket, sys, time
taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
taken.bind((sys.argv[1], int(sys.argv[2])))
time.sleep(3600)' "$2" "$3"
  wait_for_port "$1" "$3"
}
# wait_for_port NAMESPACE PORT [OPTION]: until something listens, on UDP, or on TCP with -t.
wait_for_port() {
  wait_until "nothing listens at port $2 of $1" eval "ip netns exec $1 ss -Hln ${3:--u} 'sport = :$2' | contains ."
}

# Captures.
# start_capture NAME NAMESPACE DEVICE [OPTION or FILTER...]: captures into $work/NAME.pcap. A slot
# of the buffer is as large as the longest packet, so that the default one holds at most 32 of them,
# and loses packets whenever tcpdump waits 20 ms for a core.
start_capture() {
  start "$1.log" "$2" tcpdump -Z root -U --immediate-mode -B 65536 -i "$3" -w "$work/$1.pcap" "${@:4}"
  captures[$1]=$started
  wait_for_line 'listening on' "$work/$1.log" "tcpdump does not start at $3 of $2"
}
# end_capture NAME...: once nothing comes any more.
end_capture() {
  local name
  for name; do
    until_unchanged stat -c %s "$work/$name.pcap"
    # One that waits for a core has not written everything yet.
    wait_for_line '^State:[[:space:]]*S' "/proc/${captures[$name]}/status" "tcpdump does not come to rest"
    end_process "${captures[$name]}"
  done
}
# until_unchanged COMMAND...: until it has printed the same for half a second.
until_unchanged() {
  local last='' now
  while now=$("$@"); [ "$now" != "$last" ]; do last=$now; sleep 0.5; done
}

random_key() { head -c "${1:-20}" /dev/urandom | od -An -v -tx1 | tr -d ' \n'; } # [bytes]

# Pings that must all be answered.
# all_answered FILE: whether, according to ping's output in FILE, all were answered exactly once.
# ping's exit status only says whether any was.
all_answered() { grep ' 0% packet loss' "$1" | grep -v duplicates >/dev/null; }
# none_lost FILE COUNT: of `ping -c COUNT -w SECONDS` without -q: so many were answered, and all
# before the last of them. Without -w, ping waits for the last ones twice the longest round trip
# alone, whatever -W says.
none_lost() {
  sed -n 's/.*icmp_seq=\([0-9]*\) ttl=.*/\1/p' "$1" | sort -nu |
    awk -v count="$2" '{ last = $1 } END { exit !(NR >= count && NR == last) }'
}
# pings FILE NAMESPACE COUNT ARGUMENT...: sends all at once. ping waits for missing replies as long
# as its interval, which is 5 s here for busy machines; if all are answered, it ends at once.
pings() {
  ip netns exec "$2" ping -q -c "$3" -l "$3" -i 5 -W 5 "${@:4}" >"$1" 2>&1 || true
  all_answered "$1"
}
