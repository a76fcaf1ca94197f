"""An HTTP/1.1 server on threads, as little as both servers of this folder need: JSON as Go writes it, streams, WebSocket."""

import base64
import hashlib
import json
import socket
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


def dumps(value):
    """Compact JSON; <, > and & escaped; what is no text becomes U+FFFD."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text.encode()


class Failed(Exception):
    """An answer that is an error: (status, code, message)."""

    def __init__(self, status, code, message):
        super().__init__(message)
        self.status, self.body = status, {"code": code, "message": message}


class Gone(Exception):
    """The client has hung up."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # that is no news
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 65536
    text_of_unknown = b"404 page not found"
    routes = ()

    def log_message(self, *_):
        pass

    def version_string(self):
        return "execd"

    def prepare(self):
        parts = urlsplit(self.path)
        self.where = parts.path
        self.query = {name: values for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        self.answered = False
        self.unread = int(self.headers.get("Content-Length") or 0)
        self.chunked = "chunked" in (self.headers.get("Transfer-Encoding") or "").lower()

    def ask(self, name, default=None):
        return self.query.get(name, [default])[0]

    def read_some(self):
        """Bytes of the body as they come; b"" at its end."""
        if self.chunked:
            line = self.rfile.readline(100)
            size = int(line.split(b";")[0] or b"0", 16) if line.strip() else -1
            if size < 0:
                raise Gone
            data = self.rfile.read(size) if size else b""
            if len(data) != size or self.rfile.readline(10).strip():
                raise Gone
            self.chunked = size > 0
            return data
        data = self.rfile.read(min(self.unread, 1 << 20)) if self.unread else b""
        if self.unread and not data:
            raise Gone
        self.unread -= len(data)
        return data

    def body(self):
        parts = []
        while part := self.read_some():
            parts.append(part)
        return b"".join(parts)

    def drop_body(self):
        while self.chunked or self.unread:
            if not self.read_some():
                break

    def answer(self, status, value=None, headers=(), kind=None):
        """Bytes as they are, anything else as JSON, None as nothing."""
        self.drop_body()
        data = b"" if value is None else value if isinstance(value, bytes) else dumps(value)
        self.send_response(status)
        for name, text in dict(headers).items():
            self.send_header(name, text)
        if value is not None:
            plain = isinstance(value, bytes)
            self.send_header("Content-Type", kind or ("text/plain" if plain else "application/json; charset=utf-8"))
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
        self.wfile.flush()
        self.answered = True

    def begin(self, status, kind, headers=()):
        """A chunked answer; then chunk() and end()."""
        self.drop_body()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        for name, text in dict(headers).items():
            self.send_header(name, text)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.answered = True

    def chunk(self, data):
        try:
            if data:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
                self.wfile.flush()
        except OSError:
            raise Gone from None

    def end(self):
        try:
            self.wfile.write(b"0\r\n\r\n")
            self.wfile.flush()
        except OSError:
            raise Gone from None

    def cut(self):
        self.close_connection = True
        try:
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def fail(self, e):
        if self.answered:
            self.cut()
        else:
            self.answer(e.status, e.body)

    def serve(self):
        self.prepare()
        try:
            self.route()
            if not self.answered:
                self.answer(200)
        except Failed as e:
            self.fail(e)
        except (Gone, ConnectionError, TimeoutError):
            self.cut()

    def route(self):
        for method, pattern, function in self.routes:
            if method == self.command and (found := pattern.fullmatch(self.where)):
                return function(self, *found.groups())
        self.answer(404, self.text_of_unknown)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = do_OPTIONS = lambda self: self.serve()


class WebSocket:
    """The server's end of a WebSocket; answers pings itself."""

    def __init__(self, handler):
        handler.drop_body()
        key = handler.headers.get("Sec-WebSocket-Key", "") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        handler.send_response(101)
        handler.send_header("Upgrade", "websocket")
        handler.send_header("Connection", "Upgrade")
        handler.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        handler.end_headers()
        handler.wfile.flush()
        handler.answered = handler.close_connection = True
        self.handler, self.input, self.output = handler, handler.rfile, handler.wfile
        self.lock, self.closed = threading.Lock(), False

    def exactly(self, n):
        data = self.input.read(n)
        if len(data) != n:
            raise Gone
        return data

    def receive(self):
        """(1 text | 2 binary, bytes); raises Gone at the end."""
        kind, parts = 0, []
        while True:
            first, second = self.exactly(2)
            size = second & 127
            if size > 125:
                size = struct.unpack(">H" if size == 126 else ">Q", self.exactly(2 if size == 126 else 8))[0]
            mask = self.exactly(4) if second & 128 else b""
            data = self.exactly(size)
            if mask:
                wide = (mask * (size // 4 + 1))[:size]
                data = (int.from_bytes(data, "big") ^ int.from_bytes(wide, "big")).to_bytes(size, "big") if size else b""
            op = first & 15
            if op == 8:
                self.close(int.from_bytes(data[:2] or b"\x03\xe8", "big"))
                raise Gone
            if op == 9:
                self.send(10, data)
            elif op < 3:
                kind = kind or op
                parts.append(data)
                if first & 128:
                    return kind, b"".join(parts)

    def send(self, op, data):
        size = len(data)
        head = bytes([128 | op])
        if size < 126:
            head += bytes([size])
        else:
            head += struct.pack(">BH", 126, size) if size < 65536 else struct.pack(">BQ", 127, size)
        with self.lock:
            if self.closed:
                return
            try:
                self.output.write(head + data)
                self.output.flush()
            except (OSError, ValueError):
                self.closed = True
                raise Gone from None

    def close(self, code=1000, reason=""):
        try:
            self.send(8, struct.pack(">H", code) + reason.encode())
        except Gone:
            pass
        with self.lock:
            self.closed = True
        try:
            self.handler.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
