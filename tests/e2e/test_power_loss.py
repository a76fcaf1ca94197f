"""The power fails, or the disk does, before each single step that changes a file: what was there is old or new, whole,
and the next command copes. The steps are found by a library that is loaded into the program (shim/fail_at.c)."""

import json
import os
import subprocess

import pytest

from harness import HELPERS, PRELOADABLE, SOAK, mounts_of, wait_for
from plugins import make_plugin

HOWS = ["error", "die", "torn"]
STRIDE = 1 if SOAK else 5  # the first step that is tried differs by the way


class Steps:
    """Run a command again and again, and let it fail at one step after the other, until none is left."""

    def __init__(self, abx, tmp_path, how):
        self.abx, self.how, self.mark, self.count = abx, how, tmp_path / "mark", 0

    def each(self, *words, first=1, extra=None, **more):
        at = first if first > 1 else 1 + HOWS.index(self.how) % STRIDE
        while True:
            env = {"LD_PRELOAD": str(HELPERS / "libfail_at.so"), "FAIL_AT": str(at), "FAIL_HOW": self.how,
                   "FAIL_MARK": str(self.mark), **(extra or {})}
            r = self.abx(*words, env=env, program=PRELOADABLE, **more)
            failed = self.mark.exists()
            if failed:
                self.mark.unlink()
            self.count += failed
            if self.how == "error" and r.code not in (0, 5):
                assert r.errors.startswith(("error: ", "warning: ")) or "error: " in r.errors, repr(r)
            yield at, failed, r
            if not failed:
                return
            assert at < 2000
            at += STRIDE


@pytest.fixture(params=HOWS)
def steps(abx, tmp_path, request):
    return Steps(abx, tmp_path, request.param)


def all_clear(abx):
    wait_for(lambda: not abx.left(), "no pid 1 lives")
    for folder in (abx.home, abx.home / "ledger"):  # gc leaves alone what may be somebody's work of this minute
        for name in os.listdir(folder):
            if name.endswith(".tmp"):
                os.utime(folder / name, (0, 0))
    abx.ok("gc")
    wait_for(lambda: not abx.sandboxes() and not abx.trash(), "all is removed")
    assert abx.ledger() == [] and mounts_of(abx.home) == []
    for folder in (abx.home, abx.home / "ledger", abx.home / "local"):
        assert [x for x in os.listdir(folder) if x.endswith(".tmp")] == []


def test_the_library_bites(abx, tmp_path):
    target = tmp_path / "t"
    env = {"LD_PRELOAD": str(HELPERS / "libfail_at.so"), "FAIL_AT": "1", "FAIL_HOW": "error", "FAIL_MARK": str(tmp_path / "m")}
    p = subprocess.run(["cp", "/etc/passwd", str(target)], env={**os.environ, **env}, capture_output=True)
    assert p.returncode != 0 and b"Input/output error" in p.stderr and (tmp_path / "m").exists()


def test_configuration(abx, steps):
    path = abx.home / "config.toml"
    abx.ok("config", "set", "timeout", "1h")
    old = path.read_bytes()
    abx.ok("config", "set", "timeout", "2h")
    new = path.read_bytes()
    path.write_bytes(old)
    for at, failed, r in steps.each("config", "set", "timeout", "2h"):
        assert path.read_bytes() in (old, new), at
        assert r.code != 0 or path.read_bytes() == new
        assert abx.ok("config", "get", "timeout").text.strip() in ("1h", "2h", "1h0m", "2h0m", "3600s", "7200s")
        path.write_bytes(old)
    assert steps.count >= 1


def test_create(abx, steps):
    abx.ok("run", "--", "true")
    for at, failed, r in steps.each("create", "--name", "same"):
        abx.ok("ls")
        again = abx("create", "--name", "same")
        assert again.code in (0, 5), (at, repr(again))
        abx.ok("kill", "same")
    assert steps.count >= 5
    all_clear(abx)


def test_kill(abx, steps):
    at, failed = 1, True
    while failed:
        box = abx.create()
        for at, failed, r in steps.each("kill", box, first=at):
            break
        abx.ok("kill", box)
        assert abx("exec", box, "--", "true").code == 125
        at += STRIDE
    assert steps.count >= 2
    all_clear(abx)


def test_extend(abx, steps):
    box = abx.create("--timeout", "1h")
    state = abx.home / "local/sandboxes" / box / "state.json"
    for at, failed, r in steps.each("extend", box, "2h"):
        json.loads(state.read_bytes())
        assert abx.sh(box, "echo alive", code=0).text == "alive\n"
        assert abx.ok("info", "--json", box).json["id"] == box
    assert [x for x in os.listdir(state.parent) if x.startswith(".") and steps.how == "error"] == []
    abx.ok("kill", box)
    all_clear(abx)


def test_run(abx, steps):
    abx.ok("run", "--", "true")
    for at, failed, r in steps.each("run", "--", "echo", "hi"):
        assert r.code in (0, 125, -9), repr(r)
        abx.ok("ls")
    all_clear(abx)


@pytest.mark.parametrize("source", ["file", "folder"])
def test_copy_out(abx, steps, source):
    box = abx.create()
    abx.sh(box, "mkdir /work/d; printf new > /work/d/f", code=0)
    target = abx.work / "d" / "f"
    target.parent.mkdir()
    target.write_text("old")
    words = ["cp", f"{box}:/work/d/f", "d/f"] if source == "file" else ["cp", f"{box}:/work/d/.", "d"]
    once = {"FAIL_HOW": "once"} if steps.how == "error" else None  # what was begun can be removed then
    for at, failed, r in steps.each(*words, extra=once):
        text = target.read_text() if target.exists() else "nothing"
        assert text in ("old", "new"), (at, text)
        assert r.code != 0 or text == "new"
        left = [x for x in os.listdir(target.parent) if x != "f"]
        assert steps.how != "error" or left == [], left
        for name in left:
            (target.parent / name).unlink()
        target.write_text("old")
    assert steps.count >= 1


@pytest.mark.parametrize("what", ["upgrade", "upgrade-slowly", "link", "remove"])
def test_provider(abx, steps, tmp_path, what):
    """The old plugin or the new one, whole; the next command clears up. slowly: where two names cannot be exchanged."""
    folders = [make_plugin(tmp_path / v, version=v) for v in ("1.0.0", "2.0.0")]
    words = {"link": ["link", folders[1], "--yes"], "remove": ["remove", "demo"]}.get(what, ["install", folders[1]])
    store = abx.home / "providers"
    abx.ok("provider", "install", folders[0])
    extra = {"FAIL_EXCHANGE": "1"} if what == "upgrade-slowly" else None
    for at, failed, r in steps.each("provider", *words, extra=extra):
        listed = abx.ok("provider", "verify", "--json").json["providers"]
        version = listed[0]["version"] if listed else None
        assert version in ("1.0.0", None if what == "remove" else "2.0.0"), at
        assert r.code != 0 or version != "1.0.0", (at, repr(r))
        assert {x for x in os.listdir(store) if x.startswith(".")} <= {".lock", ".links"}, at
        assert not (store / ".links").is_dir() or len(os.listdir(store / ".links")) == (store / "demo").is_symlink()
        abx.ok("provider", "install", folders[0], "--yes")
    assert steps.count >= 1
