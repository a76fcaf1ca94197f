"""Each exit code of the contract, once."""

import signal
import time

import pytest

from harness import descendants, wait_for


@pytest.mark.parametrize("n", [0, 1, 2, 3, 42, 123, 124, 125, 126, 127, 128, 255])
def test_the_command_s_own_code(shared, box, n):
    r = shared.sh(box, f"exit {n}", code=n)
    assert r.out == b"" and r.err == b""


@pytest.mark.parametrize("name,code", [("HUP", 129), ("INT", 130), ("QUIT", 131), ("ABRT", 134),
                                       ("KILL", 137), ("SEGV", 139), ("PIPE", 141), ("TERM", 143)])
def test_ended_by_a_signal(shared, box, name, code):
    shared.sh(box, f"kill -{name} $$", code=code)


def test_run_returns_the_same(abx):
    abx("run", "--", "sh", "-c", "exit 7", code=7)
    abx("run", "--", "sh", "-c", "kill -9 $$", code=137)
    abx("run", "--", "/no/such/program", code=127)
    abx("run", "--", "/etc/passwd", code=126)
    abx("run", "--command-timeout", "200ms", "--", "sleep", "100", code=124)


def test_124_time_limit_of_the_command(shared, box):
    r = shared("exec", "--timeout", "200ms", box, "--", "sleep", "100", code=124)
    assert r.out == b""
    last = shared("exec", "--json", "--timeout", "200ms", box, "--", "sleep", "100", code=124).lines[-1]
    assert last["type"] == "exit" and last["timedOut"] is True and last["source"] == "abx"


def test_124_names_the_limit_that_ended_it(shared, box):
    told = "was ended by its time limit"
    assert f"the command {told}: --timeout 200ms" in shared("exec", "--timeout", "200ms", box, "--", "sleep", "100", code=124).errors
    assert f"the command {told}: --command-timeout 200ms" in shared("run", "--command-timeout", "200ms", "--", "sleep", "100", code=124).errors
    assert f"the code {told}: --timeout 200ms" in shared("code", "--timeout", "200ms", "--lang", "bash", box, "-c", "sleep 100", code=124).errors
    job = shared.ok("exec", "-d", "--timeout", "200ms", box, "--", "sleep", "100").text.strip()
    assert f"process '{job}' {told}" in shared("wait", box, job, code=124).errors
    for quiet in ("-q", "--json"):
        assert shared("exec", quiet, "--timeout", "200ms", box, "--", "sleep", "100", code=124).err == b""


def test_125_the_life_of_the_sandbox_of_a_run_is_over(shared):
    """--timeout of run is the sandbox's: it is gone before its command ended."""
    error = shared("run", "--json", "--timeout", "300ms", "--", "sleep", "100", code=125).error
    assert error["code"] == "E6004" and "its life of 300ms is over" in error["message"] and "--command-timeout" in error["hint"]


def test_125_abx_failed_beside_the_command(shared):
    shared("exec", "nosuchsandbox", "--", "true", code=125)
    shared("shell", "nosuchsandbox", code=125)
    shared("run", "--network", "allow:example.com", "--", "true", code=125)
    shared("run", "-P", "nosuchprovider", "--", "true", code=125)


@pytest.mark.parametrize("path", ["/etc/passwd", "/tmp", "/work/script"])
def test_126_cannot_be_executed(shared, box, path):
    shared.sh(box, "echo 'echo hi' > /work/script; chmod 644 /work/script", code=0)
    r = shared("exec", box, "--", path, code=126)
    assert "error: " in r.errors and path in r.errors


@pytest.mark.parametrize("path", ["nosuchprogram", "/no/such/program", "/etc/passwd/x"])
def test_127_not_found(shared, box, path):
    r = shared("exec", box, "--", path, code=127)
    assert "error: " in r.errors


def test_an_argument_with_blanks_is_no_command_line(shared, box):
    r = shared("exec", box, "--", "echo hello", code=127)
    assert "sh -c" in r.errors


def test_a_missing_working_directory(shared, box):
    r = shared("exec", "-w", "/no/such/folder", box, "--", "true")
    assert r.code in (125, 126) and "/no/such/folder" in r.errors


def test_an_unknown_user(shared, box):
    r = shared("exec", "-u", "nosuchuser", box, "--", "true")
    assert r.code in (125, 126) and "nosuchuser" in r.errors


def test_2_usage(shared):
    shared("exec", "--nosuchflag", code=2)
    shared("kill", "--all", "--no-input", code=2)


def test_2_an_answer_is_needed_and_nobody_can_be_asked(abx):
    a = abx.create()
    r = abx("kill", "--all", code=2)
    assert "--yes" in r.errors or "-y" in r.errors
    assert abx.ok("ls", "-q").text.strip() == a
    abx.ok("kill", "--all", "-y")
    assert abx.ok("ls", "-q").out == b""
    abx.ok("kill", "--all", "-y")  # of nothing


@pytest.mark.parametrize("args", [
    ["info", "nosuchsandbox"], ["jobs", "nosuchsandbox"], ["logs", "nosuchsandbox"],
    ["extend", "nosuchsandbox", "1h"], ["files", "ls", "nosuchsandbox:/"],
    ["cp", "nosuchsandbox:/x", "."], ["signal", "nosuchsandbox", "p1", "TERM"], ["wait", "nosuchsandbox"],
    ["info", "-P", "nosuchprovider", "--", "x"], ["create", "-P", "nosuchprovider"],
], ids=" ".join)
def test_3_not_found(shared, args):
    r = shared(*args, code=3)
    assert r.errors.startswith("error: ")


def test_3_inside_the_sandbox(shared, box):
    for args in [["files", "cat", f"{box}:/no"], ["files", "stat", f"{box}:/no"], ["files", "rm", f"{box}:/no"],
                 ["files", "ls", f"{box}:/no"], ["cp", f"{box}:/no", "."], ["signal", box, "p999", "TERM"],
                 ["wait", box, "p999"], ["logs", box, "p999"], ["files", "mv", f"{box}:/no", "/no2"],
                 ["cp", "/no/such/file", f"{box}:/work"]]:
        r = shared(*args, code=3)
        assert "E300" in r.errors, repr(r)


def test_4_no_credentials(abx):
    r = abx("create", drop=["ABX_PROVIDER"], code=4)
    assert "--provider local" in r.errors and r.errors.count("\n") <= 4
    r = abx("run", "--", "true", drop=["ABX_PROVIDER"], code=125)
    assert "--provider local" in r.errors
    assert abx("ls", "-P", "alicloud-express").code == 4


def test_5_conflict(abx):
    a = abx.create("--name", "taken")
    r = abx("create", "--name", "taken", code=5)
    assert "'taken'" in r.errors and a in r.errors
    abx.ok("kill", a)
    abx.create("--name", "taken")


def test_6_the_provider_cannot_do_this(shared, box):
    r = shared("create", "--network", "allow:example.com", code=6)
    assert "E8004" in r.errors


def test_7_no_space(shared, box):
    data = bytes(70 << 20)
    r = shared("files", "write", f"{box}:/dev/shm/big", input=data, code=7)
    assert "E4003" in r.errors
    shared.sh(box, "rm -f /dev/shm/*", code=0)
    assert shared.sh(box, "head -c 70000000 /dev/zero > /dev/shm/big; rm -f /dev/shm/big").errors.count("space")


def test_8_the_sandbox_ended_meanwhile(abx, spawn):
    a = abx.create()
    job = abx.ok("exec", "-d", a, "--", "sleep", "1000").text.strip()
    p = spawn(abx, "wait", a, job)
    wait_for(lambda: p.poll() is None and len(descendants(p.pid)) >= 0)
    time.sleep(0.3)
    abx.ok("kill", a)
    out, err = p.communicate(timeout=30)
    assert p.returncode == 8, (p.returncode, err)
    assert b"E6004" in err


def test_125_the_sandbox_ended_under_a_command(abx, spawn):
    a = abx.create()
    p = spawn(abx, "exec", a, "--", "sh", "-c", "echo up; sleep 1000")
    assert p.stdout.readline() == b"up\n"
    abx.ok("kill", a)
    out, err = p.communicate(timeout=30)
    assert p.returncode == 125 and b"E6004" in err


def test_9_the_time_limit_of_the_call(shared, box):
    job = shared.ok("exec", "-d", box, "--", "sleep", "1000").text.strip()
    r = shared("wait", "--wait-timeout", "200ms", box, job, code=9)
    assert "E5001" in r.errors
    shared.ok("signal", box, job, "KILL")
    shared("wait", box, job, code=137)


def test_125_wait_timeout_of_exec(shared, box):
    r = shared("exec", "--wait-timeout", "200ms", box, "--", "sleep", "1000", code=125)
    assert "exitCode: 9" in r.errors


def test_130_interrupted(shared, box, spawn):
    p = spawn(shared, "files", "watch", f"{box}:/work")
    time.sleep(0.3)
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=20)
    assert p.returncode == 130


def test_wait_returns_the_code_of_the_job(shared, box):
    for script, code in [("exit 0", 0), ("exit 9", 9), ("kill -TERM $$", 143)]:
        job = shared.ok("exec", "-d", box, "--", "sh", "-c", script).text.strip()
        shared("wait", box, job, code=code)
    job = shared.ok("exec", "-d", "--timeout", "200ms", box, "--", "sleep", "100").text.strip()
    shared("wait", box, job, code=124)
