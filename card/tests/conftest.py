"""Finds the helpers beside the tests, and knows the mark of the quick part."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
# The simulator is a process of its own, which imports the test and these helpers again.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))


def pytest_configure(config):
    config.addinivalue_line("markers", "quick: runs in `make test` too")
