"""Modules that do harm, in a long-lived host with another session at work: each ends its own calls with its own code, in time,
and the other session never notices."""

import json
import os
import queue
import random
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from harness import ABX, HELPERS, SOAK

pytestmark = pytest.mark.once

TOY = Path(__file__).resolve().parents[1] / "plugins" / "toy"
LIMIT = 60


class Host:
    """node_host: calls of any provider, many at once."""

    def __init__(self, home):
        environment = {"PATH": "/usr/bin:/bin", "ABX_HOME": str(home), "HOME": os.environ.get("HOME", "/")}
        self.program = subprocess.Popen([HELPERS / "node_host", ABX], env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)
        self.home, self.environment, self.count, self.waiting = home, environment, 0, {}
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.program.stdout:
            answer = json.loads(line)
            self.waiting.pop(answer["n"]).put(answer)

    def start(self, provider, method, **params):
        self.count += 1
        answer = self.waiting[self.count] = queue.Queue()
        self.program.stdin.write(f"{self.count} {provider} {method} {json.dumps(params)}\n")
        return answer

    def call(self, provider, method, **params):
        return self.start(provider, method, **params).get(timeout=LIMIT)

    def ok(self, provider, method, **params):
        answer = self.call(provider, method, **params)
        assert "result" in answer, answer
        return answer

    def run(self, provider, *words, **more):
        """A sandbox and a command in it: the answer of the command."""
        made = self.ok(provider, "sandbox.create")["result"]
        return self.start(provider, "process.start", sandboxId=made["id"], cmd=list(words), **more)

    def install(self, provider, change=None):
        folder = self.home.parent / "plugins" / provider
        shutil.copytree(TOY, folder)
        manifest = folder / "abx-provider.toml"
        manifest.write_text(manifest.read_text().replace('id = "toy"', f'id = "{provider}"'))
        if change:
            change(folder)
        subprocess.run([ABX, "provider", "install", folder, "--yes"], env=self.environment, check=True,
                       capture_output=True, timeout=LIMIT)

    def module(self, provider):
        """The process of its module."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                ppid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
                words = Path(f"/proc/{pid}/cmdline").read_bytes()
            except (OSError, ValueError):
                continue
            if ppid == self.program.pid and b"__js-host" in words:
                return int(pid)
        raise AssertionError("no module runs")

    def close(self):
        self.program.stdin.close()
        try:
            assert self.program.wait(timeout=LIMIT) == 0
        finally:
            self.program.kill()


@pytest.fixture
def host(tmp_path):
    (tmp_path / "home").mkdir(mode=0o700)
    h = Host(tmp_path / "home")
    yield h
    h.close()


@pytest.fixture
def calm(host):
    """Another session, at work all the time: its sandbox is there at the end, and no call of it failed."""
    host.install("calm")
    box = host.ok("calm", "sandbox.create")["result"]["id"]
    over, bad, rounds = threading.Event(), [], [0]

    def work():
        while not over.is_set():
            answer = host.call("calm", "process.start", sandboxId=box, cmd=["echo", "calm"])
            rounds[0] += 1
            if answer.get("head") != "calm\n":
                bad.append(answer)
            time.sleep(0.01)

    worker = threading.Thread(target=work)
    worker.start()
    yield
    over.set()
    worker.join(LIMIT)
    assert not bad and rounds[0] > 0
    assert host.ok("calm", "sandbox.info", sandboxId=box)["result"]["id"] == box


def goes_on(host, provider):
    """A module that was ended is there again; a call that came while it was being ended may have failed with it."""
    deadline = time.monotonic() + LIMIT
    while True:
        made = host.call(provider, "sandbox.create")
        answer = made if "error" in made else host.call(provider, "process.start", sandboxId=made["result"]["id"], cmd=["echo", "on"])
        if answer["head"] == "on\n":
            return
        assert answer["error"]["code"] in ("E5001", "E8005", "E8008") and time.monotonic() < deadline, answer


# what does not end by itself → its code, a part of what is said
ENDLESS = {
    "loop": ("E8008", "giving way"), "finally": ("E8008", "giving way"), "getter": ("E8008", "giving way"),
    "regex": ("E8008", "giving way"), "micro": ("E8008", ""), "proxy": ("E8008", "giving way"),
    "message": ("E8008", "giving way"), "tojson": ("E8008", "giving way"), "sort": ("E8008", "giving way"),
    "timer": ("E8008", "giving way"), "indexof": (None, ""), "never": ("E5001", ""),
}


def test_what_does_not_end_ends_its_own_call(host, calm):
    for word in ENDLESS:
        host.install(f"bad-{word}")
    begun = time.monotonic()
    asked = {word: host.run(f"bad-{word}", word, timeoutMs=2000 if word in ("never", "indexof") else 20000) for word in ENDLESS}
    for word, (code, text) in ENDLESS.items():
        error = asked[word].get(timeout=LIMIT).get("error")
        assert error, word
        # by the interrupt or by the deadline of the call, whichever came first
        assert error["code"] in ("E5001", code) and (text in error["message"] or error["code"] == "E5001"), (word, error)
    assert time.monotonic() - begun < LIMIT
    for word in ENDLESS:
        goes_on(host, f"bad-{word}")


def test_calls_that_meet_a_session_on_its_way_out(host, calm):
    """Between the end of a call at its deadline and the KILL of a process that does not react: what comes then ends with the process, and says
    so, or goes to the next one. None waits for ever, and none has an end that it did not earn."""
    host.install("late")
    box = host.ok("late", "sandbox.create")["result"]["id"]
    stuck = host.start("late", "process.start", sandboxId=box, cmd=["indexof"], timeoutMs=500)
    assert stuck.get(timeout=LIMIT)["error"]["code"] == "E5001"
    asked = []
    for _ in range(40):
        asked.append(host.start("late", "sandbox.create"))
        time.sleep(0.1)
    answers = [a.get(timeout=LIMIT) for a in asked]
    for answer in answers:
        assert answer["error"]["code"] in ("E5001", "E8005", "E8008") if "error" in answer else answer["result"]["state"] == "running", answer
    assert "error" in answers[0], "the process was gone before the first call came"
    goes_on(host, "late")


# memory and the like → code, a part of what is said; None: it is allowed
GREEDY = {
    "eat": ("E8008", ""), "once": ("E8008", ""), "string": ("E8008", "out of memory"),
    "deep": ("E8008", "Maximum call stack"), "timers": (None, ""), "fetches": (None, ""),
}


def test_memory_is_its_own(host, calm):
    host.install("bad")
    for word, (code, text) in GREEDY.items():
        answer = host.run("bad", word).get(timeout=LIMIT)
        error = answer.get("error")
        if code:
            assert error and error["code"] in (code, "E5001") and (text in error["message"] or error["code"] == "E5001"), (word, answer)
        goes_on(host, "bad")


def test_what_it_changes_is_its_own(host, calm):
    host.install("bad")
    box = host.ok("bad", "sandbox.create")["result"]["id"]

    def run(*words):
        return host.call("bad", "process.start", sandboxId=box, cmd=list(words))

    assert run("tamper")["head"] == "12"
    assert run("freeze")["head"] == "function function"
    assert run("rejects")["head"] == "on"
    views = run("views")
    assert (views["head"], views["stdout"]) == ("AAAA" + "BBBBBBBB", 4 + 8 + 4), views
    run("pollute")
    again = run("echo", "after")  # it may have broken itself; the host has not
    assert again.get("head") == "after\n" or again["error"]["code"].startswith("E8"), again
    logs = "".join(f.read_text() for f in (host.home / "logs").glob("bad*"))
    assert "nobody handles a rejection: Error: nobody cares" in logs


def test_what_cannot_be_loaded(host, calm):
    texts = {
        "syntax": "export function create( {", "throws": "throw new Error('at load')", "nothing": "", "wrong": "export const create = 5;",
        "loops": "for (;;);", "waits": "await new Promise(() => {});", "https": "import 'https://a.example/x.mjs';",
        "passwd": "import '/etc/passwd';", "outside": "import '../../x.mjs';", "fs": "import * as fs from 'fs';",
        "eats": "const a = []; for (;;) a.push(new Array(1000).fill({}));", "eval": "eval('1');", "function": "new Function('');",
        "json": "import './x.json' with { type: 'json' };", "proxy": "export const create = () => new Proxy({}, {});",
        "infra": "export const create = () => ({ buildInfra: () => 5 });",
        "getter": "export const create = () => ({ buildInfra: () => ({ get sandbox() { throw new Error('no'); } }) });",
    }
    for name, text in texts.items():
        host.install(f"bad-{name}", lambda folder, text=text: (folder / "provider.mjs").write_text(text))
    asked = {name: host.start(f"bad-{name}", "sandbox.create") for name in texts}
    for name in texts:
        error = asked[name].get(timeout=LIMIT).get("error")
        assert error and (error["code"] in ("E8007", "E8004") or (name in ("loops", "eats") and error["code"] == "E5001")), (name, error)


def test_changed_on_disk_while_it_runs(host):
    host.install("bad")
    box = host.ok("bad", "sandbox.create")["result"]["id"]
    (host.home / "providers" / "bad" / "provider.mjs").write_text("throw new Error('another one')")
    for _ in range(3):  # what runs is what was checked
        assert host.call("bad", "process.start", sandboxId=box, cmd=["echo", "same"])["head"] == "same\n"
    os.kill(host.module("bad"), signal.SIGKILL)  # this host started with what it had checked, and stays with it
    goes_on(host, "bad")
    fresh = subprocess.run([ABX, "-P", "bad", "run", "--", "echo", "x"], env=host.environment, capture_output=True, text=True)
    assert "E8003" in fresh.stderr and "provider.mjs" in fresh.stderr


def test_killed_from_outside_at_any_moment(host):
    host.install("bad")
    random.seed(7)
    rounds, ended = (500 if SOAK else 15), 0
    for _ in range(rounds):
        made = host.call("bad", "sandbox.create")
        if "error" in made:
            assert made["error"]["code"].startswith("E8"), made
            continue
        asked = [host.start("bad", "process.start", sandboxId=made["result"]["id"], cmd=["big", "4"]) for _ in range(3)]
        time.sleep(random.random() * 0.02)
        os.kill(host.module("bad"), signal.SIGKILL)
        for answer in (a.get(timeout=LIMIT) for a in asked):
            if "error" in answer:
                assert answer["error"]["code"].startswith("E8"), answer
                ended += 1
            else:
                assert answer["stdout"] == 4 << 20
    assert ended > 0
    goes_on(host, "bad")
