"""The folder of all state."""

from __future__ import annotations

import os
from typing import Optional


def home_folder(home: Optional[str] = None) -> str:
    """The folder of all state: `home`, else `ABX_HOME`, else `~/.abx`."""
    return os.path.abspath(home or os.environ.get("ABX_HOME") or os.path.join(os.path.expanduser("~"), ".abx"))
