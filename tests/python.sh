#!/usr/bin/env bash
# The wheel of the simulator's Python module: what is in it, that it installs without Rust, and
# python/tests, with a local Dask and a local Ray cluster. On other versions of CPython that are on
# this machine, the tests of the module alone.
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { echo "python.sh: $1" >&2; exit 1; }

# Of what the other system tests are made of, so that it need not be compiled once more.
wheel=$(scripts/wheel.sh target/wheels system)
[[ $wheel == *-cp310-abi3-*manylinux_2_17_*.whl ]] || fail "not for every CPython and Linux: $wheel"
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
python3 -m zipfile -e "$wheel" "$unpacked"
for file in convoy_sim/{__init__.pyi,py.typed} convoy_sim-*.dist-info/licenses/LICENSE-{APACHE,MIT}; do
  compgen -G "$unpacked/$file" >/dev/null || fail "no $file in $wheel"
done
[[ -z $(readelf -S "$unpacked"/convoy_sim/*.so | grep -F .debug_info) ]] || fail "the module is not stripped"
# What every glibc comes with, and GCC's unwinder: manylinux allows more, but nothing else is used.
foreign=$(readelf -d "$unpacked"/convoy_sim/*.so | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
  grep -vE '^(lib(c|m|dl|rt|pthread|gcc_s)\.so\.[0-9]+|ld-linux.*)$' || true)
[ -z "$foreign" ] || fail "the module needs other libraries: $foreign"

# make_venv PYTHON VENV REQUIREMENTS: dependencies stay installed until their versions change.
make_venv() {
  cmp -s "$3" "$2/installed.txt" && return
  rm -rf "$2"
  "$1" -m venv "$2"
  "$2/bin/pip" install -q --disable-pip-version-check --no-compile -r "$3"
  cp "$3" "$2/installed.txt"
}

# try_wheel VENV TEST...: no program is on the path but Python's, so nothing can be compiled. The
# limit ends a run that is deadlocked on the interpreter's lock; no test takes a fraction of it.
try_wheel() {
  local venv=$1; shift
  PATH="$PWD/$venv/bin" "$venv/bin/pip" install -q --disable-pip-version-check --force-reinstall \
    --no-index --only-binary :all: "$wheel"
  timeout 3600 "$venv/bin/python" -m pytest -q -p no:cacheprovider "$@"
}

make_venv python3 target/python-venv python/tests/requirements.txt
try_wheel target/python-venv python/tests

# pyenv's own commands run only in folders that ask for them.
current=$(python3 -c 'import sys; print(sys.version_info.minor)')
grep '^pytest==' python/tests/requirements.txt >"$unpacked/requirements.txt"
for minor in {10..14}; do
  [ "$minor" != "$current" ] || continue
  for python in "python3.$minor" "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.$minor".*"/bin/python3.$minor"; do
    "$python" -c 'import ensurepip' 2>/dev/null || continue
    echo "with $("$python" --version):"
    make_venv "$python" "target/python-venv-3.$minor" "$unpacked/requirements.txt"
    try_wheel "target/python-venv-3.$minor" python/tests/test_{simulate,traffic,policy,ndr}.py
    break
  done
done
