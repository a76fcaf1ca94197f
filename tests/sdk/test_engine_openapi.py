"""The engine does what docs/engine-openapi.json says, as Schemathesis sees it."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from door import ABX, BUILD, CLIENTS, HERE, LIMIT, PYTHON, SOAK


@pytest.fixture
def home():
    folder = Path(tempfile.mkdtemp(prefix="abx-sdk."))
    environment = {"PATH": f"{BUILD}:/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8", "ABX_HOME": str(folder / "home"), "ABX_PROVIDER": "local"}

    def abx(*words):
        done = subprocess.run([ABX, *words], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, done
        return done.stdout

    abx("provider", "engine", "serve", "--detach")
    yield folder / "home", abx, environment
    abx("provider", "engine", "stop")
    abx("kill", "--all", "--yes")
    subprocess.run(["chmod", "-R", "u+rwX", folder], stderr=subprocess.DEVNULL)
    shutil.rmtree(folder, ignore_errors=True)


def test_schemathesis_finds_no_fault(home):
    folder, abx, environment = home
    sandbox = abx("create").strip()
    done = subprocess.run([PYTHON, HERE / "openapi_check.py", folder / "engine.json", sandbox, "50" if SOAK else "4"], cwd=folder,
                          env={**environment, "PYTHONPATH": str(CLIENTS / "schemathesis")}, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    told = done.stdout.splitlines()[-1].split()
    document = json.loads((HERE.parents[1] / "docs/engine-openapi.json").read_text(encoding="utf-8"))
    assert int(told[0]) == sum(len(path) for path in document["paths"].values()) > 40 and int(told[2]) > 250, told
