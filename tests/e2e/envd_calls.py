"""Calls of the client of envd (envd_call.c) against a server of the test's."""

import base64
import json
import subprocess

from harness import HELPERS, LIMIT


class Call:
    """What one call gave: events, the bytes of its channels, and its end."""

    def __init__(self):
        self.events, self.chunks, self.order = [], {}, []
        self.result = self.error = self.bytes = None

    def take(self, line):
        if "event" in line:
            self.events.append((line["event"], line["data"]))
            self.order.append(line["event"])
        elif "chunk" in line:
            self.chunks[line["chunk"]] = self.chunks.get(line["chunk"], b"") + base64.b64decode(line["bytes"])
            self.order.append(line["chunk"])
        else:
            self.result, self.error, self.bytes = line.get("result"), line.get("error"), line["bytes"]

    @property
    def code(self):
        return self.error and self.error["code"]

    @property
    def text(self):
        return self.error["message"] if self.error else ""

    def __repr__(self):
        return f"Call({self.order}, {self.chunks}, result={self.result}, error={self.error})"


def calls(options, *pairs, env=None):
    """calls({...}, "fs.read", {...}, ...): the calls, in order; the first that fails ends them."""
    words = [json.dumps(w) if isinstance(w, dict) else w for w in pairs]
    p = subprocess.run([HELPERS / "envd_call", json.dumps(options), *words], capture_output=True, timeout=LIMIT, env=env)
    assert p.returncode in (0, 1), p.stderr.decode()
    done, now = [], Call()
    for line in p.stdout.decode().splitlines():
        line = json.loads(line)
        now.take(line)
        if "bytes" in line and "chunk" not in line:
            done.append(now)
            now = Call()
    return done


def call(options, method, params, env=None):
    return calls(options, method, params, env=env)[-1]
