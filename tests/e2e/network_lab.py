"""A machine with an internet of its own: a network namespace with servers behind it, for the tests of --network internet.

As a program (inside new user, mount and network namespaces) it is that machine: it sets up the network, serves, writes
each contact to its standard output as a line of JSON, and ends with its standard input. As a module it starts one.

    machine  198.51.100.2 on up0, 192.168.77.1 and the loopback with a resolver on 127.0.0.53
    beyond   203.0.113.9 (server.test), 169.254.169.254, behind the router 198.51.100.1
"""

import ctypes
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

PORT = 8080
SERVER, METADATA, OWN, OTHER = "203.0.113.9", "169.254.169.254", "198.51.100.2", "192.168.77.1"
RESOLVER = "127.0.0.53"
GROUPS = ["224.0.0.251", "239.1.2.3"]
TUN = "/dev/net/tun"
ROOT = os.geteuid() == 0
CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


# --- the machine, as a program ---------------------------------------------------------------------------


def note(**contact):
    sys.stdout.write(json.dumps(contact) + "\n")
    sys.stdout.flush()


def serve_tcp(who):
    listener = socket.create_server(("0.0.0.0", PORT), backlog=64)
    while True:
        peer, address = listener.accept()
        threading.Thread(target=answer_tcp, args=(who, peer, address), daemon=True).start()


def answer_tcp(who, peer, address):
    """A line that says who this is, then everything back."""
    note(who=who, at=peer.getsockname()[0], proto="tcp", peer=address[0])
    with peer:
        try:
            peer.sendall(f"{who} {peer.getsockname()[0]}\n".encode())
            while data := peer.recv(1 << 16):
                peer.sendall(data)
        except OSError:
            pass


def serve_udp(who, at):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((at, PORT))
    if at in GROUPS:
        for own in (OWN, "127.0.0.1"):
            s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(at) + socket.inet_aton(own))
    while True:
        data, address = s.recvfrom(65536)
        note(who=who, at=at, proto="udp", peer=address[0], text=data[:100].decode(errors="replace"))
        s.sendto(f"{who} {at} ".encode() + data, address)


def serve_names():
    """A resolver that knows server.test."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((RESOLVER, 53))
    while True:
        q, address = s.recvfrom(2000)
        end = q.index(b"\0", 12) + 1
        kind = struct.unpack(">H", q[end:end + 2])[0]
        known = q[12:end].lower() == b"\x06server\x04test\0"
        record = b""
        if known and kind == 1:
            record = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 60, 4) + socket.inet_aton(SERVER)
        head = q[:2] + struct.pack(">HHHHH", 0x8180 if known else 0x8183, 1, bool(record), 0, 0)
        s.sendto(head + q[12:end + 4] + record, address)


def ip(*words):
    subprocess.run(["ip", *words], check=True, env={**os.environ, "PATH": "/usr/sbin:/sbin:/usr/bin:/bin"})


def start(function, *args):
    threading.Thread(target=function, args=args, daemon=True).start()


def beyond(ready):
    """The process behind the router."""
    os.read(ready, 1)
    ip("link", "set", "lo", "up")
    ip("addr", "add", "198.51.100.1/24", "dev", "srv0")
    for address in (SERVER, METADATA):
        ip("addr", "add", f"{address}/32", "dev", "lo")
        start(serve_udp, "server", address)
    ip("link", "set", "srv0", "up")
    start(serve_tcp, "server")
    note(ready="server")
    threading.Event().wait()


def machine(tun, resolver):
    if tun != TUN:
        subprocess.run(["mount", "--bind", tun, TUN], check=True)
    subprocess.run(["mount", "--bind", resolver, "/etc/resolv.conf"], check=True)
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        libc.prctl(1, 9, 0, 0, 0)  # ends with us
        if libc.unshare(CLONE_NEWNET) != 0:
            os._exit(1)
        note(ready="namespace")
        beyond(ready)
    ip("link", "set", "lo", "up")
    ip("addr", "add", f"{OTHER}/32", "dev", "lo")
    sys.stdin.buffer.readline()  # the reader has seen that the other namespace is there
    ip("link", "add", "up0", "type", "veth", "peer", "name", "srv0", "netns", str(child))
    ip("addr", "add", f"{OWN}/24", "dev", "up0")
    ip("link", "set", "up0", "up")
    ip("route", "add", "default", "via", "198.51.100.1")
    for address in (OWN, OTHER, "127.0.0.1", *GROUPS):
        start(serve_udp, "machine", address)
    start(serve_tcp, "machine")
    start(serve_names)
    os.write(go, b"x")
    note(ready="machine")
    sys.stdin.buffer.read()


# --- the module ------------------------------------------------------------------------------------------


def usable_tun():
    """A tun node that this caller can open: the machine's, or one that was made for the tests (as root: mknod TUN c 10 200)."""
    for node in (TUN, os.environ.get("ABX_TUN", "")):
        if node:
            try:
                os.close(os.open(node, os.O_RDWR | os.O_CLOEXEC))
                return node
            except OSError:
                pass
    raise AssertionError(f"{TUN} cannot be opened, and ABX_TUN names no node that can")


class Lab:
    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="abx-lab."))
        resolver = self.folder / "resolv.conf"
        resolver.write_text(f"nameserver {RESOLVER}\n")
        outer = ["unshare", "--net", "--mount"] if ROOT else \
            ["unshare", "--user", "--map-root-user", "--net", "--mount"]
        self.process = subprocess.Popen(
            [*outer, sys.executable, __file__, usable_tun(), str(resolver)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.log, self.lock = [], threading.Lock()
        self.expect("namespace")
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        self.expect("machine", "server")
        threading.Thread(target=self.read, daemon=True).start()
        # An ordinary user is one inside, too; the namespaces of the network belong to a parent of its own.
        self.holder = None
        nsenter, keep = shutil.which("nsenter"), ["-U", "--preserve-credentials"]
        self.as_root = [nsenter, "-t", str(self.process.pid), "-n", "-m", *([] if ROOT else keep), "--"]
        self.enter = self.as_root
        if not ROOT:
            ids = [f"--map-user={os.getuid()}", f"--map-group={os.getgid()}"]
            self.holder = subprocess.Popen([*self.as_root, "unshare", "-U", *ids, "sh", "-c", "echo; exec cat"],
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert self.holder.stdout.readline() == b"\n"
            self.enter = [*self.as_root, nsenter, "-t", str(self.holder.pid), *keep, "--"]

    def expect(self, *words):
        words = set(words)
        while words:
            line = self.process.stdout.readline()
            assert line, "the lab did not come up"
            words.discard(json.loads(line).get("ready"))

    def read(self):
        for line in self.process.stdout:
            with self.lock:
                self.log.append(json.loads(line))

    def contacts(self):
        """Those since the last call."""
        with self.lock:
            log, self.log = self.log, []
        return log

    def close(self):
        for p in (self.holder, self.process):
            if p:
                p.stdin.close()
                p.stdout.close() if p is self.holder else None
                p.wait()
        for path in self.folder.iterdir():
            path.unlink()
        self.folder.rmdir()


if __name__ == "__main__":
    machine(*sys.argv[1:])
