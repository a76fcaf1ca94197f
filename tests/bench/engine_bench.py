#!/usr/bin/env python3
"""What the engine does in a second, and what an open stream costs it.

requests  small authorised requests (GET /v1/health) with 1 and with 32 connections against a Node.js server that checks the same header and
          answers the same bytes; wrk, in turns, medians; memory (PSS) of both after that load.
streams   10,000 streams of server-sent events open at once on the output of twelve processes; then they write a line: how many got it, and
          what each stream takes in the engine and in the sandbox's pid 1. A stream is two descriptors of the engine's there: as many as the limit allows.
plugin    the same on the output of one process of an exec provider, whose streams share one pipe: always 10,000.

Usage: engine_bench.py [--quick] [--json] [ROW...]"""

import argparse
import base64
import json
import os
import re
import resource
import selectors
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("ABX_BUILD") or HERE.parents[1] / "build" / "release").resolve()
ABX = str(BUILD / "abx")
BOXES = 12  # the server in a sandbox takes 1,024 connections


def raise_files():
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def pss(pid):
    return int(re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M).group(1))


def anonymous(pid):
    return int(re.search(r"^RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M).group(1))


class Engine:
    def __init__(self, plugin=False):
        self.folder = tempfile.mkdtemp(prefix="abx-bench.")
        self.env = {**os.environ, "ABX_HOME": f"{self.folder}/home"}
        if plugin:
            self.install()
        self.abx("provider", "engine", "serve", "--detach")
        info = json.loads(Path(f"{self.folder}/home/engine.json").read_text())
        self.port, self.pid, self.token = info["port"], info["pid"], info["token"]
        connection = base64.urlsafe_b64encode(b'{"provider":"streams"}' if plugin else b'{"provider":"local"}').rstrip(b"=").decode()
        self.headers = {"Authorization": f"Bearer {self.token}", "X-Abx-Connection": connection}
        self.url = f"http://127.0.0.1:{self.port}"

    def install(self):
        place = Path(self.folder, "streams")
        place.mkdir()
        shutil.copy(HERE / "streams_plugin.py", place / "plugin.py")
        (place / "abx-provider.toml").write_text(textwrap.dedent('''\
            schema = 1
            id = "streams"
            name = "streams"
            version = "1.0.0"
            description = "one process that many follow"
            [runtime]
            kind = "exec"
            protocol = "epp/1"
            command = ["/usr/bin/python3", "plugin.py"]
            features = ["process", "process.stdin", "process.replay"]
            '''))
        self.abx("provider", "install", str(place), "--yes")

    def abx(self, *args):
        return subprocess.run([ABX, *args], env=self.env, check=True, capture_output=True, text=True).stdout

    def __call__(self, method, path, body=None):
        request = urllib.request.Request(self.url + path, method=method, headers=self.headers,
                                         data=body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.loads(answer.read())

    def end(self):
        self.abx("provider", "engine", "stop")
        self.abx("-P", "local", "kill", "--all", "--yes")
        shutil.rmtree(self.folder, ignore_errors=True)


def wrk(url, token, connections, seconds):
    """Requests a second; every answer must have been a success."""
    out = subprocess.run(["wrk", f"-c{connections}", f"-t{2 if connections > 1 else 1}", f"-d{seconds}", "-H", f"Authorization: Bearer {token}", url],
                         check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in out or "Socket errors" in out:
        raise RuntimeError(out)
    return float(re.search(r"Requests/sec:\s+([0-9.]+)", out).group(1))


def requests(engine, quick):
    rounds, seconds = (1, 1) if quick else (5, 2)
    body = urllib.request.urlopen(urllib.request.Request(f"{engine.url}/v1/health", headers=engine.headers)).read().decode()
    node = subprocess.Popen(["node", HERE / "node_http.mjs"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            env={**os.environ, "TOKEN": engine.token, "BODY": body})
    urls = f"{engine.url}/v1/health", f"http://127.0.0.1:{int(node.stdout.readline())}/v1/health"
    rows = []
    for url in urls:
        wrk(url, engine.token, 8, 1)
    for connections in (1, 32):
        pairs = [[wrk(url, engine.token, connections, seconds) for url in urls] for _ in range(rounds)]
        mine, other = (statistics.median(p[i] for p in pairs) for i in (0, 1))
        rows.append(row(f"engine, {connections} connection{'s' if connections > 1 else ''}", f"{mine / 1000:.1f} k/s", f"node {other / 1000:.1f} k/s",
                        mine / other, ">= 1.5", mine / other >= 1.5))
    mine, other = pss(engine.pid), pss(node.pid)
    rows.append(row("engine, memory after that", f"{mine / 1024:.1f} MiB", f"node {other / 1024:.1f} MiB", mine / other, "<= 0.125",
                    mine / other <= 0.125))
    node.stdin.close()
    node.wait()
    return rows


def row(what, ours, reference, ratio, goal, reached):
    return {"what": what, "ours": ours, "reference": reference, "ratio": f"{ratio:.3f}" if ratio is not None else "", "goal": goal, "reached": reached}


class Streams:
    """Many connections that follow one process, in one poll."""

    def __init__(self, engine, paths, count):
        head = "".join(f"{k}: {v}\r\n" for k, v in engine.headers.items())
        self.requests = [f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{head}\r\n".encode() for path in paths]
        self.engine, self.count = engine, count
        self.poll, self.seen, self.gone = selectors.DefaultSelector(), {}, 0

    def open(self):
        for begun in range(0, self.count, 100):
            for i in range(min(100, self.count - begun)):
                s = socket.create_connection(("127.0.0.1", self.engine.port))
                s.sendall(self.requests[i % len(self.requests)])
                self.seen[s] = b""
                self.poll.register(s, selectors.EVENT_READ)
            self.until(b"event: started", 120)

    def until(self, words, seconds):
        """How many have read this; at most so long."""
        end = time.monotonic() + seconds
        waiting = {s for s, seen in self.seen.items() if words not in seen}
        while self.gone == 0 and time.monotonic() < end and waiting:
            for key, _ in self.poll.select(1):
                part = key.fileobj.recv(65536)
                self.seen[key.fileobj] += part
                if words in self.seen[key.fileobj]:
                    waiting.discard(key.fileobj)
                if not part or b"event: error" in part:
                    self.gone += 1
                    self.poll.unregister(key.fileobj)
        return sum(words in seen for seen in self.seen.values())


def streams(engine, quick):
    processes, pids = [], []
    for _ in range(BOXES):
        box = f"/v1/sandboxes/{engine('POST', '/v1/sandboxes', {'timeoutMs': 0})['id']}"
        made = engine("POST", f"{box}/processes", {"cmd": ["sh", "-c", "read line; echo hello; sleep 1000"], "stdin": "stream", "background": True})
        processes.append(f"{box}/processes/{made['id']}")
        pids.append(engine("GET", box)["pid"])
    return followed(engine, processes, pids, 1000 if quick else min(10000, raise_files() // 2 - 100))


def plugin(engine, quick):
    box = f"/v1/sandboxes/{engine('POST', '/v1/sandboxes', {'timeoutMs': 0})['id']}"
    made = engine("POST", f"{box}/processes", {"cmd": ["any"], "stdin": "stream", "background": True})
    return followed(engine, [f"{box}/processes/{made['id']}"], [], 1000 if quick else 10000)


def followed(engine, processes, boxes, count):
    """So many streams on these processes; boxes: the first process of each sandbox."""
    pids = [engine.pid, *boxes]
    before = [anonymous(pid) for pid in pids]
    many = Streams(engine, [f"{process}/stream?from=0.0" for process in processes], count)
    began = time.monotonic()
    many.open()
    opened = time.monotonic() - began
    time.sleep(1)
    grown = [anonymous(pid) - was for pid, was in zip(pids, before)]
    each = grown[0] / count, sum(grown[1:]) / count
    for process in processes:
        engine("POST", f"{process}/stdin", b"now\n")
    told = many.until(b"hello", 300)
    inside = f"in pid 1 {each[1]:.1f} KiB" if boxes else "of a plugin"
    return [row(f"engine, {count} open streams, each", f"{each[0]:.1f} KiB", inside, None, "<= 32 KB", each[0] * 1.024 <= 32),
            row(f"streams that got a line, of {count}", str(told), f"opened in {opened:.1f} s", None, "all", told == count)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("rows", nargs="*")
    given = parser.parse_args()
    raise_files()
    rows = {"requests": requests, "streams": streams, "plugin": plugin}
    for name in given.rows or rows:
        engine = Engine(name == "plugin")
        try:
            for one in rows[name](engine, given.quick):
                print(json.dumps(one) if given.json else f"{one['what']:34} {one['ours']:>12}  {one['reference']:>18}  ratio {one['ratio']:>6}  "
                      f"(to reach {one['goal']}){'' if one['reached'] else '  MISSED'}", flush=True)
        finally:
            engine.end()


if __name__ == "__main__":
    sys.exit(main())
