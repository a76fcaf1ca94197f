"""Errors tell what to do: the verb at hand, the words that are known, the limit that is reached."""

import json
import os
import signal

import pytest

from harness import ABX


@pytest.mark.parametrize("words, hint", [
    (["config", "get", "foo"], "'abx config list'"),
    (["config", "set", "output", "x"], "'abx help config set'"),
    (["create", "-l", "="], "'abx help create'"),
    (["create", "--allow-weaker", "nothing"], "cgroup, net, range, proc, limits, seccomp"),
    (["create", "--allow-weaker", "user"], "cgroup, net, range, proc, limits, seccomp"),
    (["stop", "box"], "'abx kill'"),
])
def test_a_hint_names_what_helps(abx, words, hint):
    r = abx(*words, code=2)
    assert hint in r.errors and "VERB" not in r.errors


def test_an_empty_command_is_a_wrong_line(abx):
    for words in [("run", "--", ""), ("exec", "box", "")]:
        r = abx(*words, code=2)
        assert "empty word" in r.errors and "process.start" not in r.errors


def test_v_is_no_mount(abx):
    r = abx("run", "-v", "/a:/b", "--", "echo", code=127)
    assert "abx cp" in r.errors


@pytest.mark.parametrize("n", [8, 12, 16, 17, 18])
def test_too_few_open_files(abx, n):
    """However far it comes, the hint is about the limit."""
    r = abx("-c", f'ulimit -n {n}; exec "$0" ls', ABX, program="/bin/bash")
    if r.code != 0:
        assert r.code == 7 and "ulimit -n" in r.errors and "E4005" in r.errors, repr(r)


def test_a_device_is_not_copied(abx):
    a, b = abx.create(), abx.create()
    for to in ["x", "-", f"{b}:/work/x"]:
        r = abx("cp", f"{a}:/dev/zero", to, code=1)
        assert "no regular file" in r.errors and r.out == b""
    assert list(abx.work.iterdir()) == []


def test_names_are_escaped_on_a_terminal_only(abx, terminal):
    a = abx.create()
    abx.sh(a, "mkdir /work/d; touch \"$(printf '/work/d/\\033[31mred')\"", code=0)
    assert abx.ok("files", "ls", "-o", "name", f"{a}:/work/d").out == b"\x1b[31mred\n"
    t = terminal(abx, "files", "ls", "-o", "name", f"{a}:/work/d")
    t.expect(b"\\x1b[31mred")


@pytest.mark.parametrize("short", [None, 6])
def test_an_error_names_the_sandbox_as_it_was_typed(abx, short):
    """Whatever the verb, by name and by the beginning of its id; what is pasted from the hint works."""
    box = abx.create("--name", "box-7")
    word = box[:short] if short else "box-7"
    abx.ok("pause", box)
    for words in [["exec", word, "--", "true"], ["code", word, "-c", "1"], ["files", "ls", f"{word}:/work"], ["cp", f"{word}:/etc", "e"]]:
        error = json.loads(abx("--json", *words).errors.splitlines()[-1])["error"]
        assert f"sandbox '{word}' ({box}) is paused" in error["message"] and error["sandbox"] == box, error
        assert f"'abx resume {word}'" in error["hint"], error
    error = abx("--json", "files", "ls", f"{box}:/work").error
    assert f"sandbox '{box}' is paused" in error["message"] and f"'abx resume {box}'" in error["hint"]
    abx.ok("resume", box)
    os.kill(abx.info(box)["pid"], signal.SIGKILL)
    assert f"sandbox '{word}' ({box}) " in abx("fork", word).errors
