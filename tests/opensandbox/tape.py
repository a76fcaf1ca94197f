"""A server that answers with what was recorded of a real OpenSandbox: lifecycle and execd at one address.

    tape = Tape("lifecycle", "code")                  # files of tests/data/recordings/execd
    tape.play("GET /v1/sandboxes/[^/]+$", "get")      # from now on this route gives that record, or "file:record", whose name the last file that
                                                      # has it decides; several: one after the other, the last again
    tape.requests                                     # (line, headers, body) of what came
"""

import base64
import contextlib
import hashlib
import json
import re
import socket
import struct
import threading
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "data/recordings/execd"
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Record:
    def __init__(self, line):
        self.name, self.request, self.response = line["name"], line["request"], line.get("response") or {}
        self.frames = line.get("frames")
        words = self.response.get("line", "").split()
        self.status = int(words[1]) if len(words) > 1 else None  # None: there was no answer
        body = self.response.get("body") or ""
        self.body = base64.b64decode(body["b64"]) if isinstance(body, dict) else body.encode()
        self.chunks = [text.encode() for _, text in self.response.get("chunks", [])]

    @property
    def is_whole(self):
        """Long texts were shortened when it was recorded."""
        return b"\xe2\x80\xa6[cut" not in self.body + b"".join(self.chunks)

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def events(self):
        return [json.loads(text) for text in b"".join(self.chunks).split(b"\n") if text.strip()]


def records(file):
    lines = [Record(json.loads(line)) for line in (FOLDER / f"{file}.jsonl").read_text(encoding="utf-8").splitlines()]
    return {one.name: one for one in lines}


class Tape:
    def __init__(self, *files):
        self.known = {key: one for file in files for name, one in records(file).items() for key in (name, f"{file}:{name}")}
        self.routes, self.requests, self.lock = [], [], threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.domain = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def __getitem__(self, name):
        return self.known[name]

    def play(self, route, *names):
        with self.lock:
            self.routes.insert(0, (re.compile(route), [self.known[name] for name in names]))

    def clear(self):
        with self.lock:
            self.routes, self.requests = [], []

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)  # a thread that waits in accept would keep it open
        self.listener.close()

    # --- one connection

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        stream = client.makefile("rb")
        try:
            while line := stream.readline().decode("latin-1").strip():
                headers = {}
                while row := stream.readline().decode("latin-1").strip():
                    name, _, value = row.partition(":")
                    headers[name.lower()] = value.strip()
                body = self.body(stream, headers)
                if not self.answer(client, stream, line, headers, body):
                    return
        except OSError:
            pass
        finally:
            client.close()

    def body(self, stream, headers):
        if headers.get("transfer-encoding") == "chunked":
            data = b""
            while size := int(stream.readline(), 16):
                data += stream.read(size)
                stream.readline()
            stream.readline()
            return data
        return stream.read(int(headers.get("content-length", 0)))

    def choose(self, line, headers, body):
        with self.lock:
            self.requests.append((line, headers, body))
            for route, left in self.routes:
                if route.search(line.rsplit(" ", 1)[0]):
                    return left.pop(0) if len(left) > 1 else left[0]
        return None

    def answer(self, client, stream, line, headers, body):
        """True: another request may come on this connection."""
        one = self.choose(line, headers, body)
        if one is None:
            client.sendall(b"HTTP/1.1 501 Not Implemented\r\nContent-Length: 9\r\n\r\nno record")
            return True
        if one.frames is not None:
            return self.frames(client, stream, one, headers)
        if one.status is None:  # nothing came there, until the client went away
            stream.read(1)
            return False
        head = [f"HTTP/1.1 {one.response['line'][9:]}"]
        head += [f"{k}: {v}" for k, v in one.response.get("headers", []) if k.lower() not in ("content-length", "transfer-encoding", "connection")]
        if one.chunks:
            client.sendall("\r\n".join([*head, "Transfer-Encoding: chunked", "", ""]).encode())
            for chunk in one.chunks:
                client.sendall(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            if one.response["framing"] == "cut":
                return False
            client.sendall(b"0\r\n\r\n")
            return True
        data = re.sub(rb"127\.0\.0\.1:\d+", self.domain.encode(), one.body)
        length = [] if one.status == 204 else [f"Content-Length: {len(data)}"]
        client.sendall("\r\n".join([*head, *length, "", ""]).encode() + data)
        return True

    def frames(self, client, stream, one, headers):
        """The server's side of a WebSocket; what the client says is waited for, and not compared."""
        accept = base64.b64encode(hashlib.sha1(headers["sec-websocket-key"].encode() + GUID).digest()).decode()
        client.sendall(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n".encode())
        for frame in one.frames:
            if frame["way"] != "server" or frame["op"] == "tcp-end":
                continue
            if frame["op"] == "close":
                data, op = struct.pack(">H", frame["code"]) + frame.get("reason", "").encode(), 8
            elif frame["op"] == "text":
                data, op = frame["data"].encode(), 1
            else:
                data, op = bytes.fromhex(frame.get("hex") or frame["hex_head"]), 2
            size = bytes([len(data)]) if len(data) < 126 else b"\x7e" + struct.pack(">H", len(data))
            client.sendall(bytes([0x80 | op]) + size + data)
        stream.read(65536)
        return False
