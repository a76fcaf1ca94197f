"""Every verb that asks a sandbox, against a server that was taken over: nothing is written outside of the target,
memory stays small, nobody waits for ever, and what is said is an error, without escape codes."""

import os
import signal
import subprocess
import tempfile
import time

import pytest

import hostile_envd
from harness import LIMIT, SOAK, wait_for
from hostile_envd import ANSWERS, FAKE, hostile_fixture

pytestmark = pytest.mark.once

MOST_MIB = 96  # resident, at the most: the program has about 10

VERBS = {
    "exec": ["exec", FAKE, "--", "true"], "exec -d": ["exec", "-d", FAKE, "--", "true"],
    "exec --json": ["exec", "--json", FAKE, "--", "true"],
    "shell": ["shell", FAKE], "jobs": ["jobs", FAKE], "logs": ["logs", FAKE, "p1"], "wait": ["wait", FAKE],
    "signal": ["signal", FAKE, "p1", "TERM"], "ls": ["files", "ls", f"{FAKE}:/x"], "ls --json": ["files", "ls", "--json", f"{FAKE}:/x"],
    "stat": ["files", "stat", f"{FAKE}:/x"], "cat": ["files", "cat", f"{FAKE}:/x"], "rm": ["files", "rm", f"{FAKE}:/x"],
    "mkdir": ["files", "mkdir", f"{FAKE}:/x"], "mv": ["files", "mv", f"{FAKE}:/x", f"{FAKE}:/y"],
    "write": ["files", "write", f"{FAKE}:/x"], "watch": ["files", "watch", f"{FAKE}:/x"],
    "cp out": ["cp", f"{FAKE}:/x", "got"], "cp contents": ["cp", f"{FAKE}:/x/.", "."], "cp in": ["cp", "mine", f"{FAKE}:/x"],
    "cp folder in": ["cp", "folder", f"{FAKE}:/x"], "cp -": ["cp", f"{FAKE}:/x", "-"], "info": ["info", FAKE],
    "extend": ["extend", FAKE, "1h"], "ls all": ["ls", "-a"],
}

# Bytes that are what was asked for have no end that could be told from a long one: here somebody interrupts.
COPIES = ["cp out", "cp contents", "cp -"]
ENDLESS = {
    "endless file": ["cat"], "slow file": ["cat"], "starts": ["cat"], "entries without end": ["cat"], "keepalives": ["cat"],
    "empty messages": ["cat"], "unknown events": ["cat"], "after the end": ["cat"], "message of 4 GiB": ["cat"],
    "output": ["cat", "exec", "exec --json", "logs", "shell"], "trailers": [],
    "stat-file:endless file": COPIES, "stat-file:slow file": COPIES, "stat-file:message of 4 GiB": ["cp out", "cp contents"],
    "stat-dir:output": COPIES, "stat-dir:tar zeros": COPIES, "stat-dir:tar attributes": COPIES, "stat-dir:tar name": COPIES,
}
MODES = [x for x in ANSWERS if not x.startswith("tar ") and x != "silent"] + [
    f"stat-file:{x}" for x in ("short file", "long file", "endless file", "slow file", "gzip of zeros", "location of a file",
                               "message of 4 GiB", "html", "huge length")] + [
    f"stat-dir:{x}" for x in ("tar zeros", "tar attributes", "tar name", "tar names", "tar garbage",
                              "message of 4 GiB", "after the end", "output", "html")]


@pytest.fixture
def hostile_server(abx):
    yield from hostile_fixture(abx, hostile_envd.__file__)


class Run:
    """The program with its peak of memory; stdout may be endless and is only looked at."""

    def __init__(self, abx, words):
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        endless = words[0] in ("exec", "shell", "logs") or words[:2] == ["files", "cat"] or words[-1] == "-"
        self.mib = 0
        self.p = abx.start(*words, stdout=subprocess.DEVNULL if endless else self.out, stderr=self.err)

    def wait(self, seconds=LIMIT):
        """True when it has ended."""
        if self.p.returncode is not None:
            return True
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.look()
            pid, state = os.waitpid(self.p.pid, os.WNOHANG)
            if pid:
                self.p.returncode = self.code = os.waitstatus_to_exitcode(state)
                return True
            time.sleep(0.002)
        return False

    def look(self):
        """Its peak of memory; what wait4 tells begins with that of the process that started it."""
        try:
            with open(f"/proc/{self.p.pid}/status") as f:
                peak = next((x for x in f if x.startswith("VmHWM:")), "VmHWM: 0")
        except ProcessLookupError:
            return
        self.mib = max(self.mib, int(peak.split()[1]) / 1024)

    def said(self):
        texts = []
        for f in (self.out, self.err):
            f.seek(0)
            texts.append(f.read())
            f.close()
        return texts


def check(run, words, mode):
    out, err = run.said()
    what = (mode, words, run.code, out[:300], err[:600])
    assert run.mib < MOST_MIB, (run.mib, *what)
    assert b"\x1b" not in out + err and b"\x07" not in out + err, what
    assert len(err) < 16000, what
    assert not any(x.startswith(b"error: fake") for x in err.splitlines()), what
    assert run.code >= 0 and run.code != 134, what
    if run.code not in (0, 5) and words[0] not in ("exec", "shell", "wait"):
        assert err.startswith((b"error: ", b'{"error":')) or b"\nerror: " in err, what
    return out


def limited(words):
    at = 2 if words[0] == "files" else 1
    return [*words[:at], "--wait-timeout", "1s", *words[at:]]


@pytest.mark.parametrize("mode", MODES)
def test_a_hostile_server(abx, hostile_server, mode):
    names = COPIES if mode.startswith("stat-") else list(VERBS)
    if not SOAK and names is not COPIES:  # each mode meets another part of the verbs
        at = MODES.index(mode) * 7
        names = [names[(at + 5 * i) % len(names)] for i in range(3)]
    names = [n for n in names if n not in ENDLESS.get(mode, [])]
    hostile_server(mode)
    (abx.folder / "victim").write_text("good")
    (abx.work / "mine").write_text("mine")
    (abx.work / "folder").mkdir()
    (abx.work / "folder/x").write_text("mine")
    waits = mode in ("descriptors", "slow file")  # one after the other would take long
    started = [Run(abx, limited(VERBS[n])) for n in names] if waits else []
    for i, name in enumerate(names):
        words = VERBS[name]
        run = started[i] if waits else Run(abx, words)
        assert run.wait(100), f"hangs: {mode} {words}"
        check(run, words, mode)
        assert (abx.folder / "victim").read_text() == "good"
        subprocess.run(["rm", "-rf", str(abx.work / "got")], check=True)
    assert sorted(os.listdir(abx.folder)) == ["home", "user", "victim", "work"], os.listdir(abx.folder)
    assert (abx.work / "mine").read_text() == "mine"
    assert not [x for x in os.listdir(abx.work) if x.startswith(".abx-")]


@pytest.mark.parametrize("mode", [m for m in ENDLESS if ENDLESS[m]])
def test_an_endless_answer_is_interrupted(abx, hostile_server, mode):
    hostile_server(mode)
    (abx.work / "mine").write_text("mine")
    (abx.work / "folder").mkdir()
    for name in ENDLESS[mode]:
        run = Run(abx, VERBS[name])
        if not run.wait(0.15 if not SOAK else 5):
            os.kill(run.p.pid, signal.SIGINT)
            if not run.wait(5):
                os.kill(run.p.pid, signal.SIGINT)
        assert run.wait(), f"hangs: {mode} {name}"
        check(run, VERBS[name], mode)
        assert [x for x in os.listdir(abx.work) if x.startswith(".abx-")] == []
        subprocess.run(f"rm -rf {abx.work}/got {abx.work}/d* {abx.work}/x", shell=True, check=True)


def test_a_silent_server(abx, hostile_server):
    """Nobody waits for ever: small questions have a limit of their own (a minute), and all have --wait-timeout."""
    hostile_server("silent")
    (abx.work / "mine").write_text("mine")
    (abx.work / "folder").mkdir()
    runs = []
    for words in VERBS.values():
        runs.append((words, Run(abx, words if SOAK else limited(words))))
    for words, run in runs:
        assert run.wait(120), f"hangs: {words}"
        out, err = run.said()
        assert words[0] in ("info", "ls") or run.code in (9, 124, 125, 8, 6), (words, run.code, err)


def test_descriptors_are_not_taken(abx, hostile_server, spawn):
    hostile_server("descriptors")
    p = spawn(abx, "jobs", FAKE)
    folder = f"/proc/{p.pid}/fd"
    wait_for(lambda: any("socket:" in os.readlink(f"{folder}/{n}") for n in os.listdir(folder)), "a connection")
    time.sleep(0.2)
    assert not any("maps" in os.readlink(f"{folder}/{n}") for n in os.listdir(folder))
    assert len(os.listdir(folder)) < 30
