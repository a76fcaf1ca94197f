"""The engine of a home: started, asked over plain HTTP, stopped."""

import base64
import http.client
import json
import socket

from door import Answer


def connection(**members):
    """What X-Abx-Connection is for these members."""
    return base64.urlsafe_b64encode(json.dumps(members).encode()).rstrip(b"=").decode()


LOCAL = connection(provider="local")


class Engine:
    """abx provider engine serve --detach in the home of `abx`; stop() ends it."""

    def __init__(self, abx, *flags, env=None, **more):
        self.abx = abx
        self.url = abx.ok("provider", "engine", "serve", "--detach", *flags, env=env, **more).text.strip()
        self.read()

    def read(self):
        self.info = json.loads((self.abx.home / "engine.json").read_text())
        self.port, self.token, self.pid = (self.info[k] for k in ("port", "token", "pid"))

    def stop(self):
        self.abx("provider", "engine", "stop")

    def http(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def raw(self, method, target, body=None, headers=None, host=None):
        """One request on a connection of its own, with these headers only. headers: a dict or pairs."""
        c = self.http()
        try:
            c.putrequest(method, target, skip_host=host is not None, skip_accept_encoding=True)
            if host is not None:
                c.putheader("Host", host)
            for name, value in (headers.items() if isinstance(headers, dict) else headers or ()):
                c.putheader(name, value)
            if body is not None:
                c.putheader("Content-Length", str(len(body)))
            c.endheaders(body)
            r = c.getresponse()
            return Answer(r.status, r.headers, r.read())
        finally:
            c.close()

    def headers(self, connection=LOCAL):
        out = {"Authorization": f"Bearer {self.token}"}
        if connection:
            out["X-Abx-Connection"] = connection
        return out

    def __call__(self, method, target, body=None, connection=LOCAL, headers=None, status=None):
        """A request as clients send it. body: an object, or bytes as they are; status: the one that it must have."""
        headers = {**self.headers(connection), **(headers or {})}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        answer = self.raw(method, target, data, headers)
        assert status is None or answer.status == status, repr(answer)
        return answer

    def create(self, connection=LOCAL, **body):
        return self("POST", "/v1/sandboxes", body, connection, status=201).json["id"]

    def kill(self, sandbox, connection=LOCAL):
        self("DELETE", f"/v1/sandboxes/{sandbox}", None, connection, status=200)

    def bytes(self, *sent, until_close=True):
        """Send these bytes, and answer with all that comes until the engine closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as s:
            for piece in sent:
                s.sendall(piece)
            got = b""
            while True:
                try:
                    part = s.recv(65536)
                except ConnectionResetError:
                    break
                got += part
                if not part or not until_close:
                    break
            return got


def error_of(answer, status, code):
    """The error of an answer, which must have this status and code."""
    assert answer.status == status and answer.json["error"]["code"] == code, repr(answer)
    return answer.json["error"]
