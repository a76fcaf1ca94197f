#!/usr/bin/env python3
"""What each door costs: the same command in the same sandbox by each of them; what the engine carries against pipes and cp; the Python SDK's import,
and a thousand commands at once from asyncio.

Usage: doors.py [--quick] [ROW...]     rows: call stdout files import asyncio (default: all)
ABX_BUILD names the folder with abx and libabx.so (default: build/release), ABX_SDK the one of scripts/sdk.sh (for `import`)."""

import argparse
import asyncio
import base64
import http.client
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = Path(os.environ.get("ABX_BUILD") or ROOT / "build/release").resolve()
CLIENTS = Path(os.environ.get("ABX_SDK") or ROOT / "build/sdk").resolve()
ABX = str(BUILD / "abx")
ROWS = ("call", "stdout", "files", "import", "asyncio")
MIB = 1 << 20
sys.path.insert(0, str(ROOT / "sdk/python"))


def tell(what, ours, reference=None, goal=None):
    print(f"{what}: {ours}" + (f", {reference}" if reference else "") + (f" (to reach: {goal})" if goal else ""), flush=True)


def median_ms(call, rounds):
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1000)
    return statistics.median(times)


class Engine:
    """The engine of a home and a sandbox of `local`, asked on a connection that stays."""

    def __init__(self, top):
        os.environ.update(ABX_HOME=str(top / "home"), ABX_LIBRARY=str(BUILD / "libabx.so.0"), ABX_BIN=ABX)
        os.environ.pop("ABX_PROVIDER", None)
        self.run("provider", "engine", "serve", "--detach")
        info = json.loads((top / "home/engine.json").read_text())
        self.port = info["port"]
        connection = base64.urlsafe_b64encode(b'{"provider":"local"}').rstrip(b"=").decode()
        self.headers = {"Authorization": f"Bearer {info['token']}", "X-Abx-Connection": connection}
        self.box = json.loads(self.ask("POST", "/v1/sandboxes", b"{}")[1])["id"]
        self.kept = http.client.HTTPConnection("127.0.0.1", self.port)

    def run(self, *words):
        return subprocess.run([ABX, *words], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True).stdout.strip()

    def ask(self, method, target, body=None, connection=None):
        c = connection or http.client.HTTPConnection("127.0.0.1", self.port)
        c.request(method, target, body, {**self.headers, "Content-Type": "application/json"})
        answer = c.getresponse()
        data = answer.read()
        if answer.status >= 300:
            raise RuntimeError(data)
        if not connection:
            c.close()
        return answer, data

    def true(self):
        _, data = self.ask("POST", f"/v1/sandboxes/{self.box}/processes", b'{"cmd":["true"]}', self.kept)
        if b'"exitCode":0' not in data:
            raise RuntimeError(data)

    def end(self):
        subprocess.run([ABX, "provider", "engine", "stop"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        subprocess.run([ABX, "-P", "local", "kill", "--all", "--yes"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)


# --- rows ------------------------------------------------------------------------------------------------


def call(engine, top, quick):
    """`true` in the sandbox from its start to its end, by each door: in turns of some calls each, medians of the turns' medians."""
    from agent_sandbox import Sandbox
    turns, rounds = (2, 20) if quick else (8, 50)
    program, config = top / "capi_calls", top / "curl"
    subprocess.run(["cc", "-O2", "-I", ROOT / "include", HERE / "c/capi_calls.c", "-o", program, "-L", BUILD, "-labx",
                    f"-Wl,-rpath,{BUILD}"], check=True)
    curl_config(engine, config, ["true"])
    sandbox = Sandbox.connect(engine.box, provider="local")

    def whole(*words):
        timer = [str(BUILD / "tests/bench/run_times"), str(rounds), "--", *map(str, words)]
        return json.loads(subprocess.run(timer, check=True, stdout=subprocess.PIPE, text=True).stdout)["median_us"] / 1000

    def library():
        return [float(us) / 1000 for us in subprocess.run([program, engine.box, str(rounds)], check=True, stdout=subprocess.PIPE,
                                                          text=True).stdout.split()]

    ways = {"libabx, a provider that is open": lambda: library()[1],
            "libabx, a new context": lambda: statistics.median(library()[0] for _ in range(5)),
            "Python SDK, in process": lambda: median_ms(lambda: sandbox.commands.run(["true"]), rounds),
            "engine, a kept connection": lambda: median_ms(engine.true, rounds),
            "curl and the engine, whole processes": lambda: whole("curl", "-K", config),
            "command line, whole processes": lambda: whole(ABX, "exec", engine.box, "--", "true")}
    times = {name: [] for name in ways}
    for _ in range(turns):
        for name, way in ways.items():
            times[name].append(way())
    sandbox.close()
    least = statistics.median(times["libabx, a provider that is open"])
    for name, each in times.items():
        ms = statistics.median(each)
        tell(f"call: {name}", f"{ms:.2f} ms", f"{ms - least:+.2f} ms")


def curl_config(engine, place, cmd):
    """What curl is told so that it runs a command by the engine; the token is no argument."""
    body = json.dumps({"cmd": cmd}).replace('"', '\\"')
    place.write_text("".join(f'header = "{name}: {value}"\n' for name, value in engine.headers.items()) +
                     f'url = "http://127.0.0.1:{engine.port}/v1/sandboxes/{engine.box}/processes"\n'
                     f'header = "Content-Type: application/json"\ndata = "{body}"\nsilent\nfail\noutput = "/dev/null"\n')


def stdout(engine, top, quick):
    """What a process writes, by way of the engine, against a pipe of the same bytes through base64."""
    size = (64 if quick else 1024) * MIB
    make = {"text": f"yes 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde | head -c {size}",
            "binary": f"head -c {size} /tmp/noise"}
    noise = f"head -c {MIB} /dev/urandom > /tmp/one; for i in $(seq {size // MIB}); do cat /tmp/one; done > /tmp/noise; rm /tmp/one"
    engine.run("exec", engine.box, "--", "sh", "-c", noise)
    config = top / "stdout"
    for kind, script in make.items():
        curl_config(engine, config, ["sh", "-c", script])
        begin = time.perf_counter()
        subprocess.run(["curl", "-K", config], check=True)
        ours = size / MIB / (time.perf_counter() - begin)
        begin = time.perf_counter()
        subprocess.run(f"head -c {size} /dev/zero | base64 -w0 | cat > /dev/null", shell=True, check=True)
        pipe = size / MIB / (time.perf_counter() - begin)
        tell(f"stdout: {kind}, {size // MIB} MiB", f"{ours:.0f} MiB/s", f"base64 and a pipe {pipe:.0f} MiB/s", ">= 300 MB/s")
    engine.run("exec", engine.box, "--", "rm", "-f", "/tmp/noise")


def files(engine, top, quick):
    """A file up and down against cp on the same disk."""
    size = (64 if quick else 1024) * MIB
    one, two = top / "one", top / "two"
    with one.open("wb") as f:
        for _ in range(size // MIB):
            f.write(os.urandom(MIB))
    place = f"http://127.0.0.1:{engine.port}/v1/sandboxes/{engine.box}/files?path=/home/user/big"
    heads = [word for name, value in engine.headers.items() for word in ("-H", f"{name}: {value}")]

    def seconds(*words):
        begin = time.perf_counter()
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - begin

    rounds = [(seconds("curl", "-sSf", *heads, "-T", one, place), seconds("curl", "-sSf", *heads, "-o", two, place), seconds("cp", one, two))
              for _ in range(3)]
    up, down, copy = (size / MIB / statistics.median(r[i] for r in rounds) for i in range(3))
    for way, speed in (("up", up), ("down", down)):
        tell(f"files: {way}, {size // MIB} MiB", f"{speed:.0f} MiB/s", f"cp {copy:.0f} MiB/s, ratio {speed / copy:.2f}", ">= 0.5")
    one.unlink()
    two.unlink()


def import_(_, top, quick):
    """A fresh interpreter that imports the SDK, against those of others."""
    rounds = 10 if quick else 40
    others = CLIENTS / "python-new"
    wanted = [("nothing", "pass"), ("agent_sandbox", "import agent_sandbox")]
    if others.exists():
        wanted += [("httpx", "import httpx"), ("e2b", "import e2b")]
    words = [str(BUILD / "tests/bench/run_times"), str(rounds)]
    for n, (_, line) in enumerate(wanted):
        words += ["---" if n else "--", sys.executable, "-c", line]
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'sdk/python'}:{others}"}
    subprocess.run([words[0], "2", *words[2:]], check=True, env=env, stdout=subprocess.DEVNULL) # compiles
    out = subprocess.run(words, check=True, env=env, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    times = {name: json.loads(line)["median_us"] / 1000 for (name, _), line in zip(wanted, out)}
    tell("import: agent_sandbox", f"{times['agent_sandbox'] - times['nothing']:.0f} ms",
         ", ".join(f"{name} {ms - times['nothing']:.0f} ms" for name, ms in times.items() if name not in ("nothing", "agent_sandbox")))


def asyncio_(engine, _, quick):
    """Commands at once from one event loop."""
    from agent_sandbox import AsyncSandbox
    many = 100 if quick else 1000

    async def crowd():
        sandbox = await AsyncSandbox.connect(engine.box, provider="local")
        await sandbox.commands.run(["true"])
        begin = time.perf_counter()
        done = await asyncio.gather(*[sandbox.commands.run(["echo", str(n)]) for n in range(many)])
        took = time.perf_counter() - begin
        await sandbox.aclose()
        if [one.stdout for one in done] != [f"{n}\n" for n in range(many)]:
            raise RuntimeError("an answer is wrong")
        return took

    took = asyncio.run(crowd())
    tell(f"asyncio: {many} commands at once", f"{took:.2f} s", f"{took * 1000 / many:.2f} ms each")


FUNCTIONS = {"call": call, "stdout": stdout, "files": files, "import": import_, "asyncio": asyncio_}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--quick", action="store_true", help="an impression in half a minute")
    args = parser.parse_args()
    unknown = set(args.rows) - set(ROWS)
    if unknown:
        parser.error(f"no such row: {shlex.join(sorted(unknown))}; rows: {' '.join(ROWS)}")
    top = Path(tempfile.mkdtemp(prefix="abx-doors.", dir="/var/tmp"))
    engine = None
    try:
        engine = Engine(top)
        for row in args.rows or ROWS:
            FUNCTIONS[row](engine, top, args.quick)
    finally:
        if engine:
            engine.end()
        shutil.rmtree(top, ignore_errors=True)


main()
