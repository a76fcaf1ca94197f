"""The engine of a home, asked as docs/engine-api.md says: requests, streams of events, WebSockets."""

import base64
import http.client
import json
import os
import socket
import sys
import urllib.parse
from pathlib import Path

from harness import reap, wait_for

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance"))
import websocket  # noqa: E402


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]

    def __repr__(self):
        return f"{self.status} {dict(self.headers)} {self.body[:2000]!r}"


class Event:
    """One event of a stream; data: the JSON object, without its type."""

    def __init__(self, name, id, data):
        self.name, self.id, self.data = name, id, data

    @property
    def bytes(self):
        return self.data["text"].encode() if "text" in self.data else base64.b64decode(self.data["base64"], validate=True)

    def __repr__(self):
        return f"{self.name} {self.id} {str(self.data)[:300]}"


class Events:
    """The events of an answer, one after the other; closed by close(), or by drop() without a word."""

    def __init__(self, connection, answer):
        self.connection, self.answer, self.rest = connection, answer, b""
        self.status, self.headers = answer.status, answer.headers
        self.comments = 0
        self.whole = False  # it ended as it should

    def __iter__(self):
        return self

    def __next__(self):
        while True:
            while b"\n\n" not in self.rest:
                data = self.answer.read1(65536)
                if not data:
                    assert not self.rest, self.rest
                    self.whole = True
                    raise StopIteration
                self.rest += data
            block, self.rest = self.rest.split(b"\n\n", 1)
            fields = {}
            for line in block.decode().split("\n"):
                if line.startswith(":"):
                    self.comments += 1
                else:
                    name, _, value = line.partition(": ")
                    fields[name] = value
            if fields:
                data = json.loads(fields["data"])
                assert data.pop("type") == fields["event"]
                return Event(fields["event"], fields.get("id"), data)

    def until(self, name):
        """Read on to an event of this name: all that came, this one the last."""
        came = []
        for event in self:
            came.append(event)
            if event.name == name:
                return came
        raise AssertionError(f"the stream ended without {name}: {came}")

    def drop(self):
        try:
            self.connection.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.connection.close()

    close = drop


def output(events, name="stdout"):
    return b"".join(event.bytes for event in events if event.name == name)


class Engine:
    """abx provider engine serve --detach in the home of `abx`; stop() ends it."""

    def __init__(self, abx, *flags, connection=None):
        self.abx = abx
        abx.ok("provider", "engine", "serve", "--detach", *flags)
        told = json.loads((abx.home / "engine.json").read_text())
        self.port, self.token, self.pid = told["port"], told["token"], told["pid"]
        self.connection = connection or {"provider": "local"}

    def stop(self):
        self.abx("provider", "engine", "stop")
        reap()

    def headers(self, connection=None):
        text = base64.urlsafe_b64encode(json.dumps(connection or self.connection).encode()).decode().rstrip("=")
        return {"Authorization": f"Bearer {self.token}", "X-Abx-Connection": text}

    def open(self, method, target, body=None, headers=None, connection=None, timeout=60):
        """A connection on which this request is out: (it, the answer's head)."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        headers = {**self.headers(connection), **(headers or {})}
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        c.request(method, target, body, headers)
        return c, c.getresponse()

    def __call__(self, method, target, body=None, headers=None, status=None, connection=None):
        c, answer = self.open(method, target, body, headers, connection)
        try:
            whole = Answer(answer.status, answer.headers, answer.read())
        finally:
            c.close()
        assert status is None or whole.status == status, repr(whole)
        return whole

    def events(self, method, target, body=None, headers=None, connection=None):
        """A stream of events; it must begin."""
        c, answer = self.open(method, target, body, headers, connection)
        if answer.status != 200:
            raise AssertionError(f"{answer.status} {answer.read()!r}")
        assert answer.headers["Content-Type"] == "text/event-stream"
        return Events(c, answer)

    def socket(self, target, connection=None):
        return websocket.WebSocket("127.0.0.1", self.port, target, self.headers(connection))

    # --- what tests do often

    def create(self, **params):
        return self("POST", "/v1/sandboxes", params, status=201).json["id"]

    def kill(self, box):
        self("DELETE", f"/v1/sandboxes/{box}", status=200)

    def start(self, box, *cmd, **more):
        """The events of a process."""
        return self.events("POST", f"/v1/sandboxes/{box}/processes", {"cmd": list(cmd), **more})

    def sh(self, box, script, **more):
        return self.start(box, "sh", "-c", script, **more)

    def background(self, box, script, **more):
        return self("POST", f"/v1/sandboxes/{box}/processes", {"cmd": ["sh", "-c", script], "background": True, **more},
                    status=201).json

    def running(self, box):
        listed = self("GET", f"/v1/sandboxes/{box}/processes", status=200).json["processes"]
        return {p["id"]: p for p in listed if p["state"] == "running"}

    def wait_idle(self, box):
        wait_for(lambda: not self.running(box), "no process runs", 60)

    def files(self, box, path, **query):
        return f"/v1/sandboxes/{box}/files?" + urllib.parse.urlencode({"path": path, **query})

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def memory(self):
        """Resident bytes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * 4096
