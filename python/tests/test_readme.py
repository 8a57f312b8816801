"""The examples of README.md give what they say."""

import doctest
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"


def test_the_readmes_examples_give_what_they_say():
    result = doctest.testfile(str(README), module_relative=False)
    assert result.attempted >= 8 and result.failed == 0
