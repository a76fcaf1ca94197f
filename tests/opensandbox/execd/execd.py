#!/usr/bin/env python3
"""execd, as OpenSandbox's: what a sandbox's commands, files, terminals and code are reached by. A double for tests: it runs inside
a sandbox, without a library. Usage: execd.py [PORT]; EXECD_ACCESS_TOKEN: a token that it asks for; EXECD_FAULTS: names of what it
does wrong, with commas between."""

import os
import re
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import interpreter  # noqa: E402
import commands  # noqa: E402
import files  # noqa: E402
import terminal  # noqa: E402
from web import Gone, Handler, Server, dumps  # noqa: E402


def ping(handler):
    handler.answer(200)


def metrics(handler):
    handler.answer(200, terminal.metrics())


def watch(handler):
    handler.begin(200, "text/event-stream")
    while True:
        time.sleep(1)
        handler.chunk(dumps(terminal.metrics()) + b"\n")


def proxied(handler, port, path):
    """On to a port of the sandbox: the request as it came but for its path, then bytes both ways."""
    if not port:
        return handler.answer(400, b"port is required\n")
    if port == str(handler.server.server_address[1]):
        handler.path = handler.path.split("/proxy/" + port, 1)[1] or "/"
        handler.where, handler.onward = path or "/", True
        try:
            return handler.route()
        finally:
            handler.onward = False
    try:
        backend = socket.create_connection(("127.0.0.1", int(port)), 10)
    except (OSError, ValueError, OverflowError):
        return handler.answer(502, b"Bad Gateway\n")
    rest = handler.path.split("/proxy/" + port, 1)[1]
    lines = [f"{handler.command} {rest if rest.startswith('/') else '/' + rest} HTTP/1.1"]
    upgrade = handler.headers.get("Upgrade")
    lines += [f"{name}: {value}" for name, value in handler.headers.items() if name.lower() != "connection"]
    lines += ["Connection: Upgrade" if upgrade else "Connection: close", "", ""]
    backend.sendall("\r\n".join(lines).encode("latin-1"))
    backend.settimeout(None)
    handler.answered = handler.close_connection = True
    threading.Thread(target=pump, args=(backend, handler), daemon=True).start()
    if not upgrade and not handler.chunked:
        while part := handler.read_some():
            backend.sendall(part)
        handler.pumped = threading.Event()
    while data := handler.rfile.read1(65536) if upgrade or handler.chunked else b"":
        backend.sendall(data)
    if not upgrade:
        handler.back.wait()
    backend.close()


def pump(source, handler):
    try:
        while data := source.recv(65536):
            handler.wfile.write(data)
            handler.wfile.flush()
    except OSError:
        pass
    handler.back.set()
    handler.cut()


ID = "([^/]+)"
ROUTES = [
    ("GET", "/ping", ping),
    ("GET", "/metrics", metrics),
    ("GET", "/metrics/watch", watch),
    ("POST", "/command", commands.run),
    ("DELETE", "/command", commands.interrupt),
    ("GET", f"/command/status/{ID}", commands.status),
    ("GET", f"/command/{ID}/logs", commands.logs),
    ("POST", "/session", commands.session_make),
    ("POST", f"/session/{ID}/run", commands.session_run),
    ("DELETE", f"/session/{ID}", commands.session_end),
    ("POST", "/code", interpreter.execute),
    ("DELETE", "/code", commands.interrupt),
    ("POST", "/code/context", interpreter.make),
    ("GET", "/code/contexts", interpreter.all_of),
    ("DELETE", "/code/contexts", interpreter.remove_all),
    ("GET", f"/code/contexts/{ID}", interpreter.get),
    ("DELETE", f"/code/contexts/{ID}", interpreter.remove),
    ("GET", "/files/info", files.info),
    ("GET", "/files/search", files.search),
    ("GET", "/files/download", files.download),
    ("POST", "/files/mv", files.move),
    ("POST", "/files/permissions", files.permissions),
    ("POST", "/files/replace", files.replace),
    ("POST", "/files/upload", files.upload),
    ("DELETE", "/files", files.remove),
    ("GET", "/directories/list", files.folder_list),
    ("POST", "/directories", files.folder_make),
    ("DELETE", "/directories", files.folder_remove),
    ("POST", "/pty", terminal.make),
    ("GET", f"/pty/{ID}", terminal.status),
    ("DELETE", f"/pty/{ID}", terminal.end),
    ("GET", f"/pty/{ID}/ws", terminal.connect),
]


class Execd(Handler):
    routes = [(method, re.compile(path), function) for method, path, function in ROUTES]

    onward = False  # came through our own proxy

    def route(self):
        token = os.environ.get("EXECD_ACCESS_TOKEN")
        if token and self.headers.get("X-EXECD-ACCESS-TOKEN") != token:
            return self.answer(401, {"error": "Unauthorized: invalid or missing header X-EXECD-ACCESS-TOKEN"})
        if found := re.fullmatch(r"/proxy/([^/]*)(/.*)?", self.where):
            self.back = threading.Event()
            return proxied(self, found[1], found[2])
        if len(self.where) > 1 and self.where.endswith("/"):
            return self.answer(301 if self.command == "GET" else 307, None, {"Location": self.where.rstrip("/")})
        if "old" in self.server.faults and self.where == "/directories/list":
            return self.answer(404, self.text_of_unknown)
        super().route()


def main():
    signal.signal(signal.SIGINT, lambda *_: None)  # so that commands get it as it should be
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 44772
    server = Server(("127.0.0.1", port), Execd)
    kernels = socket.create_server(("127.0.0.1", 44771)) if interpreter.kernels() else None  # where clients look for the kernels
    server.faults = set(filter(None, os.environ.get("EXECD_FAULTS", "").split(",")))
    server.serve_forever()


if __name__ == "__main__":
    try:
        main()
    except Gone:
        pass
