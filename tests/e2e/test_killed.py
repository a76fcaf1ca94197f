"""kill -9 of the program at random moments: the next command or gc clears what is left."""

import os
import random
import signal
import time

import pytest

from harness import HELPERS, PRELOADABLE, count, mounts_of, wait_for

TIMES = count(10, 500)


def nothing_left(abx, kept=()):
    """After the program died: at most kept sandboxes, no process, mount, folder, socket or ledger entry of others."""
    wait_for(lambda: len(abx.left()) == len(kept), f"only {len(kept)} pid 1 live")
    abx.ok("gc")
    assert abx.sandboxes() == sorted(kept)
    assert abx.trash() == []
    assert [name.removesuffix(".json") for name in abx.ledger()] == sorted(kept)
    assert mounts_of(abx.home) == []
    sockets = [line for line in open("/proc/net/unix") if str(abx.home) in line]
    assert len(sockets) <= len(kept)


def kill_at_random(abx, spawn, args, most, rng, sure=()):
    p = spawn(abx, *args)
    time.sleep(rng.random() * most)
    p.send_signal(signal.SIGKILL)
    out, _ = p.communicate(timeout=20)
    return out


def test_run(abx, spawn):
    rng = random.Random(1)
    for _ in range(TIMES):
        kill_at_random(abx, spawn, ["run", "--", "sh", "-c", "sleep 1000 & sleep 1000"], 0.03, rng)
    nothing_left(abx)


def test_create(abx, spawn):
    rng = random.Random(2)
    for _ in range(TIMES):
        kill_at_random(abx, spawn, ["create", "--name", "same"], 0.02, rng)
        for a in abx.ok("ls", "-q").text.split():  # it may have been complete
            abx.ok("kill", a)
    nothing_left(abx)


def test_exec(abx, spawn):
    rng = random.Random(3)
    a = abx.create()
    for _ in range(TIMES):
        kill_at_random(abx, spawn, ["exec", a, "--", "sh", "-c", "setsid sleep 1000 & sleep 1000"], 0.03, rng)
    wait_for(lambda: len(abx.left()) == 1, "only pid 1 lives")
    assert abx.sh(a, "echo alive", code=0).out == b"alive\n"
    nothing_left(abx, [a])


def test_kill(abx, spawn):
    rng = random.Random(4)
    for _ in range(max(3, TIMES // 5)):
        a = abx.create()
        kill_at_random(abx, spawn, ["kill", a], 0.01, rng)
        abx.ok("kill", a)
    nothing_left(abx)


def test_the_name_of_a_killed_create_is_free_again(abx, spawn):
    rng = random.Random(5)
    for _ in range(max(3, TIMES // 5)):
        kill_at_random(abx, spawn, ["create", "--name", "free"], 0.01, rng)
        made = abx("create", "--name", "free")
        assert made.code in (0, 5), repr(made)
        abx.ok("kill", "free")
    nothing_left(abx)


@pytest.mark.parametrize("verb", ["ls", "gc"])
def test_one_that_nobody_wrote_down_is_ended(abx, verb):
    """As when its maker is killed right before it writes."""
    a = abx.create("--name", "lost")
    folder = abx.home / "local/sandboxes" / a
    (folder / "state.json").unlink()
    (abx.home / "ledger" / f"{a}.json").unlink()
    abx.ok(verb)
    assert len(abx.left()) == 1  # its maker may still be at it
    os.utime(folder, (1, 1))
    abx.ok(verb)
    wait_for(lambda: abx.left() == [])
    nothing_left(abx)


@pytest.mark.parametrize("verb", ["ls", "create", "run"])
def test_any_next_command_clears(abx, spawn, verb):
    a = abx.create()
    pid = abx.info(a)["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: abx.left() == [])
    made = abx.ok(*{"ls": ["ls"], "create": ["create"], "run": ["run", "--", "true"]}[verb])
    assert a not in abx.sandboxes()
    if verb == "create":
        abx.ok("kill", made.text.strip())


@pytest.mark.parametrize("words", [["kill", "--all", "-y"], ["kill", "full"]])
def test_removing_many_files_ends_by_a_signal(abx, spawn, words):
    """The sandbox has ended; what is left of its files is for the next command."""
    a = abx.create("--name", "full")
    n = count(2_000, 100_000)
    abx.ok("exec", a, "--", "sh", "-c", f"cd /work && seq {n} | xargs touch")
    env = {"LD_PRELOAD": str(HELPERS / "libslow_unlink.so"), "SLOW_UNLINK": "4000"}
    p = spawn(abx, *words, env=env, program=PRELOADABLE)
    wait_for(lambda: abx.trash() or p.poll() is not None)
    time.sleep(0.3)
    p.send_signal(signal.SIGTERM)
    _, err = p.communicate(timeout=60)
    assert p.returncode == 143 and b"interrupted" in err, (p.returncode, err)
    assert len(abx.trash()) == 1 and abx.sandboxes() == []
    abx("info", a, code=3)
    abx.ok("ls")  # has no time for all of it
    nothing_left(abx)
