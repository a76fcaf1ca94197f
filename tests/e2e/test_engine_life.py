"""The engine as a server: one in a home, found, stopped, killed, idle, drained; who may talk to it; what a session holds."""

import base64
import hashlib
import hmac
import json
import os
import random
import re
import resource
import signal
import socket
import stat
import threading
import time

import pytest

import engine_client
from engine import LOCAL, Engine, connection, error_of
from harness import ROOT, count, descendants, is_alive, wait_for
from test_schema import check_object


@pytest.fixture
def served(abx):
    """The program, whose engine is ended after the test."""
    yield abx
    abx("provider", "engine", "stop")


@pytest.fixture(scope="module")
def engine(shared):
    e = Engine(shared)
    yield e
    e.stop()


@pytest.fixture(scope="module")
def schema(shared):
    return shared.ok("schema").json


def status(abx, **more):
    return abx("provider", "engine", "status", "--json", **more)


def test_it_is_told_where_it_is(engine, shared, schema):
    told = status(shared).json
    check_object(schema, "engine", told, "provider engine status")
    assert told["url"] == engine.url == f"http://127.0.0.1:{engine.port}" and "token" not in told
    assert set(engine.info) == {"protocol", "pid", "port", "token", "version", "startedAt"}
    assert engine.info["protocol"] == "abx-engine/1" and re.fullmatch(r"[A-Za-z0-9_-]{32}", engine.token)
    assert shared.ok("provider", "engine", "serve", "--detach", "--json").json == told
    in_front = shared.ok("provider", "engine", "serve")
    assert in_front.text.strip() == engine.url and "serves already" in in_front.errors
    text = shared.ok("provider", "engine", "status").text
    assert engine.url in text and "abx-engine/1" in text and engine.token not in text
    for name in ("engine.json", "engine.lock", "engine.log"):
        assert stat.S_IMODE((shared.home / name).stat().st_mode) == 0o600, name


def proof(engine, nonce):
    text = f"abx-engine/1\n{engine.port}\n{nonce}".encode()
    return base64.urlsafe_b64encode(hmac.digest(engine.token.encode(), text, hashlib.sha256)).rstrip(b"=").decode()


@pytest.mark.once
def test_it_proves_that_it_has_the_token_before_it_gets_it(engine):
    for nonce in ("A" * 16, "a-_9" * 16):
        answer = engine.raw("GET", "/v1/health", headers={"X-Abx-Nonce": nonce})
        error_of(answer, 401, "E2003")
        assert answer.headers["X-Abx-Proof"] == proof(engine, nonce)
    for nonce in ("A" * 15, "A" * 65, "A" * 15 + "\xe4", "A" * 15 + " B", ""):
        assert "X-Abx-Proof" not in engine.raw("GET", "/v1/health", headers={"X-Abx-Nonce": nonce}).headers
    wrong = {"X-Abx-Nonce": "A" * 16, "Authorization": "Bearer nonsense"}
    assert "X-Abx-Proof" not in engine.raw("GET", "/v1/health", headers=wrong).headers
    twice = [("X-Abx-Nonce", "A" * 16), ("X-Abx-Nonce", "A" * 16)]
    assert "X-Abx-Proof" not in engine.raw("GET", "/v1/health", headers=twice).headers


@pytest.mark.once
def test_a_stranger_at_the_port_has_no_proof(served):
    """What a client does that finds a file whose engine is dead, while somebody else has its port now."""
    engine = Engine(served)
    os.kill(engine.pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(engine.pid), "it is dead")
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stranger.bind(("127.0.0.1", engine.port))
        stranger.listen()

        def answer():
            s, _ = stranger.accept()
            asked.append(s.recv(65536))
            s.sendall(b"HTTP/1.1 401 No\r\nX-Abx-Proof: " + b"A" * 43 + b"\r\nContent-Length: 0\r\n\r\n")
            s.close()

        asked = []
        t = threading.Thread(target=answer)
        t.start()
        got = engine.raw("GET", "/v1/health", headers={"X-Abx-Nonce": "n" * 32}).headers["X-Abx-Proof"]
        t.join(timeout=30)
        assert got != proof(engine, "n" * 32) and engine.token.encode() not in asked[0]
        assert status(served).code == 10  # the command line asks the lock, not the port
        assert Engine(served).port != engine.port


def test_without_one_the_verbs_say_so(served):
    r = status(served)
    assert r.code == 10 and r.error["code"] == "E6007" and "abx provider engine serve --detach" in r.error["hint"]
    assert served.ok("provider", "engine", "stop", "--json").json == {"stopped": False}
    assert served.ok("provider", "engine", "logs").text == ""


def test_a_hundred_that_start_at_once_are_one(served, spawn):
    started = [spawn(served, "provider", "engine", "serve", "--detach", "--json") for _ in range(100)]
    answers = [json.loads(p.communicate(timeout=120)[0]) for p in started]
    assert {p.returncode for p in started} == {0}
    assert len({a["pid"] for a in answers}) == 1 and len({a["url"] for a in answers}) == 1
    wait_for(lambda: len([p for p in served.left() if is_alive(p)]) == 1, "only that one lives", 60)


def test_killed_at_any_moment_it_stops_nobody(served, spawn):
    for n in range(count(8, 300)):
        p = spawn(served, "provider", "engine", "serve")
        time.sleep(random.uniform(0, 0.03) if n % 2 else 0)
        p.kill()
        p.wait(timeout=60)
    for _ in range(3):
        engine = Engine(served)
        engine("GET", "/v1/health", connection=None, status=200)
        os.kill(engine.pid, signal.SIGKILL)
        wait_for(lambda: not is_alive(engine.pid), "it is dead")
        assert (served.home / "engine.json").exists() and status(served).code == 10


def test_a_file_of_nobody_is_replaced(served):
    file = served.home / "engine.json"
    for text in ('{"protocol":"abx-engine/1","pid":1,"port":1,"token":"x","version":"9"}', "nonsense", ""):
        file.write_text(text)
        file.chmod(0o666)
        assert status(served).code == 10
        engine = Engine(served)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        engine("GET", "/v1/health", connection=None, status=200)
        engine.stop()
        assert not file.exists()
    file.symlink_to("/etc/passwd")
    Engine(served).stop()
    assert not file.is_symlink()


def test_a_file_that_others_could_read_or_wrote_is_refused(served):
    engine, file = Engine(served), served.home / "engine.json"
    good = file.read_text()
    file.chmod(0o640)
    assert "only its owner can read" in status(served, code=2).error["message"]
    file.chmod(0o600)
    if ROOT:
        os.chown(file, 1234, 1234)
        assert "only its owner can read" in status(served, code=2).error["message"]
        os.chown(file, 0, 0)
    for broken in ("{}", "[]", '{"pid": "x"}', "nonsense"):
        file.write_text(broken)
        assert "engine.json" in status(served, code=2).errors
    file.write_text(good.replace("abx-engine/1", "abx-engine/9"))
    for verb in ("status", "serve", "serve --detach"):
        said = served("provider", "engine", *verb.split(), code=5).errors
        assert "abx-engine/9" in said and "abx-engine/1" in said and "abx provider engine restart" in said
    file.write_text(good.replace(engine.info["version"], "99.0.0"))
    assert status(served, code=0).json["version"] == "99.0.0"  # the same protocol is enough
    assert served.ok("provider", "engine", "restart", "--detach", "--json").json["pid"] != engine.pid
    wait_for(lambda: not is_alive(engine.pid), "the old one has ended")


def test_a_port_that_is_taken_is_told(served):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused = served("provider", "engine", "serve", "--detach", "--port", str(taken.getsockname()[1]), code=5)
    assert "is in use" in refused.errors
    assert status(served).code == 10


def test_in_the_foreground_it_tells_what_it_does_until_a_signal(served, spawn):
    p = spawn(served, "provider", "engine", "serve")
    url = p.stdout.readline().decode().strip()
    engine = Engine(served)
    assert engine.url == url
    engine("GET", "/v1/sandboxes?metadata=k%3Dv", status=200)
    p.send_signal(signal.SIGTERM)
    log = p.communicate(timeout=60)[1].decode()
    assert p.returncode == 0 and not (served.home / "engine.json").exists()
    assert re.search(r"GET /v1/sandboxes 200 \d+ ms", log) and engine.token not in log and "k%3Dv" not in log
    engine = Engine(served)
    engine.stop()
    assert f"listens on 127.0.0.1:{engine.port}" in served.ok("provider", "engine", "logs").text


class Half:
    """A request whose body is not all there yet: in flight until finish()."""

    def __init__(self, engine, path="/v1/sandboxes", connection=LOCAL):
        head = "".join(f"{k}: {v}\r\n" for k, v in engine.headers(connection).items())
        self.s = socket.create_connection(("127.0.0.1", engine.port), timeout=60)
        self.s.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{head}Content-Length: 2\r\n\r\n{{".encode())

    def finish(self):
        self.s.sendall(b"}")
        got = b""
        while b"\r\n\r\n" not in got:
            part = self.s.recv(65536)
            assert part, got
            got += part
        self.s.close()
        return int(got.split()[1])


def test_it_ends_when_nobody_uses_it_and_not_before(served):
    engine = Engine(served, "--idle", "1s")
    half = Half(engine)
    time.sleep(2.5)
    assert is_alive(engine.pid) and half.finish() == 201
    wait_for(lambda: not is_alive(engine.pid), "it ends", 60)
    assert not (served.home / "engine.json").exists() and status(served).code == 10


@pytest.mark.parametrize("how", ["SIGTERM", "shutdown"])
def test_it_ends_what_runs_before_it_ends(served, how):
    engine = Engine(served)
    half, kept = Half(engine), engine.http()
    kept.request("GET", "/v1/health", headers=engine.headers(None))
    assert kept.getresponse().read()
    if how == "SIGTERM":
        os.kill(engine.pid, signal.SIGTERM)
    else:
        assert engine("POST", "/v1/shutdown", connection=None, status=200).json == {"status": "stopping"}
    wait_for(lambda: not (served.home / "engine.json").exists(), "no new client finds it")
    kept.request("GET", "/v1/health", headers=engine.headers(None))
    answer = kept.getresponse()
    assert answer.status == 503 and json.loads(answer.read())["error"]["code"] == "E6007"
    assert half.finish() == 201
    wait_for(lambda: not is_alive(engine.pid), "it ends", 60)
    again = Engine(served)  # the sandbox lives on
    assert len(again("GET", "/v1/sandboxes", status=200).json["sandboxes"]) == 1


@pytest.mark.once
def test_streams_that_outlive_the_drain_hear_why_they_end(served):
    engine = engine_client.Engine(served)
    box = engine.create()
    stream = engine.sh(box, "echo one; exec sleep 1000")
    assert [e.name for e in (next(stream), next(stream))] == ["started", "stdout"]
    terminal = engine.socket(f"/v1/sandboxes/{box}/terminal?cols=80&rows=24&cmd=sleep&cmd=1000")
    assert "started" in terminal.receive()
    assert engine("POST", "/v1/shutdown", status=200).json == {"status": "stopping"}
    last = list(stream)
    assert [e.name for e in last] == ["error"] and stream.whole
    assert last[0].data["error"]["code"] == "E6007" and last[0].data["error"]["retryable"] is True
    while terminal.receive() is not None:
        pass
    assert terminal.closed == 1001
    wait_for(lambda: not is_alive(engine.pid), "it ends", 60)


@pytest.mark.once
@pytest.mark.parametrize("change", [{"port": 0}, {"port": 70000}, {"port": "1"}, {"version": "1\x1b[31m"}, {"more": "a\nb"},
                                    {"a\x07": 1}, {"protocol": "abx\0"}])
def test_a_file_made_by_hand_is_refused_and_not_shown(served, change):
    engine = Engine(served)
    path = served.home / "engine.json"
    told = path.read_text()
    path.write_text(json.dumps({**json.loads(told), **change}))
    for verb in (["status"], ["status", "--json"], ["serve", "--detach"]):
        r = served("provider", "engine", *verb)
        assert r.code == 2 and "engine.json" in r.errors + r.text, r
        assert not set("\x1b\x07\0") & set(r.text + r.errors) and "stop the server" in r.errors + r.text
    path.write_text(told)
    engine.stop()


def test_in_the_background_it_holds_nothing_of_its_caller(served):
    ours, given = os.pipe()
    p = served.start("provider", "engine", "serve", "--detach", pass_fds=[given])
    p.communicate(timeout=60)
    os.close(given)
    assert os.read(ours, 1) == b""
    os.close(ours)
    pid = status(served).json["pid"]
    assert os.getsid(pid) == pid != os.getsid(0)


def test_it_leaves_no_core_and_lets_nobody_look(served):
    engine = Engine(served, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)
                    if ROOT else None)
    if not ROOT:
        with pytest.raises(PermissionError):
            open(f"/proc/{engine.pid}/mem", "rb").read(1)
        with pytest.raises(PermissionError):
            open(f"/proc/{engine.pid}/environ", "rb").read(1)
    os.kill(engine.pid, signal.SIGABRT)
    # we are its subreaper: how it ended is told to us
    wait_for(lambda: (ended := os.waitpid(engine.pid, os.WNOHANG))[0] and how.append(ended[1]) is None, "it has ended")
    assert os.WIFSIGNALED(how[0]) and not os.WCOREDUMP(how[0])


how = []


# --- sessions ----------------------------------------------------------------------------------------------------------

PLUGIN = r"""#!/usr/bin/python3
import json, os, sys
boxes = who = ""
features = FEATURES
def send(o):
    sys.stdout.write(json.dumps(o) + "\n")
    sys.stdout.flush()
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    method, p = m["method"], m.get("params", {})
    def fail(code, text):
        send({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32000, "message": text, "data": {"code": code}}})
    def ok(result):
        send({"jsonrpc": "2.0", "id": m["id"], "result": result})
    if method == "initialize":
        boxes, who = p["options"]["boxes"], p["options"].get("who", "")
    with open(os.path.join(boxes, "asked"), "a") as f:
        f.write(f"{who} {method}\n")
    box = os.path.join(boxes, p.get("sandboxId", "") or "none")
    if method == "initialize":
        ok({"protocol": "epp/1", "features": features, "name": "own", "version": "1.0.0"})
    elif method == "sandbox.create":
        name = "b" + os.urandom(8).hex()
        open(os.path.join(boxes, name), "w").write(who)
        ok({"id": name, "state": "running"})
    elif method == "shutdown":
        ok({})
    elif not os.path.exists(box):
        fail("E3001", "no such sandbox")
    elif method == "sandbox.info":
        ok({"id": p["sandboxId"], "state": "running"})
    elif method == "sandbox.connect":
        ok({"id": p["sandboxId"], "state": "running"}) if open(box).read() == who else fail("E3001", "not yours")
    elif method == "process.list":
        ok({"processes": []})
    elif method == "sandbox.kill":
        os.unlink(box)
        ok({})
    else:
        fail("E1001", "what?")
"""
MANIFEST = """schema = 1
id = "NAME"
name = "Own"
version = "1.0.0"
[runtime]
kind = "exec"
protocol = "epp/1"
command = ["./plugin"]
features = FEATURES
[[options]]
name = "boxes"
type = "string"
env = "BOXES"
required = true
[[options]]
name = "who"
type = "string"
secret = true
env = "WHO"
"""


def install(abx, name, features):
    folder = abx.folder / name
    folder.mkdir()
    (folder / "plugin").write_text(PLUGIN.replace("FEATURES", json.dumps(features)))
    (folder / "plugin").chmod(0o755)
    (folder / "abx-provider.toml").write_text(MANIFEST.replace("FEATURES", json.dumps(features)).replace("NAME", name))
    abx.ok("provider", "install", folder, "--yes")
    (abx.folder / f"{name}-boxes").mkdir()
    return str(abx.folder / f"{name}-boxes")


def plugins_of(engine):
    return [p for p in descendants(engine.pid) if is_alive(p)]


def test_a_session_is_closed_when_nobody_uses_it(served):
    boxes = install(served, "own", ["process"])
    engine = Engine(served, "--session-idle", "1s")
    mine = connection(provider="own", options={"boxes": boxes, "who": "me-and-nobody"})
    half = Half(engine, connection=mine)  # in flight: the session stays
    sandbox = engine.create(mine)
    first = plugins_of(engine)
    assert len(first) == 1
    time.sleep(2)
    engine("GET", f"/v1/sandboxes/{sandbox}/processes", None, mine, status=200)
    assert plugins_of(engine) == first and half.finish() == 201
    wait_for(lambda: not plugins_of(engine), "its program ends", 60)
    half = Half(engine, connection=mine)
    engine("GET", f"/v1/sandboxes/{sandbox}/processes", None, mine, status=200)  # its maker reaches it all the same
    again = connection(options={"who": "me-and-nobody", "boxes": boxes}, provider="own", apiKey=None)
    engine("GET", f"/v1/sandboxes/{sandbox}/processes", None, again, status=200)
    assert len(plugins_of(engine)) == 1 and half.finish() == 201  # the same connection in other words


def test_a_sandbox_is_reached_by_its_maker_or_whom_its_provider_lets_connect(served):
    boxes = install(served, "own", ["process"])
    open_boxes = install(served, "open", ["connect", "process"])
    engine = Engine(served)

    def path(box):
        return f"/v1/sandboxes/{box}/processes"

    def whose(name, folder, who):
        return connection(provider=name, options={"boxes": folder, "who": who})

    mine, yours = whose("own", boxes, "mine-it-is"), whose("own", boxes, "yours-it-is")
    box = engine.create(mine)
    engine("GET", path(box), None, mine, status=200)
    refused = error_of(engine("GET", path(box), None, yours), 501, "E8004")
    assert "made the sandbox" in refused["hint"]
    assert "yours-it-is process.list" not in (served.folder / "own-boxes" / "asked").read_text()

    mine, yours = whose("open", open_boxes, "mine-it-is"), whose("open", open_boxes, "yours-it-is")
    box = engine.create(mine)
    error_of(engine("GET", path(box), None, yours), 404, "E3001")
    engine("GET", path(box), None, mine, status=200)
    engine.stop()
    engine = Engine(served)  # it knows of no maker any more: its provider does
    engine("GET", path(box), None, mine, status=200)
    error_of(engine("GET", path(box), None, yours), 404, "E3001")
    asked = (served.folder / "open-boxes" / "asked").read_text()
    assert "yours-it-is process.list" not in asked and asked.count("mine-it-is sandbox.connect") == 1


def test_nothing_is_taken_from_files_or_the_environment(served):
    boxes = install(served, "own", ["process"])
    (served.home / "config.toml").write_text(f'provider = "own"\n[providers.own]\nboxes = "{boxes}"\nwho = "from-the-file"\n')
    engine = Engine(served, env={"BOXES": boxes, "WHO": "from-outside", "ABX_API_KEY": "key-from-outside"})
    error = error_of(engine("POST", "/v1/sandboxes", {}, connection(provider="own")), 422, "E1003")
    assert "'boxes'" in error["message"] and "connection" in error["hint"]
    engine.create(connection(provider="own", options={"boxes": boxes}))
    asked = (served.folder / "own-boxes" / "asked").read_text()
    assert "sandbox.create" in asked and "from-" not in asked
    named = connection(provider="own", options={"boxes": boxes, "who": "env:WHO"})
    engine.create(named)
    assert "env:WHO sandbox.create" in (served.folder / "own-boxes" / "asked").read_text()  # a value, no reference
    engine.stop()
    (served.home / "config.toml").write_text("this is no TOML = =\n")
    Engine(served)("GET", "/v1/health", connection=None, status=200)
    assert served.ok("provider", "engine", "stop", "--json").json == {"stopped": True}
