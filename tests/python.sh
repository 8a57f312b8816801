#!/usr/bin/env bash
# The simulator's Python module, installed as by a user, and tested by python/tests with a local
# Dask and a local Ray cluster.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=target/python-venv
requirements=python/tests/requirements.txt
# Dependencies stay installed until their pinned versions change.
if ! cmp -s $requirements $venv/installed.txt; then
  rm -rf $venv
  python3 -m venv $venv
  $venv/bin/pip install -q --disable-pip-version-check --no-compile -r $requirements
  cp $requirements $venv/installed.txt
fi
$venv/bin/pip install -q --disable-pip-version-check --force-reinstall --no-deps ./python
# The limit ends a run that is deadlocked on the interpreter's lock; no test takes a fraction of it.
timeout 600 $venv/bin/python -m pytest -q -p no:cacheprovider python/tests
