# Pings of which every one must be answered. Sourced.

# all_answered FILE: whether ping says in FILE that all were, once each. Its exit status is good
# when any was.
all_answered() { grep ' 0% packet loss' "$1" | grep -qv duplicates; }

# pings FILE COUNT ARGUMENT...: all at once, from the namespace that is entered by $IN (ip netns
# exec NAME). ping waits for what is missing as long as the interval is, which is 5 s here, for a
# busy machine; with all answered it ends at once.
pings() {
  local file=$1 count=$2; shift 2
  # shellcheck disable=SC2086 # several words
  ${IN:-} ping -q -c "$count" -l "$count" -i 5 -W 5 "$@" >"$file" 2>&1 || true
  all_answered "$file"
}
