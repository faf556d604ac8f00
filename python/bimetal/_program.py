"""The command line of Bimetal, as the wheel carries it."""

import signal
import sys

from . import _native


def main() -> int:
    """Runs the command line of this process and returns its exit status."""
    # The program ends at Ctrl-C; Python's handler would wait until the program is over.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.main(["bimetal", *sys.argv[1:]])
