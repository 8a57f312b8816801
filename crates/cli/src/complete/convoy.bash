# Completion of convoy's command line for bash.
_convoy() {
  local candidates candidate words current
  local line=${COMP_LINE:0:COMP_POINT}
  # Not COMP_WORDS, which bash splits at = and : as well.
  read -ra words <<<"$line"
  [[ $line != *[[:space:]] ]] || words+=("")
  current=${words[${#words[@]} - 1]}
  COMPREPLY=()
  # It fails where a file is expected, and then bash completes file names.
  candidates=$("$1" complete -- "${words[@]:1}" 2>/dev/null) || compopt -o default
  while IFS= read -r candidate; do
    candidate=${candidate%%$'\t'*}
    # Bash replaces only what stands behind the last = or :.
    [[ -z $candidate ]] || COMPREPLY+=("${candidate#"${current%"${current##*[=:]}"}"}")
  done <<<"$candidates"
}
complete -F _convoy convoy
