"""Every provider over the command line, the engine and the C library, as scripts/conformance.sh has it: a few cases, with ABX_SOAK=1 all. local is
tried whole elsewhere; over the Python SDK: tests/python, over the clients of E2B: tests/sdk."""

import json
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


def test_a_table_of_earlier_runs_has_the_last_of_each_cell(tmp_path):
    def written(name, door, outcome):
        file = tmp_path / name
        cell = {"provider": "local", "door": door, "absent": {}, "outcomes": {"process.events": outcome}, "seconds": 1.0, "problem": None}
        file.write_text(json.dumps({"cells": [cell]}), encoding="utf-8")
        return file

    def table(*files):
        done = subprocess.run([sys.executable, str(TABLE), "--from", *files], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout

    bad, good, other = written("bad", "cli", {"failed": "no event"}), written("good", "cli", None), written("other", "c", None)
    code, text = table(bad, other, good)
    assert code == 0 and "| `local` | 1/1 | 1/1 |" in text and "Unexplained" not in text
    code, text = table(good, other, bad)
    assert code == 1 and "| `local` | 0/1 | 1/1 |" in text and "local over cli: process.events: no event" in text
