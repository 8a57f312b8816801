#compdef convoy
# Completion of convoy's command line for zsh.
_convoy() {
  local output line
  local -a candidates
  # It fails where a file is expected.
  output=$("${words[1]}" complete -- "${(@)words[2,CURRENT - 1]}" "$PREFIX" 2>/dev/null) || { _files; return }
  for line in "${(@f)output}"; do
    [[ -z $line ]] || candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  _describe convoy candidates
}
if [[ $funcstack[1] == _convoy ]]; then _convoy "$@"; else compdef _convoy convoy; fi
