"""What native code in the process of a module could do: each attempt is refused there, and the same attempt works outside."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness import HELPERS

TOY = Path(__file__).resolve().parents[1] / "plugins" / "toy"
PROBE = HELPERS / "js_probe"
SECRET = "hush-4711"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A home with the provider, a file to read, and a process that outside may be traced, read and signalled."""
    top = tmp_path_factory.mktemp("locked")
    (top / "home").mkdir(mode=0o700)
    (top / "file").write_text("open me")
    script = ("import ctypes, time; ctypes.CDLL(None).prctl(0x59616d61, -1, 0, 0, 0); print('ready', flush=True); time.sleep(1000)")
    victim = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True)
    victim.stdout.readline()
    run(top, "provider", "install", str(TOY), "--yes")
    yield top, victim.pid
    victim.kill()
    victim.stdout.close()
    victim.wait()


def run(top, *words, under=()):
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/", "ABX_HOME": str(top / "home"), "SECRET": SECRET}
    left = os.open(top / "file", os.O_RDONLY)  # a descriptor that the caller forgot to close
    try:
        done = subprocess.run([*under, HELPERS / "abx_with_probe", *words], env=environment, capture_output=True, text=True, timeout=100, pass_fds=[left])
    finally:
        os.close(left)
    assert done.returncode == 0, done.stderr
    return done.stdout


def outside(top, name, argument):
    left = os.open(top / "file", os.O_RDONLY)
    try:
        done = subprocess.run([PROBE, name, argument], env={"SECRET": SECRET}, capture_output=True, text=True, timeout=100, pass_fds=[left])
    finally:
        os.close(left)
    return done.stdout.strip()


# name → its argument; {}: a process of the caller's, {file}: a file of the caller's
ATTEMPTS = {
    "read": "{file}", "read-passwd": "/etc/passwd", "read-self": "/proc/self/environ", "read-exe": "/proc/self/exe", "write": "{file}",
    "write-new": "{file}.new", "unlink": "{file}.gone", "exec": "/bin/true", "fork": "", "ptrace": "{}", "signal": "{}", "sigqueue": "{}",
    "memory": "{}", "vm-read": "{}", "pidfd": "{}", "descriptors": "", "environment": "SECRET", "unix": "", "exec-memory": "", "memfd": "",
    "dumpable": "", "inotify": "{file}",
}
BY_NAME = {"read-passwd": "read", "read-self": "read", "read-exe": "read", "write-new": "write"}
# What the kernel answers where a thing does not exist in there, rather than being refused.
ABSENT = {"descriptors": "EBADF", "environment": "ENOENT"}


@pytest.fixture(scope="module")
def inside(place):
    """All attempts in one module: name → what came of it."""
    top, victim = place
    words = []
    for name, argument in ATTEMPTS.items():
        words += [BY_NAME.get(name, name), argument.format(victim, file=top / "file")]
    lines = run(top, "-P", "toy", "run", "--", "probe", *words).splitlines()
    assert len(lines) == len(ATTEMPTS), lines
    return dict(zip(ATTEMPTS, lines))


@pytest.mark.parametrize("name", list(ATTEMPTS))
def test_an_attempt_is_refused_inside_and_works_outside(place, inside, name):
    top, victim = place
    Path(f"{top}/file.gone").write_text("x")
    argument = ATTEMPTS[name].format(victim, file=top / "file")
    said = outside(top, BY_NAME.get(name, name), argument)
    assert said.startswith("done") or (name == "exec" and said == ""), said
    assert inside[name] in (f"refused: {ABSENT.get(name, 'EPERM')}", "refused: EACCES"), inside[name]


def test_without_landlock_no_file_can_be_opened_either(place):
    """An old kernel: all that a file system could tell or keep is refused by the filter of system calls."""
    top, victim = place
    words = []
    for name, argument in ATTEMPTS.items():
        words += [BY_NAME.get(name, name), argument.format(victim, file=top / "file")]
    lines = run(top, "-P", "toy", "run", "--", "probe", *words, under=[HELPERS / "deny_userns", "landlock"]).splitlines()
    assert len(lines) == len(ATTEMPTS), lines
    for name, line in zip(ATTEMPTS, lines):
        held = name == "descriptors" and line == "done 200 is open"  # the bundle of certificate authorities, for reading
        assert held or line in (f"refused: {ABSENT.get(name, 'EPERM')}", "refused: EACCES"), (name, line)


def test_another_session_cannot_be_read(place):
    """The process of another module, of the same user."""
    top, _ = place
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/", "ABX_HOME": str(top / "home")}
    other = subprocess.Popen([HELPERS / "abx_with_probe", "-P", "toy", "run", "--", "sleep", "100"], env=environment,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        module = None
        for _ in range(2000):
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    stat = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                    if int(stat[1]) == other.pid and b"__js-host" in Path(f"/proc/{pid}/cmdline").read_bytes():
                        module = pid
                except OSError:
                    continue
            if module:
                break
        assert module
        lines = run(top, "-P", "toy", "run", "--", "probe", "vm-read", module, "memory", module, "ptrace", module, "signal", module, "pidfd", module,
                    "read", f"/proc/{module}/mem", "read", f"/proc/{module}/environ").splitlines()
        assert len(lines) == 7 and all(line in ("refused: EPERM", "refused: EACCES") for line in lines), lines
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
