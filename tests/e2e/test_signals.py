"""Ctrl-C and its kin at each stage: the right code, and nothing stays that was started."""

import random
import signal
import subprocess
import time

import pytest

from harness import (command_of, count, descendants, is_alive, reap, wait_for, with_marker)

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


def up(p):
    assert p.stdout.readline() == b"up\n"


@pytest.mark.parametrize("sig", CODES, ids=lambda s: s.name)
def test_a_signal_is_passed_on(shared, box, spawn, sig):
    p = spawn(shared, "exec", box, "--", "sh", "-c", "echo up; exec sleep 1000")
    up(p)
    p.send_signal(sig)
    p.communicate(timeout=20)
    assert p.returncode in (CODES[sig], -sig)


@pytest.mark.parametrize("sig", CODES, ids=lambda s: s.name)
def test_the_command_may_handle_it(shared, box, spawn, sig):
    name = sig.name[3:]
    p = spawn(shared, "exec", box, "--", "sh", "-c",
              f"trap 'echo caught; exit 9' {name}; echo up; while :; do sleep 0.05; done")
    up(p)
    p.send_signal(sig)
    out, _ = p.communicate(timeout=20)
    assert out == b"caught\n" and p.returncode == 9


def test_ctrl_c_twice_kills_what_ignores_it(shared, box, spawn):
    marker = "twice4711"
    p = spawn(shared, "exec", box, "--", "sh", "-c",
              f": {marker}; trap '' INT; echo up; while :; do sleep 0.05; done")
    up(p)
    p.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert p.poll() is None
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=20)
    assert p.returncode in (130, 137, -2)
    wait_for(lambda: not with_marker(marker), "the command is gone")


@pytest.mark.parametrize("sig", CODES, ids=lambda s: s.name)
def test_run_removes_its_sandbox_after_a_signal(abx, spawn, sig):
    p = spawn(abx, "run", "--", "sh", "-c", "echo up; exec sleep 1000")
    up(p)
    p.send_signal(sig)
    p.communicate(timeout=20)
    assert p.returncode in (CODES[sig], -sig)
    wait_for(lambda: abx.sandboxes() == [], "the folder is gone")
    assert abx.ledger() == []
    wait_for(lambda: abx.left() == [], "no process is left")
    reap()


def test_ctrl_c_goes_to_the_whole_foreground_group(abx, terminal):
    """On a terminal the kernel signals the program; a pipe of two of them ends too."""
    t = terminal(abx, "run", "--", "sh", "-c", "echo up; exec sleep 1000")
    t.expect("up")
    t.write(b"\x03")
    assert t.end() in (130, -2)
    assert t.is_restored()
    wait_for(lambda: abx.left() == [], "no process is left")


@pytest.mark.parametrize("verb", ["create", "run"])
@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM], ids=lambda s: s.name)
def test_a_signal_at_any_moment(abx, spawn, verb, sig):
    rng = random.Random(7)
    abx.ok("run", "--", "true")
    for _ in range(count(15, 300)):
        args = ["run", "--", "sleep", "1000"] if verb == "run" else ["create"]
        p = spawn(abx, *args)
        time.sleep(rng.random() * 0.02)
        p.send_signal(sig)
        out, err = p.communicate(timeout=30)
        # before the handler stands the signal itself ends the program, as it does any
        assert p.returncode in (CODES[sig], -sig, 0), (p.returncode, err)
        if verb == "create" and out.strip():
            abx.ok("kill", out.strip().decode())
    abx.ok("gc")
    assert abx.sandboxes() == [] and abx.trash() == [] and abx.ledger() == []
    wait_for(lambda: abx.left() == [], "no process is left")
    reap()


def test_a_detached_command_is_not_ended_by_ctrl_c(shared, box):
    job = shared.ok("exec", "-d", box, "--", "sleep", "1000").text.strip()
    jobs = {j["id"]: j for j in shared.ok("jobs", "--json", box).json["processes"]}
    assert jobs[job]["state"] == "running" and jobs[job]["background"] is True
    shared.ok("signal", box, job, "INT")
    shared("wait", box, job, code=130)


@pytest.mark.parametrize("word,code", [("TERM", 143), ("SIGTERM", 143), ("15", 143), ("USR1", 138),
                                       ("9", 137), ("KILL", 137)])
def test_signal_takes_names_and_numbers(shared, box, word, code):
    job = shared.ok("exec", "-d", box, "--", "sleep", "1000").text.strip()
    shared.ok("signal", box, job, word)
    shared("wait", box, job, code=code)


def test_a_wrong_signal_name(shared, box):
    job = shared.ok("exec", "-d", box, "--", "sleep", "1000").text.strip()
    shared("signal", box, job, "NOSUCH", code=2)
    shared("signal", box, job, "99", code=2)
    shared.ok("signal", box, job, "KILL")
    shared("wait", box, job, code=137)
    r = shared("signal", box, job, "TERM")
    assert r.code in (0, 3, 5)


def test_kill_ends_what_left_its_group(shared, box):
    marker = "escaped4711"
    job = shared.ok("exec", "-d", box, "--", "sh", "-c",
                    f"setsid sh -c ': {marker}; sleep 1000' & "
                    f"(setsid sh -c ': {marker}; sleep 1000' &) ; sleep 1000").text.strip()
    wait_for(lambda: len(with_marker(marker)) >= 2)
    shared.ok("signal", box, job, "KILL")
    wait_for(lambda: not with_marker(marker), "the escaped ones are gone")


def test_a_killed_program_takes_its_foreground_command_along(shared, box, spawn):
    marker = "orphan4711"
    p = spawn(shared, "exec", box, "--", "sh", "-c",
              f": {marker}; setsid sh -c ': {marker}; sleep 1000' & echo up; sleep 1000")
    up(p)
    wait_for(lambda: with_marker(marker))
    p.kill()
    p.wait(timeout=20)
    wait_for(lambda: not with_marker(marker), "the command is gone")
    assert shared.sh(box, "echo alive", code=0).out == b"alive\n"


def test_stop_and_continue_of_the_program(shared, box, spawn):
    p = spawn(shared, "exec", box, "--", "sh", "-c", "echo up; sleep 0.3; echo late")
    up(p)
    p.send_signal(signal.SIGSTOP)
    time.sleep(0.6)
    p.send_signal(signal.SIGCONT)
    out, _ = p.communicate(timeout=20)
    assert out == b"late\n" and p.returncode == 0


def test_nohup_like_callers_keep_their_choice(shared, box, spawn):
    """A caller that ignores SIGHUP started us: the signal does not reach the command."""
    p = subprocess.Popen(["sh", "-c", f"trap '' HUP; exec \"$0\" exec {box} -- sh -c 'echo up; sleep 1; echo end'",
                          shared.start.__self__ and __import__("harness").ABX],
                         env=shared.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    up(p)
    p.send_signal(signal.SIGHUP)
    out, _ = p.communicate(timeout=20)
    assert out == b"end\n" and p.returncode == 0


def test_no_child_of_the_program_outlives_it(shared, box):
    before = set(descendants())
    shared.sh(box, "true", code=0)
    new = [pid for pid in descendants() if pid not in before]
    assert all(not is_alive(pid) or b"abx" not in command_of(pid) for pid in new)
