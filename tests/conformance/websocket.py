"""WebSocket (RFC 6455) as a client, in a few lines of the standard library, for tests: also frames that nobody should send."""

import base64
import hashlib
import os
import socket
import struct
import threading

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class Refused(Exception):
    """The server gave an ordinary answer instead of the upgrade."""

    def __init__(self, status, headers, body):
        super().__init__(f"{status}: {body[:300]!r}")
        self.status, self.headers, self.body = status, headers, body


class WebSocket:
    def __init__(self, host, port, target, headers=(), timeout=60):
        self.socket = socket.create_connection((host, port), timeout=timeout)
        self.rest = b""
        self.sending = threading.Lock()
        self.closed = None  # the peer's close code
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [f"GET {target} HTTP/1.1", f"Host: {host}:{port}", "Connection: Upgrade", "Upgrade: websocket",
                 f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", *(f"{k}: {v}" for k, v in dict(headers).items())]
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode())
        status, told = self.head()
        if status != 101:
            body = self.take(int(told.get("content-length", 0)))
            self.socket.close()
            raise Refused(status, told, body)
        want = hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()
        assert base64.b64decode(told["sec-websocket-accept"]) == want

    def more(self):
        data = self.socket.recv(65536)
        if not data:
            raise EOFError
        self.rest += data

    def head(self):
        while b"\r\n\r\n" not in self.rest:
            self.more()
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.split(":", 1) for line in lines)
        return int(first.split()[1]), {name.lower(): value.strip() for name, value in pairs}

    def take(self, n):
        while len(self.rest) < n:
            self.more()
        data, self.rest = self.rest[:n], self.rest[n:]
        return data

    # --- out

    def frame(self, opcode, data, last=True, masked=True, reserved=0):
        first = (0x80 if last else 0) | reserved << 4 | opcode
        n, mark = len(data), 0x80 if masked else 0
        if n < 126:
            head = struct.pack("!BB", first, mark | n)
        elif n < 65536:
            head = struct.pack("!BBH", first, mark | 126, n)
        else:
            head = struct.pack("!BBQ", first, mark | 127, n)
        if masked:
            key = os.urandom(4)
            pad = (key * (n // 4 + 1))[:n]
            data = key + (int.from_bytes(data, "big") ^ int.from_bytes(pad, "big")).to_bytes(n, "big")
        with self.sending:
            self.socket.sendall(head + data)

    def send(self, data):
        self.frame(TEXT, data.encode()) if isinstance(data, str) else self.frame(BINARY, data)

    # --- in

    def receive(self):
        """A whole message: str or bytes; None once the peer has closed (self.closed tells how)."""
        message, kind = b"", None
        while True:
            try:
                first, second = self.take(2)
                n = second & 0x7F
                n = int.from_bytes(self.take(2 if n == 126 else 8), "big") if n > 125 else n
                data = self.take(n)
            except (EOFError, ConnectionError):
                self.closed = self.closed or 1006
                return None
            opcode = first & 0x0F
            if opcode == CLOSE:
                self.closed = int.from_bytes(data[:2], "big") if data else 1005
                try:
                    self.frame(CLOSE, data[:2])
                except OSError:
                    pass
                return None
            if opcode == PING:
                self.frame(PONG, data)
            if opcode >= CLOSE:
                continue
            kind = opcode or kind
            message += data
            if first & 0x80:
                return message.decode() if kind == TEXT else message

    def close(self, code=1000):
        try:
            self.frame(CLOSE, struct.pack("!H", code))
        except OSError:
            pass

    def drop(self):
        """Without a word."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()
