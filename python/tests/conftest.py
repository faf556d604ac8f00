"""Fixtures that the tests share: the traces of the repository, and the program of the same wheel.
"""

import importlib.util
import pathlib
import subprocess
import sys

import pytest

REPOSITORY = pathlib.Path(__file__).parents[2]
#: Tests that need other libraries, where these are not installed.
collect_ignore = [] if all(map(importlib.util.find_spec, ("pandas", "polars", "pyarrow"))) else ["test_frames.py"]
OFFICE = REPOSITORY / "traces" / "office-server.bin.zst"


@pytest.fixture(scope="session")
def office():
    """The trace of the office server, from its file."""
    import bimetal

    return bimetal.Trace(OFFICE)


@pytest.fixture(scope="session")
def program():
    """Runs the command line of the wheel."""
    path = pathlib.Path(sys.executable).parent / "bimetal"

    def run(*arguments, **options):
        return subprocess.run([path, *map(str, arguments)], capture_output=True, text=True, check=False, **options)

    return run
