"""The ports of a sandbox: who listens, and reaching one from this machine, without any network."""

import hashlib
import json
import os
import signal
import socket
import threading
import time

import pytest

from harness import ROOT, count, status, wait_for

ECHO = """
import socket, threading
def serve(c):
    while True:
        b = c.recv(65536)
        if not b: break
        c.sendall(b)
    c.shutdown(socket.SHUT_WR)
    c.close()
s = socket.create_server(('127.0.0.1', 7000), backlog=512)
print('up', flush=True)
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
"""
# hashes what comes, then answers that: both directions one after the other, by end of file
DIGEST = """
import hashlib, socket
s = socket.create_server(('::1', 7001), family=socket.AF_INET6)
print('up', flush=True)
while True:
    c = s.accept()[0]
    h = hashlib.sha256()
    while b := c.recv(65536): h.update(b)
    c.sendall(h.hexdigest().encode())
    c.close()
"""
FLOOD = """
import socket
s = socket.create_server(('0.0.0.0', 7002))
print('up', flush=True)
while True:
    c = s.accept()[0]
    try:
        while True: c.sendall(bytes(65536))
    except OSError: pass
"""


def serve(abx, box, program, *flags):
    job = abx.ok("exec", "-d", box, "--", "python3", "-c", program).text.strip()
    wait_for(lambda: b"up" in abx("logs", box, job).out)
    return job


@pytest.fixture(scope="module")
def served(shared, box):
    for program in [ECHO, DIGEST, FLOOD]:
        serve(shared, box, program)
    return box


class Forward:
    def __init__(self, abx, *args):
        self.process = abx.start("port", *args)
        line = self.process.stdout.readline().decode().strip()
        assert line, self.process.communicate()
        self.host, _, port = line.rpartition(":")
        self.port = int(port)

    def connect(self):
        s = socket.create_connection((self.host.strip("[]"), self.port), timeout=60)
        return s

    def end(self, sig=signal.SIGTERM):
        self.process.send_signal(sig)
        self.err = self.process.communicate(timeout=60)[1].decode()
        return self.process.returncode


@pytest.fixture
def forward(shared):
    opened = []

    def start(*args):
        opened.append(Forward(shared, *args))
        return opened[-1]
    yield start
    for f in opened:
        if f.process.poll() is None:
            f.end()


def receive_all(s):
    data = b""
    while b := s.recv(65536):
        data += b
    return data


def test_the_list(shared, served):
    ports = shared.ok("port", "--json", served).json["ports"]
    assert {"port": 7000, "address": "127.0.0.1"} in ports
    assert {"port": 7001, "address": "::1"} in ports
    assert {"port": 7002, "address": "0.0.0.0"} in ports
    assert [p["port"] for p in ports] == sorted(p["port"] for p in ports)
    assert shared.ok("port", "--json", served, "7001").json == {"ports": [{"port": 7001, "address": "::1"}]}
    assert shared.ok("port", "-q", served, "7000").out == b"7000\n"
    assert b"7000" in shared.ok("port", served).out
    assert shared("port", "--json", served, "9", code=3).error["code"] == "E3008"


@pytest.mark.parametrize("words", [["0"], ["65536"], ["x"], ["80:80"], ["80", "80"], ["--forward"],
                                   ["80", "0.0.0.0:80", "--forward"], ["80", "example.org:1", "--forward"],
                                   ["80", "[::]:0", "--forward"], ["1:80", "2", "--forward"], ["80", "--forward=x"]],
                         ids=" ".join)
def test_wrong_words(shared, served, words):
    r = shared("port", served, *words, code=2)
    assert r.out == b"" and r.errors.startswith("error: ")
    if "0.0.0.0:80" in words:
        assert "127.0.0.1" in r.errors


def test_bytes_both_ways_and_each_end_of_file(forward, served):
    f = forward(served, "7000", "--forward")
    assert f.host == "127.0.0.1"
    with f.connect() as s:
        s.sendall(b"hello")
        assert s.recv(100) == b"hello"
        s.sendall(b"again")
        s.shutdown(socket.SHUT_WR)  # the other direction goes on
        assert receive_all(s) == b"again"
    f = forward(served, "7001", "--forward")  # a server that listens on ::1 only
    with f.connect() as s:
        data = os.urandom(1 << 20) * 3
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        assert receive_all(s).decode() == hashlib.sha256(data).hexdigest()


def test_much_both_ways_at_once(forward, served):
    f = forward(served, "7000", "--forward")
    data = os.urandom(1 << 20) * count(16, 400)
    with f.connect() as s:
        def send():
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
        t = threading.Thread(target=send)
        t.start()
        h = hashlib.sha256()
        while b := s.recv(1 << 18):
            h.update(b)
        t.join()
    assert h.hexdigest() == hashlib.sha256(data).hexdigest()


def test_many_at_once(forward, served):
    f = forward(served, "7000", "--forward")
    socks = [f.connect() for _ in range(count(50, 400))]
    for i, s in enumerate(socks):
        s.sendall(b"%d" % i)
    for i, s in enumerate(socks):
        assert s.recv(100) == b"%d" % i
    for s in socks:
        s.close()
    with f.connect() as s:
        s.sendall(b"after")
        assert s.recv(100) == b"after"


def test_places(forward, served):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    f = forward(served, "7000", str(port), "--forward")
    assert f.port == port
    for words in [["--forward", "[::1]:0:7000"], ["7000", "--forward=[::1]:0"]]:
        g = forward(served, *words)
        assert g.host == "[::1]"
        with g.connect() as s:
            s.sendall(b"six")
            assert s.recv(10) == b"six"
    for words in [["--forward", "0:7000"], ["--forward=localhost:0:7000"], ["7000", "0", "--forward"]]:
        g = forward(served, *words)
        with g.connect() as s:
            s.sendall(b"four")
            assert s.recv(10) == b"four"


def test_a_port_in_use(shared, served):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        shared("port", served, "7000", "--forward", str(taken.getsockname()[1]), code=5)


@pytest.mark.parametrize("sig,code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_its_end(forward, served, sig, code):
    f = forward(served, "7000", "--forward")
    with f.connect() as s:
        s.sendall(b"x")
        assert s.recv(10) == b"x"
        assert f.end(sig) == code
        assert f.err == ""
        with pytest.raises(OSError):
            s.settimeout(60)
            if s.recv(10) == b"":
                raise ConnectionResetError


def test_the_address_is_data(shared, served):
    p = shared.start("port", "--json", served, "7000", "--forward")
    told = json.loads(p.stdout.readline())
    assert told["sandbox"] == served and told["port"] == 7000 and told["address"].startswith("127.0.0.1:")
    p.terminate()
    p.communicate(timeout=60)
    r = shared("port", served, "7000", "--forward", "--wait-timeout", "300ms", code=9)
    assert r.out.startswith(b"127.0.0.1:")


def test_who_does_not_read_is_waited_for(shared, forward, served):
    """The sandbox's pid 1 and our own process hold little, however much the server sends."""
    f = forward(served, "7002", "--forward")
    pid = shared.info(served)["pid"]

    def held(who):
        return int(status(who)["RssAnon"].split()[0])
    before = held(pid), held(f.process.pid)
    with f.connect() as s:
        assert s.recv(10)
        time.sleep(1)
        assert held(pid) < before[0] + 4096 and held(f.process.pid) < before[1] + 8192
        got = 0
        while got < 8 << 20:
            got += len(s.recv(1 << 16))
    assert f.process.poll() is None


def test_nobody_listens_yet(abx):
    a = abx.create()
    f = Forward(abx, a, "7000", "--forward")
    with f.connect() as s:
        with pytest.raises(OSError):
            if s.recv(10) == b"":
                raise ConnectionResetError
    serve(abx, a, ECHO)
    with f.connect() as s:
        s.sendall(b"now")
        assert s.recv(10) == b"now"
    assert f.end() == 143
    assert "nothing listens on port 7000" in f.err


def test_the_end_of_the_sandbox_is_its_end(abx):
    a = abx.create()
    serve(abx, a, ECHO)
    f = Forward(abx, a, "7000", "--forward")
    with f.connect() as s:
        s.sendall(b"x")
        assert s.recv(10) == b"x"
        abx.ok("kill", a)
        assert f.process.wait(timeout=60) in (3, 8)
    f.process.communicate()
    abx("port", a, "7000", "--forward", code=3)


def test_the_end_of_the_sandbox_is_noticed_without_a_connection(abx):
    a = abx.create("--name", "served")
    f = Forward(abx, a, "7000", "--forward")
    abx.ok("pause", a)
    abx.ok("resume", a)
    abx.ok("kill", a)
    assert f.process.wait(timeout=60) == 8
    assert f"sandbox '{a}' has ended" in f.process.communicate()[1].decode()


def test_paused(abx):
    a = abx.create()
    serve(abx, a, ECHO)
    f = Forward(abx, a, "7000", "--forward")
    with f.connect() as s:
        s.sendall(b"x")
        assert s.recv(10) == b"x"
        abx.ok("pause", a)
        s.sendall(b"y")
        with pytest.raises(OSError), f.connect() as t:
            if t.recv(10) == b"":
                raise ConnectionResetError
        abx.ok("resume", a)
        assert s.recv(10) == b"y"
    f.end()


def test_a_connection_is_use(abx):
    a = abx.create("--idle", "600ms")
    serve(abx, a, ECHO)
    f = Forward(abx, a, "7000", "--forward")
    with f.connect() as s:
        time.sleep(1.2)
        s.sendall(b"x")
        assert s.recv(10) == b"x"
    wait_for(lambda: abx("info", a).code == 3)
    f.end()


def request(abx, box, head):
    """What the sandbox's server answers to these bytes, by its socket."""
    with socket.socket(socket.AF_UNIX) as s:
        os.chdir(abx.home / "local" / "sandboxes" / box)  # a path may be too long
        try:
            s.connect("s")
        finally:
            os.chdir("/")
        s.settimeout(60)
        s.sendall(head)
        return s.recv(4096)


def test_the_route_wants_the_token_and_an_upgrade(shared, served):
    box = shared.info(served)["id"]
    token = json.loads((shared.home / "local" / "sandboxes" / box / "state.json").read_text())["token"]
    upgrade = "Connection: Upgrade\r\nUpgrade: abx-tunnel\r\n"

    def ask(path, token=None, more=upgrade):
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\n{more}"
        if token:
            head += f"X-Access-Token: {token}\r\n"
        return request(shared, box, (head + "\r\n").encode()).split(b"\r\n")[0].split()[1]
    assert ask("/abx/tunnel?port=7000") == b"401"
    assert ask("/abx/tunnel?port=7000", "x" * 64) == b"401"
    assert ask("/abx/tunnel?port=7000", token, "") == b"426"
    for bad in ["", "?port=", "?port=0", "?port=65536", "?port=-1", "?port=x"]:
        assert ask("/abx/tunnel" + bad, token) == b"400"
    assert ask("/abx/tunnel?port=9", token) == b"502"
    assert ask("/abx/tunnel?port=7000", token) == b"101"


def test_nothing_is_left_behind(shared, forward, served):
    pid = shared.info(served)["pid"]

    def held():
        return len(os.listdir(f"/proc/{pid}/fd")) if ROOT else int(status(pid)["FDSize"])
    f = forward(served, "7000", "--forward")
    wait_for(lambda: held() < 60 or not ROOT)
    before = held()
    for i in range(count(100, 5000)):
        with f.connect() as s:
            if i % 3:
                s.sendall(b"x")
            if i % 2:
                s.recv(1) if i % 3 else None
    wait_for(lambda: held() <= before)
    mine = len(os.listdir(f"/proc/{f.process.pid}/fd"))
    assert mine < 40
