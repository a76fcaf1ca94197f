"""The Python SDK, as its wheel installs it: the wheel is built and installed into a fresh virtual environment, and what is tested is
that. ABX_HOME is a folder of the run."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ABX_BUILD") or ROOT / "build/release").resolve()
SDK = ROOT / "sdk/python"
SOAK = os.environ.get("ABX_SOAK") == "1"
TEMPORARY = Path(tempfile.mkdtemp(prefix="abx-python."))
sys.path.insert(0, str(Path(__file__).resolve().parent))


def build(kind, folder):
    """Build a wheel or an sdist as pip does it, with nothing installed; its path."""
    program = f"import abx_build, sys; print(abx_build.build_{kind}(sys.argv[1]))"
    env = {**os.environ, "PYTHONPATH": str(SDK / "build_backend"), "ABX_BUILD": str(BUILD)}
    name = subprocess.run([sys.executable, "-c", program, str(folder)], env=env, cwd=SDK, check=True, text=True,
                          stdout=subprocess.PIPE).stdout.strip()
    return Path(folder) / name


def install():
    """A fresh environment with the wheel in it; the folder of its packages."""
    wheel = build("wheel", TEMPORARY)
    venv = TEMPORARY / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    subprocess.run([venv / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index", str(wheel)], check=True)
    return venv


VENV = install()
SITE = next((VENV / "lib").glob("python3*/site-packages"))
sys.path.insert(0, str(SITE))
os.environ["ABX_HOME"] = str(TEMPORARY / "home")
for name in ("ABX_PROVIDER", "ABX_BIN", "ABX_LIBRARY"):
    os.environ.pop(name, None)
if sys.flags.dev_mode is False:
    import warnings

    warnings.simplefilter("error", ResourceWarning)


def pytest_unconfigure(config):
    program = str(BUILD / "abx")
    for words in (["kill", "--all", "--yes", "-P", "local"], ["provider", "engine", "stop"]):
        subprocess.run([program, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run(["chmod", "-R", "u+rwX", str(TEMPORARY)], stderr=subprocess.DEVNULL)
    shutil.rmtree(TEMPORARY, ignore_errors=True)


@pytest.fixture(scope="session")
def venv():
    return VENV


@pytest.fixture(scope="session")
def sandbox():
    """A sandbox that cheap tests share."""
    from agent_sandbox import Sandbox

    with Sandbox.create(provider="local", timeout=900) as one:
        yield one
