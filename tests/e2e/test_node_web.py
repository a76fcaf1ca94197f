"""The globals of modules, by scripts in the same runtime (tests/js), and from a module."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[1] / "js"


@pytest.mark.parametrize("name", sorted(p.stem for p in SCRIPTS.glob("*.js") if p.stem != "check"))
def test_globals(name):
    js_run = Path(os.environ["ABX_HELPERS"]) / "js_run"
    done = subprocess.run([js_run, SCRIPTS / "check.js", SCRIPTS / f"{name}.js"], capture_output=True, text=True, timeout=120)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and not [x for x in lines if x.startswith("not ok")], done.stdout + done.stderr
    wanted = (SCRIPTS / f"{name}.js").read_text().count("\ncheck(") + (SCRIPTS / f"{name}.js").read_text().startswith("check(")
    assert len([x for x in lines if x.startswith("ok ")]) == wanted, done.stdout + done.stderr
