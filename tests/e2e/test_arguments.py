"""Argument lists, environment, working directory and user reach the command untouched."""

import json
import os
import re

import pytest

from harness import all_processes, command_of

SHOW = ["--", "python3", "-c", "import sys, json; json.dump(sys.argv[1:], sys.stdout)"]

LISTS = {
    "spaces": ["a b", " c ", "  "],
    "quotes": ["'", '"', "`id`", "$HOME", "\\", "!", "*", "a'b\"c"],
    "newlines": ["a\nb", "\n", "\t", "\r\n"],
    "empty": ["", "x", "", ""],
    "unicode": ["\u00e4\u20ac\U0001f600", "\u4e2d\u6587", "\u202e"],
    "dashes": ["-v", "--help", "--", "-", "-it", "--json"],
    "long": ["x" * 100_000],
    "many": [str(i) for i in range(3000)],
    "control": ["\x01\x02\x7f\x1b[31m"],
}


@pytest.mark.parametrize("name", LISTS)
def test_an_argument_list_arrives_as_it_is(shared, box, name):
    words = LISTS[name]
    assert shared("exec", box, *SHOW, *words, code=0).json == words


@pytest.mark.parametrize("name", ["spaces", "quotes", "empty", "dashes"])
def test_run_passes_the_same_list(abx, name):
    assert abx("run", *SHOW, *LISTS[name], code=0).json == LISTS[name]


def test_arguments_that_are_not_utf8(shared, box):
    r = shared("exec", box, "--", "printf", "%s", b"a\xff\xfeb")
    if r.code == 0:
        assert r.out == b"a\xff\xfeb"
    else:  # said, not mangled
        assert r.code in (2, 125, 126) and "UTF-8" in r.errors


def test_flags_stand_before_or_after_the_id_never_after_the_command(shared, box):
    assert shared("exec", "-e", "A=1", box, "-e", "B=2", "--", "sh", "-c", "echo $A$B", code=0).out == b"12\n"
    assert shared("exec", box, "echo", "-e", "A=1", code=0).out in (b"-e A=1\n", b"A=1\n")
    assert shared("exec", box, "echo", "--json", "-q", code=0).out == b"--json -q\n"
    assert shared("exec", box, "sh", "-c", "echo $0 $1", "x", "--", code=0).out == b"x --\n"


def test_flags_take_both_forms(shared, box):
    assert shared("exec", "--workdir=/tmp", box, "--", "pwd", code=0).out == b"/tmp\n"
    assert shared("exec", "--workdir", "/tmp", box, "--", "pwd", code=0).out == b"/tmp\n"
    assert shared("exec", "--cwd", "/tmp", box, "--", "pwd", code=0).out == b"/tmp\n"
    assert shared("exec", "-w/tmp", box, "--", "pwd", code=0).out == b"/tmp\n"
    assert shared("exec", "-w", "/", "-w", "/tmp", box, "--", "pwd", code=0).out == b"/tmp\n"


def test_defaults_of_a_command(shared, box):
    assert shared.sh(box, "pwd; id -un; umask; echo $HOME $USER $LOGNAME", code=0).text.split() == [
        "/home/user", "user", "0022", "/home/user", "user", "user"]


def test_the_environment_is_built_from_nothing(shared, box):
    env = {"SECRET_OF_MINE": "s3cr3t", "LD_PRELOAD": "", "EDITOR": "vi", "AWS_SECRET_ACCESS_KEY": "k"}
    r = shared("exec", box, "--", "env", "-0", env=env, code=0)
    names = {line.split("=")[0] for line in r.text.split("\0") if line}
    assert names <= {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "PWD", "SHLVL", "_",
                     "LC_ALL", "HOSTNAME"}, names
    assert "/usr/local/bin" in r.text


def test_env_flags(shared, box, tmp_path):
    def shown(*flags, env=None):
        r = shared("exec", *flags, box, "--", "env", "-0", env=env, code=0)
        return dict(line.split("=", 1) for line in r.text.split("\0") if line)

    assert shown("-e", "A=x y=z\n\u00e4")["A"] == "x y=z\n\u00e4"
    assert shown("-e", "EMPTY=")["EMPTY"] == ""
    assert shown("-e", "MINE", env={"MINE": "taken"})["MINE"] == "taken"
    assert "ABSENT" not in shown("-e", "ABSENT")
    assert shown("-e", "A=1", "-e", "A=2")["A"] == "2"
    assert shown("-e", "HOME=/tmp")["HOME"] == "/tmp"
    assert shown("-e", "BIG=" + "x" * 100_000)["BIG"] == "x" * 100_000
    file = tmp_path / "env"
    file.write_text("# comment\n\nF1=one\nF2=two words\nF3=\n")
    got = shown("--env-file", file)
    assert (got["F1"], got["F2"], got["F3"]) == ("one", "two words", "")
    assert shown("--env-file", file, "-e", "F1=flag")["F1"] == "flag"


def test_a_bad_env_file_names_the_line(shared, box, tmp_path):
    file = tmp_path / "env"
    file.write_text("GOOD=1\n=bad\n")
    r = shared("exec", "--env-file", file, box, "--", "true", code=2)
    assert str(file) in r.errors and re.search(r":2\b|line 2\b", r.errors)
    r = shared("exec", "--env-file", tmp_path / "none", box, "--", "true")
    assert r.code in (2, 125) and "none" in r.errors


def test_env_of_create_reaches_every_process(abx):
    a = abx.create("-e", "OF_ALL=yes")
    assert abx.sh(a, "echo $OF_ALL", code=0).out == b"yes\n"
    job = abx.ok("exec", "-d", a, "--", "sh", "-c", "echo $OF_ALL").text.strip()
    abx("wait", a, job, code=0)
    assert abx.ok("logs", a, job).out == b"yes\n"


def test_root_inside(shared, box):
    r = shared("exec", "-u", "root", box, "--", "sh", "-c",
               "id -u; id -g; id -un; echo $HOME; touch /work/r && chown 0:0 /work/r && stat -c %U /work/r; "
               "rm /work/r", code=0)
    assert r.text.split() == ["0", "0", "root", "/root", "root"]
    assert shared("exec", "-u", "user", box, "--", "id", "-un", code=0).out == b"user\n"


def test_ps_shows_no_environment_value(shared, box, spawn):
    """A value given with -e KEY is in no command line outside."""
    p = spawn(shared, "exec", "-e", "TOKEN", box, "--", "sh", "-c", "echo up; sleep 1000",
              env={"TOKEN": "s3cr3t-4711"})
    assert p.stdout.readline() == b"up\n"
    for pid in all_processes():
        assert b"s3cr3t-4711" not in command_of(pid)
    p.kill()


def test_pid_1_shows_no_command_line_of_the_caller(abx):
    a = abx.create("--name", "hidden-4711", "-l", "secret=label-4711")
    shown = abx.sh(a, "cat /proc/1/cmdline /proc/1/comm", code=0).out
    assert b"4711" not in shown and b"create" not in shown and str(abx.home).encode() not in shown
    pid = abx.info(a).get("pid")
    if pid:
        assert b"4711" not in command_of(pid)


def test_an_id_is_not_taken_for_a_path(shared, box):
    os.makedirs(shared.work / "sub", exist_ok=True)
    r = shared("files", "stat", "--json", f"{box}:sub")
    assert r.code == 3  # relative to the home inside, never to ours


def test_env_names_that_cannot_be(shared, box):
    r = shared("exec", "-e", "A B=1", box, "--", "env", "-0")
    assert (r.code == 0 and b"A B=1\0" in r.out) or r.code == 2


def test_json_of_info_has_no_secret(abx):
    a = abx.create("-e", "PASSWORD=hunter2-4711")
    assert "hunter2-4711" not in json.dumps(abx.info(a))
