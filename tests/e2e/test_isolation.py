"""What a sandbox sees of the host: nothing but /usr. What it may do to it: nothing."""

import os
import pwd
import re
import socket
import struct
import subprocess

import pytest

from harness import ABX, HELPERS, LIMIT, ROOT, is_alive, status

USERS = ["user", "root"]
ROOT_CAPABILITIES = {0, 1, 3, 4, 5, 6, 7, 10, 31}  # of a range: never one that mounts, traces or has a network


def out(abx, box, script, *flags):
    return abx.sh(box, script, *flags, code=0).text


def test_the_main_job(abx):
    r = abx("run", "-P", "local", "--", "sh", "-c", "id; ls /; cat /proc/1/comm", drop=["ABX_PROVIDER"],
            code=0)
    lines = r.text.splitlines()
    assert lines[0].startswith("uid=1000(user) gid=1000(user)")
    names = set(lines[1:-1])
    assert {"bin", "dev", "etc", "home", "lib", "proc", "tmp", "usr", "work"} <= names
    assert not names & {"boot", "lost+found", "snap", "sys", "nix"}
    assert r.err == b""


def test_the_root_folder_is_its_own(shared, box):
    assert out(shared, box, "ls -A /home") == "user\n"
    assert out(shared, box, "for d in /home/user /work /tmp /opt /mnt /media /srv; do ls -A $d 2>/dev/null; done") == ""
    assert set(out(shared, box, "ls -A /run").split()) <= {"abx", "lock", "user"}
    assert shared.sh(box, "ls /boot /snap /lost+found 2>/dev/null | grep .").code == 1
    assert shared.sh(box, "test -d /sys && ls -A /sys | grep -v -e fs -e devices").code == 1
    assert shared.sh(box, "ls -A /root").text == ""
    assert shared.sh(box, "ls -A /var/log /var/lib /var/mail /var/spool 2>/dev/null | grep -v : | grep .").text.split() in (
        [], ["dbus"], ["abx", "dbus"], ["dbus", "abx"], ["abx"], ["dpkg"], ["dbus", "dpkg"])


def test_files_of_the_host_are_not_there(shared, box):
    home_file = shared.user_home / "secret"
    home_file.write_text("mine")
    for path in [home_file, shared.home, shared.work, "/etc/shadow", "/etc/ssh", "/etc/machine-id.host",
                 "/var/tmp", f"/root/.bashrc" if ROOT else "/root/.profile", str(shared.home) + "/local"]:
        r = shared.sh(box, f"test -e '{path}' && ls -la '{path}'")
        if str(path) in ("/var/tmp",):
            continue
        assert r.code != 0 or "secret" not in r.text, path
    assert shared.sh(box, "cat /etc/shadow").code != 0
    for name in ["ssh", "sudoers", "sudoers.d", "fstab", "crontab", "docker", "krb5.keytab"]:
        assert shared.sh(box, f"test -e /etc/{name}").code == 1, name


def test_users_of_the_host_are_not_there(shared, box):
    text = out(shared, box, "cat /etc/passwd /etc/group")
    assert "user:x:1000:1000::/home/user:" in text
    for entry in pwd.getpwall():
        if entry.pw_uid >= 1000 and entry.pw_name not in ("nobody", "user"):
            assert not re.search(rf"^{re.escape(entry.pw_name)}:", text, re.M), entry.pw_name
    with open("/etc/machine-id") if os.path.exists("/etc/machine-id") else open("/dev/null") as f:
        host = f.read().strip()
    inside = out(shared, box, "cat /etc/machine-id").strip()
    assert re.fullmatch(r"[0-9a-f]{32}", inside) and inside != host


def test_etc_is_written_new(shared, box):
    assert out(shared, box, "cat /etc/hostname; hostname").split() == [out(shared, box, "hostname").strip()] * 2
    assert "localhost" in out(shared, box, "cat /etc/hosts")
    assert "passwd: files" in re.sub(r"\s+", " ", out(shared, box, "cat /etc/nsswitch.conf"))
    assert out(shared, box, "cat /etc/resolv.conf").strip() == ""
    assert out(shared, box, "readlink /etc/mtab") == "/proc/self/mounts\n"
    assert out(shared, box, "getent hosts localhost | head -1 | grep -c localhost") == "1\n"
    assert shared.sh(box, "python3 -c 'import ssl, json, sqlite3; print(1)'").text == "1\n"
    assert shared.sh(box, "awk 'BEGIN { print 1 }'").text == "1\n"


def test_the_host_name(abx):
    a = abx.create("--name", "my-box")
    assert out(abx, a, "hostname") in ("my-box\n", a + "\n")
    assert out(abx, a, "hostname").strip() != socket.gethostname()


def test_only_processes_of_the_sandbox_are_seen(shared, box):
    pids = [int(p) for p in out(shared, box, "ls /proc | grep '^[0-9]'").split()]
    assert 1 in pids and len(pids) < 12
    text = shared.sh(box, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").text
    assert "pytest" not in text
    assert shared.sh(box, f"kill -0 {os.getpid()}").code != 0


def test_ids_on_the_host(shared, box):
    pid = shared.info(box)["pid"]
    uids = set(status(pid)["Uid"].split())
    assert "0" not in uids
    mapped = [line.split() for line in out(shared, box, "cat /proc/self/uid_map").splitlines()]
    if ROOT:
        [[inside, outside, n]] = mapped
        assert (inside, n) == ("0", "65536") and 0x70000000 <= int(outside) < 0x7fff0000
        assert int(outside) % 65536 == 0
        assert uids == {str(int(outside) + 1000)}
    else:
        assert mapped == [["1000", str(os.getuid()), "1"]]
        assert uids == {str(os.getuid())}


@pytest.mark.parametrize("user", USERS)
def test_no_capability(shared, box, user):
    s = dict(line.split(":\t") for line in out(shared, box, "cat /proc/self/status", "-u", user).splitlines()
             if ":\t" in line)
    allowed = sum(1 << c for c in ROOT_CAPABILITIES) if ROOT else 0
    assert int(s["CapBnd"], 16) & ~allowed == 0
    for name in ["CapInh", "CapPrm", "CapEff", "CapAmb"]:
        assert int(s[name], 16) & ~(allowed if user == "root" else 0) == 0, name
    assert s["NoNewPrivs"].strip() == "1"
    assert s["Seccomp"].strip() == "2"


@pytest.mark.parametrize("user", USERS)
def test_calls_that_are_refused(shared, box, user):
    shared.ok("cp", HELPERS / "try_calls", f"{box}:/work/try_calls")
    r = shared("exec", "-u", user, box, "--", "/work/try_calls")
    bad = [line for line in r.text.splitlines() if line.startswith("BAD")]
    assert bad == [] and r.code == 0
    assert int(re.search(r"checked (\d+)", r.text)[1]) > 150
    assert shared.sh(box, "echo alive", code=0).text == "alive\n"


def test_pid_1_cannot_be_hurt(shared, box):
    pid = shared.info(box)["pid"]
    for user in USERS:
        for sig in ["TERM", "KILL", "STOP", "INT", "HUP", "USR1", "USR2", "SEGV", "CHLD", "PIPE", "ABRT"]:
            shared.sh(box, f"kill -{sig} 1", "-u", user)
        shared.sh(box, "kill -KILL -1", "-u", user)
    assert is_alive(pid)
    assert shared.sh(box, "echo alive", code=0).text == "alive\n"
    assert shared.sh(box, "renice -n 19 1").code != 0
    assert shared.sh(box, "echo 1000 > /proc/1/oom_score_adj").code != 0


def test_secret_files_of_proc(shared, box):
    for name in ["kcore", "kmsg", "keys", "key-users", "timer_list", "kpagecount", "kpageflags", "slabinfo",
                 "vmallocinfo", "pagetypeinfo", "cmdline", "config.gz"]:
        for user in USERS:
            r = shared.sh(box, f"head -c 1 /proc/{name} 2>/dev/null | wc -c", "-u", user)
            assert r.text.strip() == "0", name
    for path in ["/proc/sys/kernel/hostname", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger",
                 "/proc/sys/vm/drop_caches", "/proc/irq/default_smp_affinity", "/proc/sys/user/max_user_namespaces"]:
        for user in USERS:
            if "sysrq" in path:
                continue
            assert shared.sh(box, f"echo x > {path}", "-u", user).code != 0, path
    assert out(shared, box, "ls /proc/acpi /proc/scsi 2>/dev/null | grep -v : | grep . | wc -l").strip() == "0"


def test_mountinfo_names_nothing_of_the_host(shared, box):
    for name in ["mountinfo", "mounts", "mountstats"]:
        for pid in ["self", "1"]:
            text = shared.sh(box, f"cat /proc/{pid}/{name}").text
            for secret in [str(shared.home), str(shared.folder), os.path.expanduser("~") + "/", "abx-e2e"]:
                assert secret not in text, (name, secret)
    text = out(shared, box, "cat /proc/self/mountinfo")
    for line in text.splitlines():
        fields, _, rest = line.partition(" - ")
        point, flags = fields.split()[4:6]
        assert "nosuid" in flags.split(",") or point.startswith("/dev/") or fields.split()[3] == "/null", line
    root = next(x for x in text.splitlines() if x.split()[4] == "/")
    assert "overlay" in root
    assert out(shared, box, "cat /proc/self/cgroup").strip().endswith(":/")


def test_devices(shared, box):
    names = set(out(shared, box, "ls /dev").split())
    assert {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd", "stdin", "stdout",
            "stderr"} <= names
    assert names <= {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd", "stdin",
                     "stdout", "stderr", "console", "mqueue", "core"}
    for name in ["null", "zero", "full", "random", "urandom", "tty"]:
        assert out(shared, box, f"stat -c %F /dev/{name}").strip() == "character special file"
    for user in USERS:
        assert shared.sh(box, "mknod /tmp/disk b 254 0 || mknod /tmp/mem c 1 1", "-u", user).code != 0
    assert out(shared, box, "df -k --output=size /dev/shm | tail -1").strip() == "65536"
    assert shared.sh(box, "echo x > /dev/null; head -c 3 /dev/zero | wc -c", code=0).text.strip() == "3"
    assert out(shared, box, "stat -c %a /tmp").strip() == "1777"
    assert out(shared, box, "stat -c %U /work").strip() == "user"
    assert shared.sh(box, "script -qc 'echo pty' /dev/null", code=0).text.strip() == "pty"


def test_no_descriptor_of_the_caller(abx):
    a = abx.create()
    want = out(abx, a, "ls /proc/self/fd | wc -l")
    secret = abx.folder / "seven"
    secret.write_text("seven")

    def with_seven(*args):
        return abx("-c", 'exec 7<"$0" 8<>"$0" 100<"$0"; exec "$@"', secret, ABX, *args, program="/bin/bash")

    script = "ls -l /proc/self/fd /proc/$$/fd; cat <&7"
    for args in (["exec", a, "--", "sh", "-c", script], ["run", "--", "sh", "-c", script]):
        r = with_seven(*args)
        assert "seven" not in r.text and r.code != 0
    made = with_seven("create")
    assert made.code == 0
    b = made.text.strip()
    if ROOT:
        folder = f"/proc/{abx.info(b)['pid']}/fd"
        links = {n: os.readlink(f"{folder}/{n}") for n in os.listdir(folder)}
        layer = [n for n, x in links.items() if x == "/"]  # the private layer, for counting
        for n in layer:
            up = abx.home / "local" / "sandboxes" / b / "up"
            assert os.path.samefile(f"{folder}/{n}", up) and os.path.samefile(f"{folder}/{n}/..", up)
            with pytest.raises(OSError):
                open(f"{folder}/{n}/written", "w")
        assert len(layer) <= 1
        assert not any(x.startswith("/") and x != "/dev/null" and "/local/sandboxes/" not in x
                       for n, x in links.items() if n not in layer), links
    assert out(abx, b, "ls /proc/self/fd | wc -l") == want


def test_no_network_but_loopback(shared, box):
    assert out(shared, box, "cat /proc/net/dev | tail -n +3 | cut -d: -f1").split() == ["lo"]
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    script = f"""
import socket
def outcome(host, port):
    try:
        socket.create_connection((host, port), timeout=5)
        return 'open'
    except OSError as e:
        return type(e).__name__ + str(e.errno)
print(outcome('127.0.0.1', {port}), outcome('1.1.1.1', 53), outcome('169.254.169.254', 80))
s = socket.create_server(('127.0.0.1', 80)); c = socket.create_connection(('127.0.0.1', 80))
a, _ = s.accept(); c.sendall(b'x'); print(a.recv(1))
s = socket.create_server(('::1', 8080), family=socket.AF_INET6); socket.create_connection(('::1', 8080))
"""
    r = shared("exec", box, "--", "python3", "-c", script, code=0)
    assert r.text.splitlines() == ["ConnectionRefusedError111 OSError101 OSError101", "b'x'"]
    listener.close()


def test_abstract_sockets_of_the_host_are_out_of_reach(shared, box):
    name = "\0abx-e2e-%d" % os.getpid()
    s = socket.socket(socket.AF_UNIX)
    s.bind(name)
    s.listen()
    r = shared("exec", box, "--", "python3", "-c",
               f"import socket; socket.socket(socket.AF_UNIX).connect('\\0' + {name[1:]!r})")
    assert r.code == 1 and "refused" in r.errors
    s.close()
    for line in open("/proc/net/unix"):
        fields = line.split()
        assert not (len(fields) > 7 and fields[7].startswith("@") and "abx" in fields[7])


def test_ipc_is_its_own(shared, box):
    assert len(out(shared, box, "cat /proc/sysvipc/shm /proc/sysvipc/sem /proc/sysvipc/msg").splitlines()) == 3


def test_limits(shared, box):
    got = shared("exec", box, "--", "bash", "-c", "ulimit -Hc; ulimit -Sn; ulimit -Hn; ulimit -Hu; ulimit -Hl",
                 code=0).text.split()
    import resource
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert got[0] == "0" and got[1] == "1024"
    assert int(got[2]) == (min(65536, hard) if hard > 0 else 65536)
    assert int(got[3]) <= 4096 and int(got[4]) <= 8192


def test_set_user_id_programs_do_nothing(shared, box):
    for user in USERS:
        shared.sh(box, "rm -f /work/sid", "-u", "root", code=0)
        shared.sh(box, "cp /usr/bin/id /work/sid; chmod 4755 /work/sid", code=0)
        if ROOT:
            shared.sh(box, "chown 0 /work/sid; chmod 4755 /work/sid", "-u", "root", code=0)
        assert "euid" not in out(shared, box, "/work/sid")
    assert "uid=0" not in shared.sh(box, "echo | su root -c id 2>&1; sudo -n id 2>&1; true").text


def test_system_folders(shared, box):
    """/usr of the host is never changed; inside it is writable where the table says so."""
    assert shared.sh(box, "touch /usr/bin/mine").code != 0
    assert shared.sh(box, "touch /usr/local/bin/mine && rm /usr/local/bin/mine", "-u", "root").code == 0
    assert not os.path.exists("/usr/local/bin/mine")
    r = shared.sh(box, "echo '#!/bin/sh' > /usr/bin/abx-e2e-mine", "-u", "root")
    assert (r.code == 0) == ROOT
    assert not os.path.exists("/usr/bin/abx-e2e-mine")
    if ROOT:
        assert out(shared, box, "stat -c %U:%G /usr/bin/env").strip() == "root:root"
        shared.sh(box, "rm /usr/bin/env && test ! -e /usr/bin/env", "-u", "root", code=0)
        assert os.path.exists("/usr/bin/env")
        shared.sh(box, "useradd -m bob && id bob && userdel -r bob", "-u", "root", code=0)
    else:
        assert out(shared, box, "stat -c %U /usr/bin/sh").strip() == "nobody"


def test_root_inside_is_a_view(shared, box):
    r = out(shared, box, "id -u; touch /work/a && chown 0:0 /work/a && stat -c %u:%g /work/a; "
            "cd /tmp && tar cf a.tar -C /work a && tar xpf a.tar && stat -c %u a; rm -f a a.tar /work/a", "-u",
            "root")
    assert r.split() == ["0", "0:0", "0"]
    r = shared.sh(box, "touch /work/b; chown 1000:1000 /work/b", "-u", "root")
    assert (r.code == 0) == ROOT
    shared.sh(box, "rm -f /work/b", "-u", "root")


def test_root_of_a_range_can_install_as_root_does(shared, box):
    if not ROOT:
        return  # a single id has no other owners
    r = out(shared, box, "mkdir -p /work/o && chown 33:33 /work/o && stat -c %u /work/o; "
            "python3 -c 'import os; os.setgroups([]); os.setgid(33); os.setuid(65534); print(os.getuid())'; rm -r /work/o",
            "-u", "root")
    assert r.split() == ["33", "65534"]


def test_a_range_for_an_ordinary_user(abx):
    """-O ids=range: newuidmap gives several owners inside."""
    a = abx.create("-O", "ids=range")
    r = abx.sh(a, "touch /work/f; chown 33:44 /work/f && stat -c %u:%g /work/f; id -u", "-u", "root")
    assert r.text.split() == ["33:44", "0"], repr(r)
    mapped = [line.split() for line in out(abx, a, "cat /proc/self/uid_map").splitlines()]
    assert all(int(outside) != 0 for _, outside, _ in mapped)
    abx.sh(a, "mkdir -p /work/d/e; chown -R 33 /work/d; chmod 0 /work/d/e", "-u", "root", code=0)
    abx.ok("kill", a)
    abx.ok("gc")
    assert abx.sandboxes() == [] and abx.trash() == []


def test_strange_folders_are_removed_at_the_end(abx):
    a = abx.create()
    abx.sh(a, "mkdir -p /work/d/e/f; touch /work/d/e/f/g; chmod 0 /work/d/e/f /work/d/e /work/d; "
           "mkdir -p /tmp/x; ln -s /etc /tmp/x/l; mkfifo /tmp/x/p; chmod 500 /tmp/x; "
           "cd /work; i=0; while [ $i -lt 300 ]; do mkdir d$i && cd d$i; i=$((i+1)); done", code=0)
    abx.ok("kill", a)
    abx.ok("gc")
    assert abx.sandboxes() == [] and abx.trash() == []
    assert os.path.isdir("/etc")


def test_tools_that_people_use(shared, box):
    for script in ["python3 -c 'import multiprocessing as m; p = m.Pool(2); print(p.map(abs, [-1]))'",
                   "python3 -c 'import threading; t = threading.Thread(target=print, args=(1,)); t.start(); t.join()'",
                   "git init -q /work/r && cd /work/r && git -c user.name=a -c user.email=b commit -q "
                   "--allow-empty -m x && git clone -q /work/r /work/r2 && rm -rf /work/r /work/r2",
                   "cd /tmp && printf 'int main(){return 0;}' > a.c && cc a.c -o a && ./a && rm a a.c",
                   "tar c /etc/passwd 2>/dev/null | tar t >/dev/null", "ps aux >/dev/null", "df >/dev/null",
                   "timeout 5 sleep 0.01", "mkfifo /tmp/p && rm /tmp/p", "test -w /dev/shm"]:
        r = shared.sh(box, script)
        assert r.code == 0, repr(r)


def test_a_core_dump_goes_nowhere(shared, box):
    shared.sh(box, "cd /work; kill -SEGV $$; ls", code=139)
    assert shared.sh(box, "ls /work/core* 2>/dev/null").code != 0


def test_info_and_the_state_file_agree_with_the_kernel(shared, box):
    i = shared.info(box)
    stat = struct.pack("i", i["pid"])
    assert stat and is_alive(i["pid"])
    nspid = status(i["pid"])["NSpid"].split()
    assert nspid[-1] == "1" and len(nspid) >= 2


def test_modes_of_the_state_folder(shared, box):
    for path in [shared.home, shared.home / "local", shared.home / "ledger"]:
        assert path.stat().st_mode & 0o077 == 0, path
    folder = shared.home / "local" / "sandboxes" / box
    for name in folder.iterdir():
        st = name.lstat()
        if not name.is_dir():
            assert st.st_mode & 0o077 == 0 or "up" in name.name, name


def test_the_caller_s_umask_changes_nothing(abx):
    r = subprocess.run(["sh", "-c", f'umask 777; exec "{ABX}" run -- sh -c "umask; ls /etc/passwd; cat /etc/hosts"'],
                       env=abx.environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
    assert r.returncode == 0 and r.stdout.startswith(b"0022\n/etc/passwd\n"), r
