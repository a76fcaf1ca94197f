"""Limits of a sandbox: what passes one ends inside, the host and the neighbours do not notice; and metrics are true.
root has control groups here, an ordinary user none: then pid 1 watches."""

import json
import os
import re
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from harness import Abx, ROOT, SOAK, count, is_alive, reap, remove_tree, wait_for

BY = "cgroup v1" if ROOT else "watch"
MEMORY = 64 << 20
SLOW = "\nimport time; time.sleep(20)"


def groups(word):
    """Folders of control groups that bear this name, as far as this test sees."""
    found = []
    for top, dirs, _ in os.walk("/sys/fs/cgroup"):
        found += [f"{top}/{d}" for d in dirs if d == word]
    return found


@pytest.fixture(scope="module")
def small(shared):
    """A sandbox with every limit, and a neighbour beside it."""
    shared.neighbour = shared.create()
    return shared.create("-m", "64m", "--cpus", "1", "--disk", "24m", "--processes", "60", "--open-files", "64")


@pytest.fixture(autouse=True)
def neighbours_do_not_notice(request):
    yield
    if "small" in request.fixturenames:
        shared, box = request.getfixturevalue("shared"), request.getfixturevalue("small")
        for one in box, shared.neighbour:
            assert shared("exec", one, "--", "echo", "alive", code=0).out == b"alive\n"


def python(abx, box, script, *flags):
    return abx("exec", "--json", *flags, box, "--", "python3", "-c", script)


def test_info_says_what_holds_and_by_what(shared, small):
    limits = shared.info(small)["limits"]
    assert limits["memoryBytes"] == MEMORY and limits["diskBytes"] == 24 << 20
    assert limits["cpus"] == 1 and limits["processes"] == 60 and limits["openFiles"] == 64
    by = limits["enforcedBy"]
    assert by["memory"] == BY and by["disk"] == "watch" and by["openFiles"] == "rlimit"
    assert by["cpus"] == ("cgroup v1" if ROOT else "affinity")
    assert by["processes"] == ("cgroup v1" if ROOT else "rlimit")
    assert limits["watched"] == (["disk"] if ROOT else ["memory", "cpus", "disk"])
    plain = shared.info(shared.neighbour)["limits"]
    assert plain["watched"] == [] and plain["processes"] == 4096 and "memoryBytes" not in plain


@pytest.mark.parametrize("script", [
    "x = bytearray(300 << 20)",
    "import os, time\nfd = os.memfd_create('x')\nfor i in range(300): os.write(fd, b'x' * (1 << 20)); time.sleep(.001)",
    "import mmap, time\nm = mmap.mmap(-1, 300 << 20)\nfor i in range(0, 300 << 20, 4096):\n  m[i] = 1\n"
    "  if i % (1 << 20) == 0: time.sleep(.001)",
    "import os\nfor i in range(9):\n  if os.fork() == 0: x = bytearray(30 << 20); break\n"
    "else:\n  for i in range(9): assert os.wait()[1] == 0",
], ids=["malloc", "memfd", "shared", "many"])
def test_a_memory_hog_ends_inside(shared, small, script):
    r = python(shared, small, script + ("" if "wait" in script else SLOW))
    end = r.lines[-1]
    # one of many ends, and the others go on; what a watch finds twice over its limit ends as a whole
    ends = (137,) if "wait" not in script else (1,) if ROOT else (1, 137)
    assert r.code in ends and end["limit"] == "memory", repr(r)
    assert r.err == b""


def test_out_of_memory_is_told(shared, small):
    r = shared("exec", small, "--", "python3", "-c", "x = bytearray(300 << 20)" + SLOW, code=137)
    assert r.out == b"" and "out of memory" in r.errors and r.errors.count("\n") == 1
    job = shared("exec", "-d", small, "--", "python3", "-c", "x = bytearray(300 << 20)" + SLOW, code=0).text.strip()
    assert shared("wait", small, job).code == 137
    jobs = shared("jobs", "--json", small, code=0).json["processes"]
    assert [j["limit"] for j in jobs if j["id"] == job] == ["memory"]


def test_a_fork_bomb_ends_inside(shared, small):
    r = shared.sh(small, "for i in $(seq 300); do sleep 1 & done; wait")
    assert "fork" in r.errors
    wait_for(lambda: stats(shared, small)["processes"] == 0, "all have ended")
    box = shared.create("--processes", "60")
    bomb = "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass"
    job = shared("exec", "-d", box, "--", "python3", "-c", bomb, code=0).text.strip()
    wait_for(lambda: stats(shared, box)["processes"] > 50, "it goes off")
    assert stats(shared, box)["processes"] <= 60
    shared("signal", box, job, "KILL", code=0)
    wait_for(lambda: shared("exec", box, "--", "true").code == 0, "the bomb is out")
    shared("kill", box, code=0)


def test_open_files_are_counted(shared, small):
    script = "import os\nn = 0\ntry:\n  while True: os.open('/', 0); n += 1\nexcept OSError as e: print(n, e.errno)"
    n, errno = map(int, shared("exec", small, "--", "python3", "-c", script, code=0).text.split())
    assert n < 64 and errno == 24
    many = shared.create("--open-files", "4096")
    assert shared.sh(many, "ulimit -n; ulimit -Hn", code=0).text.split() == ["4096", "4096"]
    shared("kill", many, code=0)


def test_a_full_dev_shm_ends_inside(shared, small):
    r = shared.sh(small, "head -c 100000000 /dev/zero > /dev/shm/x; s=$?; rm /dev/shm/x; exit $s", code=1)
    assert "No space left" in r.errors


WRITERS = {
    "one file": "f = open('/work/f', 'wb')\nwhile True: f.write(b'x' * (1 << 20)); f.flush(); time.sleep(.002)",
    "a file without a name": "f = open('/work/f', 'wb'); os.unlink('/work/f')\n"
                             "while True: f.write(b'x' * (1 << 20)); f.flush(); time.sleep(.002)",
    "a mapped file": "f = open('/work/f', 'w+b'); f.truncate(1 << 30); m = mmap.mmap(f.fileno(), 1 << 30)\n"
                     "for i in range(0, 1 << 30, 4096):\n  m[i] = 1\n  if i % (1 << 20) == 0: time.sleep(.002)",
}


@pytest.mark.parametrize("kind", WRITERS)
def test_a_full_disk_ends_inside(shared, small, kind):
    r = python(shared, small, "import mmap, os, time\n" + WRITERS[kind])
    assert r.code == 137 and r.lines[-1]["limit"] == "disk", repr(r)
    assert shared("exec", small, "--", "rm", "-f", "/work/f", code=0).err == b""
    wait_for(lambda: json.loads(shared("stats", "--json", small, code=0).out).get("diskUsed", 1 << 40) < 4 << 20, "room again")


def test_a_copy_onto_a_full_disk_is_refused(shared, small):
    big = shared.work / "big"
    big.write_bytes(bytes(80 << 20))
    r = shared("cp", "--json", big, f"{small}:/work/big", code=7)
    assert r.error["code"] == "E4003"
    shared("files", "rm", "-f", f"{small}:/work/big", code=0)


def test_space_is_not_taken_in_advance(shared, small):
    script = "import os\nfd = os.open('/work/f', os.O_CREAT | os.O_RDWR)\nos.posix_fallocate(fd, 0, 1 << 20)\n" \
             "print(os.fstat(fd).st_size)\nos.unlink('/work/f')"
    assert shared("exec", small, "--", "python3", "-c", script, code=0).out == b"1048576\n"  # glibc writes then
    assert shared.sh(small, "fallocate -l 1g /work/f").code != 0


def test_too_many_files_end_inside(shared):
    """A million in a sandbox without a limit; a limit of the disk counts them as half a KiB each at least."""
    n = count(10_000, 1_000_000)
    make = "for i in range(%d): open('f%%d' %% i, 'w').close()"
    box = shared.create()
    assert python(shared, box, make % n).code == 0
    shared("kill", box, code=0)
    box = shared.create("--disk", "2m")
    endless = "import itertools\nfor i in itertools.count(): open('f%d' % i, 'w').close()"
    assert python(shared, box, endless).lines[-1]["limit"] == "disk"
    assert shared.sh(box, "find . -name 'f*' -delete; echo left $(ls | wc -l)", code=0).out == b"left 0\n"
    shared("kill", box, code=0)


def test_a_disk_in_memory_is_exact(shared):
    box = shared.create("-O", "disk=memory", "--disk", "16m")
    info = shared.info(box)["limits"]
    assert info["enforcedBy"]["disk"] == "tmpfs" and info["watched"] == []
    r = shared.sh(box, "head -c 100000000 /dev/zero > f")
    assert r.code != 0 and "No space left" in r.errors
    assert 15 << 20 < shared("files", "stat", "--json", f"{box}:f", code=0).json["size"] <= 16 << 20
    assert json.loads(shared("stats", "--json", box, code=0).out)["diskTotal"] == 16 << 20
    shared.sh(box, "rm f && mkdir d && rmdir d && mv /usr/local/bin /usr/local/x && ls /usr/local/x")
    shared("kill", box, code=0)
    r = shared("create", "-O", "disk=memory", code=2)
    assert "--disk" in r.errors


def test_processors_are_limited(shared, small):
    if ROOT:
        box = shared.create("--cpus", "0.1")
        shared("exec", "-d", box, "--", "sh", "-c", "while :; do :; done", code=0)
        path = [f"{g}/cpu.stat" for g in groups(box) if g.startswith("/sys/fs/cgroup/cpu/")][0]
        wait_for(lambda: int(re.search(r"nr_throttled (\d+)", open(path).read())[1]) > 0, "it is slowed down")
        shared("kill", box, code=0)
    else:
        assert shared("exec", small, "--", "nproc", code=0).out == b"1\n"


# --- metrics -------------------------------------------------------------------------------------------

def stats(abx, box):
    return json.loads(abx("stats", "--json", box, code=0).out)


def test_metrics_are_true(shared):
    box = shared.create()
    before = stats(shared, box)
    assert before["processes"] == 0 and before["memTotal"] > 1 << 30 and before["diskTotal"] > before["diskUsed"]
    assert before["cpuCount"] == os.cpu_count() and before["cpuUsedPct"] < 50
    hold = "import time\nx = bytearray(50 << 20)\nopen('held', 'wb').write(b'x' * (20 << 20))\nprint(1, flush=True)\ntime.sleep(60)"
    job = shared("exec", "-d", box, "--", "python3", "-c", hold, code=0).text.strip()
    shared("exec", "-d", box, "--", "sleep", "60", code=0)
    wait_for(lambda: shared("logs", box, job).out == b"1\n", "it holds its memory")
    now = stats(shared, box)
    assert now["processes"] == 2
    assert 50 << 20 <= now["memUsed"] - before["memUsed"] <= 66 << 20
    assert 20 << 20 <= now["diskUsed"] - before["diskUsed"] <= 21 << 20
    burn = shared("exec", "-d", box, "--", "sh", "-c", "while :; do :; done", code=0).text.strip()
    wait_for(lambda: stats(shared, box)["cpuUsedPct"] > 10, "the load is seen")
    assert stats(shared, box)["cpuUsedPct"] <= 100.0 / os.cpu_count() + 5  # one of them
    shared("signal", box, burn, "KILL", code=0)
    wait_for(lambda: stats(shared, box)["cpuUsedPct"] < 10, "the load is gone")
    shared("kill", box, code=0)


def test_stats_of_several_and_again(shared, box, spawn):
    other = shared.create("-m", "64m")
    table = shared("stats", box, other, code=0).text.splitlines()
    assert table[0].split() == ["ID", "CPU", "CPUS", "MEMORY", "DISK", "PROCESSES"] and len(table) == 3
    both = shared("stats", "--json", box, other, code=0).json["sandboxes"]
    assert [m["id"] for m in both] == [box, other] and both[1]["memTotal"] == MEMORY
    p = spawn(shared, "stats", "--watch", "--interval", "100ms", "--json", box, other)
    lines = [json.loads(p.stdout.readline()) for _ in range(6)]
    assert [m["id"] for m in lines] == [box, other] * 3
    p.send_signal(signal.SIGINT)
    assert p.wait(20) == 130
    shared("kill", other, code=0)
    assert shared("stats", other).code == 3
    assert len(shared("stats", box, other, code=3).text.splitlines()) == 2
    r = shared("stats", "--watch", "--wait-timeout", "1s", box)
    assert r.code == 9 and r.text.startswith("ID ")


# --- asking for them -----------------------------------------------------------------------------------

def test_notes_only_where_a_limit_was_asked_for(shared):
    assert shared("run", "--", "true", code=0).err == b""
    r = shared("run", "-m", "64m", "--", "true", code=0)
    if ROOT:
        assert r.err == b""
    else:
        assert r.errors.startswith("note: ") and "memory" in r.errors and r.errors.count("\n") == 1
    assert shared("run", "-q", "-m", "64m", "--", "true", code=0).err == b""


@pytest.mark.parametrize("flags", [
    ["-m", "1m"], ["-m", "x"], ["--memory=-1"], ["--cpus", "x"], ["--cpus", "0.001"], ["--cpus", "2000"],
    ["--disk", "12"], ["--disk", "2q"], ["--processes", "2"], ["--processes", "x"], ["--open-files", "3"],
], ids=" ".join)
def test_what_no_sandbox_can_have_is_wrong_usage(shared, flags):
    assert shared("create", *flags, code=2).out == b""


def test_more_than_the_caller_has_is_refused(shared):
    r = shared("create", "--json", "--open-files", "100000000", code=7)
    assert r.error["code"] == "E4005" and "ulimit" in r.error["hint"]


def test_a_project_may_choose_sizes(shared):
    (shared.work / "abx.toml").write_text('memory = "64m"\ncpus = 0.5\nprocesses = 99\nopen_files = 128\ndisk = "1g"\n')
    box = shared.create("--processes", "77")
    limits = shared.info(box)["limits"]
    (shared.work / "abx.toml").unlink()
    assert (limits["memoryBytes"], limits["cpus"], limits["processes"], limits["openFiles"], limits["diskBytes"]) == \
        (MEMORY, 0.5, 77, 128, 1 << 30)
    shared("kill", box, code=0)


# --- the end -------------------------------------------------------------------------------------------

def test_groups_go_with_their_sandbox(shared):
    box = shared.create("-m", "64m")
    pid = shared.info(box)["pid"]
    assert bool(groups(box)) == ROOT
    shared("exec", "-d", box, "--", "sleep", "99", code=0)
    shared("kill", box, code=0)
    assert groups(box) == []
    box = shared.create("-m", "64m")
    pid = shared.info(box)["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(pid), "pid 1 is gone")
    shared("ls", code=0)
    wait_for(lambda: (shared("ls", code=0), groups(box) == [])[1], "the next command clears")


def test_groups_go_after_a_killed_command(shared, spawn):
    p = spawn(shared, "run", "-m", "64m", "--", "sleep", "99")
    ids = wait_for(lambda: [x for x in shared.sandboxes() if shared("info", x).code == 0
                            and shared.info(x)["limits"].get("memoryBytes") == MEMORY
                            and shared.info(x)["tied"]], "it runs")
    p.kill()
    p.wait()
    wait_for(lambda: (shared("gc", code=0), groups(ids[0]) == [] and ids[0] not in shared.sandboxes())[1], "cleared")


def keeps_a_reserve(place, uid):
    image, disk = f"{place}/image", f"{place}/disk"
    os.mkdir(disk)
    with open(image, "wb") as f:
        f.truncate(480 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, disk], check=True)
    try:
        os.chmod(place, 0o755)
        os.chown(disk, uid, uid)
        a = Abx(folder=disk)
        for path in [a.user_home, a.work]:
            os.chown(path, uid, uid)
        more = {"user": uid, "group": uid, "extra_groups": []} if uid else {}
        box = a("create", code=0, **more).text.strip()
        script = "f = open('f', 'wb')\nimport time\nwhile True: f.write(b'x' * (1 << 20)); f.flush(); time.sleep(.001)"
        r = a("exec", "--json", box, "--", "python3", "-c", script, **more)
        assert r.code == 137 and r.lines[-1]["limit"] == "disk", repr(r)
        free = os.statvfs(disk)
        assert free.f_bavail * free.f_frsize > 0
        assert a("create", "--json", **more).error["code"] == "E4003"
        assert a("exec", box, "--", "sh", "-c", "rm f; echo alive", code=0, **more).out == b"alive\n"
        a("kill", box, code=0, **more)
        reap()
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


if ROOT:  # who alone can make a disk for it; the sandbox is an ordinary user's too
    @pytest.mark.parametrize("uid", [0, 54321] if SOAK else [54321])
    def test_the_hosts_disk_keeps_a_reserve(uid):
        place = tempfile.mkdtemp(prefix="abx-e2e.")
        try:
            keeps_a_reserve(place, uid)
        finally:
            remove_tree(Path(place))
