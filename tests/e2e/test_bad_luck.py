"""Bad input and bad luck: homes, disks, broken state, a kernel that refuses."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from harness import ABX, HELPERS, LIMIT, ROOT, Abx, remove_tree, wait_for


def works(abx, **more):
    a = abx.create(**more)
    assert abx("exec", a, "--", "cat", input=b"data", code=0, **more).out == b"data"
    abx.ok("kill", a, **more)
    assert abx("run", "--", "echo", "hi", code=0, **more).out == b"hi\n"


# --- homes ------------------------------------------------------------------------------------------------


def test_a_home_of_3000_characters(fresh):
    """Longer than a socket's path may be, and than most buffers."""
    home = fresh.folder
    while len(str(home)) < 3000:
        home = home / ("d" * 200)
    a = Abx(folder=fresh.folder, home=home)
    works(a)
    b = a.create("--name", "deep")
    assert a.ok("ls", "-q").text.strip() == b
    a.ok("kill", b)


@pytest.mark.parametrize("name", ["with space", "q'uote\"s", "new\nline", "\u00e4\u4e2d", "com,ma:colon\\back", "$x;`y`",
                                  "%n%s"])
def test_strange_homes(fresh, name):
    a = Abx(folder=fresh.folder, home=fresh.folder / name)
    works(a)


def test_a_relative_home(abx):
    works(abx, env={"ABX_HOME": "rel/home"})
    assert (abx.work / "rel" / "home").is_dir()
    abx("kill", "--all", "-y", env={"ABX_HOME": "rel/home"})


def test_home_variable(fresh):
    works(fresh, drop=["ABX_HOME"])
    assert (fresh.user_home / ".abx").is_dir()


def test_no_home_at_all(fresh):
    r = fresh("ls", drop=["ABX_HOME", "HOME"])
    # the user's entry in /etc/passwd names one, else it is said
    assert r.code in (0, 2), repr(r)
    r = fresh("ls", drop=["ABX_HOME"], env={"HOME": ""})
    assert r.code in (0, 2), repr(r)


def test_a_home_that_is_a_file(fresh):
    fresh.home.write_text("x")
    r = fresh("create", code=2)
    assert str(fresh.home) in r.errors and "ABX_HOME" in r.errors
    fresh.home.unlink()


def test_a_home_that_cannot_be_made(abx):
    r = abx("create", env={"ABX_HOME": "/proc/nosuch/home"}, code=2)
    assert "/proc/nosuch" in r.errors
    r = abx("run", "--", "true", env={"ABX_HOME": "/proc/nosuch/home"}, code=125)
    assert "exitCode: 2" in r.errors


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o722])
def test_a_home_that_others_can_write_is_refused(fresh, mode):
    fresh.home.mkdir()
    fresh.home.chmod(mode)
    r = fresh("create", code=2)
    assert "chmod" in r.errors and str(fresh.home) in r.errors
    fresh.home.chmod(0o700)


def test_a_home_that_others_can_read_is_tightened(fresh):
    fresh.home.mkdir()
    fresh.home.chmod(0o755)
    r = fresh.ok("ls")
    assert fresh.home.stat().st_mode & 0o777 == 0o700
    assert r.err != b""
    assert fresh.ok("ls").err == b""


def test_a_home_of_someone_else(fresh):
    if ROOT:
        fresh.home.mkdir(mode=0o700)
        os.chown(fresh.home, 65534, 65534)
        r = fresh("ls", code=2)
        assert str(fresh.home) in r.errors
    else:
        r = fresh("ls", env={"ABX_HOME": "/usr"}, code=2)
        assert "/usr" in r.errors


def test_a_read_only_home(fresh):
    fresh.ok("ls")
    if ROOT:
        script = f'mount -t tmpfs none "{fresh.home}" && mount -o remount,ro "{fresh.home}" && exec "{ABX}" "$@"'
        prefix = ["unshare", "-m", "sh", "-c", script, "sh"]
    else:
        fresh.home.chmod(0o500)
        prefix = [ABX]
    for args, code in [(["create"], None), (["run", "--", "true"], 125)]:
        r = subprocess.run([*prefix, *args], env=fresh.environment(), stdin=subprocess.DEVNULL, capture_output=True,
                           timeout=LIMIT)
        assert r.returncode == code or code is None and r.returncode in (1, 2, 7, 11), r
        assert r.stderr.startswith(b"error: ") and b"hint: " in r.stderr, r
        assert r.stdout == b""
    fresh.home.chmod(0o700)


def test_a_missing_working_directory_outside(abx):
    gone = abx.folder / "gone"
    gone.mkdir()
    r = subprocess.run(["sh", "-c", f'cd "{gone}" && rmdir "{gone}" && exec "{ABX}" run -- echo hi'],
                       env=abx.environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
    assert r.returncode == 0 and r.stdout == b"hi\n", r


# --- no space ---------------------------------------------------------------------------------------------


def test_a_full_disk_for_the_state(fresh):
    """At least 200 MiB must be free, else a sandbox is refused with a clear error."""
    if not ROOT:
        return  # an ordinary user cannot make a small disk
    fresh.home.mkdir(mode=0o700)
    script = f'mount -t tmpfs -o size=20m,mode=700 none "{fresh.home}" && exec "{ABX}" "$@"'
    for args, code in [(["create"], 7), (["run", "--", "true"], 125)]:
        r = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", *args], env=fresh.environment(),
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
        assert r.returncode == code and b"E4003" in r.stderr, r


def test_no_inode_and_no_byte_left(fresh):
    if not ROOT:
        return
    fresh.home.mkdir(mode=0o700)
    script = (f'mount -t tmpfs -o size=16k,nr_inodes=4,mode=700 none "{fresh.home}" && '
              f'(echo x > "{fresh.home}/a"; echo x > "{fresh.home}/b"; echo x > "{fresh.home}/c"; true) 2>/dev/null; '
              f'exec "{ABX}" "$@"')
    for args in [["create"], ["ls"], ["config", "set", "timeout", "1h"], ["run", "--", "true"]]:
        r = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", *args], env=fresh.environment(),
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
        assert r.returncode in (0, 1, 2, 7, 125), r
        assert r.returncode == 0 or r.stderr.startswith(b"error: "), r


def test_no_space_for_a_copy_out(abx, tmp_path):
    if not ROOT:
        return
    a = abx.create()
    abx.sh(a, "mkdir /work/d; head -c 3000000 /dev/zero > /work/d/big", code=0)
    small = tmp_path / "small"
    small.mkdir()
    for source in ["/work/d/big", "/work/d"]:
        script = f'mount -t tmpfs -o size=1m none "{small}" && "{ABX}" cp {a}:{source} "{small}/x"; echo code $?'
        r = subprocess.run(["unshare", "-m", "sh", "-c", script], env=abx.environment(), stdin=subprocess.DEVNULL,
                           capture_output=True, timeout=LIMIT)
        assert r.stdout.strip() == b"code 7" and b"space" in r.stderr, r


# --- broken state -----------------------------------------------------------------------------------------

GARBAGE = [b"", b"{", b"not json", b"[]", b'{"id": 5}', b"\0" * 100, b'{"id":"x","provider":"nosuch"}',
           b"[" * 100_000]


@pytest.mark.parametrize("data", GARBAGE, ids=range(len(GARBAGE)))
def test_a_corrupt_ledger_entry(abx, data):
    a = abx.create()
    bad = abx.home / "ledger" / "zzzzzzzzzzzzzzzz.json"
    bad.write_bytes(data)
    bad.chmod(0o600)
    assert abx.sh(a, "echo alive", code=0).text == "alive\n"
    r = abx("ls", "-q")
    assert r.code == 0 and r.text.split() == [a]
    r = abx("info", "zzzzzzzzzzzzzzzz")
    assert r.code in (1, 3, 5), repr(r)
    abx.create()
    r = abx("gc")
    assert r.code in (0, 1), repr(r)
    abx.ok("kill", a)


@pytest.mark.parametrize("data", GARBAGE, ids=range(len(GARBAGE)))
def test_a_corrupt_own_ledger_entry(abx, data):
    a = abx.create("--name", "hurt")
    (abx.home / "ledger" / f"{a}.json").write_bytes(data)
    r = abx("info", a)
    assert r.code in (0, 1, 3, 5, 8), repr(r)
    assert r.code == 0 or r.errors.startswith("error: ")
    r = abx("kill", "--all", "-y")
    assert r.code in (0, 1), repr(r)
    abx("gc")
    wait_for(lambda: abx.left() == [], "the sandbox can be ended")


@pytest.mark.parametrize("data", GARBAGE, ids=range(len(GARBAGE)))
def test_a_corrupt_state_file(abx, data):
    a = abx.create()
    pid = abx.info(a)["pid"]
    state = abx.home / "local" / "sandboxes" / a / "state.json"
    state.write_bytes(data)
    for args in [["info", a], ["exec", a, "--", "true"], ["ls"], ["gc"]]:
        r = abx(*args)
        assert r.code in (0, 1, 3, 8, 125), repr(r)
    abx("kill", a)
    abx("gc")
    if Path(f"/proc/{pid}").exists():
        os.kill(pid, 9)
    wait_for(lambda: abx.left() == [])
    abx("gc")
    assert abx.sandboxes() == []


def test_strange_things_in_the_state_folder(abx):
    a = abx.create()
    top = abx.home / "local" / "sandboxes"
    (top / "not-a-sandbox").mkdir()
    (top / "file").write_text("x")
    (top / "link").symlink_to("/etc")
    (abx.home / "ledger" / "folder.json").mkdir()
    (abx.home / "ledger" / "link.json").symlink_to("/etc/passwd")
    assert abx.ok("ls", "-q").text.split() == [a]
    abx("gc")
    assert abx.sh(a, "echo alive", code=0).text == "alive\n"
    assert os.path.exists("/etc/passwd")
    works(abx)


def test_a_removed_state_folder(abx):
    """rm -rf of the whole home under a living sandbox: it is gone for us, and said so."""
    a = abx.create("--timeout", "20s")
    pid = abx.info(a)["pid"]
    shutil.rmtree(abx.home / "ledger")
    r = abx("info", a)
    assert r.code in (0, 3), repr(r)
    works(abx)
    if Path(f"/proc/{pid}").exists():
        os.kill(pid, 9)


def test_a_removed_skeleton_is_made_anew(abx):
    works(abx)
    remove_tree(abx.home / "local" / "skeleton")
    works(abx)


# --- what the kernel refuses ------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["limit", "filter"])
def test_user_namespaces_switched_off(abx, mode):
    def denied(*args):
        return subprocess.run([HELPERS / "deny_userns", mode, ABX, *args], env=abx.environment(),
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)

    r = denied("create")
    assert r.returncode == 11, r
    text = r.stderr.decode()
    assert text.startswith("error: ") and "user" in text and "E7001" in text and "hint: " in text
    r = denied("run", "--", "true")
    assert r.returncode == 125 and b"exitCode: 11" in r.stderr, r
    d = denied("doctor")
    assert d.returncode == 11, d
    both = (d.stdout + d.stderr).decode()
    fix = "sysctl -w user.max_user_namespaces" if mode == "limit" else "seccomp=unconfined"
    assert fix in both or fix in text, both
    assert denied("ls").returncode == 0
    assert denied("gc").returncode == 0
    assert abx.sandboxes() == [] and abx.ledger() == []


def test_a_weaker_layer_only_when_asked(abx):
    r = abx("create", "--allow-weaker", "nosuchlayer", code=2)
    assert "nosuchlayer" in r.errors
    r = abx("create", "--allow-weaker", "user", code=2)
    a = abx.create("--allow-weaker", "net")  # not needed here: nothing becomes weaker
    assert abx.sh(a, "cat /proc/net/dev | tail -n +3 | cut -d: -f1").text.split() == ["lo"]


def test_inside_a_masked_proc(abx):
    """A container with a masked /proc: the mount of proc is refused, and said with the fix."""
    if not ROOT:
        return
    file = next(f for f in ["/proc/kcore", "/proc/keys", "/proc/timer_list"] if os.path.exists(f))
    script = f'mount --bind /dev/null {file} && exec unshare -U --map-root-user "{ABX}" "$@"'
    r = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", "create"], env=abx.environment(),
                       stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
    assert r.returncode in (1, 2, 11), r
    assert r.stderr.startswith(b"error: ") and b"hint: " in r.stderr, r


# --- streams that are not there ---------------------------------------------------------------------------


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("args", ["create", "ls", "run -- true", "run -- cat", "doctor", "gc", "--version", "nosuch"])
def test_closed_streams(abx, closed, args):
    r = subprocess.run(["sh", "-c", f'"{ABX}" {args} {closed}'], env=abx.environment(), stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT)
    assert r.returncode in (0, 1, 2, 125), r


NEEDS_FILES = ["run -- echo hi", "create", "exec few -- echo hi", "ls", "info few", "cp few:/etc few", "cp . few:/work/in", "kill few",
               "doctor", "jobs few", "pause few"]


@pytest.mark.parametrize("limit, held", [(6, 0), (16, 0), (24, 0), (64, 34), (64, 50), (64, 57)])
def test_few_descriptors(abx, limit, held):
    """A limit of open files that is too low, or taken up by who started the program, is told as what it is; nothing is lost."""
    a = abx.create("--name", "few")
    inherit = "".join(f"exec {n}</dev/null; " for n in range(3, 3 + held))
    for words in NEEDS_FILES:
        r = subprocess.run(["bash", "-c", f'{inherit} ulimit -n {limit}; exec "{ABX}" {words}'], env=abx.environment(),
                           cwd=abx.work, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
        told = b"too many open files" in r.stderr.lower() and b"hint: raise " in r.stderr
        assert r.returncode in (7, 125) and told, (words, r)
    abx.ok("gc")
    assert abx.sandboxes() == [a] and abx.info("few")["id"] == a


def test_enough_descriptors(abx):
    abx.create("--name", "few")
    inherit = "".join(f"exec {n}</dev/null; " for n in range(3, 33))
    for limit, held in [(40, ""), (70, inherit)]:
        for words in ["run -- echo hi", "exec few -- echo hi"]:
            r = subprocess.run(["bash", "-c", f'{held} ulimit -n {limit}; exec "{ABX}" {words}'], env=abx.environment(),
                               stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
            assert (r.returncode, r.stdout) == (0, b"hi\n"), r


def test_a_small_file_limit(abx):
    a = abx.create()
    for words, code in [("create", 7), ("run -- echo hi", 125), (f"cp {a}:/etc/passwd .", 7), ("config set color never", 7),
                        ("provider install opensandbox", 7)]:
        r = subprocess.run(["bash", "-c", f'ulimit -f 0; exec "{ABX}" {words}'], env=abx.environment(), cwd=abx.work,
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
        assert r.returncode == code and b"E4005" in r.stderr and b"ulimit -f" in r.stderr, r
    assert abx.sandboxes() == [a]


@pytest.mark.parametrize("kib", [32, 64, 200])
def test_a_small_stack(abx, kib):
    """A soft limit is raised, a hard one told."""
    for words in ["ls", "run -- echo hi", "provider list", "create"]:
        r = subprocess.run(["bash", "-c", f'ulimit -Ss {kib}; exec "{ABX}" {words}'], env=abx.environment(),
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
        assert r.returncode == 0, r
        r = subprocess.run(["bash", "-c", f'ulimit -s {kib}; exec "{ABX}" {words}'], env=abx.environment(),
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
        assert r.returncode in (7, 125) and b"limit of the stack" in r.stderr and b"ulimit -s" in r.stderr, r


def test_ignored_sigchld_of_the_caller(abx):
    """A caller that ignores SIGCHLD: children would be reaped by themselves."""
    r = subprocess.run(["bash", "-c", f'trap "" CHLD; exec "{ABX}" run -- sh -c "sleep 0.1 & wait; exit 5"'],
                       env=abx.environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
    assert r.returncode == 5, r
    r = subprocess.run(["bash", "-c", f'trap "" CHLD PIPE; exec "{ABX}" run -- sh -c "yes | head -1"'],
                       env=abx.environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
    assert r.stdout == b"y\n" and r.stderr == b"", r


def test_odd_program_names(abx):
    link = abx.folder / "lnk"
    link.symlink_to(ABX)
    r = subprocess.run([link, "run", "--", "echo", "hi"], env=abx.environment(), stdin=subprocess.DEVNULL,
                       capture_output=True, timeout=LIMIT)
    assert r.stdout == b"hi\n", r
    r = subprocess.run(["odd name"], executable=ABX, env=abx.environment(), stdin=subprocess.DEVNULL,
                       capture_output=True, timeout=LIMIT)
    assert r.returncode == 0


def test_an_empty_environment(abx):
    home = tempfile.mkdtemp(prefix="abx-e2e.")
    try:
        r = subprocess.run([ABX, "-P", "local", "run", "--", "sh", "-c", "echo $HOME"], env={"ABX_HOME": home + "/h"},
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
        assert r.returncode == 0 and r.stdout == b"/home/user\n", r
    finally:
        shutil.rmtree(home, ignore_errors=True)
