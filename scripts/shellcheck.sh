#!/usr/bin/env bash
# Runs shellcheck over every shell file of the repository, also those whose first line alone says
# that they are. What .shellcheckrc has holds for all.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install.sh lint
is_shell() { # file
  case $1 in *.sh) return ;; esac
  local first=
  IFS= read -r -n 64 first <"$1" 2>/dev/null || true
  [[ $first =~ ^'#!'.*[/\ ](bash|sh|dash)$ ]]
}
files=()
while read -r file; do
  if [ -f "$file" ] && [ ! -L "$file" ] && is_shell "$file"; then files+=("$file"); fi
done < <(git ls-files | grep -E '\.sh$|/[^.]+$|^[^.]+$')
printf '%s\0' "${files[@]}" | xargs -0 -n 4 -P "$(nproc)" shellcheck --severity=warning
echo "shellcheck: ${#files[@]} files"
