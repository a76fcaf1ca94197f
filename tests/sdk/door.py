"""The door that the clients of this folder talk to, and the clients themselves."""

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = Path(os.environ.get("ABX_BUILD") or ROOT / "build/release").resolve()
CLIENTS = Path(os.environ.get("ABX_SDK") or ROOT / "build/sdk").resolve()
ABX = str(BUILD / "abx")
SOAK = os.environ.get("ABX_SOAK") == "1"
LIMIT = 3000 if SOAK else 300  # seconds after which a program counts as hung
PYTHON = "/usr/bin/python3"
NAMES = ["python-new", "python-old", "js-new", "js-old"]


class Door:
    """A home of its own and `abx e2b env --start --provider local`; variables: what its lines set."""

    def __init__(self, *args):
        self.folder = Path(tempfile.mkdtemp(prefix="abx-sdk."))
        self.home = self.folder / "home"
        self.user_home = self.folder / "user"
        self.user_home.mkdir()
        self.base = {"PATH": f"{BUILD}:{os.environ['PATH']}", "HOME": str(self.user_home), "LANG": "C.UTF-8",
                     "ABX_HOME": str(self.home), "PYTHONDONTWRITEBYTECODE": "1"}
        self.variables = {}
        self.lines = self.run(ABX, "e2b", "env", "--start", "--provider", "local", *args)
        for word in shlex.split(self.lines, comments=True):
            name, equals, value = word.partition("=")
            if equals:
                self.variables[name] = value

    def environment(self, **more):
        return {**self.base, **self.variables, **more}

    def run(self, *words, code=0, **more):
        """A program to its end; its standard output."""
        done = subprocess.run(words, env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=LIMIT, **more)
        assert code is None or done.returncode == code, f"{words} -> {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def close(self):
        self.run(ABX, "e2b", "stop", code=None)
        self.run(ABX, "-P", "local", "kill", "--all", "--yes", code=None)
        subprocess.run(["chmod", "-R", "u+rwX", self.folder], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)


def command(client, program, *args):
    """How a program of this folder is run with a client: words and what to change in the environment."""
    if client.startswith("python"):
        return [PYTHON, str(HERE / program), *args], {"PYTHONPATH": str(CLIENTS / client)}, HERE
    return ["node", str(HERE / program), *args], {}, CLIENTS / client
