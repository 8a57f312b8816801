#!/usr/bin/env bash
# Replaces this process by Debian's user-mode Linux with these arguments; also works on processors
# with AMX, see xstate.c.
# usage: uml.sh ARGUMENT...
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
library=$here/../../target/uml-xstate.so
if [ ! "$library" -nt "$here/xstate.c" ]; then
  mkdir -p "$(dirname "$library")"
  cc -shared -fPIC -O2 -Wall -Wextra -Werror -o "$library.$$" "$here/xstate.c"
  mv "$library.$$" "$library"
fi
LD_PRELOAD=$(realpath "$library") exec linux.uml "$@"
