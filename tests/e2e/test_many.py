"""Many commands: in a row, at once, and many sandboxes."""

import os
import resource
import signal
import socket
import threading

import pytest

from harness import LIMIT, ROOT, SOAK, count, descendants, descriptors, own_memory, status, tell, wait_for


def test_in_a_row(abx):
    a = abx.create()
    pid = abx.info(a)["pid"]
    abx.ok("exec", a, "--", "true")
    before, held, times = own_memory(pid), descriptors(pid), count(100, 10_000)
    for i in range(times):
        r = abx("exec", a, "--", "echo", str(i), code=0)
        assert r.out == b"%d\n" % i and r.err == b""
    rss = int(status(pid)["VmRSS"].split()[0])
    assert rss < 30_000, f"pid 1 grew to {rss} kB"
    assert len(descendants(pid)) == 0
    wait_for(lambda: descriptors(pid) <= held, "its descriptors are closed")
    if SOAK:  # it remembers the end of each for 30 s
        wait_for(lambda: own_memory(pid) <= before + 128, "its memory is given back", seconds=120)
    tell(f"{times} commands in a row: pid 1 has {own_memory(pid)} KiB (before {before}), "
         f"{descriptors(pid)} descriptors ({held})")


def test_at_once(abx):
    a = abx.create()
    got = {}

    def one(i):
        got[i] = abx("exec", a, "--", "sh", "-c", f"echo {i}; sleep 0.2; exit {i % 100}")

    threads = [threading.Thread(target=one, args=(i,)) for i in range(count(20, 200))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i, r in got.items():
        assert r.out == b"%d\n" % i and r.code == i % 100, repr(r)


def test_many_at_once_with_much_output(abx):
    a = abx.create()
    got = {}

    def one(i):
        got[i] = abx("exec", a, "--", "sh", "-c", f"yes {i} | head -c 1000000")

    threads = [threading.Thread(target=one, args=(i,)) for i in range(count(8, 40))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i, r in got.items():
        assert r.code == 0 and r.out == (b"%d\n" % i * 1_000_000)[:1_000_000], repr(r)


def test_memory_goes_back(abx):
    """Nothing is shared with the creator, and an idle pid 1 is small again after its commands."""
    a = abx.create()
    pid = abx.info(a)["pid"]
    if not ROOT:  # nobody but root looks into it
        with pytest.raises(PermissionError):
            open(f"/proc/{pid}/maps").read()
        return
    with open(f"/proc/{pid}/maps") as f:
        assert [x for x in f if x.split()[1].endswith("s")] == []
    for _ in range(100):
        abx("exec", a, "--", "true", code=0)

    def anonymous():
        with open(f"/proc/{pid}/smaps_rollup") as f:
            return int(next(x for x in f if x.startswith("Pss_Anon:")).split()[1])

    wait_for(lambda: anonymous() < 1400, "its memory given back")


def test_a_full_queue_is_told_at_once(abx):
    """Nobody hangs on a server that takes no more; it is alive, and goes on."""
    a = abx.create()
    pid = abx.info(a)["pid"]
    address = str(abx.home / "local/sandboxes" / a / "s")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    waiting = []
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(BlockingIOError):
            while len(waiting) < 3000:
                waiting.append(socket.socket(socket.AF_UNIX))
                waiting[-1].setblocking(False)
                waiting[-1].connect(address)
        assert len(waiting) > 200
        r = abx("exec", "--json", a, "--", "true")
        assert r.code == 125 and r.error["code"] == "E4002" and r.error["retryable"] is True, repr(r)
    finally:
        os.kill(pid, signal.SIGCONT)
        for s in waiting:
            s.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert wait_for(lambda: abx.sh(a, "echo alive").out) == b"alive\n"


def test_many_clients_at_once(abx):
    a = abx.create()
    pid = abx.info(a)["pid"]
    abx.ok("exec", a, "--", "true")
    held = descriptors(pid)
    for turn in range(2):
        started = [abx.start("exec", a, "--", "echo", str(i)) for i in range(200)]
        for i, p in enumerate(started):
            out, err = p.communicate(timeout=LIMIT)
            assert (p.returncode, out, err) == (0, b"%d\n" % i, b"")
        if turn == 0 and not ROOT:  # nobody but root sees more than the room for descriptors, which stays: for all at once
            held = max(descriptors(pid), 512)
    wait_for(lambda: descriptors(pid) <= held, "its descriptors are closed")
    tell(f"200 clients at once: pid 1 has {own_memory(pid)} KiB, {descriptors(pid)} descriptors ({held})")


def test_many_background_jobs(abx):
    a = abx.create()
    names = [abx.ok("exec", "-d", a, "--", "sh", "-c", f"exit {i}").text.strip() for i in range(count(30, 300))]
    assert len(set(names)) == len(names)
    listed = wait_for(lambda: (j := abx.ok("jobs", "--json", "--limit", "0", a).json["processes"],
                               all(x["state"] == "exited" for x in j) and j)[1])
    codes = {j["id"]: j["exitCode"] for j in listed}
    for i, name in list(enumerate(names))[-20:]:
        assert codes[name] == i % 256


def test_runs_in_a_row(abx):
    for i in range(count(30, 500)):
        assert abx("run", "--", "echo", str(i), code=0).out == b"%d\n" % i
    assert abx.sandboxes() == [] and abx.ledger() == []
    wait_for(lambda: abx.left() == [], "nothing lives")


def test_many_sandboxes(abx):
    ids = [abx.create() for _ in range(count(20, 1000))]
    assert set(abx.ok("ls", "-q", "--limit", "0").text.split()) == set(ids)
    for a in ids[:: max(1, len(ids) // count(10, 100))]:
        assert abx.sh(a, "echo $((6 * 7))", code=0).out == b"42\n"
    tell(f"{len(ids)} sandboxes alive: {sum(own_memory(p) for p in abx.left())} KiB of their own in {len(abx.left())} processes")
    abx.ok("kill", "--all", "-y")
    assert abx.sandboxes() == []
    wait_for(lambda: abx.left() == [], "nothing lives")


def test_fork_bomb_is_bounded(abx):
    """4,096 processes are the limit; the sandbox and the host stay usable."""
    a = abx.create()
    r = abx("exec", a, "--", "bash", "-c", "ulimit -u", code=0)
    assert int(r.text) <= 4096
    if count(0, 1):
        abx.sh(a, "f() { f | f & }; f; sleep 3", "--timeout", "20s")
    abx.ok("kill", a)
    wait_for(lambda: abx.left() == [], "nothing lives")
