#!/usr/bin/env python3
"""What the E2B door costs, by an official client: the same calls through `abx e2b serve` and to an envd with nothing in front
of it, in turn; copying against cp. Medians; the ratio is what counts.

Usage: e2b_bench.py [--quick] [ROW...]     rows: requests commands bytes streams (default: all)
Needs scripts/sdk.sh (the client) and the helper tests/e2e/envd_serve of the release build."""

import argparse
import asyncio
import http.client
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "sdk"))
from door import ABX, BUILD, CLIENTS, Door  # noqa: E402

os.environ["E2B_MAX_CONNECTIONS"] = "2000"  # the client's own bound is 200

sys.path.insert(0, str(CLIENTS / "python-new"))
TOKEN = "bench-token-4711"
MIB = 1 << 20


class Envd:
    """An envd in namespaces of its own, over 127.0.0.1, with no door."""

    def __init__(self):
        self.process = subprocess.Popen([BUILD / "tests/e2e/envd_serve", TOKEN, "user", ""], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline())

    def sandbox(self):
        """The client's sandbox object for it, as the client itself makes one of an answer of the control plane."""
        from e2b import ConnectionConfig, Sandbox
        from packaging.version import Version
        headers = {"X-Access-Token": TOKEN, "E2b-Sandbox-Id": "bench", "E2b-Sandbox-Port": "49983"}
        config = ConnectionConfig(api_key="e2b_00", sandbox_url=f"http://127.0.0.1:{self.port}", extra_sandbox_headers=headers)
        return Sandbox(sandbox_id="bench", sandbox_domain="localhost", envd_version=Version("0.6.13"), envd_access_token=TOKEN,
                       traffic_access_token=None, connection_config=config)

    def close(self):
        self.process.stdin.close()
        self.process.wait(20)


class Bench:
    def __init__(self, quick):
        self.quick = quick
        self.door, self.envd = Door(), Envd()
        os.environ.update(self.door.variables)
        from e2b import Sandbox
        self.box, self.plain = Sandbox.create(timeout=3600), self.envd.sandbox()

    def tell(self, what, ours, reference, unit, name):
        print(f"{what}: {ours:.2f} {unit}, {name} {reference:.2f} {unit}, ratio {ours / reference:.2f}", flush=True)

    def in_turn(self, rounds, *calls):
        """Medians in ms, and processor time of this process for each call in ms."""
        times = [[] for _ in calls]
        spent = [0.0] * len(calls)
        for call in calls:
            call()
        for _ in range(rounds):
            for n, call in enumerate(calls):
                cpu, begin = time.process_time(), time.perf_counter()
                call()
                times[n].append((time.perf_counter() - begin) * 1000)
                spent[n] += time.process_time() - cpu
        return [statistics.median(t) for t in times], [s * 1000 / rounds for s in spent]

    def stat(self, port, headers):
        """One Filesystem/Stat on a connection that stays, with no SDK."""
        connection = http.client.HTTPConnection("127.0.0.1", port)
        body = b'{"path":"/tmp"}'
        headers = {"Content-Type": "application/json", **headers}

        def call():
            connection.request("POST", "/filesystem.Filesystem/Stat", body, headers)
            answer = connection.getresponse()
            data = answer.read()
            assert answer.status == 200, data
        return call

    def requests(self):
        rounds = 200 if self.quick else 2000
        (ours, plain), _ = self.in_turn(rounds, lambda: self.box.files.exists("/tmp"), lambda: self.plain.files.exists("/tmp"))
        self.tell("requests: files.exists by the Python SDK", ours, plain, "ms", "envd alone")
        port = int(self.door.variables["E2B_API_URL"].rpartition(":")[2])
        token = self.box.connection_config.sandbox_headers["X-Access-Token"]
        (ours, plain), _ = self.in_turn(rounds, self.stat(port, {"E2b-Sandbox-Id": self.box.sandbox_id,
                                                                 "E2b-Sandbox-Port": "49983", "X-Access-Token": token}),
                                        self.stat(self.envd.port, {"X-Access-Token": TOKEN}))
        self.tell("requests: the same, no SDK", ours, plain, "ms", "envd alone")

    def commands(self):
        rounds = 100 if self.quick else 1000
        (ours, plain), (cpu, _) = self.in_turn(rounds, lambda: self.box.commands.run("true"), lambda: self.plain.commands.run("true"))
        self.tell(f"commands: commands.run('true'), {rounds} times", ours, plain, "ms", "envd alone")
        print(f"commands: processor time of the SDK in each: {cpu:.2f} ms, {100 * cpu / ours:.0f} %", flush=True)

    def bytes(self):
        size = 128 * MIB if self.quick else 1024 * MIB
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            source, target = Path(folder, "source"), Path(folder, "target")
            block = os.urandom(MIB)
            with open(source, "wb") as f:
                for _ in range(size // MIB):
                    f.write(block)

            def write(box):
                with open(source, "rb") as f:
                    box.files.write("/home/user/big", f, use_octet_stream=True, request_timeout=600)

            def read(box):
                with open(target, "wb") as f:
                    for piece in box.files.read("/home/user/big", format="stream", request_timeout=600):
                        f.write(piece)
                assert target.stat().st_size == size

            def cp():
                subprocess.run(["cp", source, target], check=True)

            rounds = 1 if self.quick else 3
            for name, by in (("write", write), ("read", read)):
                (ours, plain, copied), (cpu, *_) = self.in_turn(rounds, lambda: by(self.box), lambda: by(self.plain), cp)
                ours, plain, copied = (size / MIB / (t / 1000) for t in (ours, plain, copied))
                self.tell(f"bytes: files.{name} of {size // MIB} MiB", ours, plain, "MiB/s", "envd alone")
                self.tell(f"bytes: files.{name} of {size // MIB} MiB", ours, copied, "MiB/s", "cp")
                print(f"bytes: processor time of the SDK: {cpu / 1000:.2f} s of {size / MIB / ours:.2f} s", flush=True)

    def streams(self):
        """Memory of a door with many streams of background commands open, and a while after their end."""
        from e2b import AsyncSandbox
        count = 100 if self.quick else 1000
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        pid = json.loads(self.door.run(ABX, "e2b", "status", "--json"))["pid"]

        def memory():
            return next(int(line.split()[1]) for line in open(f"/proc/{pid}/status") if line.startswith("RssAnon"))

        async def open_them():
            box = await AsyncSandbox.create(timeout=3600)
            await box.commands.run("true")
            before, held = memory(), []
            for _ in range(count // 10):
                held += await asyncio.gather(*[box.commands.run("sleep 1000", background=True, timeout=0) for _ in range(10)])
            await asyncio.sleep(1)
            print(f"streams: {count} open: {memory()} KiB of {before} before, {(memory() - before) / count:.1f} KiB each", flush=True)
            return await box.kill()

        asyncio.run(open_them())
        time.sleep(15)
        print(f"streams: 15 s after their end: {memory()} KiB", flush=True)

    def close(self):
        self.envd.close()
        self.door.close()


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--quick", action="store_true")
    options.add_argument("rows", nargs="*")
    options = options.parse_args()
    bench = Bench(options.quick)
    try:
        for row in options.rows or ["requests", "commands", "bytes", "streams"]:
            getattr(bench, row)()
    finally:
        bench.close()


main()
