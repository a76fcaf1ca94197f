"""What a real envd answered, against ours: each recorded request of the data plane is sent to an envd in a machine of
its own, and what comes back must be the recorded answer, or differ as tests/data/recordings/envd/differences.json tells.
"""

import json
import threading
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

import pytest

import recorded
from recorded import Answer, Envd, Replay, compare, load, sign

DIFFERENCES = json.loads((recorded.FOLDER / "differences.json").read_text())
FILES = sorted(p.stem for p in recorded.FOLDER.glob("*.jsonl"))
FILES = [f for f in FILES if any(e.is_data_plane for e in load(f))]

# Parts of a file that do not need each other and take long; they are replayed at the same time.
PARTS = {"process-behaviour": [(1, 54), (55, 113), (114, 116), (117, 118)], "watch": [(1, 3), (4, 16)]}

# The sandbox's own variables at the time of the recording.
SANDBOX = ("E2B_SANDBOX=false", "GLOBAL=g1", "E2B_SANDBOX_ID=irec0000000000000007", "E2B_TEMPLATE_ID=base")
ENVIRONMENT = {"commands-js": SANDBOX, "commands-python": SANDBOX}
PLAIN = ("E2B_SANDBOX=false", "G=1")

AS_USER = "chown -hR 1000:1000 ."
TREE = ("mkdir -p fs/.hid fs/B fs/b/c; echo a > fs/a.txt; echo x > fs/b/x; echo y > fs/b/c/y; ln -s a.txt fs/ln; "
        "ln -s b fs/lnd; ln -s nowhere fs/br; ln -s loop fs/loop; mkfifo fs/ff; "
        f"{AS_USER}; chown 12345:54321 fs/a.txt; chmod 2775 fs/B")
# What the machine looked like at the start of every recording, and of some.
ALWAYS = "mkdir -m 700 ../private; echo secret > ../private/s.txt"
START = {
    "filesystem-behaviour": f"mkdir h; {TREE}",
    "files-js": f"umask 077; echo > .bash_history; {AS_USER}",
    "files-python": f"umask 077; echo > .bash_history; {AS_USER}",
    "watch": TREE,
    "connect-transport": f"mkdir h; cd h; printf 'hello world' > a.txt; touch c.txt empty.txt g.txt; cd ..; {AS_USER}",
    "http": "echo y > mode.txt; chmod 600 mode.txt; chown 1000:1000 mode.txt",
}
for name in ("signed-urls-js", "signed-urls-python", "gates-js", "gates-python"):
    START[name] = f"printf signed > sig.txt; {AS_USER}"
LINKS = ("mkdir -p ln/d; cd ln; echo t > t; chmod 755 t; ln -s t ok; ln -s nowhere broken; ln -s d dir; "
         "ln -s loop loop; mkfifo fifo; echo > setuid; chmod 4755 setuid; chmod 1777 d; "
         f"{AS_USER}; chmod 4755 setuid; chmod 1777 d")

# What was done outside of the recorded requests: before one of them (None), or so many seconds after it was sent.
ALSO = {
    "files-python:55": [(None, LINKS)],
    "watch-js:11": [(None, f"mkdir -p m; echo > m/a.txt; {AS_USER}")],
    "watch:1": [(1.6, "echo x > fs/k1")],
    "watch:2": [(0.3, "echo x > fs/w1"), (0.4, "echo y >> fs/w1"), (0.5, "chmod 600 fs/w1"), (0.6, "mv fs/w1 fs/w2"),
                (0.7, "rm fs/w2"), (0.8, "touch fs/a.txt"), (0.9, "echo > in; mv in fs/in"), (1.0, "rm fs/in")],
    "watch:3": [(0.3, "echo x >> fs/b/x"), (0.4, "mkdir fs/newd"), (0.5, "echo x > fs/newd/q"), (0.6, "rm -r fs/newd")],
    "watch:4": [(0.3, "mkdir -p fs/r1/r2"), (0.5, "echo x > fs/r1/r2/f"), (0.7, "mv fs/r1 fs/r9"),
                (0.9, "echo x > fs/r9/r2/g"), (1.1, "cd fs/r9; rm r2/f; rm r2/g; rmdir r2; cd ..; rmdir r9")],
    "watch:6": [(None, "mkdir fs/wd"), (0.3, "rmdir fs/wd")],
    "watch:7": [(None, "mkdir fs/wd"), (0.3, "mv fs/wd fs/we")],
    "watch:12": [(None, "cd fs; echo x > z1; mkdir z2; rm z1; sleep 0.2")],
}
# Seconds that passed before a request, where that matters.
PAUSES = {"process-behaviour:14": 0.3, "process-behaviour:59": 1.3, "process-behaviour:113": 1.2,
          "process-behaviour:115": 25, "process-behaviour:116": 7}
# Seconds between the first frame of a stream and the next request, where the usual ones are too many.
SETTLE = {"process-behaviour:55": 0.01, "process-behaviour:57": 0.1}


class Part:
    """Replays a part of a file; results: where → None or (what, recorded, ours)."""

    def __init__(self, file, first, last):
        self.file, self.first, self.last = file, first, last
        self.exchanges = load(file)
        self.replay, self.results, self.running = self.new_replay(), {}, []
        self.envd = self.open_envd = self.terminal = None
        self.open_config = {"envVars": {}}

    def new_replay(self):
        return Replay()

    def new_envd(self, token, env, user="", folder=""):
        return Envd(token, user, folder, env)

    def new_open_envd(self, config):
        """One without a token. What /init would tell a running envd is told at its start."""
        if self.open_envd:
            self.open_envd.close()
        self.open_config.update(config)
        env = ["E2B_SANDBOX=false", *(f"{k}={v}" for k, v in self.open_config["envVars"].items())]
        self.open_envd = self.new_envd("", env, self.open_config.get("defaultUser", ""),
                                       self.open_config.get("defaultWorkdir", ""))

    def envd_for(self, exchange):
        if not exchange.is_open:
            return self.envd
        if not self.open_envd:
            self.new_open_envd({})
        return self.open_envd

    def is_concurrent(self, exchange):
        """Did the next request come while this stream was open?"""
        after = self.exchanges[exchange.number:exchange.number + 1]
        if not exchange.is_stream or not after:
            return False
        return (after[0].call == exchange.call or exchange.closed_after is not None
                or "result" not in after[0].line and exchange.line.get("sdk") != "raw")

    def join(self):
        for thread in self.running:
            thread.join()
        self.running = []

    def one(self, exchange):
        if exchange.where in DIFFERENCES["not_replayed"]:
            if exchange.target == "/init" and exchange.is_open:
                self.new_open_envd(json.loads(exchange.request.get("body") or "{}"))
            return
        envd, answer = self.envd_for(exchange), Answer()
        time.sleep(PAUSES.get(exchange.where, 0))
        for delay, script in ALSO.get(exchange.where, []):
            if delay is None:
                envd.run(script)
            else:
                self.running.append(envd.later(delay, script))
        self.results[exchange.where] = (exchange, answer)
        if self.is_concurrent(exchange):
            thread = threading.Thread(target=self.replay.send, args=(exchange, envd, answer))
            thread.start()
            self.running.append(thread)
            recorded.wait_for_start(exchange, answer)
            time.sleep(SETTLE.get(exchange.where, 0.25))
            self.terminal = answer if exchange.is_typed else None
        else:
            self.replay.send(exchange, envd, answer)
        if self.terminal:
            recorded.wait_for_silence(self.terminal)
        after = self.exchanges[exchange.number:exchange.number + 1]
        if not (after and after[0].call == exchange.call) and self.file not in ("watch-js", "async-python"):
            self.join()
            self.terminal = None

    def run(self):
        self.envd = self.new_envd(recorded.TOKEN, ENVIRONMENT.get(self.file, PLAIN))
        try:
            self.envd.run(ALWAYS)
            self.envd.run(START.get(self.file, f"mkdir h; {AS_USER}"))
            for exchange in self.exchanges[self.first - 1:self.last]:
                if exchange.is_data_plane:
                    self.one(exchange)
            self.join()
        finally:
            self.envd.close()
            if self.open_envd:
                self.open_envd.close()
        return {where: compare(exchange, answer) for where, (exchange, answer) in self.results.items()}


@pytest.fixture(scope="module")
def replays():
    """file → replays of its parts, which all begin now, the long ones first."""
    order = sorted(FILES, key=lambda f: f not in PARTS)
    with ThreadPoolExecutor(8) as pool:
        yield {f: [pool.submit(Part(f, *part).run) for part in reversed(PARTS.get(f, [(1, 10000)]))] for f in order}


def judge(where, found, differ=DIFFERENCES["differ"]):
    """A text that tells what is wrong with this result, or None."""
    known = differ.get(where)
    if found and not known:
        return f"{where} differs: {found[0]}\n  recorded {found[1]}\n  ours     {found[2]}"
    if known and not found:
        return f"{where} no longer differs: take it out of the differences"
    if known and known["what"] != found[0]:
        return f"{where} differs in another way: {found}"
    if known and known["ours"] not in json.dumps(found[2], default=repr):
        return f"{where}: ours is not '{known['ours']}' any more: {found[2]}"
    return None


# Where the changes that a watcher sees, and their order, hang on how quickly two requests follow each other: a replay
# that differs is made again.
RACES = {"watch-js"}


@pytest.mark.parametrize("file", FILES)
def test_replay(file, replays):
    results = {}
    for part in replays[file]:
        results.update(part.result())
    print(f"{file}: {len(results)} replayed, {sum(not r for r in results.values())} equal")
    wrong = [text for text in (judge(*item) for item in results.items()) if text]
    for _ in range(2 if file in RACES else 0):
        if wrong:
            again = {k: v for part in PARTS.get(file, [(1, 10000)]) for k, v in Part(file, *part).run().items()}
            wrong = [text for text in (judge(*item) for item in again.items()) if text]
    assert not wrong, "\n".join(wrong)


def test_every_exchange_is_replayed_or_listed(replays):
    wanted = {e.where for f in FILES for e in load(f) if e.is_data_plane}
    replayed = {where for parts in replays.values() for part in parts for where in part.result()}
    assert wanted - replayed == set(DIFFERENCES["not_replayed"])
    assert set(DIFFERENCES["differ"]) <= replayed
    assert len(replayed) == DIFFERENCES["replayed"]
    assert len(replayed) - len(DIFFERENCES["differ"]) == DIFFERENCES["equal"]


# --- signed URLs -----------------------------------------------------------------------------------------

OFTEN = "ab" * 32
VECTORS = [
    (("hello.txt", "read", "user", "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0", None),
     "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E"),
    (("a.txt", "read", "", OFTEN, None), "v1_vZeklrHmvLf0jNEHGgkSmhvclSqo1jc6vYnj6IQ0VJM"),
    (("a.txt", "write", "root", OFTEN, 1700000000), "v1_LqNgX68f7oZCmY04mYa7VDiwdM/jed3S9kvSn6eMBJ0"),
]


@pytest.mark.parametrize("parts, wanted", VECTORS)
def test_signature_vectors(parts, wanted):
    """The signature that this suite makes is the known one, and an envd with that token takes exactly that."""
    path, operation, user, token, until = parts
    assert sign(*parts) == wanted
    envd = Envd(token)

    def ask(signature):
        query = {"path": path, "signature": signature}
        query.update({"username": user} if user else {})
        query.update({"signature_expiration": until} if until else {})
        verb = "GET" if operation == "read" else "POST"
        exchange = recorded.Exchange("signed", 1, {"request": {
            "line": f"{verb} /files?{urllib.parse.urlencode(query)} HTTP/1.1", "headers": [], "framing": "none"}})
        answer = Answer()
        Replay().send(exchange, envd, answer)
        status, _, body = answer.parts()
        return status, json.loads(body)["message"]

    try:
        if until:
            assert ask(wanted) == ("401", "signature is already expired")
        else:
            assert ask(wanted) == ("404", f"path '/home/user/{path}' does not exist")
        assert ask(wanted[:-1]) == ("401", "invalid signature")
        assert ask(wanted + "=") == ("401", "invalid signature")
    finally:
        envd.close()
