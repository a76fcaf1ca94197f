"""A machine whose resolver knows every name below one domain, for the tests of https with a name for each sandbox.

As a program (inside new mount and network namespaces) it is that machine: loopback and a resolver on 127.0.0.1:53; it ends
with its standard input. As a module it starts one."""

import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = os.geteuid() == 0
PATH = {"PATH": "/usr/sbin:/sbin:/usr/bin:/bin"}


# --- the machine, as a program ---------------------------------------------------------------------------


def answer(question, domain):
    """A packet with 127.0.0.1 for each name below the domain, and for it; no such name else."""
    end = question.index(b"\0", 12) + 1
    labels, at = [], 12
    while question[at]:
        labels.append(question[at + 1:at + 1 + question[at]].decode().lower())
        at += 1 + question[at]
    known = ".".join(labels) == domain or ".".join(labels).endswith("." + domain)
    kind = struct.unpack(">H", question[end:end + 2])[0]
    record = b""
    if known and kind == 1:
        record = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 60, 4) + socket.inet_aton("127.0.0.1")
    head = question[:2] + struct.pack(">HHHHH", 0x8180 if known else 0x8183, 1, bool(record), 0, 0)
    return head + question[12:end + 4] + record


def machine(resolver, domain):
    subprocess.run(["mount", "--bind", resolver, "/etc/resolv.conf"], check=True, env=PATH)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True, env=PATH)
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("127.0.0.1", 53))
    if os.fork() == 0:
        import ctypes
        ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # ends with us
        os.close(0)
        while True:
            question, address = s.recvfrom(2000)
            s.sendto(answer(question, domain), address)
    print("ready", flush=True)
    sys.stdin.buffer.read()


# --- the module ------------------------------------------------------------------------------------------


class Names:
    """enter: words that run a command there, as the same user."""

    def __init__(self, domain):
        self.folder = Path(tempfile.mkdtemp(prefix="abx-names."))
        resolver = self.folder / "resolv.conf"
        resolver.write_text("nameserver 127.0.0.1\n")
        outer = ["unshare", "--net", "--mount"] if ROOT else \
            ["unshare", "--user", "--map-root-user", "--net", "--mount"]
        self.process = subprocess.Popen([*outer, sys.executable, __file__, str(resolver), domain],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"ready\n"
        nsenter, keep = shutil.which("nsenter"), ["-U", "--preserve-credentials"]
        as_root = [nsenter, "-t", str(self.process.pid), "-n", "-m", *([] if ROOT else keep), "--"]
        self.enter, self.holder = as_root, None
        if not ROOT:  # an ordinary user is one inside, too
            ids = [f"--map-user={os.getuid()}", f"--map-group={os.getgid()}"]
            self.holder = subprocess.Popen([*as_root, "unshare", "-U", *ids, "sh", "-c", "echo; exec cat"],
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert self.holder.stdout.readline() == b"\n"
            self.enter = [*as_root, nsenter, "-t", str(self.holder.pid), *keep, "--"]

    def close(self):
        for p in (self.holder, self.process):
            if p:
                p.stdin.close()
                p.wait()
                p.stdout.close()
        shutil.rmtree(self.folder)


if __name__ == "__main__":
    machine(*sys.argv[1:])
