"""The conformance suite over both faces of the Python SDK: whole against `local`; against a provider of each other kind the first cases of
each group, with ABX_SOAK=1 all."""

import itertools
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import BUILD, ROOT, SOAK, TEMPORARY

sys.path.insert(0, str(ROOT / "tests/conformance"))
import door_e2b  # noqa: E402
import door_python  # noqa: E402
import interpreter  # noqa: E402

SUITE, CASES = interpreter.load()
LANES = 4
FEW = 2  # of each group
# What E2B's own sandboxes do otherwise: a program that is not there, or is none, ends as in a shell, with 127 or 126.
OTHERWISE = {"process.no-shell", "process.not-found", "process.not-executable", "pty.not-found", "errors.stop-not-the-sandbox"}


def applicable(case, features):
    calls = {step.get("call") or step.get("start") for step in door_e2b.steps_of(case["steps"])} - {None}
    if any(features.get(method) == "unsupported" for method in calls):
        return False
    return all(features.get(need, "unsupported") != "unsupported" for need in case.get("needs", []) if need != "flow")


def chosen(kind):
    if kind == "local" or SOAK:
        return CASES
    return [case for _, group in itertools.groupby(CASES, lambda c: c["name"].split(".")[0]) for case in list(group)[:FEW]]


def run_all(face, connection, cases):
    """name → None, or why not; cases that do not apply are left out."""
    door = door_python.Door(face, connection)
    local = threading.local()
    shared_ids, features = [], dict(door.infra.features())

    def shared():
        if not hasattr(local, "box"):
            call = door.start("sandbox.create", {"timeoutMs": interpreter.LIFE_MS}, None, True, None, False)
            with call.changed:
                call.changed.wait_for(lambda: call.ended, 60)
            assert call.result, call.error
            local.box = call.result["id"]
            shared_ids.append(local.box)
            if len(shared_ids) == 1:  # what the manifest does not know
                info = door.start("sandbox.info", {"sandboxId": local.box}, None, True, None, False)
                with info.changed:
                    info.changed.wait_for(lambda: info.ended, 60)
                features.update((info.result or {}).get("features", {}))
        return local.box

    def run(case):
        try:
            interpreter.Trial(door, SUITE, case, shared).run()
            return None
        except interpreter.NotApplicable:
            return "n/a"
        except interpreter.Failed as e:
            local.__dict__.pop("box", None)
            return str(e)

    shared()
    cases = [case for case in cases if applicable(case, features)]
    with ThreadPoolExecutor(LANES) as pool:
        results = dict(zip([case["name"] for case in cases], pool.map(run, cases)))
    for box in shared_ids:
        call = door.start("sandbox.kill", {"sandboxId": box}, None, True, None, False)
        with call.changed:
            call.changed.wait_for(lambda: call.ended, 60)
    counts = door.face_calls, door.raw_calls
    door.close()
    return results, counts


def report(kind, face, results, counts, capsys):
    bad = {name: why for name, why in results.items() if why not in (None, "n/a")}
    passed = sum(1 for why in results.values() if why is None)
    with capsys.disabled():
        print(f"\nconformance, python {face}, {kind}: {passed} passed, {len(bad)} failed; {counts[0]} calls by methods, {counts[1]} as they are")
    return bad, passed


def abx(*words, **env):
    done = subprocess.run([str(BUILD / "abx"), *words], env={**os.environ, **env}, cwd=TEMPORARY, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def service():
    """A service of E2B's shape: the E2B door of another home."""
    home = str(TEMPORARY / "service")
    url = abx("e2b", "serve", "--detach", "--provider", "local", ABX_HOME=home).strip()
    env = dict(line.split("=", 1) for line in abx("e2b", "env", ABX_HOME=home).replace("export ", "").split("\n") if "=" in line)
    yield url, env["E2B_API_KEY"].strip("'\"")
    abx("e2b", "stop", ABX_HOME=home)


FACES = pytest.mark.parametrize("face", ["sync", "async"])
REST = """schema = 1
id = "cloud"
name = "Cloud"
version = "0.1.0"
[runtime]
kind = "rest"
protocol = "e2b-rest/1"
features = ["connect", "list", "timeout", "pause", "metrics", "process", "process.stdin", "filesystem", "filesystem.watch", "pty", "code",
            "code.contexts", "snapshot", "fork", "templates", "ports"]
[connection]
inherit = ["apiKey"]
[[options]]
name = "url"
type = "url"
[rest]
apiUrl = "{url}"
dataPlaneUrl = "{api}"
"""


@FACES
def test_local(face, capsys):
    from agent_sandbox import Connection

    bad, passed = report("local", face, *run_all(face, Connection(provider="local"), chosen("local")), capsys)
    assert bad == {} and passed >= 200


@FACES
def test_exec(face, capsys):
    from agent_sandbox import Connection

    if not (TEMPORARY / "home/providers/mine").exists():
        abx("provider", "new", "mine", "--lang", "python", "--dir", str(TEMPORARY / "mine"))
        abx("provider", "install", str(TEMPORARY / "mine"), "--yes")
    bad, passed = report("exec", face, *run_all(face, Connection(provider="mine"), chosen("exec")), capsys)
    assert bad == {} and passed >= 15


@FACES
def test_rest(face, service, capsys):
    from agent_sandbox import Connection

    if not (TEMPORARY / "home/providers/cloud").exists():
        (TEMPORARY / "cloud").mkdir()
        (TEMPORARY / "cloud/abx-provider.toml").write_text(REST)
        abx("provider", "install", str(TEMPORARY / "cloud"), "--inherit", "apiKey")
    url, key = service
    connection = Connection(provider="cloud", api_key=key, options={"url": url})
    bad, passed = report("rest", face, *run_all(face, connection, [case for case in chosen("rest") if case["name"] not in OTHERWISE]), capsys)
    assert bad == {} and passed >= 15


@FACES
def test_node_in_the_engine(face, service, capsys, monkeypatch):
    from agent_sandbox import Connection
    from agent_sandbox.providers.registry import load_installed

    if not (TEMPORARY / "home/providers/e2b").exists():
        abx("provider", "install", "e2b", "--yes")
    url, key = service
    monkeypatch.setenv("E2B_API_KEY", key)  # what the configuration of abx knows, the engine is told
    connection = Connection(provider="e2b", options={"api": url, "sandboxes": url})
    assert load_installed("e2b").kind == "node"
    bad, passed = report("node", face, *run_all(face, connection, [case for case in chosen("node") if case["name"] not in OTHERWISE]), capsys)
    assert bad == {} and passed >= 15


@FACES
def test_all_that_the_engine_carries(face, capsys, monkeypatch):
    """`local` in the engine: streams, terminals, tunnels and code that the providers of kind node have not all of."""
    from agent_sandbox import Connection
    from agent_sandbox.providers import registry
    from agent_sandbox.providers.engine_provider import EngineInfra

    class Carried:
        def build_infra(self):
            return EngineInfra(connection)

    connection = Connection(provider="local")
    registry.close_all()
    monkeypatch.setattr(registry, "get_provider", lambda id, connection: Carried())
    names = {"lifecycle.name"}  # the engine knows sandboxes by their whole id
    bad, passed = report("local in the engine", face, *run_all(face, connection, [c for c in chosen("engine") if c["name"] not in names]), capsys)
    registry.close_all()
    assert bad == {} and passed >= 20
