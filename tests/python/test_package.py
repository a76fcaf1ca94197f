"""The distribution: what the wheel holds, on which machines it works, the sdist, the types, the versions of Python."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from conftest import BUILD, ROOT, SDK, SITE, SOAK, TEMPORARY, VENV, build

VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13")
TOOLS = Path(os.environ.get("ABX_PYTHON_TOOLS") or ROOT / "build/python")


def interpreters():
    """Each version of Python that this machine has."""
    found = {}
    places = [Path("/usr/bin"), Path("/usr/local/bin"), *Path(os.path.expanduser("~/.pyenv/versions")).glob("*/bin")]
    for version in VERSIONS:
        for place in places:
            path = place / f"python{version}"
            if path.exists() and version not in found:
                found[version] = path
    return found


def test_the_wheel_carries_program_and_library():
    wheel = next(TEMPORARY.glob("*.whl"))
    assert re.fullmatch(r"abx_sandbox-[\d.]+-py3-none-manylinux_2_\d+_\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as z:
        names = z.namelist()
        assert z.read("agent_sandbox/_native/libabx.so.0") == (BUILD / "libabx.so.0").read_bytes()
    assert "agent_sandbox/py.typed" in names and not [n for n in names if "__pycache__" in n]
    done = subprocess.run([VENV / "bin/abx", "--version"], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.startswith("abx ")
    assert os.access(SITE / "agent_sandbox/_native/abx", os.X_OK)


def test_auditwheel_agrees_with_the_tag():
    wheel = next(TEMPORARY.glob("*.whl"))
    shown = subprocess.run([TOOLS / "checkers/bin/auditwheel", "show", str(wheel)], stdout=subprocess.PIPE, text=True, check=True).stdout
    tag = re.search(r"manylinux_2_\d+_\w+", wheel.name)[0]
    assert f'is consistent\nwith the following platform tag: "{tag}"' in shown, shown


def test_sdist_builds(tmp_path):
    sdist = build("sdist", tmp_path)
    with tarfile.open(sdist) as tar:
        tar.extractall(tmp_path)
    folder = tmp_path / sdist.name[: -len(".tar.gz")]
    env = {**os.environ, "ABX_BUILD": str(BUILD)}
    words = [VENV / "bin/python", "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-index", "--no-deps", "-w", str(tmp_path / "out"), str(folder)]
    subprocess.run(words, env=env, check=True)
    made = next((tmp_path / "out").glob("*.whl"))
    assert made.read_bytes() == next(TEMPORARY.glob("*.whl")).read_bytes()
    # without abx it says how to get it
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "ABX_BUILD": str(tmp_path)}
    program = "import sys; sys.path.insert(0, 'build_backend'); import abx_build; abx_build.build_wheel('.')"
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, env=env, stderr=subprocess.PIPE, text=True)
    assert done.returncode != 0 and "cmake --build --preset release" in done.stderr


def test_every_version_of_python(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""
import asyncio, sys
from agent_sandbox import AsyncSandbox, Sandbox
assert "asyncio" in sys.modules  # by this import, not by the package
with Sandbox.connect(sys.argv[1]) as sandbox:
    assert sandbox.commands.run("echo $((40+2))").stdout == "42\\n"
async def main():
    async with await AsyncSandbox.connect(sys.argv[1]) as sandbox:
        done = await asyncio.gather(*[sandbox.commands.run(["echo", str(i)]) for i in range(3)])
        assert [one.stdout for one in done] == ["0\\n", "1\\n", "2\\n"]
        async with await sandbox.files.read("/etc/passwd", "stream") as file:
            assert b"root" in await file.read()
asyncio.run(main())
print("fine")
""")
    from agent_sandbox import Sandbox

    found = interpreters()
    assert found
    with Sandbox.create(provider="local") as sandbox:
        for version, python in found.items():
            words = [str(python), "-X", "dev", "-W", "error", str(program), sandbox.id]
            done = subprocess.run(words, env={**os.environ, "PYTHONPATH": str(SITE)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            assert (done.returncode, done.stdout) == (0, "fine\n"), (version, done.stderr)
            assert done.stderr == "", (version, done.stderr)


def test_import_is_light():
    program = "import sys, agent_sandbox; print(*sorted(set(sys.modules) & {'asyncio', 'ssl', 'http.client', 'urllib.request', 'subprocess', 'socket'}))"
    done = subprocess.run([VENV / "bin/python", "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.strip() == ""


def test_mypy_strict(tmp_path):
    for version in VERSIONS:
        words = [TOOLS / "checkers/bin/mypy", "--cache-dir", str(tmp_path), "--strict", "--python-version", version, "-p", "agent_sandbox"]
        done = subprocess.run(words, cwd=SDK, stdout=subprocess.PIPE, text=True)
        assert done.returncode == 0, (version, done.stdout)


@pytest.mark.parametrize("version", VERSIONS if SOAK else ("3.9",))
def test_pyright_strict(version):
    words = ["node", str(TOOLS / "pyright/node_modules/pyright/index.js"), "--pythonversion", version, "--pythonpath", sys.executable]
    done = subprocess.run(words, cwd=SDK, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0 and "0 errors, 0 warnings" in done.stdout, done.stdout


def test_made_files_are_fresh():
    sys.path.insert(0, str(ROOT / "scripts"))
    import gen_python

    for name, text in gen_python.files().items():
        assert (ROOT / name).read_text(encoding="utf-8") == text, f"{name}: run scripts/gen_python.py"
    assert gen_python.stale() == []


def test_everything_public_has_a_docstring():
    lacking = []
    inner_ones = ("from_object", "next", "write", "write_end", "close")
    paths = [path for path in (SDK / "agent_sandbox/_async").glob("*.py") if path.name not in ("engine.py", "exchange.py")]
    for path in sorted(paths) + [SDK / "agent_sandbox/types.py", SDK / "agent_sandbox/errors.py"]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                if not ast.get_docstring(node):
                    lacking.append(node.name)
                for inner in node.body:
                    if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)) and not inner.name.startswith("_"):
                        overloaded = any(getattr(d, "id", "") == "overload" for d in inner.decorator_list)
                        if not ast.get_docstring(inner) and not overloaded and inner.name not in inner_ones:
                            lacking.append(f"{node.name}.{inner.name}")
    assert lacking == []


def test_no_dependency():
    text = (next(SITE.glob("abx_sandbox-*.dist-info")) / "METADATA").read_text()
    assert "Requires-Dist" not in text and "Requires-Python: >=3.9" in text
    assert shutil.which("cc") is None or "Root-Is-Purelib: false" in (next(SITE.glob("abx_sandbox-*.dist-info")) / "WHEEL").read_text()
