"""The conventions that hold for every verb: quiet, formats, colours, widths, broken pipes, Ctrl-C, crashes, secrets."""

import os
import re
import resource
import signal
import subprocess
import unicodedata

import pytest

from harness import ABX, ROOT, Terminal, wait_for


@pytest.fixture(scope="module")
def job(shared, box):
    name = shared.ok("exec", "-d", box, "--", "sh", "-c", "echo out; echo err >&2").text.strip()
    shared.ok("wait", box, name)
    shared.sh(box, "echo x > /work/file; ln -s file /work/link; mkdir -p /work/sub", code=0)
    return name


def filled(args, box, job):
    return [a.replace("BOX", box).replace("JOB", job) for a in args]


# Verbs that only look, with the lines that -q prints.
LOOKS = {
    "ls": (["ls"], r"[a-z0-9]{16}\n"),
    "info": (["info", "BOX"], r"[a-z0-9]{16}\n"),
    "exec": (["exec", "BOX", "--", "echo", "hi"], "hi\n"),
    "files ls": (["files", "ls", "BOX:/work"], "file\nlink\nsub\n"),
    "files cat": (["files", "cat", "BOX:/work/file"], "x\n"),
    "files stat": (["files", "stat", "BOX:/work/file"], "/work/file\n"),
    "jobs": (["jobs", "BOX"], r"(p\d+\n)+"),
    "logs": (["logs", "BOX", "JOB"], "out\n"),
    "wait": (["wait", "BOX", "JOB"], ""),
    "gc": (["gc", "--dry-run"], ""),
    "doctor": (["doctor"], r"([a-z]+\n)+"),
    "config list": (["config", "list"], r"([a-z_.-]+\n)+"),
    "config get": (["config", "get", "provider"], "local\n"),
    "config path": (["config", "path"], r"/.+/config.toml\n"),
    "version": (["version"], r"abx .+\n"),
}


@pytest.mark.parametrize("name", LOOKS)
def test_quiet_prints_only_what_was_asked_for(shared, box, job, name):
    args, expected = LOOKS[name]
    r = shared.ok(args[0], "-q", *filled(args[1:], box, job)) if " " not in name else shared.ok(
        *args[:2], "-q", *filled(args[2:], box, job))
    assert re.fullmatch(expected, r.text), repr(r)
    assert r.errors == ("err\n" if name == "logs" else "")


def test_quiet_of_what_changes_something(abx):
    made = abx.ok("create", "-q", "--name", "q1")
    assert re.fullmatch(r"[a-z0-9]{16}\n", made.text) and made.err == b""
    for args in [["extend", "q1", "1h"], ["files", "mkdir", "q1:/work/a"], ["files", "mv", "q1:/work/a", "q1:/work/b"],
                 ["files", "rm", "-r", "q1:/work/b"], ["cp", "q1:/etc/hostname", "x"], ["config", "set", "color", "auto"],
                 ["config", "unset", "color"], ["kill", "q1"], ["kill", "--all"], ["gc"]]:
        r = abx.ok(*args, "-q")
        assert r.out == b"" and r.err == b"", repr(r)
    r = abx.ok("run", "-q", "--name", "q2", "--", "echo", "hi")
    assert r.out == b"hi\n" and r.err == b""


@pytest.mark.parametrize("flag", [["-o", "name"], ["-o", "json"], ["-ojsonl"], ["--output=wide"], ["--output", "table"]],
                         ids=" ".join)
def test_every_list_has_every_format(shared, box, job, flag):
    for args in [["ls"], ["jobs", box], ["files", "ls", f"{box}:/work"], ["doctor"], ["config", "list"], ["gc", "--dry-run"]]:
        r = shared.ok(*args, *flag)
        text = r.text
        if "json" in flag[-1] and "l" not in flag[-1].replace("json", ""):
            assert isinstance(r.json, dict)
        elif flag[-1] == "-ojsonl":
            assert all(isinstance(x, dict) for x in r.lines)
        elif flag[-1] == "name":
            assert not re.search(r"[ {]", text)
        elif text:
            assert re.match(r"[A-Z]+(  +[A-Z]+)+\n", text)


def test_lists_stop_at_their_limit(shared, box, job):
    for args in [["jobs", box], ["files", "ls", f"{box}:/etc"], ["ls"]]:
        if args == ["ls"]:
            shared.ok("create")
        elif args[0] == "jobs":
            shared.ok("exec", "-d", box, "--", "true")
        r = shared.ok(*args, "--limit", "1", "-q")
        assert len(r.text.splitlines()) == 1 and "--limit 0" in r.errors
        r = shared.ok(*args, "--limit", "0", "-q")
        assert len(r.text.splitlines()) > 1 and r.err == b""


# --- flags -----------------------------------------------------------------------------------------------------


def test_the_last_of_a_repeated_flag_wins_and_lists_add_up(shared, box):
    r = shared.ok("exec", "-w", "/etc", "-w", "/usr", "-e", "A=1", "-e", "B=2", "-e", "A=3", box, "--", "sh", "-c",
                  "pwd; echo $A$B")
    assert r.text == "/usr\n32\n"
    assert shared.ok("ls", "-o", "json", "-o", "name").text.startswith(("{",)) is False
    assert shared.ok("ls", "--json", "--output=name").text.count("{") == 0
    assert shared.ok("ls", "--quiet", "--no-quiet").text.startswith("ID ")
    assert shared("kill", "--all", "-y", "--no-yes", code=2)


# --- colours and widths ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env,flags,color", [
    ({}, [], True),
    ({"NO_COLOR": "1"}, [], False),
    ({"NO_COLOR": "1"}, ["--color", "always"], True),
    ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, [], False),
    ({"TERM": "dumb"}, [], False),
    ({"TERM": "dumb", "FORCE_COLOR": "1"}, [], True),
    ({}, ["--color=never"], False),
    ({}, ["--json"], False),
], ids=lambda x: str(x))
def test_colour_on_a_terminal(shared, terminal, env, flags, color):
    t = terminal(shared, "info", "nosuch", *flags, env=env)
    assert t.end() == 3
    assert (b"\x1b[" in t.seen) == color


def test_colour_is_a_setting(abx, terminal):
    abx.ok("config", "set", "color", "never")
    t = terminal(abx, "info", "nosuch")
    t.end()
    assert b"\x1b" not in t.seen
    abx.ok("config", "set", "color", "always")
    assert b"\x1b[" in abx("info", "nosuch", code=3).err
    assert b"\x1b" not in abx("info", "nosuch", env={"NO_COLOR": "1"}, code=3).err


def columns(text):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def table(abx, *args, cols):
    t = Terminal(abx, *args, cols=cols)
    try:
        assert t.end() == 0
        return t.seen.decode().replace("\r\n", "\n")
    finally:
        t.close()


@pytest.mark.parametrize("cols", [20, 40, 80, 200])
def test_tables_fit_the_terminal(abx, cols):
    a = abx.create("--name", "n" * 40)
    abx.ok("exec", "-d", a, "--", "sh", "-c", "sleep 1000 # \u65e5\u672c\u8a9e\u65e5\u672c\u8a9e\u65e5\u672c\u8a9e\u65e5\u672c\u8a9e "
           "e\u0301e\u0301e\u0301 \u200b x")
    for args in [["ls"], ["jobs", a], ["files", "ls", f"{a}:/etc"], ["doctor"], ["config", "list"]]:
        lines = [x for x in table(abx, *args, cols=cols).split("\n\n")[0].split("\n") if "abx:" not in x]
        lines = [x.rsplit("\x1b[K", 1)[-1] for x in lines]  # a line of progress was there and is wiped away
        widths = [columns(line) for line in lines]
        first = max(columns(line.split("  ")[0]) for line in lines)  # the first column stays whole
        assert max(widths) <= max(cols, first), (args, lines)
        whole = abx.ok(*args).text.split("\n\n")[0].split("\n")
        assert [x.split("  ")[0].rstrip(" \u2026") for x in lines] == [x.split("  ")[0] for x in whole]
        if cols == 40:
            assert max(columns(line) for line in whole) > 40
    shown = table(abx, "ls", cols=cols)
    assert a in shown and ("n" * 40 in shown) == (cols >= 200)
    assert "n" * 40 in abx.ok("ls").text and "n" * 40 in table(abx, "ls", "-o", "wide", cols=cols)


def test_nothing_is_cut_away_from_a_terminal(abx):
    a = abx.create("--name", "n" * 60, "-l", "k=" + "v" * 300)
    for columns_ in ["1", "40"]:
        r = abx.ok("ls", "-o", "wide", env={"COLUMNS": columns_})
        assert a in r.text and "n" * 60 in r.text and "v" * 300 in r.text and "\u2026" not in r.text


def test_a_command_is_shown_as_it_could_be_typed(shared, box):
    words = ["sh", "-c", "echo 'it'\\''s'; sleep 1000", "a b", "", "$x"]
    name = shared.ok("exec", "-d", box, "--", *words).text.strip()
    line = next(x for x in shared.ok("jobs", box).text.splitlines() if x.startswith(name + " "))
    command = line[line.index("sh -c"):]
    typed = subprocess.run(["sh", "-c", f"printf '%s\\0' {command}"], capture_output=True).stdout
    assert typed.decode().split("\0")[:-1] == words
    shared.ok("signal", box, name, "KILL")


# --- pipes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in LOOKS if n not in ("wait", "gc")] + ["schema", "help", "completion", "context"])
def test_a_reader_that_is_gone_ends_it_quietly(shared, box, job, name):
    args = {"schema": ["schema"], "help": ["help", "run"], "completion": ["completion", "bash"],
            "context": ["context"]}.get(name) or filled(LOOKS[name][0], box, job)
    r, w = os.pipe()
    os.close(r)
    p = shared.start(*args, stdout=w)
    os.close(w)
    errors = p.stderr.read()
    p.stderr.close()
    assert p.wait(timeout=60) == 141 and errors in (b"", b"err\n")


@pytest.mark.parametrize("name", ["ls", "exec", "files cat", "logs", "version", "config list"])
def test_a_full_disk_is_an_error(shared, box, job, name):
    with open("/dev/full", "wb") as full:
        p = shared.start(*filled(LOOKS[name][0], box, job), stdout=full)
        errors = p.stderr.read().decode()
        p.stderr.close()
    assert p.wait(timeout=60) in (7, 125) and "E4003" in errors


@pytest.mark.parametrize("name", LOOKS)
def test_stdin_is_left_alone_by_what_does_not_read_it(shared, box, job, name):
    """Closed, empty and endless: no verb but those that pass it on cares."""
    args = filled(LOOKS[name][0], box, job)
    expected = shared.ok(*args).code
    assert shared(*args, preexec_fn=lambda: os.close(0)).code == expected
    with open("/dev/zero", "rb") as zeros:
        assert shared(*args, stdin=zeros).code == expected
    r, w = os.pipe()
    os.write(w, b"rest")
    os.close(w)
    assert shared(*args, stdin=r).code == expected
    if name != "exec":
        assert os.read(r, 10) == b"rest"
    os.close(r)


# --- Ctrl-C ------------------------------------------------------------------------------------------------------


WAITS = {
    "exec": ["exec", "BOX", "--", "sh", "-c", "echo ready; exec sleep 1000"],
    "logs": ["logs", "-f", "BOX", "SLEEPER"],
    "wait": ["wait", "BOX", "SLEEPER"],
    "files watch": ["files", "watch", "BOX:/work"],
    "files write": ["files", "write", "BOX:/work/half"],
    "cp": ["cp", "-", "BOX:/work/unpacked"],
    "cp out": ["cp", "BOX:/tmp/large", "-"],
}


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM], ids=lambda s: s.name)
@pytest.mark.parametrize("name", WAITS)
def test_a_signal_ends_every_wait(shared, box, spawn, name, sig):
    sleeper = shared.ok("exec", "-d", box, "--", "sh", "-c", "echo ready; sleep 1000").text.strip()
    shared.sh(box, "test -e /tmp/large || head -c 30000000 /dev/zero > /tmp/large", code=0)
    args = [a.replace("BOX", box).replace("SLEEPER", sleeper) for a in WAITS[name]]
    p = spawn(shared, *args, stdin=subprocess.PIPE)
    if name in ("exec", "logs"):
        assert p.stdout.readline() == b"ready\n"
    elif name == "cp out":
        assert len(p.stdout.read(1000)) == 1000
    else:
        wait_for(lambda: b"socket" in subprocess.run(["ls", "-l", f"/proc/{p.pid}/fd"], capture_output=True).stdout)
    p.send_signal(sig)
    assert p.wait(timeout=30) == 128 + sig
    errors = p.stderr.read().decode()
    assert "Traceback" not in errors and errors.count("error: ") <= 1
    assert [x["id"] for x in shared.ok("jobs", "--json", box).json["processes"]
            if x["id"] == sleeper and x["state"] == "running"] == [sleeper]
    shared.ok("signal", box, sleeper, "KILL")


@pytest.mark.parametrize("args", [["ls"], ["create"], ["doctor"], ["gc"], ["info", "BOX"], ["run", "--", "true"]], ids=lambda a: a[0])
def test_ctrl_c_at_any_stage(abx, args):
    """From the first instruction on: either it was done, or it says so with 130; nothing is left."""
    box = abx.create()
    args = [a.replace("BOX", box) for a in args]
    for pause in [0, 0.0005, 0.001, 0.002, 0.004, 0.008]:
        p = abx.start(*args)
        if pause:
            try:
                p.wait(pause)
            except subprocess.TimeoutExpired:
                pass
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
        assert p.returncode in (0, 130, -2), (p.returncode, err)
        assert err == b"" or b"interrupted" in err or b"nothing to clear" in err or b"error" not in err
    abx.ok("gc")
    made = abx.ok("ls", "-q").text.split()
    assert box in made
    if args[0] != "create":
        assert made == [box]
    assert set(abx.sandboxes()) <= set(made)


# --- crashes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sig", [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSYS,
                                 signal.SIGQUIT], ids=lambda s: s.name)
def test_the_terminal_is_restored_after_a_crash(shared, box, terminal, sig):
    t = terminal(shared, "shell", box, env={"PS1": "$ "})
    wait_for(lambda: t.read(0.05) is not None and t.is_raw())
    t.process.send_signal(sig)
    assert t.end() == -sig
    assert t.is_restored()


# --- secrets -----------------------------------------------------------------------------------------------------


SECRET = "sk-verysecretvalue-9876"


def all_output(abx, *args, **more):
    r = abx(*args, **more)
    return r.out + r.err


def test_a_secret_is_in_no_output(abx):
    abx.ok("config", "set", "providers.alicloud-express.api_key", "-", input=SECRET.encode() + b"\n")
    for args in [["config", "list"], ["config", "list", "--json"], ["config", "get", "providers.alicloud-express.api_key"],
                 ["context", "-vv"], ["context", "--json"], ["info", "-vv", "nosuch"], ["create", "-vv", "-P", "alicloud-express"],
                 ["schema"], ["version", "--json"], ["config", "path"]]:
        for env in [{}, {"ABX_LOG": "trace"}, {"ABX_API_KEY": SECRET}]:
            seen = all_output(abx, *args, env=env)
            assert SECRET.encode() not in seen and SECRET[:8].encode() not in seen, args
    assert SECRET.encode() not in all_output(abx, "config", "set", "providers.alicloud-express.api_key", SECRET, code=2)


def test_a_secret_is_in_no_file_but_the_configuration(abx):
    abx.ok("config", "set", "providers.alicloud-express.api_key", "-", input=SECRET.encode() + b"\n")
    abx.ok("run", "--", "true")
    a = abx.create("-e", f"TOKEN={SECRET}")
    abx.ok("exec", a, "--", "true")
    found = subprocess.run(["grep", "-rlF", SECRET, str(abx.home)], capture_output=True, text=True).stdout.split()
    assert [f for f in found if "/local/" not in f] == [str(abx.home / "config.toml")]
    assert not [f for f in found if "ledger" in f]


def test_a_secret_is_in_no_command_line(abx):
    """Of the program and of what it starts, while a sandbox is made and used."""
    abx.ok("config", "set", "providers.alicloud-express.api_key", "-", input=SECRET.encode() + b"\n")
    p = abx.start("run", "--env-file", "/dev/stdin", "--", "sleep", "1000", stdin=subprocess.PIPE)
    p.stdin.write(f"TOKEN={SECRET}\n".encode())
    p.stdin.close()
    wait_for(lambda: abx.ok("ls", "-q").out)
    assert SECRET not in subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True).stdout
    p.send_signal(signal.SIGINT)
    assert p.wait(timeout=30) == 130
    p.stdout.close()
    p.stderr.close()


def waits(pid):
    """Whether it has its loop, as far as one may look."""
    fds = f"/proc/{pid}/fd"
    if not os.path.isdir(fds) or not (ROOT or os.access(fds, os.R_OK)):
        return _stopped(pid)
    try:
        return any("eventpoll" in os.readlink(f"{fds}/{n}") for n in os.listdir(fds))
    except (FileNotFoundError, PermissionError):  # one was closed, or the process hid its files, between the two looks
        return False


def crash(abx, *args, env=None):
    """Whether a core was written when it got SIGSEGV while it waited for input."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        os.dup2(r, 0)
        os.chdir(abx.work)
        os.execve(ABX, [ABX, *args], abx.environment(env))
    wait_for(lambda: waits(pid))
    os.kill(pid, signal.SIGSEGV)
    status = os.waitpid(pid, 0)[1]
    os.close(r)
    os.close(w)
    cores = [f for f in os.listdir(abx.work) if f.startswith("core")]
    for name in cores:
        data = (abx.work / name).read_bytes()
        os.unlink(abx.work / name)
        assert SECRET.encode() not in data
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSEGV
    return bool(cores) or os.WCOREDUMP(status)


def _stopped(pid):
    """A process that hides its files: it waits when it sleeps."""
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(")")[2].split()[0] == "S"


def test_no_core_is_written_once_a_secret_is_loaded(abx):
    box = abx.create()
    waiting = ["files", "write", f"{box}:/work/x"]
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    if hard != 0:  # the same program without a secret: a crash writes one
        assert crash(abx, *waiting)
    assert not crash(abx, *waiting, env={"ABX_API_KEY": SECRET})
    abx.ok("config", "set", "providers.alicloud-express.api_key", "-", input=SECRET.encode() + b"\n")
    assert not crash(abx, *waiting)
    assert not crash(abx, "config", "set", "providers.alicloud-express.api_key", "-")


# --- verbose -----------------------------------------------------------------------------------------------------


def test_verbose_tells_calls_and_their_ends(shared, box):
    r = shared.ok("extend", "-v", box, "1h")
    assert re.search(rf"call sandbox.set_timeout {box}", r.errors)
    assert re.search(r"end sandbox.set_timeout after \d+ ms", r.errors)
    assert "timeoutMs" not in r.errors
    r = shared.ok("extend", "-vv", box, "1h")
    assert '"timeoutMs":3600000' in r.errors and "expiresAt" in r.errors
    r = shared.ok("exec", "-vv", "-e", f"TOKEN={SECRET}", box, "--", "true")
    assert SECRET not in r.errors and '"TOKEN":"..."' in r.errors
    assert re.search(r'end process.start after \d+ ms .*"exitCode":0', r.errors)
    assert "E3002" in shared("files", "stat", "-v", f"{box}:/nosuch", code=3).errors


# --- large argument lists ------------------------------------------------------------------------------------------


def test_argument_lists_up_to_the_kernel_s_limit(shared, box):
    r = shared.ok("exec", box, "--", "sh", "-c", 'echo $#; printf %s "$@" | wc -c', "sh", *["y" * 1000] * 1900)
    assert r.text.split() == ["1900", "1900000"]
    assert shared.ok("exec", box, "--", "sh", "-c", "echo ${#1}", "sh", "z" * 131071).text == "131071\n"


def test_what_the_kernel_refuses_is_told(shared, box, tmp_path):
    (tmp_path / "env").write_text("BIG=" + "v" * 200000)
    r = shared("exec", "--env-file", tmp_path / "env", box, "--", "true", code=126)
    assert "argument list too long" in r.errors.lower() and "standard input" in r.errors
