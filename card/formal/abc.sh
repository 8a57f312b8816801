#!/usr/bin/env bash
# ABC as SymbiYosys calls it, for the ABC of Debian 12: it lacks an option, and ends a
# counterexample without a line of its own.
# usage: abc.sh -c COMMANDS, from SymbiYosys, in the task's folder
set -euo pipefail
berkeley-abc "$1" "${2/pdr -v -l/pdr -v}"
sed -i 's/\([01]\)# DONE$/\1\n# DONE/' engine_*/trace.aiw 2>/dev/null || true
