"""Limits of the caller: none leaks into a sandbox, and one that stands in the way is named."""

import os
import resource
import shutil

import pytest

from harness import ABX, Abx, ROOT, is_alive, reap, wait_for

OTHER = 54321  # an id of nobody, with no process yet
BURN = "import time\nwhile time.process_time() < 2.5: pass\nprint('burnt')"


@pytest.fixture
def user():
    """The program for an ordinary user who runs nothing else."""
    a = Abx()
    if ROOT:
        for path in [a.folder, a.user_home, a.work]:
            os.chown(path, OTHER, OTHER)
        place = a.folder / "abx"  # where everybody may come
        shutil.copy(ABX, place)
        a.program = str(place)
    yield a
    as_user(a, "kill", "--all", "-y")
    a.close()
    reap()


def limited(abx, limits, *args, **more):
    """Run it with these limits: (resource, soft, hard)."""
    def limit():
        for what, soft, hard in limits:
            resource.setrlimit(what, (soft, hard))
    return abx(*args, preexec_fn=limit, **more)


FREE = resource.RLIM_INFINITY
LOW = {"cpu": (resource.RLIMIT_CPU, 1), "as": (resource.RLIMIT_AS, 1 << 30), "data": (resource.RLIMIT_DATA, 64 << 20),
       "fsize": (resource.RLIMIT_FSIZE, 1 << 20), "stack": (resource.RLIMIT_STACK, 1 << 20),
       "rss": (resource.RLIMIT_RSS, 1 << 20), "nofile": (resource.RLIMIT_NOFILE, 256),
       "pending": (resource.RLIMIT_SIGPENDING, 16)}
ASKED = ("import resource as r\nfor n in ['CPU', 'AS', 'DATA', 'FSIZE', 'RSS', 'STACK', 'NOFILE', 'SIGPENDING', 'NICE',"
         "'RTPRIO', 'CORE']: print(n, *r.getrlimit(getattr(r, 'RLIMIT_' + n)))")


def inside(abx, box):
    lines = abx("exec", box, "--", "python3", "-c", ASKED, code=0).text.splitlines()
    return {name: (int(soft), int(hard)) for name, soft, hard in (x.split() for x in lines)}


def test_soft_limits_do_not_leak(abx):
    low = [(what, soft, resource.getrlimit(what)[1]) for what, soft in LOW.values()]
    box = limited(abx, low, "create", code=0).text.strip()
    got = inside(abx, box)
    for name in ["CPU", "AS", "DATA", "FSIZE", "RSS"]:
        assert got[name] == (resource.getrlimit(getattr(resource, "RLIMIT_" + name))[1],) * 2
    assert got["STACK"][0] == 8 << 20 and got["NOFILE"][0] == 1024
    assert got["NICE"] == got["RTPRIO"] == (0, 0) and got["CORE"] == (1, 1)
    assert abx("exec", box, "--", "python3", "-c", BURN, code=0).text == "burnt\n"
    abx.sh(box, "head -c 3000000 /dev/zero > big && rm big", code=0)


def test_hard_limits_are_told(user):
    """Nobody can raise them; pid 1 outlives the end of a command by them."""
    low = [(LOW[n][0], LOW[n][1], LOW[n][1]) for n in ["cpu", "fsize"]]
    box = limited_user(user, low, "create", code=0).text.strip()
    info = as_user(user, "info", "--json", box, code=0).json
    assert info["limits"]["cpuSeconds"] == 1 and info["limits"]["fileBytes"] == 1 << 20
    assert as_user(user, "exec", box, "--", "python3", "-c", BURN).code == 137
    assert as_user(user, "exec", box, "--", "sh", "-c", "head -c 3000000 /dev/zero > big").code != 0
    big = user.work / "big"
    big.write_bytes(b"x" * (3 << 20))
    assert as_user(user, "cp", big, f"{box}:big").code != 0  # pid 1 itself writes
    assert is_alive(info["pid"])
    assert as_user(user, "exec", box, "--", "echo", "alive", code=0).out == b"alive\n"
    as_user(user, "kill", box, code=0)


def test_doctor_tells_hard_limits(user):
    def told(low):
        layers = limited_user(user, low, "doctor", "--json", code=0).json["layers"]
        return [x for x in layers if x["name"] == "unlimited"]
    found = told([(resource.RLIMIT_CPU, 30, 60), (resource.RLIMIT_FSIZE, 5 << 20, 5 << 20)])
    assert len(found) == 1 and found[0]["optional"] is True and "ulimit -Ha" in found[0]["fix"]
    assert "processor time of a process: 60 s" in found[0]["detail"]
    assert f"size of a file: {5 << 20} bytes" in found[0]["detail"]
    assert not [x for x in told([(resource.RLIMIT_CPU, 30, FREE)]) if "processor time" in x["detail"]]


def as_user(abx, *args, **more):
    return limited_user(abx, [], *args, **more)


def limited_user(abx, limits, *args, **more):
    if ROOT:
        more.update(user=OTHER, group=OTHER, extra_groups=[], program=abx.program)

    def limit():
        for what, soft, hard in limits:
            resource.setrlimit(what, (soft, hard))
    if limits:
        more["preexec_fn"] = limit
    return abx(*args, **more)


@pytest.mark.parametrize("flags", [[], ["--allow-weaker", "net"]])
def test_too_few_processes_are_a_matter_of_limits(user, flags):
    """From no process at all upwards, until it fits: told as a limit each time, and no layer is left out for it.
    What else this user runs, also where the test cannot see it, only moves the place where it fits."""
    as_user(user, "run", "--", "true", code=0)  # the skeleton is there
    wait_for(lambda: user.left() == [], "nothing lives")
    refused = 0
    for n in range(1, 4096):
        r = limited_user(user, [(resource.RLIMIT_NPROC, n, n)], "create", "--json", *flags)
        if r.code == 0:
            break
        assert r.code == 7 and r.error["code"] == "E4005" and "ulimit -u" in r.error["hint"], repr(r)
        assert "layer" not in r.error["message"]
        assert user.sandboxes() == []
        refused += 1
    assert r.code == 0 and r.json["isolation"]["weakened"] == [], repr(r)
    assert refused > 0
