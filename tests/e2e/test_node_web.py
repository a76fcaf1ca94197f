"""The globals of modules, by scripts in the same runtime (tests/js), and from a module."""

import base64
import hmac
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

SCRIPTS = Path(__file__).resolve().parents[1] / "js"


@pytest.mark.parametrize("name", sorted(p.stem for p in SCRIPTS.glob("*.js") if p.stem != "check"))
def test_globals(name):
    js_run = Path(os.environ["ABX_HELPERS"]) / "js_run"
    done = subprocess.run([js_run, SCRIPTS / "check.js", SCRIPTS / f"{name}.js"], capture_output=True, text=True, timeout=120)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and not [x for x in lines if x.startswith("not ok")], done.stdout + done.stderr
    wanted = (SCRIPTS / f"{name}.js").read_text().count("\ncheck(") + (SCRIPTS / f"{name}.js").read_text().startswith("check(")
    assert len([x for x in lines if x.startswith("ok ")]) == wanted, done.stdout + done.stderr


@pytest.fixture
def ask(tmp_path):
    """Run a word of tests/js/node_modules.mjs: its answer."""
    folder = tmp_path / "toy"
    shutil.copytree(SCRIPTS.parent / "plugins" / "toy", folder)
    shutil.copy(SCRIPTS / "node_modules.mjs", folder / "provider.mjs")
    environment = {"PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", "/"), "ABX_HOME": str(tmp_path / "home")}

    def run(*words):
        abx = Path(os.environ["ABX_BUILD"]) / "abx"
        return subprocess.run([abx, *words], env=environment, capture_output=True, text=True, timeout=120)

    done = run("provider", "install", str(folder), "--yes")
    assert done.returncode == 0, done.stderr
    return lambda word: run("-P", "toy", "run", "--", word)


FOUND = {
    "crypto": ["ba7816bf", "ifn0Ok47u3TFHWtRS8wbLn6c6Rk=", 16, 3, True, 36],
    "buffer": [
        "6772c3bcc39f00ffff", "Z3LDvMOfAP__", "gr", True, 4, 1, 2, True, 0, '{"type":"Buffer","data":[97]}'],
    "url": ["/a b", "file:///a%20b%3F%23/%C3%BC", False, True],
    "util": ['a 1 {"b":2}%', '{a: [1, "x"]}', True, False, 2, True],
    "process": [True, 0],
    "all": [],
}


def test_modules_of_node(ask):
    for word, answer in FOUND.items():
        done = ask(word)
        assert done.returncode == 0, done.stderr
        if word == "crypto":
            answer[1] = base64.b64encode(hmac.digest(b"key", b"x", "sha1")).decode()
        assert json.loads(done.stdout) == answer, word
    assert "cannot import 'node:fs'" in ask("fs").stdout
    done = ask("exit")
    assert done.returncode != 0 and "it called process.exit(3)" in done.stderr, done.stderr
