"""Providers of kind node: a module in a process of its own; what works, and what each fault of a module becomes."""

import json
import math
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

TOY = Path(__file__).resolve().parents[1] / "plugins" / "toy"


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


def run(home, *words, limit=120, env=None):
    abx = Path(os.environ["ABX_BUILD"]) / "abx"
    environment = {"PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", "/"), "ABX_HOME": str(home), **(env or {})}
    return subprocess.run([abx, *words], env=environment, capture_output=True, text=True, timeout=limit)


def make_plugin(folder, text, call_timeout=None):
    shutil.copytree(TOY, folder)
    (folder / "provider.mjs").write_text(text)
    return folder


def install(home, folder=TOY):
    done = run(home, "provider", "install", str(folder), "--yes")
    assert done.returncode == 0, done.stderr


def toy(home, *words, **more):
    return run(home, "-P", "toy", "run", "--", *words, **more)


def test_a_module_serves_commands(home):
    install(home)
    done = toy(home, "echo", "hello", "there")
    assert (done.returncode, done.stdout) == (0, "hello there\n"), done.stderr
    assert toy(home, "err", "grüß").stderr == "grüß"
    log = next((home / "logs").glob("toy*")).read_text()
    assert "opened toy" in log


def test_much_output_is_whole(home):
    install(home)
    done = toy(home, "big", "20")
    assert done.returncode == 0 and len(done.stdout) == 20 << 20
    assert done.stdout[5 << 20] == "f" and done.stdout[-1] == "t"


# word → code of the error, its text
THROWN = {
    "throw": r"TypeError: .* of null \(at throw \(toy/provider\.mjs:\d+:\d+\)",
    "cause": r"Error: outer \(at .*\); caused by RangeError: inner",
    "odd": "null",
    "trap": "Error",
    "eval": "eval is not supported",
    "function": "eval is not supported",
    "import fs": "cannot import 'fs' in toy/provider.mjs",
    "import /etc/passwd": "cannot import '/etc/passwd'",
    "import ../../x": "it leaves the folder",
    "import https://a.example/x.mjs": "cannot import 'https:",
    "import ./nothing.mjs": "there is no such file",
    "deep": "RangeError: Maximum call stack size exceeded",
    "once": "RangeError|out of memory",
    "string": "out of memory",
    "eat": "out of memory|giving way",
}


@pytest.mark.parametrize("words", list(THROWN))
def test_what_a_module_throws_is_the_answer_of_its_call(home, words):
    install(home)
    done = toy(home, *words.split())
    assert done.returncode == 125 and "code: E8008" in done.stderr, done.stderr
    assert re.search(THROWN[words], done.stderr), done.stderr


# text of the module → what is said
BROKEN = {
    "syntax": ("export function create( {", r"SyntaxError.*"),
    "throws": ("throw new Error('at load');", "Error: at load"),
    "nothing": ("", "must export a function 'create'.* exports nothing"),
    "other": ("export const make = 1, b = 2;", "it exports '(make|b)'"),
    "no infra": ("export default () => ({});", "'buildInfra'"),
    "rejects": ("await Promise.reject(new Error('later'));", "Error: later"),
    "waits": ("await new Promise(() => {});", "never happens"),
    "import": ("import 'node:fs';", "cannot import 'node:fs'"),
    "config": ("export const create = (kit) => ({ buildInfra() { throw new kit.errors.ProviderConfigError('no region'); } });",
               "E1003"),
}


@pytest.mark.parametrize("name", list(BROKEN))
def test_a_module_that_cannot_be_loaded(home, tmp_path, name):
    text, words = BROKEN[name]
    install(home, make_plugin(tmp_path / "toy", text))
    done = toy(home, "echo", "x")
    assert done.returncode == 125, done.stderr
    assert re.search(words, done.stderr, re.S), done.stderr


def test_a_module_has_no_more_than_it_may(home):
    install(home)
    assert toy(home, "globals", env={"SECRET": "x"}).stdout == "eval|||0\n"


def test_mathematics_is_there_in_the_locked_process(home):
    install(home)
    got = json.loads(toy(home, "math").stdout)
    two = {"atan2": math.atan2(1, 2), "fmod": math.fmod(7.75, 2), "hypot": 5, "pow": math.pow(2, 0.5), "cbrt": 0.75 ** (1 / 3)}
    for name, value in got.items():
        wanted = two[name] if name in two else getattr(math, name)(1.75 if name == "acosh" else 0.75)
        assert abs(value - wanted) < 1e-12, name


def test_what_was_changed_on_disk_is_refused(home):
    install(home)
    (home / "providers" / "toy" / "lib" / "boxes.mjs").write_text("throw 1")
    done = toy(home, "echo", "x")
    assert "E8003" in done.stderr and "lib/boxes.mjs" in done.stderr


def test_a_loop_ends_its_call_and_the_next_one_works(home):
    install(home)
    begun = time.monotonic()
    done = toy(home, "loop")
    assert "giving way" in done.stderr and done.returncode == 125, done.stderr
    assert time.monotonic() - begun < 60
    assert toy(home, "echo", "on").stdout == "on\n"


def test_an_error_of_the_kit_has_all_its_members(home):
    install(home)
    done = toy(home, "kit", "SandboxNotFoundError", "E3001")
    assert done.returncode == 125 and "said by the kit: Error: why (at" in done.stderr and "code: E3001" in done.stderr, done.stderr
    assert "do this" in done.stderr
    log = next((home / "logs").glob("toy*")).read_text()
    assert "SandboxNotFoundError|E3001|SandboxNotFoundError|404|do this|true|true" in log
    assert re.search(r"cause: .*|caused", done.stderr) or "why" in done.stderr


def test_what_is_written_to_the_console_goes_to_the_log_with_its_level(home):
    install(home)
    assert toy(home, "log").returncode == 0
    line = next(line for line in next((home / "logs").glob("toy*")).read_text().splitlines() if "said" in line)
    assert "warn" in line and "[1, 2n]" in line


def test_secrets_are_blanked_in_messages_and_in_the_log(home, tmp_path):
    folder = tmp_path / "toy"
    shutil.copytree(TOY, folder)
    manifest = folder / "abx-provider.toml"
    manifest.write_text(manifest.read_text() + '\n[connection]\ninherit = ["apiKey"]\n')
    done = run(home, "provider", "install", str(folder), "--yes", "--inherit", "apiKey")
    assert done.returncode == 0, done.stderr
    done = toy(home, "secret", env={"ABX_API_KEY": "hush-hush-4711"})
    assert done.returncode == 125 and "here" in done.stderr and "caused by" in done.stderr, done.stderr
    log = next((home / "logs").glob("toy*")).read_text()
    assert "the key is" in log and "hush-hush" not in done.stderr + done.stdout + log
