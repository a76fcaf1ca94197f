"""The E2B door of a home: started, asked, stopped."""

import http.client
import json
import urllib.parse

from harness import wait_for


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {dict(self.headers)} {self.body[:2000]!r}"


class Door:
    """abx e2b serve --detach in the home of `abx`; stop() ends it."""

    def __init__(self, abx, *flags):
        self.abx = abx
        self.url = abx.ok("e2b", "serve", "--detach", *flags).text.strip()
        self.port = urllib.parse.urlsplit(self.url).port
        self.pid = abx.ok("e2b", "status", "--json").json["pid"]
        self.env = abx.ok("e2b", "env", "--json").json
        self.key = self.env["E2B_API_KEY"]

    def stop(self):
        self.abx("e2b", "stop")

    def raw(self, method, target, body=None, headers=None, host=None):
        """One request on a connection of its own, with these headers only."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            c.putrequest(method, target, skip_host=host is not None, skip_accept_encoding=True)
            if host is not None:
                c.putheader("Host", host)
            for name, value in (headers or {}).items():
                c.putheader(name, value)
            if body is not None:
                c.putheader("Content-Length", str(len(body)))
            c.endheaders(body)
            r = c.getresponse()
            return Answer(r.status, r.headers, r.read())
        finally:
            c.close()

    def __call__(self, method, target, body=None, key=None, headers=None, status=None):
        """A request of the control plane. body: an object; status: the one that it must have."""
        headers = {"X-API-Key": key or self.key, **(headers or {})}
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers["Content-Type"] = "application/json"
        answer = self.raw(method, target, data, headers)
        assert status is None or answer.status == status, repr(answer)
        return answer

    def create(self, **body):
        return self("POST", "/v2/sandboxes", {"templateID": "base", **body}, status=201).json

    def data(self, sandbox, method, target, port=49983, body=None, headers=None):
        """A request of the data plane, as the SDKs send it."""
        if isinstance(sandbox, dict):
            headers = {"X-Access-Token": sandbox.get("envdAccessToken") or "", **(headers or {})}
            sandbox = sandbox["sandboxID"]
        routing = {"E2b-Sandbox-Id": sandbox, "E2b-Sandbox-Port": str(port)}
        return self.raw(method, target, body, {**routing, **(headers or {})})

    def is_running(self, sandbox):
        answer = self.data(sandbox, "GET", "/health")
        assert answer.status in (204, 502), repr(answer)
        return answer.status == 204

    def wait_gone(self, sandbox):
        wait_for(lambda: not self.is_running(sandbox), "the sandbox is gone")
