"""Pause and resume, the idle time, and what happens when a time is over."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from harness import ROOT, count, descendants, descriptors, own_memory, status, tell, wait_for

COUNT = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.02; done"
FORKS = "while :; do (:; (: ; :) & ) ; /bin/true & wait; done"


def states(box_pid):
    """pid -> state of all that runs in the sandbox, threads of their own."""
    found = {}
    for pid in descendants(box_pid):
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                stat = Path(f"/proc/{pid}/task/{task}/stat").read_text(errors="replace")
                found[int(task)] = stat.rpartition(")")[2].split()[0]
        except OSError:
            pass
    return found


def running(box_pid):
    return {pid: s for pid, s in states(box_pid).items() if s not in "TtZXD"}


def cpu(box_pid):
    total = {}
    for pid in descendants(box_pid):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        total[pid] = int(fields[11]) + int(fields[12])
    return total


def state(abx, box):
    return abx.info(box)["state"]


def test_everything_stands_still_and_goes_on(abx):
    a = abx.create("--timeout", "1h")
    job = abx.ok("exec", "-d", a, "--", "sh", "-c", COUNT).text.strip()
    wait_for(lambda: abx("logs", a, job).out.count(b"\n") > 3)
    assert abx.ok("pause", a).out == b""
    info = abx.info(a)
    assert info["state"] == "paused" and info["pausedBy"] in ("SIGSTOP", "freezer")
    assert 3000000 < info["timeoutLeftMs"] <= 3600000 and "expiresAt" not in info
    assert not running(info["pid"])
    at = abx.ok("logs", a, job).out
    used = cpu(info["pid"])
    time.sleep(0.3)
    assert abx.ok("logs", a, job).out == at and cpu(info["pid"]) == used
    assert b" paused " in abx.ok("ls", "-a").out
    hidden = abx.ok("ls")
    assert a not in hidden.text and b"-a" in hidden.err
    assert abx.ok("ls", "-q").out == b""
    abx.ok("resume", a)
    wait_for(lambda: abx.ok("logs", a, job).out.count(b"\n") > at.count(b"\n"))
    lines = abx.ok("logs", a, job).out.split()
    assert lines == [b"%d" % (i + 1) for i in range(len(lines))]  # nothing was lost
    info = abx.info(a)
    assert info["state"] == "running" and "pausedAt" not in info and "expiresAt" in info


def test_safe_to_repeat_and_several_at_once(abx):
    a, b = abx.create(), abx.create()
    assert abx.ok("pause", "--json", a, b).json == {"paused": [a, b]}
    abx.ok("pause", a)
    r = abx("pause", a, "nosuchbox", code=3)
    assert "nosuchbox" in r.errors
    assert abx.ok("resume", "--json", a, b).json == {"resumed": [a, b]}
    abx.ok("resume", a)
    assert state(abx, a) == state(abx, b) == "running"
    abx("resume", "nosuchbox", code=3)


def test_what_a_paused_one_refuses(abx):
    a = abx.create()
    job = abx.ok("exec", "-d", a, "--", "sleep", "1000").text.strip()
    abx.ok("pause", a)
    r = abx("exec", "--json", a, "--", "true", code=125)
    assert r.error["code"] == "E4001" and "is paused" in r.error["message"]
    assert f"abx resume {a}" in r.error["hint"] and r.error["exitCode"] == 5
    for args in [("files", "ls", f"{a}:/"), ("files", "cat", f"{a}:/etc/passwd"), ("files", "mkdir", f"{a}:/work/x"),
                 ("cp", f"{a}:/etc/passwd", "."), ("extend", a, "2h"), ("signal", a, job, "CONT"),
                 ("signal", a, job, "STOP")]:
        r = abx(*args, code=5)
        assert "is paused" in r.errors and f"abx resume {a}" in r.errors, repr(r)
    r = abx("files", "write", f"{a}:/work/x", input=b"x", code=5)
    assert f"abx resume {a}" in r.errors
    assert [j["state"] for j in abx.ok("jobs", "--json", a).json["processes"]] == ["running"]
    abx.ok("signal", a, job, "TERM")  # it takes it when it goes on
    abx.ok("resume", a)
    abx("wait", a, job, code=143)


def test_shell_resumes(abx):
    a = abx.create()
    abx.ok("pause", a)
    assert abx.ok("shell", a, input=b"echo here\n").out == b"here\n"
    assert state(abx, a) == "running"


def test_who_was_stopped_before_stays_so(abx):
    a = abx.create()
    script = "sleep 1000 & sleep 0.3; kill -STOP $!; sleep 2000 & wait"
    abx.ok("exec", "-d", a, "--", "sh", "-c", script)
    pid = abx.info(a)["pid"]

    def asleep(seconds):
        for p in descendants(pid):
            if Path(f"/proc/{p}/cmdline").read_bytes() == b"sleep\0%d\0" % seconds:
                return status(p)["State"][0]
        return None
    wait_for(lambda: asleep(1000) == "T" and asleep(2000) == "S")
    abx.ok("pause", a)
    wait_for(lambda: asleep(2000) == "T")
    abx.ok("resume", a)
    wait_for(lambda: asleep(2000) == "S")
    assert asleep(1000) == "T"


def test_a_command_that_is_followed_goes_on(abx, spawn):
    a = abx.create()
    p = spawn(abx, "exec", a, "--", "sh", "-c", "echo one; read x; echo two $x; exit 7", stdin=subprocess.PIPE)
    assert p.stdout.readline() == b"one\n"
    abx.ok("pause", a)
    p.stdin.write(b"three\n")
    p.stdin.flush()
    time.sleep(0.2)
    assert p.poll() is None
    abx.ok("resume", a)
    assert p.stdout.readline() == b"two three\n" and p.wait(timeout=60) == 7


def test_time_limits_of_commands_stand_still_too(abx, spawn):
    a = abx.create()
    p = spawn(abx, "exec", "--timeout", "1s", a, "--", "sh", "-c", "echo on; sleep 0.1; echo done")
    assert p.stdout.readline() == b"on\n"
    abx.ok("pause", a)
    time.sleep(1.2)
    assert p.poll() is None
    abx.ok("resume", a)
    assert p.stdout.readline() == b"done\n" and p.wait(timeout=60) == 0


def test_a_terminal_does_not_notice(abx, terminal):
    a = abx.create()
    t = terminal(abx, "shell", a)
    t.write("PS1='> '; sleep 1000 & echo rea''dy\n")
    t.expect("ready\r\n")
    abx.ok("pause", a)
    t.write("echo bli''nd\n")
    abx.ok("resume", a)
    t.expect("blind\r\n")
    t.write("jobs; exit 3\n")
    assert b"Running" in t.expect("sleep 1000")
    assert t.end() == 3


def test_neither_time_runs_while_paused(abx):
    a = abx.create("--timeout", "1500ms", "--idle", "1s")
    abx.ok("pause", a)
    left = abx.info(a)["timeoutLeftMs"]
    assert 0 < left <= 1500
    time.sleep(1.7)
    assert abx.info(a)["timeoutLeftMs"] == left
    abx.ok("resume", "--timeout", "1h", a)
    abx.ok("pause", a)
    assert abx.info(a)["timeoutLeftMs"] > 3000000
    abx.ok("resume", a)
    wait_for(lambda: abx("info", a).code == 3, "idle ends it")


def test_the_life_ends_it_or_pauses_it(abx):
    a = abx.create("--timeout", "300ms")
    b = abx.create("--timeout", "300ms", "--on-timeout", "pause")
    info = abx.info(b)
    assert info["onTimeout"] == "pause" and abx("info", "--json", a).code in (0, 3)
    wait_for(lambda: abx("info", a).code == 3)
    wait_for(lambda: state(abx, b) == "paused")  # nobody of ours was there to write it down
    assert not running(info["pid"])
    assert abx.info(b)["timeoutLeftMs"] == 0
    abx.ok("resume", "--timeout", "1h", b)
    assert abx.sh(b, "echo alive", code=0).out == b"alive\n"
    assert abx.info(b)["state"] == "running"


def test_nothing_left_gives_the_same_time_again(abx):
    a = abx.create("--timeout", "700ms", "--on-timeout", "pause")
    wait_for(lambda: state(abx, a) == "paused")
    abx.ok("resume", a)
    assert state(abx, a) == "running"
    wait_for(lambda: state(abx, a) == "paused")


def test_idle_is_renewed_by_use(abx, spawn):
    a = abx.create("--idle", "700ms", "--timeout", "none")
    assert abx.info(a)["idleMs"] == 700 and "expiresAt" not in abx.info(a)
    for _ in range(4):
        time.sleep(0.25)
        abx.sh(a, "true", code=0)
    p = spawn(abx, "exec", a, "--", "sleep", "1")  # a stream that is open
    assert p.wait(timeout=60) == 0
    assert state(abx, a) == "running"  # to look is no use
    wait_for(lambda: abx("info", a).code == 3)


def test_idle_can_pause(abx):
    a = abx.create("--idle", "300ms", "--on-timeout", "pause")
    abx.ok("exec", "-d", a, "--", "sleep", "1000")
    wait_for(lambda: state(abx, a) == "paused")
    info = abx.info(a)
    assert info["timeoutLeftMs"] > 3000000
    abx.ok("resume", a)
    wait_for(lambda: state(abx, a) == "paused")


def test_wrong_words(abx):
    assert "kill" in abx("create", "--on-timeout", "sleep", code=2).errors
    abx("create", "--idle", "soon", code=2)


@pytest.fixture(params=["signals", "limits"])
def size(request):
    """What a sandbox is made with: without limits, and with some, which give it a control group where one can be made."""
    return [] if request.param == "signals" else ["--memory", "1g"]


def test_who_has_a_control_group_is_frozen(abx):
    a = abx.create("--memory", "1g")
    abx.ok("exec", "-d", a, "--", "sh", "-c", COUNT)
    abx.ok("pause", a)
    info = abx.info(a)
    assert info["pausedBy"] == ("freezer" if ROOT else "SIGSTOP")
    used = cpu(info["pid"])
    time.sleep(0.3)
    assert cpu(info["pid"]) == used
    abx("exec", a, "--", "true", code=125)
    abx.ok("resume", a)
    wait_for(lambda: cpu(info["pid"]) != used or abx.sh(a, ": alive").code == 0)
    assert abx.sh(a, "echo alive", code=0).out == b"alive\n"


def test_kill_a_paused_one(abx, size):
    a = abx.create(*size)
    abx.ok("exec", "-d", a, "--", "sh", "-c", FORKS)
    abx.ok("pause", a)
    abx.ok("kill", a)
    wait_for(lambda: not abx.left() and abx.sandboxes() == [])


def test_killed_while_paused_stays_so(abx):
    """The death of a parent wakes those it left; they must not run on."""
    a = abx.create()
    job = abx.ok("exec", "-d", a, "--", "sh", "-c", f"(setsid sh -c '{COUNT}' >/dev/null) & {COUNT}").text.strip()
    pid = abx.info(a)["pid"]
    wait_for(lambda: len(descendants(pid)) > 2)
    abx.ok("pause", a)
    victim = min(descendants(pid))
    os.kill(victim, 9)
    wait_for(lambda: victim not in descendants(pid))
    wait_for(lambda: not running(pid))
    abx.ok("resume", a)
    abx("wait", a, job)


def test_nobody_is_missed_under_a_forking_load(abx):
    a = abx.create()
    for _ in range(4):
        abx.ok("exec", "-d", a, "--", "sh", "-c", FORKS)
    pid = abx.info(a)["pid"]
    for i in range(count(10, 1000)):
        abx.ok("pause", a)
        one = states(pid)
        assert not {p: s for p, s in one.items() if s not in "TtZXD"}, i
        two = states(pid)
        assert one == two, i
        abx.ok("resume", a)
    assert abx.sh(a, "echo alive", code=0).out == b"alive\n"


def test_many_pauses_leave_nothing(abx):
    a = abx.create()
    job = abx.ok("exec", "-d", a, "--", "sh", "-c", "while :; do sleep 0.01; done").text.strip()
    pid = abx.info(a)["pid"]
    for _ in range(5):
        abx.ok("pause", a)
        abx.ok("resume", a)
    before, held = own_memory(pid), descriptors(pid)
    times = count(10, 1000)
    for _ in range(times):
        abx.ok("pause", a)
        abx.ok("resume", a)
    wait_for(lambda: descriptors(pid) <= held)
    assert own_memory(pid) <= before + 128
    tell(f"{times} pauses: pid 1 has {own_memory(pid)} KiB (before {before}), {descriptors(pid)} descriptors ({held})")
    assert [j["state"] for j in abx.ok("jobs", "--json", a).json["processes"] if j["id"] == job] == ["running"]


def test_pause_and_resume_at_once(abx, spawn, size):
    a = abx.create(*size)
    abx.ok("exec", "-d", a, "--", "sh", "-c", FORKS)
    for _ in range(count(3, 100)):
        all_of_them = [spawn(abx, verb, a) for verb in ["pause", "resume"] * 4]
        for p in all_of_them:
            assert p.wait(timeout=60) == 0, p.stderr.read()
    abx.ok("resume", a)
    assert abx.sh(a, "echo alive", code=0).out == b"alive\n"
