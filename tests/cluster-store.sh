#!/usr/bin/env bash
# The cluster's store over real members of etcd, with TLS and client certificates, in a network
# namespace of its own: three members, one of which is killed and two of which are stopped, and one
# with little room. The example `store` of convoy-cluster-agent is the client. Needs root.
# usage: cluster-store.sh STORE_BINARY
set -euo pipefail
store=$(realpath "$1")
source "$(dirname "$0")/lib.sh"
need_root
work_dir
ns=convoy-store
declare -A members=()
add_namespace $ns
cd "$work"

authority() { # name
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$1" -keyout "$1.key" -out "$1.pem" 2>/dev/null
}
certificate() { # name authority
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" -keyout "$1.key" -out "$1.csr" 2>/dev/null
  openssl x509 -req -in "$1.csr" -CA "$2.pem" -CAkey "$2.key" -CAcreateserial -days 2 -out "$1.pem" 2>/dev/null \
    -extfile <(printf 'subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n')
}
authority ca
authority other
certificate member ca
certificate client ca
certificate stranger other
(umask 077; openssl rand -hex 32 >cluster.key)

endpoint() { echo "https://127.0.0.1:$((2379 + 10 * $1))"; }
peer() { echo "https://127.0.0.1:$((2380 + 10 * $1))"; }
begin() { # number peers option...
  local number=$1 peers=$2
  shift 2
  ip netns exec $ns etcd --name "m$number" --data-dir "$work/data-$number" --logger zap \
    --initial-cluster "$peers" --initial-cluster-token "$peers" --initial-cluster-state new \
    --listen-client-urls "$(endpoint "$number")" --advertise-client-urls "$(endpoint "$number")" \
    --listen-peer-urls "$(peer "$number")" --initial-advertise-peer-urls "$(peer "$number")" \
    --client-cert-auth --trusted-ca-file ca.pem --cert-file member.pem --key-file member.key \
    --peer-client-cert-auth --peer-trusted-ca-file ca.pem --peer-cert-file member.pem --peer-key-file member.key \
    "$@" >>"$work/etcd-$number.log" 2>&1 &
  members[$number]=$!
}
three="m1=$(peer 1),m2=$(peer 2),m3=$(peer 3)"
etcdctl() { # number argument...
  local number=$1
  shift
  ip netns exec $ns env ETCDCTL_API=3 etcdctl --endpoints "$(endpoint "$number")" \
    --cacert ca.pem --cert client.pem --key client.key "$@"
}
leader() {
  local number
  for number in 1 2 3; do
    if etcdctl $number endpoint status 2>/dev/null | cut -d, -f5 | contains true; then echo $number; return; fi
  done
  return 1
}
wait_for_leader() { wait_until "no member leads" leader; }

# What the client wants done to the members.
killed='' stopped=()
order() { # words
  local number
  case $1 in
    "compact "*) etcdctl 1 compact "${1#compact }" >/dev/null ;;
    "kill leader") killed=$(leader); kill_and_wait "${members[$killed]}" ;;
    "start killed") begin "$killed" "$three" ;;
    "stop two")
      # Two that do not lead, so that the one that does must find out that it cannot any more.
      number=$(leader)
      for other in 1 2 3; do [ $other = "$number" ] || stopped+=("${members[$other]}"); done
      stop_process "${stopped[@]}" ;;
    "continue two") kill -CONT "${stopped[@]}" ;;
    *) return 1 ;;
  esac
}
scenario() { # client scenario endpoint...
  local line
  coproc RUN { ip netns exec $ns "$store" "$work" "$@" 2>"$work/$2.log"; }
  local pid=$RUN_PID in=${RUN[1]} out
  exec {out}<&"${RUN[0]}"
  while read -r line <&"$out"; do
    case $line in
      "do: "*) if order "${line#do: }"; then echo "done" >&"$in"; else fail "could not ${line#do: }"; fi ;;
      *) echo "$line" ;;
    esac
  done
  wait "$pid" || fail "$2: $(head -n 3 "$work/$2.log")"
  exec {out}<&-
}

for number in 1 2 3; do begin $number "$three"; done
wait_for_leader
all=("$(endpoint 1)" "$(endpoint 2)" "$(endpoint 3)")
scenario client keys "${all[@]}"
scenario client figures "${all[@]}"
scenario stranger stranger "${all[@]}"
scenario client leader-killed "${all[@]}"
wait_for_leader
scenario client no-quorum "$(endpoint "$(leader)")"

begin 4 "m4=$(peer 4)" --quota-backend-bytes 4000000
scenario client full "$(endpoint 4)"
