"""A parent that is no one-shot program (threads, secrets, open files) has its sandboxes made by the program, scrubbed."""

import json
import os
import subprocess

import pytest

from harness import ABX, HELPERS, LIMIT, ROOT, descendants, is_alive, reap, wait_for

SECRET = b"S3CRET-" + b"47114711"


@pytest.fixture
def parent(abx):
    started = []

    def start(*args, env=None):
        p = subprocess.Popen([HELPERS / "secret_parent", *args], env=abx.environment(env), stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=abx.work)
        started.append(p)
        return p

    yield start
    for p in started:
        p.kill()
        for stream in (p.stdin, p.stdout, p.stderr):
            stream.close()
        p.wait()


def memory_holds(pid, text):
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            span, flags = line.split()[:2]
            start, end = (int(x, 16) for x in span.split("-"))
            if "r" not in flags or "[v" in line or start >= 1 << 63:
                continue
            try:
                mem.seek(start)
                if text in mem.read(end - start):
                    return True
            except OSError:
                pass
    return False


def holds(pid, file):
    """Has it a descriptor of this file? (Its own, of a connection that just ends, may have any number.)"""
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            if os.path.samestat(os.stat(f"/proc/{pid}/fd/{fd}"), file):
                return True
        except FileNotFoundError:
            pass  # closed meanwhile
    return False


def test_no_sandbox_holds_what_its_parent_holds(abx, parent):
    p = parent(ABX)
    line = p.stdout.readline()
    assert line, p.stderr.read()
    made = json.loads(line)
    assert made["error"] == "" and made["exitCode"] == 3 and made["leaks"] is False
    pid = abx.info(made["id"])["pid"]
    inside = [pid, *descendants(pid)]
    assert len(inside) >= 2
    if ROOT:
        assert memory_holds(p.pid, SECRET)  # the search finds what is there
        held = os.stat(f"/proc/{p.pid}/fd/9")
        assert holds(p.pid, held)
        for one in inside:
            assert not memory_holds(one, SECRET), one
            with open(f"/proc/{one}/environ", "rb") as f:
                assert b"SECRET_OF_MINE" not in f.read()
            assert not holds(one, held), one
            assert len(os.listdir(f"/proc/{one}/task")) == 1
    assert abx.sh(made["id"], "echo alive; env", code=0).text.startswith("alive\n")
    assert "SECRET" not in abx.sh(made["id"], "env").text
    p.stdin.close()
    assert p.wait(LIMIT) == 0, p.stderr.read()
    wait_for(lambda: not is_alive(pid))
    reap()
    assert abx.sandboxes() == [] and abx.ledger() == []


def test_the_sandbox_outlives_a_killed_parent(abx, parent):
    p = parent(ABX)
    made = json.loads(p.stdout.readline())
    p.kill()
    p.wait(LIMIT)
    assert abx.sh(made["id"], "echo alive", code=0).text == "alive\n"
    abx.ok("kill", made["id"])


def test_a_program_that_is_not_there(abx, parent):
    p = parent("/no/such/abx", env={"ABX_BIN": ""})
    made = json.loads(p.stdout.readline())
    assert "/no/such/abx" in made["error"]
    assert p.wait(LIMIT) == 1
    assert abx.sandboxes() == [] and abx.ledger() == []


@pytest.mark.parametrize("program", ["/bin/false", "/bin/cat", "/bin/echo"])
def test_a_program_that_is_another(abx, parent, program):
    p = parent(program)
    made = json.loads(p.stdout.readline())
    assert made["error"].startswith("E")
    assert p.wait(LIMIT) == 1
    wait_for(lambda: abx.left() == [])
    assert abx.sandboxes() == [] and abx.ledger() == []
