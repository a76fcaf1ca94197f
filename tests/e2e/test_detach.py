"""Leaving a terminal by its keys, and going back."""

import re
import signal
import time

import pytest

from harness import Terminal, prompt, wait_for, with_marker


def leave(t, keys=b"\x10\x11"):
    """Type the keys; the job that the hint names."""
    t.write(keys)
    line = t.expect("goes back").decode()
    assert t.end() == 0
    assert t.is_restored()
    return re.search(r"abx: detached from (\S+); 'abx attach (\S+) \1' goes back", line).group(1)


def test_leave_and_come_back(shared, box, terminal):
    t = terminal(shared, "shell", box)
    prompt(t)
    t.write("X=kept; echo sta''rted; sleep 0.5; echo fin''ished\n")
    t.expect("started")
    job = leave(t)
    rows = shared.ok("jobs", "--json", box).json["processes"]
    assert [p["state"] for p in rows if p["id"] == job] == ["running"]
    time.sleep(0.8)
    t = terminal(shared, "attach", box, job)
    t.expect("finished")  # what came meanwhile
    t.write("echo still $X; stty size\n")
    t.expect("still kept")
    t.expect("24 80")
    assert leave(t) == job
    t = terminal(shared, "shell", box, job, rows=30, cols=100)
    t.write("stty size\n")
    t.expect("30 100")
    t.write("exit 9\n")
    assert t.end() == 9
    assert t.is_restored()
    assert "finished" in shared.ok("logs", box, job).text
    assert "has ended" in shared("attach", box, job, code=125).errors


def test_one_key_alone_goes_through(shared, box, terminal):
    t = terminal(shared, "shell", box)
    prompt(t)
    t.write("cat -v\n")
    t.write(b"\x10a\n")
    t.expect("^Pa")
    t.write(b"\x10")
    time.sleep(0.3)
    t.write(b"\x10\x11")  # the first one was no beginning: the second is
    t.expect("goes back")
    assert t.end() == 0


@pytest.mark.parametrize("how", ["flag", "setting"])
def test_other_keys(abx, terminal, how):
    abx.create("--name", "keys")
    words = ["shell", "keys"]
    if how == "flag":
        words += ["--detach-keys", "ctrl-x,d"]
    else:
        abx.ok("config", "set", "detach_keys", "ctrl-x,d")
    t = terminal(abx, *words)
    prompt(t)
    t.write("cat -v\n")
    t.write(b"\x10\x11")
    t.write(b"\x18a\n")
    t.expect("^Xa")
    leave(t, b"\x18d")
    abx.ok("config", "unset", "detach_keys") if how == "setting" else None


def test_no_keys(shared, box, terminal):
    t = terminal(shared, "exec", "--detach-keys", "", "-it", box, "--", "sh", "-c",
                 "stty -echo; echo go; exec cat -v")
    t.expect("go")
    wait_for(t.is_raw, "raw")
    t.write(b"\x10\x11\n")  # the terminal inside eats Ctrl-Q
    t.expect("^P")
    t.write(b"\x03")
    assert t.end() == 130
    assert "no keys" in shared("exec", "--detach-keys", "ctrl-1", box, "--", "true", code=2).errors


def test_run_lives_on(abx, terminal):
    t = terminal(abx, "run", "-it", "--", "sh")
    t.write("stty -echo; sleep 987654 & echo i''n\n")
    t.expect("in")
    job = leave(t)
    box = abx.sandboxes()
    assert len(box) == 1 and with_marker("987654")
    abx.ok("gc")
    assert abx.ok("ls", "-q").text.split() == box
    t = terminal(abx, "attach", box[0], job)
    t.write("exit 4\n")
    assert t.end() == 4
    abx.ok("kill", box[0])
    wait_for(lambda: not with_marker("987654"), "everything ends with the sandbox")


def test_a_second_terminal_ends_and_leaves_it_alone(abx, terminal):
    box = abx.create()
    t = terminal(abx, "exec", "-it", box, "--", "sh", "-c", "echo one; sleep 876543")
    t.expect("one")
    job = leave(t)
    t = terminal(abx, "attach", box, job)
    wait_for(t.is_raw, "attached")
    t.process.send_signal(signal.SIGTERM)
    assert t.end() == 143
    assert t.is_restored()
    assert with_marker("876543")
    t = terminal(abx, "attach", box, job)
    wait_for(t.is_raw, "attached")
    t.process.kill()
    t.process.wait()
    time.sleep(0.3)
    assert with_marker("876543")


def test_without_detaching_it_ends_with_us(abx):
    box = abx.create()
    t = Terminal(abx, "exec", "-it", box, "--", "sh", "-c", "echo one; sleep 765432")
    t.expect("one")
    t.process.kill()
    t.process.wait()
    wait_for(lambda: not with_marker("765432"), "the process ends")
    t.close()


def test_the_terminal_is_given_back_after_a_crash(abx, terminal):
    """SIGKILL alone cannot be caught."""
    box = abx.create()
    for sig in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS):
        t = terminal(abx, "exec", "-it", box, "--", "sh", "-c", "echo one; sleep 1000")
        t.expect("one")
        wait_for(t.is_raw, "raw")
        t.process.send_signal(sig)
        assert t.end() == -sig
        assert t.is_restored()


def test_what_cannot_be_attached(shared, box):
    job = shared.ok("exec", "-d", box, "--", "sleep", "1000").text.strip()
    none = shared("attach", box, job, code=125)
    assert "has no terminal" in none.errors and f"abx logs -f {box} {job}" in none.errors
    assert "no process 'p999'" in shared("attach", box, "p999", code=125).errors
    shared.ok("signal", box, job, "KILL")
