"""`abx`, as this package carries it."""

from __future__ import annotations

import os
import sys

from ._library import carried


def main() -> None:
    """Become the program."""
    program = carried("abx")
    if program is None:
        sys.exit("abx: this installation of abx-sandbox carries no program")
    os.execv(program, [program, *sys.argv[1:]])
