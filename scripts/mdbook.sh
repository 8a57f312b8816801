#!/usr/bin/env bash
# Runs mdbook in the version that builds the book; installs it once into target/mdbook.
# usage: mdbook.sh ARGUMENT...
set -euo pipefail
version=0.5.4
root=$(dirname "$(readlink -f "$0")")/../target/mdbook
if [ "$("$root/bin/mdbook" --version 2>/dev/null)" != "mdbook v$version" ]; then
  cargo install mdbook --locked --quiet --version "$version" --no-default-features --features search --root "$root"
fi
exec "$root/bin/mdbook" "$@"
