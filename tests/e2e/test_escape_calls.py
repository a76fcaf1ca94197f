"""Attacks by system calls and by files of /proc and /dev: each works outside, none inside."""

import os
import subprocess

import pytest

from escape import NOBODY, PROBE, attack, bring, outside, proven, refused
from harness import ABX, ROOT

# name of the probe -> what it is tried with: words, and what must be granted for it to work where even this machine
# refuses it
CALLS = {
    **{f"unshare-{x}": {"grants": ["unshare"]} for x in
       ["user", "mount", "pid", "net", "ipc", "uts", "cgroup", "time"]},
    "clone-user": {"grants": ["clone"]},
    "clone-mount": {"grants": ["clone"]},
    "clone3-user": {"grants": ["clone3"]},
    "setns-pid1-mnt": {}, "setns-pid1-net": {}, "setns-pid1-pid": {}, "setns-pidfd": {}, "ns-owner": {},
    "ptrace-changed-call": {},
    "mount-tmpfs": {}, "mount-proc": {}, "mount-sysfs": {"grants": ["mount"]}, "mount-cgroup": {"grants": ["mount"]},
    "mount-cgroup2": {"grants": ["mount"]}, "mount-devpts": {}, "mount-overlay": {"grants": ["mount"]},
    "mount-bind": {}, "pivot-root": {"grants": ["mount", "pivot_root"]}, "chroot-dots": {}, "fsopen": {},
    "open-tree": {}, "move-mount": {}, "listmount": {"grants": ["listmount"]},
    "umount": {"words": ["/proc"]},
    "remount-usr": {"probe": "remount-writable", "words": ["/usr"], "proof": ["/etc", "setup"]},
    "remount-proc-sys": {"probe": "remount-writable", "words": ["/proc/sys"], "proof": ["/proc/sys", "setup"]},
    "remount-root": {"probe": "remount-writable", "words": ["/"], "proof": ["/etc", "setup"]},
    "setattr-proc-sys": {"probe": "setattr-writable", "words": ["/proc/sys"], "proof": ["/proc/sys", "setup"]},
    "umount-mask": {"probe": "umount", "words": ["/proc/cmdline"], "at": "/proc/cmdline"},
    "kexec-load": {"grants": ["kexec_load"]}, "kexec-file-load": {"grants": ["kexec_file_load"]},
    "init-module": {"grants": ["init_module"]}, "finit-module": {"grants": ["finit_module"]},
    "delete-module": {"grants": ["delete_module"]}, "swapon": {"grants": ["swapon"]},
    "swapoff": {"grants": ["swapoff"]}, "acct": {"grants": ["acct"]}, "quotactl": {"grants": ["quotactl"]},
    "reboot": {"grants": ["reboot"], "first": ["grants"]}, "vhangup": {"grants": ["vhangup"]},
    "migrate-pages": {"grants": ["migrate_pages"]}, "move-pages": {"grants": ["move_pages"]},
    "sethostname": {"words": ["mine"]}, "setdomainname": {"words": ["mine"]},
    "settimeofday": {"grants": ["settimeofday"]}, "clock-settime": {"grants": ["clock_settime"]},
    "adjtimex": {"grants": ["adjtimex"]}, "syslog": {"grants": ["syslog"]}, "bpf": {"grants": ["bpf"]},
    "perf": {"grants": ["perf_event_open"]}, "io-uring": {"grants": ["io_uring_setup"]},
    "userfaultfd": {"grants": ["userfaultfd"]}, "fanotify": {"grants": ["fanotify_init"]},
    "open-by-handle": {"words": ["/"], "proof": ["/mnt"], "at": "/etc/hostname", "grants": ["open_by_handle_at"]},
    "personality": {}, "add-key": {"grants": ["add_key"]},
    "session-key": {"words": ["probe"], "proof": ["probe", "setup"], "grants": ["add_key", "keyctl"]},
    "request-key": {"words": ["probe"], "proof": ["probe", "setup"], "grants": ["add_key", "request_key"]},
    "user-keyring": {"grants": ["keyctl"]},
    "iopl": {"grants": ["iopl"]}, "ioperm": {"grants": ["ioperm"]}, "modify-ldt": {"grants": ["modify_ldt"]},
    "int80-call": {}, "x32-call": {},
    "tiocsti": {"grants": ["ioctl"]}, "tiocsti-high-bits": {"grants": ["ioctl"]}, "tioclinux": {"grants": ["ioctl"]},
    "tioccons": {"grants": ["ioctl"]}, "tiocsetd": {"grants": ["ioctl"]},
    "newlink": {},
    "pid1-attach": {}, "pid1-seize": {}, "pid1-vm-read": {}, "pid1-vm-write": {}, "pid1-getfd": {},
    "pid1-madvise": {"grants": ["process_madvise"]}, "pid1-kcmp": {}, "pid1-robust-list": {}, "pid1-prlimit": {},
    "pid1-nice": {}, "pid1-affinity": {}, "pid1-scheduler": {}, "pid1-ioprio": {}, "pid1-term": {}, "pid1-signals": {},
    "pid1-mem": {},
    "file-caps": {"words": ["/work/probe"], "proof": ["PROBE"]},
    "immutable": {"words": ["/work/stays"], "proof": ["stays"], "grants": ["ioctl"], "first": ["host", "grants"]},
    "device-mem": {"probe": "device", "words": ["c", 1, 1], "grants": ["mknodat", "openat"]},
    "device-disk": {"probe": "device", "words": ["b", 254, 0], "grants": ["mknodat", "openat"]},
    "any-writable-proc-sys": {"probe": "any-writable", "words": ["/proc/sys"]},
    "any-writable-proc-irq": {"probe": "any-writable", "words": ["/proc/irq"], "at": "/proc/irq/default_smp_affinity"},
}

# family, type, protocol
SOCKETS = {
    "vsock": (40, 1, 0), "packet": (17, 3, 3), "alg": (38, 5, 0), "xdp": (44, 3, 0), "bluetooth": (31, 3, 0),
    "can": (29, 3, 1), "tipc": (30, 1, 0), "rds": (21, 5, 0), "kcm": (41, 5, 0), "smc": (43, 1, 0), "key": (15, 3, 2),
    "qipcrtr": (42, 2, 0), "nfc": (39, 5, 1), "icmp-raw": (2, 3, 1), "icmp6-raw": (10, 3, 58),
    "netlink-netfilter": (16, 3, 12), "netlink-audit": (16, 3, 9), "netlink-uevent": (16, 3, 15),
    "netlink-xfrm": (16, 3, 6), "netlink-generic": (16, 3, 16), "netlink-diag": (16, 3, 4),
    "netlink-crypto": (16, 3, 21),
}

PID1_FILES = ["environ", "maps", "smaps", "smaps_rollup", "numa_maps", "auxv", "pagemap", "io", "syscall", "stack"]
PID1_LINKS = ["exe", "cwd", "root", "ns/mnt", "fd/0"]
PID1_LISTS = ["fd", "fdinfo", "map_files", "cwd/"]
PID1_WRITES = {"oom_score_adj": "1000", "coredump_filter": "0x7f", "clear_refs": "1", "timerslack_ns": "1",
               "autogroup": "19"}
PROC_FILES = ["kcore", "kmsg", "keys", "key-users", "timer_list", "sched_debug", "latency_stats", "kpagecount",
              "kpageflags", "kpagecgroup", "slabinfo", "vmallocinfo", "pagetypeinfo", "config.gz", "cmdline",
              "acpi/wakeup", "scsi/scsi", "asound/version", "driver/rtc"]
PROC_WRITES = ["sysrq-trigger", "sys/kernel/core_pattern", "sys/kernel/modprobe", "sys/kernel/hostname", "sys/vm/drop_caches",
               "sys/kernel/sysrq", "sys/fs/binfmt_misc/register", "sys/net/ipv4/ip_forward", "sys/user/max_user_namespaces",
               "irq/default_smp_affinity", "bus/pci/devices"]
DEVICES = ["mem", "port", "kmsg", "sda", "vda", "fuse", "kvm", "net/tun", "userfaultfd", "vsock", "loop-control", "loop0",
           "mapper/control", "tty1", "uinput", "vhost-net"]


@pytest.fixture(scope="module")
def cell(shared, box):
    bring(shared, box)
    return box


@pytest.mark.parametrize("name", list(CALLS))
def test_call(shared, cell, name, tmp_path):
    row = CALLS[name]
    probe, words = row.get("probe", name), row.get("words", [])
    proof = [PROBE if x == "PROBE" else x for x in row.get("proof", words)]
    proven(probe, *proof, at=row.get("at"), grants=row.get("grants", ()), first=row.get("first", ("naive", "grants")),
           cwd=tmp_path)
    refused(shared, cell, probe, *words)


@pytest.mark.parametrize("name", list(SOCKETS))
def test_socket(shared, cell, name):
    proven("socket", *SOCKETS[name], grants=["socket"])
    refused(shared, cell, "socket", *SOCKETS[name])


@pytest.mark.parametrize("name", PID1_FILES)
def test_pid1_file(shared, cell, name):
    # nobody but the machine's root reads another one's kernel stack
    proven("pid1-read", name, at="/proc/1/stack" if name == "stack" else None)
    refused(shared, cell, "pid1-read", name)


@pytest.mark.parametrize("name", PID1_LINKS)
def test_pid1_link(shared, cell, name):
    proven("pid1-link", name)
    refused(shared, cell, "pid1-link", name)


@pytest.mark.parametrize("name", PID1_LISTS)
def test_pid1_list(shared, cell, name):
    proven("pid1-list", name)
    refused(shared, cell, "pid1-list", name)


@pytest.mark.parametrize("name", list(PID1_WRITES))
def test_pid1_write(shared, cell, name):
    proven("pid1-write", name, PID1_WRITES[name])
    refused(shared, cell, "pid1-write", name, PID1_WRITES[name])


@pytest.mark.parametrize("name", PROC_FILES)
def test_proc_file(shared, cell, name):
    proven("read", f"/proc/{name}", at=f"/proc/{name}")
    refused(shared, cell, "read", f"/proc/{name}")


@pytest.mark.parametrize("name", PROC_WRITES)
def test_proc_write(shared, cell, name):
    proven("write", f"/proc/{name}", "1", at=f"/proc/{name}")
    if name == "sysrq-trigger":  # where it is there it can be written, but is /dev/null
        assert shared.sh(cell, "stat -c %t:%T /proc/sysrq-trigger").text in ("1:3\n", "")
    else:
        refused(shared, cell, "write", f"/proc/{name}", "1")


@pytest.mark.parametrize("name", DEVICES)
def test_device(shared, cell, name):
    proven("read", f"/dev/{name}", at=f"/dev/{name}")
    refused(shared, cell, "read", f"/dev/{name}")
    refused(shared, cell, "write", f"/dev/{name}")


def test_set_id_program(shared, cell):
    got = outside("set-id", "/bin/su", nobody=True)
    assert got.code == 0, got
    refused(shared, cell, "set-id", "/bin/su", users=["user"])
    if ROOT:  # one that inside's root made for inside's user
        shared.sh(cell, "cp /bin/su /work/su && chown 0:0 /work/su && chmod 4755 /work/su", "-u", "root", code=0)
        refused(shared, cell, "set-id", "/work/su", users=["user"])


def test_crash(shared, cell, tmp_path):
    """A crash makes no file, and wakes no program of the host that core_pattern names."""
    most = (1 << 64) - 1
    pattern = "/proc/sys/kernel/core_pattern"
    before = open(pattern).read()
    if not ROOT:
        if before[0] not in "|@":
            proven("crash", most, first=["host"], cwd=tmp_path)
        refused(shared, cell, "crash", most, cwd=None)
        assert shared.sh(cell, "ulimit -c unlimited; ulimit -c 0; echo $?").text in ("0\n", "")
        return
    seen, handler = tmp_path / "seen", tmp_path / "handler"
    handler.write_text(f"#!/bin/sh\necho $1 >> {seen}\n")
    handler.chmod(0o755)
    try:
        with open(pattern, "w") as f:
            f.write(f"|{handler} %e")
        proven("crash", 0, first=["host"])
        assert "probe" in seen.read_text()
        seen.unlink()
        for limit in (0, 1, most):
            refused(shared, cell, "crash", limit)
    finally:
        with open(pattern, "w") as f:
            f.write(before)
    assert not seen.exists()


def test_descriptors(shared, cell, tmp_path):
    """A caller's descriptors are not handed on."""
    with open(tmp_path / "secret", "w") as f:
        assert outside("descriptors", pass_fds=[f.fileno()]).code == 0
        refused(shared, cell, "descriptors", pass_fds=[f.fileno()])


def test_caller_terminal(shared, cell):
    """A command without -t has no terminal, though its caller has one."""
    master, slave = os.openpty()
    p = subprocess.run(["setsid", "-c", PROBE, "caller-tty"], stdin=slave, stdout=slave, stderr=slave,
                       timeout=60)
    assert p.returncode == 0
    p = subprocess.run(["setsid", "-c", ABX, "exec", cell, "--", "/work/probe", "caller-tty"], stdin=slave,
                       stdout=slave, stderr=slave, env=shared.environment(), timeout=60)
    assert p.returncode == 1
    os.close(master)
    os.close(slave)


def test_inotify_of_the_same_id(shared, cell):
    """Instances are counted for an id of the host, which an ordinary user shares with all of its sandboxes."""
    def can_watch():
        code = "import ctypes, sys; sys.exit(ctypes.CDLL(None).inotify_init() < 0)"
        return subprocess.run([*NOBODY, "/usr/bin/python3", "-c", code]).returncode == 0
    greedy = subprocess.Popen([*NOBODY, PROBE, "inotify"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert int(greedy.stdout.readline()) > 0
    assert not can_watch()
    greedy.communicate()
    held = shared.start("exec", "-i", cell, "--", "/work/probe", "inotify", stdin=subprocess.PIPE)
    assert 0 < int(held.stdout.readline()) <= 64
    assert can_watch()
    held.communicate()


def test_alive_after_all(shared, cell):
    assert attack(shared, cell, "caps-tell").code == 1
    assert shared.sh(cell, "echo alive", code=0).text == "alive\n"
