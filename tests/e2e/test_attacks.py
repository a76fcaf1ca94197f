"""What an enemy tries: code in a sandbox, a server that was taken over, an archive that lies, a kill at a bad moment.

Each probe first shows that it does harm where nothing stops it, so that it cannot pass by being broken.
Run as a program (see hostile_server) this file is the server that was taken over."""

import io
import json
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import tarfile
import threading
import time

from hostile_envd import (END_OF_STREAM, STARTED, answer_stream, answer_whole, chunk, data, ended, entry, envelope, field,
                          forever, gap, hostile_fixture, server_main, varint)

# --- the hostile server ------------------------------------------------------------------------------------


def hostile(mode, path, kind, send):
    """One answer. Ends of connections are answers too."""
    if mode == "good":
        answer_stream(send, kind, STARTED + data(b"reached") + ended(3) + END_OF_STREAM)
        send(b"0\r\n\r\n")
    elif mode.startswith("code:"):
        _, code, exited = mode.split(":")
        answer_stream(send, kind, STARTED + ended(int(code), int(exited)) + END_OF_STREAM)
        send(b"0\r\n\r\n")
    elif mode == "false length":
        send(b"HTTP/1.1 200 OK\r\nContent-Type: x/y\r\nContent-Length: 99999999999999999999999\r\n\r\nhello")
    elif mode == "nothing":
        pass
    elif mode == "silent":
        threading.Event().wait()
    elif mode == "garbage":
        send(os.urandom(4096))
    elif mode == "endless head":
        send(b"HTTP/1.1 200 OK\r\n")
        forever(send, b"X-A: " + b"a" * 1000 + b"\r\n")
    elif mode == "endless line":
        send(b"HTTP/1.1 200 OK\r\nX: ")
        forever(send, b"a" * 65536)
    elif mode == "endless interim":
        forever(send, b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
    elif mode == "redirect":
        send(b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n")
    elif mode == "endless error":
        send(b"HTTP/1.1 500 no\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
        forever(send, chunk(b"A" * 65536))
    elif mode == "endless wrong type":
        answer_stream(send, b"image/png")
        forever(send, chunk(b"A" * 65536))
    elif mode == "error text":
        text = {"code": "unknown", "message": "\x1b[31mred\nerror: fake" + "Z" * 50000}
        answer_whole(send, b"application/json", json.dumps(text).encode(), b"500 no")
    elif mode == "huge frame":
        answer_stream(send, kind, envelope(b"x", length=0xFFFFFFFF))
        forever(send, chunk(b"A" * 65536))
    elif mode == "huge end":
        answer_stream(send, kind, STARTED + struct.pack(">BI", 2, 0x0FFFFFFF))
        forever(send, chunk(b"A" * 65536))
    elif mode == "endless answer":
        answer_stream(send, kind)
        forever(send, chunk(field(1, field(2, 1)) * 5000))
    elif mode == "nested":
        deep = b"\x0a" + varint(3000000) + b"\x0a" * 3000000
        answer_stream(send, kind, envelope(deep) if b"connect" in kind else deep)
        send(b"0\r\n\r\n")
    elif mode == "starts":
        answer_stream(send, kind)
        forever(send, chunk(STARTED * 1000))
    elif mode == "gaps":
        answer_stream(send, kind, STARTED + gap("\x1b[31m", -5) + ended(0) + END_OF_STREAM)
        send(b"0\r\n\r\n")
    elif mode == "no end":
        answer_stream(send, kind, STARTED)
        send(b"0\r\n\r\n")
    elif mode == "end first":
        answer_stream(send, kind, ended(0) + END_OF_STREAM)
        send(b"0\r\n\r\n")
    elif mode == "compressed":
        answer_stream(send, kind, envelope(b"abc", 1) + END_OF_STREAM)
        send(b"0\r\n\r\n")
    elif mode == "names" and path.startswith("/files?"):
        answer_whole(send, b"application/octet-stream", b"evil!")
    elif mode == "names" and "Stat" in path:
        answer_whole(send, kind, field(1, entry("../../victim", "/../../victim", -5, 0xFFFFFFFF)))
    elif mode == "names":
        names = ["../../x", "a\nb", "\x1b[31mred", "", "..", "/etc/passwd", "x" * 100000]
        answer_whole(send, kind, b"".join(field(1, entry(n, "/" + n, -5, 0xFFFFFFFF)) for n in names))
    elif mode == "changes":
        answer_stream(send, kind, envelope(field(1, b"")))
        forever(send, chunk(envelope(field(2, field(1, "../\x1b[31mx\n") + field(2, 1))) * 500))


def answer(mode, path, kind, conn):
    hostile(mode, path, kind, conn.sendall)


if __name__ == "__main__":
    server_main(*sys.argv[1:], answerer=answer)

import pytest  # noqa: E402

from harness import (ABX, LIMIT, ROOT, is_alive, status, wait_for, with_marker)  # noqa: E402

USERS = ["user", "root"]


@pytest.fixture
def hostile_server(abx):
    """hostile_server(mode): a sandbox named FAKE whose server was taken over."""
    yield from hostile_fixture(abx, __file__)


def bounded(abx, *args, mib=128, **more):
    """Run it with so much memory for data; more would be its end."""
    def limit():
        resource.setrlimit(resource.RLIMIT_DATA, (mib << 20, mib << 20))
    return abx(*args, preexec_fn=limit, **more)


def test_the_bound_bites(abx):
    take = ["-c", "import sys; print(len(bytearray(int(sys.argv[1]) << 20)))"]
    assert bounded(abx, *take, "32", program=sys.executable).code == 0
    assert bounded(abx, *take, "128", program=sys.executable).code != 0


def test_the_false_server_is_reached(abx, hostile_server):
    fake = hostile_server("good")
    r = abx("exec", fake, "--", "true")
    assert (r.code, r.out) == (3, b"reached")


BAD_STREAMS = ["garbage", "endless head", "endless line", "endless interim", "redirect", "endless error",
               "endless wrong type", "error text", "huge frame", "huge end", "nested", "starts", "gaps", "no end",
               "end first", "compressed"]


@pytest.mark.parametrize("mode", BAD_STREAMS)
def test_a_hostile_server_and_exec(abx, hostile_server, mode):
    r = bounded(abx, "exec", hostile_server(mode), "--", "true")
    assert r.code == 125 and r.out == b"" and r.errors.startswith("error: "), repr(r)
    assert len(r.err) < 16000 and b"\x1b" not in r.err
    assert not any(x.startswith("error: fake") for x in r.errors.splitlines())


@pytest.mark.parametrize("mode", ["garbage", "endless head", "endless interim", "redirect", "endless error",
                                  "endless wrong type", "endless answer", "nested"])
def test_a_hostile_server_and_small_questions(abx, hostile_server, mode):
    fake = hostile_server(mode)
    for words in [("jobs", fake), ("files", "ls", f"{fake}:/x"), ("cp", f"{fake}:/x", "got")]:
        r = bounded(abx, *words, mib=256)
        assert r.code in (1, 2, 7, 8) and r.out == b"" and r.errors.startswith("error: "), repr(r)
    assert os.listdir(abx.work) == []


@pytest.mark.parametrize("mode, words", [("huge frame", ("exec", "FAKE", "--", "true")), ("endless head", ("jobs", "FAKE")),
                                         ("endless answer", ("jobs", "FAKE")), ("false length", ("jobs", "FAKE")),
                                         ("false length", ("files", "cat", "FAKE:/x"))])
def test_a_server_over_its_limits_is_at_fault(abx, hostile_server, mode, words):
    fake = hostile_server(mode)
    r = bounded(abx, *[w.replace("FAKE", fake) for w in words], mib=256)
    assert "E6003" in r.errors and r.code == (125 if words[0] == "exec" else 8), repr(r)


def test_an_error_names_the_sandbox_not_an_address(abx, hostile_server):
    fake = hostile_server("nothing")
    r = abx("jobs", fake, code=8)
    assert f"sandbox '{fake}'" in r.errors and "http:" not in r.errors


def test_a_silent_server_and_a_limit(abx, hostile_server):
    r = abx("jobs", "--wait-timeout", "1s", hostile_server("silent"), code=9)
    assert "E5001" in r.errors


@pytest.mark.parametrize("code, exited", [(-1, 0), (-1, 1), (-2147483648, 1)])
def test_an_end_that_is_no_success_is_none(abx, hostile_server, code, exited):
    assert abx("exec", hostile_server(f"code:{code}:{exited}"), "--", "true").code not in (0, 130)


def test_names_of_a_hostile_server(abx, hostile_server):
    fake = hostile_server("names")
    (abx.folder / "victim").write_text("good")
    for words in [("files", "ls", f"{fake}:/x"), ("files", "ls", "--json", f"{fake}:/x"), ("files", "stat", f"{fake}:/x"),
                  ("jobs", fake), ("cp", f"{fake}:/x", "."), ("cp", f"{fake}:/x", "sub"), ("cp", f"{fake}:/x/", ".")]:
        r = bounded(abx, *words)
        assert r.code in (0, 1, 2, 3, 5, 7, 8) and b"\x1b" not in r.out + r.err, repr(r)
    assert (abx.folder / "victim").read_text() == "good"
    assert set(os.listdir(abx.work)) <= {"x", "sub"}


def test_changes_of_a_hostile_server(abx, hostile_server):
    r = bounded(abx, "files", "watch", f"{hostile_server('changes')}:/x")
    assert r.code == 8 and b"\x1b" not in r.out + r.err and b".." not in r.out


# --- archives that lie ---------------------------------------------------------------------------------------


def archive(entries, **more):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT, **more) as t:
        for name, kind, link, pax in entries:
            i = tarfile.TarInfo(name)
            i.type, i.linkname, i.pax_headers = kind, link, pax
            i.mode = 0o4777 if kind == tarfile.REGTYPE else 0o755
            i.size = 4 if kind == tarfile.REGTYPE else 0
            t.addfile(i, io.BytesIO(b"evil"))
    return out.getvalue()


FILE, LINK, HARD = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE


def lies(out):
    """Archives that write, or point, outside of the folder that they are unpacked in."""
    up = "../" * 3
    return {
        "dots": [(f"./{up}canary/x", FILE, "", {})],
        "absolute": [(f"{out}/canary/x", FILE, "", {})],
        "link to a folder": [("./l", LINK, f"{out}/canary", {}), ("./l/x", FILE, "", {})],
        "hard link": [("./h", HARD, f"{out}/canary/victim", {}), ("./h", FILE, "", {})],
        "hard link by dots": [("./h", HARD, f"{up}canary/victim", {})],
        "hard link over a link": [("./l", LINK, f"{out}/canary/victim", {}), ("./h", HARD, "./l", {})],
        "path in an attribute": [("./x", FILE, "", {"path": f"{up}canary/x"})],
    }


@pytest.mark.parametrize("name", list(lies("")))
def test_an_archive_that_leaves_its_folder(abx, name):
    canary, box = abx.folder / "canary", abx.create()
    canary.mkdir()
    (canary / "victim").write_text("good")
    before = sorted(os.listdir(canary)), (canary / "victim").stat().st_nlink
    blob = archive(lies(str(abx.folder))[name])
    deep = abx.folder / "a" / "b" / "c"
    deep.mkdir(parents=True)
    # it does harm where nothing stops it
    script = ("import sys,io,tarfile,os\nos.chdir(sys.argv[1])\n"
              "t=tarfile.open(fileobj=io.BytesIO(sys.stdin.buffer.read()))\n"
              "for m in t:\n"
              "    try: t.extract(m, **({'filter': 'fully_trusted'} if hasattr(tarfile, 'data_filter') else {}))\n"
              "    except Exception as e: print(e, file=sys.stderr)\n")
    subprocess.run([sys.executable, "-c", script, str(deep)], input=blob, check=True)
    harmed = (sorted(os.listdir(canary)), (canary / "victim").stat().st_nlink) != before or \
        (canary / "victim").read_text() != "good" or any(p.stat().st_nlink > 1 for p in deep.iterdir() if p.is_file())
    assert harmed or name == "hard link over a link"
    subprocess.run(["rm", "-rf", str(deep), str(canary)], check=True)
    canary.mkdir()
    (canary / "victim").write_text("good")
    deep.mkdir()
    # the same archive from a tar inside that was replaced
    abx.ok("exec", box, "--", "sh", "-c", "mkdir /work/d; cat > /work/evil.tar", input=blob)
    replace_tar(abx, box, "cat /work/evil.tar")
    r = abx("cp", f"{box}:/work/d", "got", cwd=deep)
    assert r.code != 0 and r.errors.startswith("error: "), repr(r)
    assert (sorted(os.listdir(canary)), (canary / "victim").stat().st_nlink) == before
    assert (canary / "victim").read_text() == "good"


def replace_tar(abx, box, script):
    """Whatever is named tar in the sandbox now does this."""
    text = f"#!/bin/sh\n{script}\n"
    abx.ok("exec", box, "--", "sh", "-c", "cat > /work/tar; chmod 755 /work/tar", input=text.encode())
    abx.ok("exec", "-u", "root", box, "--", "sh", "-c",
           "cp /work/tar /usr/local/sbin/tar && test $(command -v tar) = /usr/local/sbin/tar")


def test_an_archive_keeps_no_power(abx):
    box = abx.create()
    blob = archive([("./s", FILE, "", {}), ("./dev", tarfile.CHRTYPE, "", {}), ("./fifo", tarfile.FIFOTYPE, "", {})])
    assert next(iter(tarfile.open(fileobj=io.BytesIO(blob)))).mode == 0o4777
    abx.ok("exec", box, "--", "sh", "-c", "mkdir /work/d; cat > /work/evil.tar", input=blob)
    replace_tar(abx, box, "cat /work/evil.tar")
    abx.ok("cp", f"{box}:/work/d", "got")
    assert os.listdir(abx.work / "got") == ["s"]
    assert (abx.work / "got/s").stat().st_mode & 0o7777 == 0o777


def test_an_archive_of_folders_without_end(abx):
    box = abx.create()
    blob = archive([("./d", tarfile.DIRTYPE, "", {})])[:512]
    abx.ok("exec", box, "--", "sh", "-c", "mkdir /work/d; head -c 512 > /work/evil.tar; for i in 1 2 3 4; do"
           " for j in 1 2 3 4 5 6 7 8 9 10; do cat /work/evil.tar; done > /work/ten; mv /work/ten /work/evil.tar; done",
           input=blob)
    replace_tar(abx, box, "while cat /work/evil.tar; do :; done")
    r = bounded(abx, "cp", f"{box}:/work/d", "got", mib=256, timeout=LIMIT * 10)
    assert r.code == 2 and "too many folders" in r.errors, repr(r)


# --- from inside -----------------------------------------------------------------------------------------------


def controllable(abx, box):
    """It can be asked, and it can be ended."""
    pid = abx.info(box)["pid"]
    assert is_alive(pid)
    abx.ok("jobs", box)
    abx.ok("kill", box)
    wait_for(lambda: not is_alive(pid), "the end of pid 1")


def outside(script, *words):
    """Run a probe where nothing stops it, but in pid and user namespaces that end with it."""
    r = subprocess.run(["unshare", "--user", "--map-root-user", "--pid", "--mount-proc", "--fork", "--kill-child", *script,
                        *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=LIMIT, check=True)
    return r.stdout.decode()


STOP_ALL = "kill -STOP -1; echo done"
KILL_ALL = "kill -KILL -1; echo done"


def test_a_stop_of_all_does_harm_outside():
    stopped = "for i in $(seq 400); do grep -q stopped /proc/$!/status && break; sleep 0.05; done"  # it may be about to
    script = f"sleep 1000 & sh -c '{STOP_ALL}'; {stopped}; grep State /proc/$!/status"
    assert outside(["sh", "-c", script]).splitlines() == ["done", "State:\tT (stopped)"]


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("script", [KILL_ALL, STOP_ALL])
def test_signals_to_everybody(abx, user, script):
    box = abx.create()
    job = abx.ok("exec", "-d", "-u", user, box, "--", "sleep", "1000").text.strip()
    assert abx.sh(box, script, "-u", user).text == "done\n"
    if script == KILL_ALL:
        assert abx("wait", box, job).code == 137  # it does harm
    assert abx.sh(box, "echo alive", code=0).text == "alive\n"
    controllable(abx, box)


FORKS = """import os, time
n = 0
try:
    while n < 4200:
        if os.fork() == 0:
            time.sleep(1000)
        n += 1
except OSError:
    pass
print(n, flush=True)
"""


def test_many_processes_do_start_outside():
    assert outside(["python3", "-IS", "-c", FORKS]) == "4200\n"


@pytest.mark.parametrize("user", USERS)
def test_more_processes_than_allowed(abx, user):
    box = abx.create()
    job = abx.ok("exec", "-d", "-u", user, box, "--", "python3", "-c", FORKS + "time.sleep(1000)").text.strip()
    lines = wait_for(lambda: abx.ok("logs", box, job).text, "the limit", LIMIT)
    assert 1000 < int(lines) < 4097
    r = abx("exec", "-u", user, box, "--", "true")
    assert r.code in (0, 125)
    controllable(abx, box)


def test_without_its_files(abx):
    box = abx.create()
    abx.sh(box, "rm -rf /etc/passwd /etc/group /home/user /tmp /usr/bin 2>/dev/null; echo", "-u", "root")
    assert abx("exec", box, "--", "sh", "-c", "echo").code != 0  # it does harm
    controllable(abx, box)


FLOOD = "while :; do cat /dev/zero | head -c 10000000; done"


def test_a_flood_is_one_outside():
    p = subprocess.Popen(["sh", "-c", FLOOD], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    assert len(p.stdout.read(256 << 20)) == 256 << 20
    os.killpg(p.pid, signal.SIGKILL)
    p.wait()
    p.stdout.close()


def test_output_that_nobody_reads(abx, spawn):
    box = abx.create()
    pid = abx.info(box)["pid"]
    p = spawn(abx, "exec", box, "--", "sh", "-c", FLOOD + " # flood-4711")
    job = abx.ok("exec", "-d", box, "--", "cat", "/dev/zero").text.strip()
    wait_for(lambda: len(select_bytes(p)) > 0, "output")
    wait_for(lambda: "no longer kept" in abx("logs", box, job, stdout=subprocess.DEVNULL, timeout=LIMIT * 6).errors,
             "a flood", LIMIT * 6)
    for one in (p.pid, pid):
        assert int(status(one)["VmHWM"].split()[0]) < 128 * 1024
    assert abx.sh(box, "echo alive", code=0).text == "alive\n"
    controllable(abx, box)


def select_bytes(p):
    os.set_blocking(p.stdout.fileno(), False)
    return p.stdout.read(1) or b""


# --- kills at bad moments ------------------------------------------------------------------------------------


def is_clear(abx):
    slots = []
    if ROOT and os.path.isdir("/run/abx/slots"):
        for name in os.listdir("/run/abx/slots"):
            try:
                slots += [name] * (str(abx.home) in os.readlink(f"/run/abx/slots/{name}"))
            except OSError:
                pass
    with open("/proc/self/mountinfo") as f:
        mounts = [x for x in f if str(abx.home) in x]
    return not (abx.sandboxes() or abx.trash() or abx.ledger() or abx.left() or slots or mounts)


@pytest.mark.parametrize("verb", ["run", "create"])
def test_the_command_killed_at_any_moment(abx, verb):
    words = ["run", "--", "sh", "-c", "sleep 0.02; sleep 1000 # moment-4712"] if verb == "run" else ["create"]
    abx.ok("run", "--", "true")
    dice = random.Random(4711)
    for _ in range(20):
        p = abx.start(*words)
        time.sleep(dice.random() * 0.03)
        p.kill()
        p.communicate()
    if verb == "create":
        abx.ok("kill", "--all", "-y")
    wait_for(lambda: not with_marker("moment-4712"), "the end of the commands")
    abx.ok("gc")
    wait_for(lambda: is_clear(abx), "all gone")


def test_pid_1_killed_at_any_moment(abx, spawn):
    dice = random.Random(4713)
    for _ in range(20):
        box = abx.create()
        pid = abx.info(box)["pid"]
        p = spawn(abx, "exec", box, "--", "sh", "-c", "while :; do echo moment; done", stdout=subprocess.DEVNULL)
        time.sleep(dice.random() * 0.03)
        os.kill(pid, signal.SIGKILL)
        assert p.wait(LIMIT) == 125
        assert abx("exec", box, "--", "true").code == 125
    abx.ok("gc")
    wait_for(lambda: is_clear(abx), "all gone")


def test_a_file_that_may_not_grow(abx):
    box = abx.create()
    r = abx("-c", 'ulimit -f 1; exec "$0" cp "$1:/usr/bin/env" got', ABX, box, program="/bin/bash")
    assert r.code == 7 and r.errors.startswith("error: ") and "too large" in r.errors.lower() and "ulimit -f" in r.errors
    assert os.listdir(abx.work) == []
    r = abx("-c", 'ulimit -f 0; exec "$0" run -- true', ABX, program="/bin/bash")
    assert r.code == 125 and r.errors.startswith("error: ")
    abx.ok("kill", box)
    wait_for(lambda: is_clear(abx), "all gone")
    assert [x for x in os.listdir(abx.home / "ledger") if x.endswith(".tmp")] == []
