"""Every provider over the command line, the engine and the C library, as scripts/conformance.sh has it: a few cases, with ABX_SOAK=1 all. local is
tried whole elsewhere; over the Python SDK: tests/python, over the clients of E2B: tests/sdk."""

import subprocess
import sys
from pathlib import Path

import pytest

from harness import SOAK

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance"))
import providers  # noqa: E402

pytestmark = pytest.mark.once

TABLE = Path(__file__).resolve().parents[1] / "conformance/table.py"


@pytest.mark.parametrize("provider", [name for name in providers.STARTS if name != "local"])
def test_a_provider_over_every_door(provider):
    words = [provider, "--door", "cli", "--door", "engine", "--door", "c", *([] if SOAK else ["--few"])]
    done = subprocess.run([sys.executable, str(TABLE), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=6000)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"| `{provider}` |" in done.stdout
