"""Looks at what is not the sandbox's own: files, sockets, processes and words of the host, of the caller, of another
sandbox. Each look finds something where nothing stands before it."""

import ctypes
import os
import socket
import stat
import subprocess
from pathlib import Path

import pytest

from escape import INSIDE, NOBODY, PROBE, USERS, attack, bring, outside, proven, refused
from harness import ABX, wait_for


@pytest.fixture(scope="module")
def cell(shared, box):
    bring(shared, box)
    return box


@pytest.fixture(scope="module")
def host(shared, box):
    """Files of this machine, made for this test and found."""
    secret = shared.user_home / ".ssh"
    secret.mkdir()
    (secret / "id_ed25519").write_text("secret\n")
    (shared.work / "project.txt").write_text("secret\n")
    hidden = Path("/var/tmp") / f"abx-e2e-{os.getpid()}"
    hidden.write_text("secret\n")
    ledger = next((shared.home / "ledger").glob("*.json"))
    yield {
        "home": shared.user_home, "ssh-key": secret / "id_ed25519", "project": shared.work / "project.txt",
        "abx-home": shared.home, "ledger": ledger, "state": shared.home / "local/sandboxes" / box / "state.json",
        "lock": shared.home / "local/sandboxes" / box / "lock", "skeleton": shared.home / "local/skeleton",
        "upper": shared.home / "local/sandboxes" / box / "up", "program": ABX, "probe": PROBE, "var-tmp": hidden,
        "shadow": "/etc/shadow", "sudoers": "/etc/sudoers", "host-keys": "/etc/ssh/ssh_host_ed25519_key",
        "root-home": "/root/.bashrc", "home-of-others": "/home", "boot": "/boot", "lib-dpkg": "/var/lib/dpkg/status",
        "log": "/var/log", "sys": "/sys/kernel", "cgroup": "/sys/fs/cgroup", "docker-socket": "/run/docker.sock",
        "systemd": "/run/systemd/private", "crontab": "/etc/crontab", "cloud-init": "/var/lib/cloud/instance",
    }
    hidden.unlink()


HOST_FILES = ["home", "ssh-key", "project", "abx-home", "ledger", "state", "lock", "skeleton", "upper", "program", "probe",
              "var-tmp", "shadow", "sudoers", "host-keys", "root-home", "home-of-others", "boot", "lib-dpkg", "log", "sys",
              "cgroup", "docker-socket", "systemd", "crontab", "cloud-init"]


@pytest.mark.parametrize("name", HOST_FILES)
def test_host_file(shared, cell, host, name):
    path = str(host[name])
    if name == "home-of-others":
        assert shared.sh(cell, "ls -A /home", code=0).text == "user\n"
        assert sorted(os.listdir("/home")) != ["user"]
        return
    if name == "root-home":  # there is one inside, and it is its own
        assert shared.sh(cell, "cat /root/.bashrc 2>/dev/null | wc -c", "-u", "root").text.strip() == "0"
        return
    if name == "shadow":  # with a range of ids there is one inside, and nobody's password in it
        text = shared.sh(cell, "cat /etc/shadow", "-u", "root").text
        assert all(line.split(":")[1] in ("*", "!") for line in text.splitlines())
        refused(shared, cell, "read", path, users=["user"])
        return
    if outside("read", path).code != 0 and os.path.isfile(path):
        proven("read", path, at=path)
    elif os.path.isfile(path) or os.path.isdir(path) and os.listdir(path):
        proven("read", path, first=["host"])
    refused(shared, cell, "read", path)
    refused(shared, cell, "write", path)


def test_dots(shared, cell, host):
    """Upwards, further than to the root."""
    path = str(host["ssh-key"])
    proven("dots", path, first=["host"])
    refused(shared, cell, "dots", path)


def test_hard_link(shared, cell, host):
    target = shared.work / "linked"
    proven("hard-link", host["project"], target, first=["host"])
    refused(shared, cell, "hard-link", host["project"], "/work/linked")


# --- words that the caller has ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def told(shared):
    """A sandbox whose caller has secrets in its environment and in its arguments."""
    box = shared.create("-l", "label=argument-4711-secret", env={"SECRET_OF_CALLER": "environment-4711-secret"})
    bring(shared, box)
    return box


def holder(word):
    """A process of this machine that has the word in its environment and in its arguments."""
    return subprocess.Popen([*NOBODY, PROBE, "wait", word], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            env={"X": word})


@pytest.mark.parametrize("word", ["argument-4711-secret", "environment-4711-secret"])
def test_words_of_the_caller(shared, told, word):
    p = holder(word)
    p.stdout.readline()
    proven("proc-tells", word[:-6], first=["host"], nobody=True)
    p.communicate()
    for user in USERS:
        args = ["-u", user, told, "--", INSIDE, "proc-tells", word[:-6]]
        r = shared("exec", *args, env={"SECRET_OF_CALLER": "environment-4711-secret"})
        assert r.code == 1, repr(r)
        assert word not in shared("exec", "-u", user, told, "--", "env").text


def test_paths_of_the_host(shared, cell, host):
    """The mount table names where a sandbox lies, unless care is taken."""
    proven("proc-tells", str(shared.folder), at=host["ssh-key"])
    refused(shared, cell, "proc-tells", str(shared.folder))
    refused(shared, cell, "proc-tells", os.path.dirname(ABX))


def token_of(abx, box):
    import json
    return json.loads((abx.home / "local/sandboxes" / box / "state.json").read_text())["token"]


def test_token(shared, cell, host):
    """Whoever has the token is obeyed by pid 1. It is outside alone."""
    token = token_of(shared, cell)
    p = holder(token)
    p.stdout.readline()
    proven("proc-tells", token, first=["host"], nobody=True)
    p.communicate()
    refused(shared, cell, "proc-tells", token)
    search = f"grep -rlsF {token[:6]}''{token[6:]} /etc /run /var /home /work /tmp /root /dev/shm /usr/local /opt"
    shared.sh(cell, f"echo {token} > /work/planted", code=0)
    for user in USERS:
        assert shared.sh(cell, search, "-u", user).text == "/work/planted\n"
    shared.sh(cell, "rm /work/planted", code=0)


def test_pipes_of_the_caller(shared, cell):
    """What a command reads and writes is never the caller's own."""
    def seen_by(*command):
        r, w = os.pipe()
        p = subprocess.Popen([*command, "sh", "-c", "readlink /proc/self/fd/1 /proc/self/fd/2"], stdout=w, stderr=w,
                             stdin=subprocess.DEVNULL, env=shared.environment())
        own = f"pipe:[{os.fstat(w).st_ino}]"
        os.close(w)
        assert p.wait() == 0
        with os.fdopen(r) as f:
            return own, f.read().split()
    own, seen = seen_by()
    assert seen == [own, own]
    own, seen = seen_by(ABX, "exec", cell, "--")
    assert len(seen) == 2 and own not in seen


# --- doors --------------------------------------------------------------------------------------------------------


def test_abstract_socket(shared, cell):
    name = f"abx-e2e-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as s:
        s.bind("\0" + name)
        s.listen()
        proven("connect", "@" + name, first=["host"])
        refused(shared, cell, "connect", "@" + name)


def test_socket_with_a_path(shared, cell):
    path = str(shared.folder / "door")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)
        s.listen()
        proven("connect", path, first=["host"])
        refused(shared, cell, "connect", path)


def test_socket_of_envd(shared, cell):
    path = str(shared.home / "local/sandboxes" / cell / "s")
    proven("connect", path, first=["host"])
    refused(shared, cell, "connect", path)
    refused(shared, cell, "proc-tells", cell + "/")  # no list of sockets has it
    assert shared.sh(cell, "cat /proc/net/tcp /proc/net/tcp6 /proc/net/udp /proc/net/unix | grep -vc -e local_address -e Num"
                     ).text == "0\n"


def test_loopback_of_the_host(shared, cell):
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
        proven("tcp", port, first=["host"])
        refused(shared, cell, "tcp", port)


@pytest.mark.parametrize("probe", ["signal", "pidfd"])
def test_process_of_the_host(shared, cell, probe):
    p = holder("x")
    pid = int(p.stdout.readline())
    proven(probe, pid, first=["host"], nobody=True)
    inside = {int(x) for x in shared.sh(cell, "ls /proc | grep '^[0-9]'").text.split()}
    if pid not in inside:
        refused(shared, cell, probe, pid)
    p.communicate()


def test_program_of_pid_1(shared, cell):
    """A file of the caller, by the process that runs it."""
    p = holder("x")
    pid = int(p.stdout.readline())
    got = outside("change-exe", pid)
    assert got.code == 0 or os.stat(PROBE).st_uid != os.getuid(), got
    p.communicate()
    before = os.stat(ABX)
    refused(shared, cell, "change-exe", 1)
    assert os.stat(ABX).st_mode == before.st_mode


def test_script_that_is_run_by_pid_1s_program(shared, cell, tmp_path):
    """The interpreter is looked up in the process that is about to run it: a fork of pid 1, which is the host's abx."""
    script = tmp_path / "script"
    script.write_text("#!/proc/self/exe\nprint('worked')\n")
    script.chmod(0o755)
    assert subprocess.run([str(script)], capture_output=True, text=True).stdout == "worked\n"
    for line in ("#!/proc/self/exe", "#!/proc/self/exe version", "#!/proc/1/exe", "#!/proc/self/task/1/exe"):
        shared.sh(cell, f"printf '{line}\\n' > /work/script; chmod 755 /work/script", code=0)
        for user in USERS:
            r = shared("exec", "-u", user, cell, "--", "/work/script")
            assert r.code in (126, 127) and "verb" not in r.errors and r.text == "", repr(r)
    shared.sh(cell, "rm /work/script", code=0)


# --- another sandbox ----------------------------------------------------------------------------------------------


NEIGHBOUR = """
import ctypes, os, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)
a = socket.socket(socket.AF_UNIX); a.bind('\\0neighbour'); a.listen()
b = socket.socket(socket.AF_UNIX); b.bind('/tmp/neighbour'); b.listen()
t = socket.create_server(('127.0.0.1', 4711))
open('/dev/shm/neighbour', 'w').write('x'); open('/work/neighbour-file', 'w').write('x')
assert libc.shmget(4711, 4096, 0o1666) >= 0
ctypes.CDLL('librt.so.1').mq_open(b'/neighbour', os.O_CREAT | os.O_RDONLY, 0o666, None)
print(os.getpid(), flush=True)
sys.stdin.read()
"""

OTHERS = {"abstract": ("connect", "@neighbour"), "socket": ("connect", "/tmp/neighbour"), "tcp": ("tcp", 4711),
          "shm": ("read", "/dev/shm/neighbour"), "file": ("read", "/work/neighbour-file"), "sysv": ("sysv-shm", 4711),
          "process": ("proc-tells", "libc.shmget(4711"), "mqueue": ("mqueue", "/neighbour")}


@pytest.fixture(scope="module")
def neighbour(shared):
    box = shared.create()
    bring(shared, box)
    p = shared.start("exec", "-i", box, "--", "python3", "-c", NEIGHBOUR, stdin=subprocess.PIPE)
    assert p.stdout.readline()
    yield box
    p.communicate()


@pytest.mark.parametrize("name", list(OTHERS))
def test_another_sandbox(shared, cell, neighbour, name):
    own = attack(shared, neighbour, *OTHERS[name])
    assert own.code == 0, own  # in the same sandbox it is found
    refused(shared, cell, *OTHERS[name])


# --- the layers of the file system ----------------------------------------------------------------------------------


def raw_attributes(folder):
    found = set()
    for path, _, files in os.walk(folder):
        for name in ["", *files]:
            try:
                found |= set(os.listxattr(os.path.join(path, name), follow_symlinks=False))
            except OSError:
                pass
    return found


@pytest.mark.parametrize("name", ["opaque", "redirect", "metacopy", "origin", "whiteout"])
def test_attributes_of_the_overlay(shared, cell, name, tmp_path):
    """Set from inside they would change what the next mount of these layers shows."""
    key = f"user.overlay.{name}"
    (tmp_path / "d").mkdir()
    proven("xattr", tmp_path / "d", key, "/../../..", first=["host"])
    assert key in raw_attributes(tmp_path)
    shared.sh(cell, "mkdir -p /work/layers", code=0)
    for user in USERS:
        attack(shared, cell, "xattr", "/work/layers", key, "/../../..", user=user)
        attack(shared, cell, "xattr", "/work/layers", f"trusted.overlay.{name}", "y", user=user)
    upper = raw_attributes(shared.home / "local/sandboxes" / cell / "up")
    listed = {x for x in upper if x == key or x.startswith("trusted.")}
    # opaque and origin are the kernel's own; what was set inside lies under another name
    assert listed <= {"user.overlay.opaque", "user.overlay.origin"}
    for path, _, _ in os.walk(shared.home / "local/sandboxes" / cell / "up"):
        if path.endswith("/work/layers"):
            values = {x: os.getxattr(path, x) for x in os.listxattr(path)}
            assert b"/../../.." not in [v for k, v in values.items() if k == key], values


def test_whiteout_device(shared, cell, tmp_path):
    """Device 0:0 is allowed to everyone, and hides a file of the layer below."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mknod(str(tmp_path / "w").encode(), stat.S_IFCHR | 0o600, 0) == 0
    code = "import os, stat; os.mknod('/work/w', 0o600 | stat.S_IFCHR, 0)"
    for user in USERS:
        shared("exec", "-u", user, cell, "--", "python3", "-c", code)
    shared.sh(cell, "rm -f /work/w")
    assert os.path.exists("/usr/bin/env") and shared.sh(cell, "test -e /usr/bin/env").code == 0


def test_system_programs_are_the_hosts(shared, cell):
    """What inside's root writes over programs stays inside, however it is written."""
    before = os.stat("/usr/bin/env")
    for script in ("echo x > /usr/bin/env", "dd if=/dev/zero of=/usr/bin/env bs=1 count=1 conv=notrunc",
                   "mv /tmp/none /usr/bin/env", "chmod 4777 /usr/bin/env", "touch /usr/bin/env", "ln -f /usr/bin/env /work/env"):
        shared.sh(cell, script, "-u", "root")
    after = os.stat("/usr/bin/env")
    assert (before.st_ino, before.st_size, before.st_mode, before.st_nlink, before.st_mtime_ns, before.st_ctime_ns) == \
        (after.st_ino, after.st_size, after.st_mode, after.st_nlink, after.st_mtime_ns, after.st_ctime_ns)


def test_the_host_is_as_it_was(shared, cell):
    assert socket.gethostname() != "mine"
    wait_for(lambda: shared.sh(cell, "echo alive").text == "alive\n", "it lives")
