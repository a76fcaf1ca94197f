"""WebSocket of modules against a server of a page: messages both ways, closing codes, what a server does wrong, backpressure."""

import base64
import hashlib
import json
import socket
import struct
import threading

import pytest

from test_node_fetch import ask, home  # noqa: F401

pytestmark = pytest.mark.once

BIG = 17 << 20


def frame(opcode, data, fin=True):
    head = bytes([opcode | (0x80 if fin else 0)])
    n = len(data)
    if n < 126:
        return head + bytes([n]) + data
    return head + (b"\x7e" + struct.pack(">H", n) if n < 65536 else b"\x7f" + struct.pack(">Q", n)) + data


class Peer:
    """One connection, its handshake done."""

    def __init__(self, s, headers):
        self.s, self.headers, self.file = s, headers, s.makefile("rb")

    def send(self, *frames):
        self.s.sendall(b"".join(frames))

    def read(self):
        """Opcode and payload of a frame, unmasked."""
        first, second = self.file.read(2)
        n = second & 127
        if n > 125:
            n = struct.unpack(">H" if n == 126 else ">Q", self.file.read(2 if n == 126 else 8))[0]
        mask, data = self.file.read(4), self.file.read(n)
        assert second & 128, "a client masks"
        key = (mask * (n // 4 + 1))[:n]
        return first & 15, (int.from_bytes(data, "big") ^ int.from_bytes(key, "big")).to_bytes(n, "big")


class Server:
    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.sent = 0
        self.release = threading.Event()
        self.acceptor = threading.Thread(target=self.accept, daemon=True)
        self.acceptor.start()

    def accept(self):
        while True:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(s,), daemon=True).start()

    def serve(self, s):
        head = b""
        while b"\r\n\r\n" not in head:
            head += s.recv(65536)
        lines = head.decode("latin-1").split("\r\n")
        path = lines[0].split()[1][1:]
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:] if line)}
        if path == "refuse":
            s.sendall(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n")
            return s.close()
        key = headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        protocol = {"proto": headers.get("sec-websocket-protocol", "").split(",")[-1].strip(), "wrong": "other"}.get(path)
        s.sendall(("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                   f"Sec-WebSocket-Accept: {accept}\r\n{f'Sec-WebSocket-Protocol: {protocol}' + chr(13) + chr(10) if protocol else ''}\r\n").encode())
        try:
            getattr(self, path.partition("?")[0])(Peer(s, headers))
        except (OSError, ValueError):
            pass
        s.close()

    def echo(self, p):
        while True:
            opcode, data = p.read()
            p.send(frame(opcode, data))
            if opcode == 8:
                return

    def proto(self, p):
        p.send(frame(8, struct.pack(">H", 4001) + "tschüß".encode()))
        p.read()

    wrong = proto

    def show(self, p):
        p.send(frame(1, json.dumps(p.headers).encode()), frame(8, b""))
        p.read()

    def parts(self, p):
        p.send(frame(1, b"a", fin=False), frame(9, b"ping"), frame(0, b"b", fin=False), frame(0, b"c"))
        assert p.read() == (10, b"ping")
        p.send(frame(8, struct.pack(">H", 1000)))
        p.read()

    def rude(self, p):
        p.send(frame(1, b"x"))

    def latin(self, p):
        p.send(frame(1, b"\xff\xfe"))
        p.read()

    def big(self, p):
        p.send(frame(2, bytes(BIG)))
        p.read()

    def flood(self, p):
        for _ in range(800):
            p.send(frame(2, bytes(65536)))
            self.sent += 65536
        p.send(frame(8, struct.pack(">H", 1000)))
        p.read()

    def slow(self, p):
        self.release.wait(20)


@pytest.fixture
def server():
    one = Server()
    yield one
    one.release.set()
    # A thread that waits in accept would keep it open, and could take connections of who has its descriptor next.
    one.listener.shutdown(socket.SHUT_RDWR)
    one.acceptor.join()
    one.listener.close()


def test_messages_both_ways(home, server):  # noqa: F811
    assert ask(home, "wsecho", server.url) == [
        ["open", ""], ["message", "grüß"], ["message", [1, 2, 3]], ["message", list(b"blob")], ["message", "x" * 1000],
        ["close", 3001, "done", True]]
    assert ask(home, "wstalk", server.url, "/parts")[1:] == [["message", "abc"], ["close", 1000, "", True]]


def test_how_it_begins_and_ends(home, server):  # noqa: F811
    seen = ask(home, "wstalk", server.url, "/show", "", "authorization", "Bearer x")
    headers = json.loads(seen[1][1])
    assert headers["authorization"] == "Bearer x" and headers["sec-websocket-version"] == "13"
    assert seen[-1] == ["close", 1005, "", True]
    assert ask(home, "wstalk", server.url, "/proto", "one,two") == [["open", "two"], ["close", 4001, "tschüß", True]]
    assert ask(home, "wstalk", server.url, "/wrong", "one") == [["error"], ["close", 1006, "", False]]
    assert ask(home, "wstalk", server.url, "/refuse") == [["error"], ["close", 1006, "", False]]
    assert ask(home, "wstalk", "http://127.0.0.1:1", "/") == [["error"], ["close", 1006, "", False]]
    assert ask(home, "wsbad") == ["SyntaxError"] * 4 + ["InvalidAccessError", "InvalidStateError"]


def test_what_a_server_does_wrong(home, server):  # noqa: F811
    assert ask(home, "wstalk", server.url, "/rude") == [["open", ""], ["message", "x"], ["error"], ["close", 1006, "", False]]
    assert ask(home, "wstalk", server.url, "/latin")[1:] == [["error"], ["close", 1006, "", False]]
    assert ask(home, "wstalk", server.url, "/big")[1:] == [["error"], ["close", 1009, "", False]]


def test_a_slow_side_holds_up_the_other(home, server):  # noqa: F811
    assert ask(home, "wsflood", server.url) == {"n": 800, "at": 65536, "seen": [1000, True]}
    said = ask(home, "wssend", server.url)
    assert said["error"] == "QuotaExceededError" and said["n"] >= 60 and said["waits"] and said["first"] == 5, said
