"""How long a sandbox lives, how it is named, and how it ends."""

import subprocess
import threading
import time

import pytest

from harness import ABX, LIMIT, ROOT, count, is_alive, mounts_of, reap, wait_for


def test_a_sandbox_outlives_its_command(abx):
    made = subprocess.run(["sh", "-c", f'x=$("{ABX}" create); echo "<$x>"'], env=abx.environment(),
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
    a = made.stdout.decode().strip().strip("<>")
    assert abx.sh(a, "echo alive", code=0).out == b"alive\n"
    assert abx.sandboxes() == [a]


def test_files_and_processes_stay_between_commands(abx):
    a = abx.create()
    abx.sh(a, "echo kept > /work/f; mkdir -p ~/d; echo x > /tmp/t", code=0)
    assert abx.sh(a, "cat /work/f /tmp/t; ls ~", code=0).out == b"kept\nx\nd\n"


def test_two_sandboxes_share_nothing(abx):
    a, b = abx.create(), abx.create()
    abx.sh(a, "echo a > /work/f; echo a > /tmp/f; echo a > /dev/shm/f", code=0)
    assert abx.sh(b, "ls -A /work /tmp /dev/shm ~ | grep -c '^f$'").out == b"0\n"
    assert abx.sh(a, "hostname").out != abx.sh(b, "hostname").out
    assert abx.sh(a, "cat /etc/machine-id").out != abx.sh(b, "cat /etc/machine-id").out


def test_the_time_limit_ends_it(abx):
    a = abx.create("--timeout", "1s")
    pid = abx.info(a)["pid"]
    assert abx.sh(a, "true").code in (0, 125)
    wait_for(lambda: not is_alive(pid), "pid 1 is gone")
    reap()
    abx("info", a, code=3)
    abx("exec", a, "--", "true", code=125)
    assert abx.ok("ls", "-q").out == b""
    abx.ok("gc")
    assert abx.sandboxes() == [] and abx.trash() == [] and abx.ledger() == []


def test_the_default_life_is_an_hour_and_none_is_for_ever(abx):
    import datetime
    a = abx.ok("create", "--json").json
    life = (datetime.datetime.fromisoformat(a["expiresAt"].replace("Z", "+00:00"))
            - datetime.datetime.fromisoformat(a["createdAt"].replace("Z", "+00:00")))
    assert abs(life.total_seconds() - 3600) < 30
    for none in ["none", "0"]:
        assert "expiresAt" not in abx.ok("create", "--json", "--timeout", none).json
    assert abx.info(abx.create(env={"ABX_TIMEOUT": "2h"}))["expiresAt"] > a["expiresAt"]


def test_extend(abx):
    a = abx.create("--timeout", "2s")
    later = abx.ok("extend", "--json", a, "1h").json
    assert later["id"] == a and abx.info(a)["expiresAt"] == later["expiresAt"]
    time.sleep(2.3)
    assert abx.sh(a, "echo alive", code=0).out == b"alive\n"
    assert "expiresAt" not in abx.ok("extend", "--json", a, "none").json
    for alias in ["renew", "timeout"]:
        abx.ok(alias, a, "1h")
    pid = abx.info(a)["pid"]
    abx.ok("extend", a, "500ms")
    wait_for(lambda: not is_alive(pid), "it ends at the new time")


def test_kill(abx):
    a = abx.create("--name", "by-name")
    b, c, d = abx.create(), abx.create(), abx.create()
    pids = [abx.info(x)["pid"] for x in (a, b, c, d)]
    abx.ok("kill", "by-name")
    abx.ok("rm", b[:8])
    abx.ok("delete", c, d)
    wait_for(lambda: not any(map(is_alive, pids)))
    assert abx.ok("ls", "-q").out == b""
    assert abx.sandboxes() == [] and abx.ledger() == []
    abx.ok("kill", a, b)  # again is no error


def test_kill_ends_all_inside(abx):
    a = abx.create()
    abx.ok("exec", "-d", a, "--", "sh", "-c", "setsid sleep 1000 & sleep 1000")
    wait_for(lambda: len(abx.left()) >= 3)
    abx.ok("kill", a)
    wait_for(lambda: abx.left() == [], "nothing lives")
    assert mounts_of(abx.home) == []


def test_kill_of_what_never_was(abx):
    r = abx("kill", "nosuchsandbox")
    assert r.code in (0, 3)


def test_gone_is_code_3_and_125(abx):
    a = abx.create()
    abx.ok("kill", a)
    abx("info", a, code=3)
    r = abx("exec", a, "--", "true", code=125)
    assert "exitCode: 3" in r.errors


def test_pid_1_killed_from_outside(abx):
    import os
    import signal
    a = abx.create()
    pid = abx.info(a)["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(pid))
    r = abx("exec", a, "--", "true", code=125)
    assert "exitCode: 3" in r.errors or "exitCode: 8" in r.errors
    abx.ok("gc")
    assert abx.sandboxes() == [] and abx.ledger() == []


def test_names_and_prefixes(abx):
    a = abx.create("--name", "my-box")
    for word in [a, "my-box", a[:4], a[:-1]]:
        assert abx.info(word)["id"] == a
    abx("info", a[:3], code=3)


def test_an_ambiguous_prefix_lists_the_candidates(abx):
    ids = [abx.create() for _ in range(4)]
    # make one by copying a ledger entry under a sibling id that shares four characters
    entry = abx.home / "ledger" / f"{ids[0]}.json"
    twin = ids[0][:6] + ("a" if ids[0][6] != "a" else "b") + ids[0][7:]
    (abx.home / "ledger" / f"{twin}.json").write_text(entry.read_text().replace(ids[0], twin))
    (abx.home / "ledger" / f"{twin}.json").chmod(0o600)
    r = abx("info", ids[0][:5], code=5)
    assert ids[0] in r.errors and twin in r.errors
    abx("exec", ids[0][:5], "--", "true", code=125)
    assert abx.info(ids[0])["id"] == ids[0]


@pytest.mark.parametrize("name", ["", "a/b", "../x", "a b", "x" * 300, "-x", "a\nb", "."])
def test_bad_names(abx, name):
    r = abx("create", f"--name={name}")
    assert r.code == 2, repr(r)
    assert abx.sandboxes() == []


def test_run_leaves_nothing(abx):
    abx.ok("run", "--", "true")
    assert abx.sandboxes() == [] and abx.ledger() == []
    wait_for(lambda: abx.left() == [], "nothing lives")
    assert mounts_of(abx.home) == []
    assert abx.ok("ls", "-q").out == b""
    abx.ok("gc")
    assert abx.trash() == []


def test_run_keep_and_name(abx):
    r = abx("run", "--keep", "--", "sh", "-c", "echo x > /work/f", code=0)
    a = abx.ok("ls", "-q").text.strip()
    assert a and abx.sh(a, "cat /work/f", code=0).out == b"x\n"
    assert r.out == b""
    abx("run", "--name", "kept", "--", "true", code=0)
    assert abx.info("kept")["name"] == "kept"
    abx("run", "--name", "kept", "--", "true", code=125)


def test_run_detached(abx):
    r = abx.ok("run", "-d", "--", "sh", "-c", "echo out; sleep 1000")
    a = r.text.strip()
    jobs = abx.ok("jobs", "--json", a).json["processes"]
    assert len(jobs) == 1 and jobs[0]["state"] == "running"
    wait_for(lambda: abx.ok("logs", a).out == b"out\n")
    s = abx.ok("run", "-d", "--json", "--", "sleep", "1000").json
    assert s["id"] and s["job"]


def test_a_failing_run_leaves_nothing(abx):
    abx("run", "--", "/no/such/program", code=127)
    abx("run", "-w", "/no/such/folder", "--", "true")
    abx("run", "-u", "nosuchuser", "--", "true")
    assert abx.sandboxes() == [] and abx.ledger() == []
    wait_for(lambda: abx.left() == [], "nothing lives")


def test_a_background_child_of_run_ends_with_it(abx):
    abx("run", "--", "sh", "-c", "setsid sleep 1000 & echo x", code=0)
    wait_for(lambda: abx.left() == [], "nothing lives")


def test_shared_home_of_two_programs_at_once(abx):
    """Ten creates at once: ten different sandboxes, whole ledger."""
    got = []

    def one():
        got.append(abx("create"))

    threads = [threading.Thread(target=one) for _ in range(count(8, 50))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(r.code == 0 for r in got), [r for r in got if r.code]
    ids = {r.text.strip() for r in got}
    assert len(ids) == len(threads)
    assert set(abx.ok("ls", "-q").text.split()) == ids
    abx.ok("kill", *ids)
    assert abx.sandboxes() == []


def test_a_name_is_given_once_among_many_at_once(abx):
    got = []
    threads = [threading.Thread(target=lambda: got.append(abx("create", "--name", "one"))) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(r.code for r in got) == [0, 5, 5, 5, 5, 5], got
    assert len(abx.sandboxes()) == 1


def test_two_homes_do_not_know_each_other(abx):
    from harness import Abx
    other = Abx()
    try:
        a = abx.create("--name", "same")
        b = other.create("--name", "same")
        assert a != b
        abx("info", b, code=3)
        assert other.ok("ls", "-q").text.strip() == b
        if ROOT:  # each has ids of its own on the host
            def uid(x, s):
                return open(f"/proc/{x.info(s)['pid']}/status").read().split("Uid:\t")[1].split()[0]
            assert uid(abx, a) != uid(other, b)
    finally:
        other.close()


def test_gc_says_before_it_does(abx):
    import os
    import signal
    a, b = abx.create(), abx.create()
    pid = abx.info(a)["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(pid))
    dry = abx.ok("gc", "--dry-run", "--json").json
    assert dry["dryRun"] is True
    done = abx.ok("gc", "--json").json
    assert a in str(dry) + str(done)
    assert abx.sandboxes() == [b]
    assert abx.ok("gc", "--json").json["removed"] == []
    assert abx.sh(b, "echo alive", code=0).out == b"alive\n"


def test_a_command_in_it_is_told_that_it_ended(abx):
    """Never that the network broke: whichever of its connections the end cuts first."""
    runs = [abx.start("run", "--timeout", "300ms", "--", "sleep", "100") for _ in range(6)]
    for run in runs:
        out, err = run.communicate(timeout=LIMIT)
        assert run.returncode == 125 and out == b"", (run.returncode, err)
        assert b"E6004" in err and b"--timeout" in err, err
