# Pings that must all be answered. Sourced.

# all_answered FILE: whether, according to ping's output in FILE, all were answered exactly once.
# ping's exit status only says whether any was.
all_answered() { grep ' 0% packet loss' "$1" | grep -qv duplicates; }

# pings FILE COUNT ARGUMENT...: sends all at once, from the namespace that $IN enters (ip netns exec
# NAME). ping waits for missing replies as long as its interval, which is 5 s here for busy
# machines; if all are answered, it ends at once.
pings() {
  local file=$1 count=$2; shift 2
  # shellcheck disable=SC2086 # several words
  ${IN:-} ping -q -c "$count" -l "$count" -i 5 -W 5 "$@" >"$file" 2>&1 || true
  all_answered "$file"
}
