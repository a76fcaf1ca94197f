"""What every end-to-end test stands on: the program, a home of its own, the processes it left, a terminal.

The test process is a subreaper: whatever the program starts and leaves behind becomes its child, so a leak
can be seen without guessing by names. Nothing here asserts a time; every wait has a limit that only ends a hang."""

import atexit
import ctypes
import itertools
import json
import os
import pty
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import time
from fcntl import ioctl
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("ABX_BUILD") or HERE / "../../build/release").resolve()
HELPERS = Path(os.environ.get("ABX_HELPERS") or BUILD / "tests/e2e").resolve()
ABX = str(BUILD / "abx")
PRELOADABLE = str(HELPERS / "abx_shared_libc")  # the same program with the machine's glibc: abx itself is static
SOAK = os.environ.get("ABX_SOAK") == "1"
ROOT = os.geteuid() == 0
LIMIT = 900 if SOAK else 60  # seconds after which a call counts as hung

libc = ctypes.CDLL(None, use_errno=True)
PR_SET_CHILD_SUBREAPER = 36


def become_subreaper():
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def count(normal, soak):
    """How often: the full count only in a soak run."""
    return soak if SOAK else normal


told = []  # lines for the end of the run


def tell(line):
    """A figure that a soak run is made for: shown at its end."""
    if SOAK:
        told.append(line)


class Result:
    def __init__(self, args, code, out, err):
        self.args, self.code, self.out, self.err = args, code, out, err

    @property
    def text(self):
        return self.out.decode()

    @property
    def errors(self):
        return self.err.decode(errors="replace")

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def lines(self):
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self):
        """The error object that --json prints on stderr."""
        return json.loads(self.err.splitlines()[-1])["error"]

    def __repr__(self):
        def short(b):
            return repr(b if len(b) < 2000 else b[:1000] + b" ... " + b[-1000:])

        return f"{self.args} -> {self.code}\n out: {short(self.out)}\n err: {short(self.err)}"


# The lower layer that the first sandbox of a home is built on takes longer to write than most tests; it is handed on
# from one home to the next.
skeletons = []
shelf = []  # the folder that they wait in
numbers = itertools.count()


class Abx:
    """The program with a home of its own. furnished: the home exists, as after a first sandbox."""

    def __init__(self, folder=None, home=None, furnished=False):
        self.folder = Path(folder or tempfile.mkdtemp(prefix="abx-e2e."))
        self.home = Path(home or self.folder / "home")
        self.user_home = self.folder / "user"
        self.user_home.mkdir(exist_ok=True)
        self.work = self.folder / "work"
        self.work.mkdir(exist_ok=True)
        if furnished:
            (self.home / "local").mkdir(mode=0o700, parents=True)
            self.home.chmod(0o700)
            if skeletons:
                os.rename(skeletons.pop(), self.home / "local" / "skeleton")
        self.before = set(descendants())
        self.env = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(self.user_home),
            "LANG": "C.UTF-8",
            "TERM": "xterm",
            "ABX_HOME": str(self.home),
            "ABX_PROVIDER": "local",
        }

    def environment(self, env=None, drop=()):
        full = dict(self.env)
        full.update(env or {})
        for name in drop:
            full.pop(name, None)
        return full

    def start(self, *args, env=None, drop=(), cwd=None, stdin=subprocess.DEVNULL,
              stdout=subprocess.PIPE, stderr=subprocess.PIPE, program=ABX, **more):
        return subprocess.Popen([program, *map(as_arg, args)], env=self.environment(env, drop),
                                cwd=cwd or self.work, stdin=stdin, stdout=stdout, stderr=stderr,
                                **more)

    def __call__(self, *args, input=None, code=None, timeout=None, stdin=None, **more):
        """Run it to its end. code: the exit code that it must have (None: any)."""
        if stdin is None:
            stdin = subprocess.DEVNULL if input is None else subprocess.PIPE
        p = self.start(*args, stdin=stdin, **more)
        try:
            out, err = p.communicate(input, timeout=timeout or LIMIT)
        except subprocess.TimeoutExpired:
            p.kill()
            out, err = p.communicate()
            raise AssertionError(f"hangs: {Result(args, None, out or b'', err or b'')!r}") from None
        result = Result(args, p.returncode, out or b"", err or b"")
        if code is not None:
            assert result.code == code, repr(result)
        return result

    def ok(self, *args, **more):
        return self(*args, code=0, **more)

    def create(self, *args, **more):
        """Create a sandbox and return its id."""
        made = self.ok("create", *args, **more)
        assert made.out.endswith(b"\n") and made.out.count(b"\n") == 1, repr(made)
        return made.text.strip()

    def sh(self, sandbox, script, *flags, **more):
        """Run a script of sh in a sandbox."""
        return self("exec", *flags, sandbox, "--", "sh", "-c", script, **more)

    def sandboxes(self):
        folder = self.home / "local" / "sandboxes"
        return sorted(os.listdir(folder)) if folder.is_dir() else []

    def trash(self):
        folder = self.home / "local" / "trash"
        return sorted(os.listdir(folder)) if folder.is_dir() else []

    def ledger(self):
        folder = self.home / "ledger"
        return sorted(x for x in os.listdir(folder) if x.endswith(".json")) if folder.is_dir() else []

    def left(self):
        """Living processes that came since this home was made (a module's shared sandbox is older)."""
        reap()
        return [pid for pid in descendants() if pid not in self.before]

    def info(self, sandbox):
        return self.ok("info", "--json", sandbox).json

    def close(self):
        if self.home.is_dir():
            subprocess.run([ABX, "kill", "--all", "--yes"], env=self.environment(),
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, timeout=120)
        self.hand_on()
        remove_tree(self.folder)

    def hand_on(self):
        skeleton = self.home / "local" / "skeleton"
        if len(skeletons) < 4 and len(str(skeleton)) < 200 and skeleton.is_dir():
            if not shelf:
                shelf.append(Path(tempfile.mkdtemp(prefix="abx-e2e.")))
                atexit.register(remove_tree, shelf[0])
            place = shelf[0] / str(next(numbers))
            os.rename(skeleton, place)
            skeletons.append(place)


def as_arg(word):
    return str(word) if isinstance(word, Path) else word


def remove_tree(path):
    if path.exists():
        subprocess.run(["chmod", "-R", "u+rwX", path], stderr=subprocess.DEVNULL)
        shutil.rmtree(path, ignore_errors=True)


# --- waiting ---------------------------------------------------------------------------------------------


def wait_for(question, what="", seconds=20):
    """Ask until the answer is true, and return it."""
    end = time.monotonic() + seconds
    while True:
        answer = question()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"did not happen: {what or question}")
        time.sleep(0.02)


# --- processes -------------------------------------------------------------------------------------------


def status(pid):
    """The lines of /proc/PID/status as a dict, {} when it is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        return {}
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def is_alive(pid):
    return status(pid).get("State", "X")[0] not in "XZ"


def all_processes():
    """pid -> parent of everything that can be seen."""
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                stat = Path(f"/proc/{name}/stat").read_text(errors="replace")
            except OSError:
                continue
            table[int(name)] = int(stat.rpartition(")")[2].split()[1])
    return table


def descendants(root=None):
    """Living processes below this one (or below pid)."""
    table = all_processes()
    found, level = [], {root or os.getpid()}
    while level:
        level = {pid for pid, parent in table.items() if parent in level}
        found += level
    return [pid for pid in found if is_alive(pid)]


def own_memory(pid):
    """Anonymous memory, in KiB."""
    return int(status(pid)["RssAnon"].split()[0])


def descriptors(pid):
    """How many descriptors it holds; whom one may not look into: how many it has room for."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except PermissionError:
        return int(status(pid)["FDSize"])


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def reap(known=()):
    """Take the ends of orphans that came to us; children of subprocess (known) are left to it."""
    me = os.getpid()
    for pid, parent in all_processes().items():
        if parent == me and pid not in known and status(pid).get("State", "X")[0] == "Z":
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass


def prompt(t):
    """A shell whose prompt we know."""
    t.write("PS1='READY> '; stty -echo\n")
    t.expect("READY> ")
    t.write("echo x$((1+1))y\n")
    t.expect("x2y")
    t.expect("READY> ")


def with_marker(marker):
    """Living processes, inside sandboxes too, whose command line holds these bytes, but no abx of ours."""
    marker = marker.encode()
    found = []
    for pid in descendants():
        command = command_of(pid)
        if marker in command and not command.split(b"\0")[0].endswith(b"abx"):
            found.append(pid)
    return found


def mounts_of(path):
    path = str(path)
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if path in line]


# --- a terminal ------------------------------------------------------------------------------------------


class Terminal:
    """The program on a terminal of its own, as a person has it."""

    def __init__(self, abx, *args, rows=24, cols=80, env=None, drop=(), cwd=None, program=ABX):
        self.master, self.slave = pty.openpty()
        self.resize(rows, cols, tell=False)
        self.before = termios.tcgetattr(self.slave)
        self.seen = b""
        self.process = subprocess.Popen(
            [program, *map(as_arg, args)], env=abx.environment(env, drop), cwd=cwd or abx.work,
            stdin=self.slave, stdout=self.slave, stderr=self.slave, start_new_session=True,
            preexec_fn=lambda: ioctl(0, termios.TIOCSCTTY, 0))

    def resize(self, rows, cols, tell=True):
        ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        if tell:
            self.process.send_signal(signal.SIGWINCH)

    def write(self, data):
        os.write(self.master, data if isinstance(data, bytes) else data.encode())

    def read(self, seconds=0.1):
        """What has come within so long; b"" for nothing."""
        ready, _, _ = select.select([self.master], [], [], seconds)
        if not ready:
            return b""
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return b""
        self.seen += data
        return data

    def expect(self, text, seconds=20):
        """Read until text has come; returns all before and with it, which is then forgotten."""
        text = text if isinstance(text, bytes) else text.encode()
        end = time.monotonic() + seconds
        while text not in self.seen:
            if not self.read(0.1) and time.monotonic() > end:
                raise AssertionError(f"{text!r} did not come; seen: {self.seen[-2000:]!r}")
        head, _, self.seen = self.seen.partition(text)
        return head + text

    def end(self, seconds=20):
        """Wait for its end, drain, and return the exit code."""
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            self.read(0.05)
            if time.monotonic() > end:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"does not end; seen: {self.seen[-2000:]!r}")
        while self.read(0.05):
            pass
        return self.process.returncode

    def is_restored(self):
        return termios.tcgetattr(self.slave) == self.before

    def is_raw(self):
        return not termios.tcgetattr(self.slave)[3] & termios.ICANON

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


def socket_pair():
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
