"""The C library as programs meet it: the examples as every caller; installed, found by pkg-config, built and run; its
threads under ThreadSanitizer; what it exports."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness import BUILD, HERE, LIMIT, Abx, reap, wait_for

CAPI = BUILD / "tests" / "capi"
ROOT_FOLDER = HERE.parents[1]


@pytest.fixture
def abx():
    home = Abx(furnished=True)
    yield home
    home.close()
    wait_for(lambda: not home.left())
    reap()


def run(abx, *words, code=0, env=None, **more):
    done = subprocess.run([str(w) for w in words], env=abx.environment(env), cwd=abx.work, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=LIMIT, **more)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout


def check_examples(abx, place, env):
    """Each example, by a function that says where it lies."""
    assert run(abx, place("run"), "sh", "-c", 'echo "a b"; exit 4', code=4, env=env) == "a b\n"
    out = run(abx, place("stream"), env=env)
    assert [line for line in out.splitlines() if line.startswith("numbers: ")] == [f"numbers: {i}" for i in (1, 2, 3)]
    assert "word: a word\n" in out and out.count("has ended") == 2
    (abx.work / "lines").write_text("a\nb\nc\n" * 100000)
    assert run(abx, place("upload"), "lines", env=env) == "600000 bytes\n300000 data/file\n"
    assert "30 100" in run(abx, place("pty"), "stty size", env=env)
    assert "local: pause native\n" in run(abx, place("providers"), env=env)
    assert "usage" in subprocess.run([place("run")], env=abx.environment(env), capture_output=True, text=True).stderr


def test_examples(abx):
    check_examples(abx, lambda name: str(CAPI / f"example_{name}"), {"LD_LIBRARY_PATH": str(BUILD)})


@pytest.mark.once
def test_installed(abx):
    """Into a prefix, from there by pkg-config; the library finds the program that was installed with it."""
    prefix, source = abx.folder / "prefix", abx.folder / "examples"
    subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
    shutil.copytree(ROOT_FOLDER / "examples" / "c", source)
    lib = next(prefix.rglob("libabx.so")).parent
    env = {"PKG_CONFIG_PATH": str(lib / "pkgconfig"), "LD_LIBRARY_PATH": str(lib), "CFLAGS": "-O1 -Wall -Wextra -Werror",
           "PATH": "/usr/bin:/bin"}
    run(abx, "make", "-C", source, env=env)
    bare = {name: value for name, value in env.items() if name in ("CFLAGS", "PATH")}
    for place in BUILD, prefix:  # by the Makefile's own word, without a variable for the linker
        (source / "run").unlink()
        run(abx, "make", "-C", source, "run", f"ABX={place}", env=bare)
        assert run(abx, source / "run", "echo", "hi", env=bare) == "hi\n"
    assert f"-I{prefix}/" in run(abx, "pkg-config", "--cflags", "abx", env=env).replace("/lib/pkgconfig/../..", "")
    assert run(abx, "pkg-config", "--modversion", "abx", env=env).strip() == abx("version", "--json").json["version"]
    check_examples(abx, lambda name: str(source / name), env)
    # Moved away from its program, and none on PATH: said, not guessed.
    (prefix / "bin" / "abx").rename(prefix / "abx-elsewhere")
    done = subprocess.run([source / "run", "true"], env=abx.environment(env), capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 1 and "E1002" in done.stderr and "ABX_BIN" in done.stderr
    run(abx, source / "run", "true", env={**env, "ABX_BIN": f"'{prefix}/abx-elsewhere'"})


DOCTOR = """
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
for name in ("abx_context_new", "abx_provider_open", "abx_provider_call", "abx_error_code"):
    getattr(lib, name).restype = ctypes.c_void_p
err = ctypes.c_void_p()
ctx = ctypes.c_void_p(lib.abx_context_new(None, ctypes.byref(err)))
p = ctypes.c_void_p(lib.abx_provider_open(ctx, b'{"provider": "local"}', ctypes.byref(err)))
found = lib.abx_provider_call(p, b"provider.doctor", None, ctypes.c_size_t(0), ctypes.byref(err))
print(ctypes.string_at(found or lib.abx_error_code(err)).decode())
lib.abx_context_free(ctx)
"""


@pytest.mark.once
def test_doctor_forks_nothing_from_its_caller(abx):
    """It is the program that tries the layers: without one it cannot, with one it finds the same as the command line."""
    alone = shutil.copy((BUILD / "libabx.so").resolve(), abx.work / "libabx.so")
    env = {"PATH": "/nonexistent"}
    assert run(abx, sys.executable, "-c", DOCTOR, alone, env=env) == "E1002\n"
    found = json.loads(run(abx, sys.executable, "-c", DOCTOR, alone, env={"ABX_BIN": str(BUILD / "abx")}))
    same = abx.ok("doctor", "--json").json
    assert {x["name"]: x["ok"] for x in found["layers"]}.items() <= {x["name"]: x["ok"] for x in same["layers"]}.items()
    assert (found["caller"], found["ids"]) == (same["caller"], same["ids"])


@pytest.mark.once
def test_threads_under_thread_sanitizer(abx):
    options = f"die_after_fork=0 suppressions={HERE.parent / 'capi' / 'tsan.txt'}"
    env = {"ABX_BIN": str(BUILD / "abx"), "TSAN_OPTIONS": options}
    run(abx, CAPI / "threads_tsan", env=env)


@pytest.mark.once
def test_nothing_else_is_exported():
    listed = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", BUILD / "libabx.so"], check=True,
                            capture_output=True, text=True).stdout
    names = [line.split()[-1] for line in listed.splitlines() if line.split()[-2] != "A"]
    header = (ROOT_FOLDER / "include/abx/abx.h").read_text()
    declared = re.findall(r"ABX_API [^;]*?\b(abx_\w+)\(", header)
    assert sorted(names) == sorted(f"{name}@@ABX_0" for name in declared)
