"""The conformance suite over the engine, by plain HTTP: local whole; a provider of each kind of plugin, of which a few groups are
enough here, since `abx provider test` runs all of it over them."""

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from door import Door
from engine_client import Engine
from harness import ROOT, SOAK, Abx
from test_rest import MANIFEST, OTHERWISE

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance"))
import door_engine  # noqa: E402
import interpreter  # noqa: E402

SUITE, CASES = interpreter.load()
OVER_ENGINE = [case for case in CASES if "engine" not in case.get("notOver", {})]
LANES = 4


def features_of(engine, connection):
    """As a sandbox tells them: what an operation's name overrides is known only when its provider runs."""
    made = engine("POST", "/v1/sandboxes", {}, status=201, connection=connection).json
    told = engine("GET", f"/v1/sandboxes/{made['id']}", status=200, connection=connection).json
    engine("DELETE", f"/v1/sandboxes/{made['id']}", status=200, connection=connection)
    return told["features"]


def calls_of(steps):
    for step in steps:
        inner = step.get("parallel")
        yield from filter(None, (step.get("call"), step.get("start")))
        for more in inner if isinstance(inner, list) else [step.get("steps", [])]:
            yield from calls_of(more)


def has_all(features, case):
    """Has the provider what the case needs and calls? An operation's name may override its feature."""
    asked = [need for need in case["needs"] if need not in ("flow", "sandbox")]
    overridden = [name for name in calls_of(case["steps"]) if name in features]
    return all(features.get(name) in ("native", "emulated") for name in asked + overridden)


def run_all(engine, connection, cases):
    """name → why it failed."""
    door = door_engine.Door(engine.port, engine.token, connection)
    local = threading.local()

    def shared():
        if not hasattr(local, "box"):
            local.box = engine("POST", "/v1/sandboxes", {"timeoutMs": interpreter.LIFE_MS}, status=201, connection=connection).json["id"]
        return local.box

    def run(case):
        try:
            interpreter.Trial(door, SUITE, case, shared).run()
        except interpreter.NotApplicable:
            return None
        except BaseException as e:  # a bug of the door fails the case
            local.__dict__.pop("box", None)
            return str(e) or repr(e)
        return None

    with ThreadPoolExecutor(LANES) as pool:
        outcomes = {case["name"]: pool.submit(run, case) for case in cases}
    return {name: outcome.result() for name, outcome in outcomes.items() if outcome.result()}


@pytest.fixture(scope="module")
def engine(shared):
    started = Engine(shared)
    yield started
    started.stop()


def test_local(engine):
    """As root all of it; what an ordinary user differs in is not what a door does."""
    cases = [case for case in OVER_ENGINE if ROOT or SOAK or case["name"].split(".")[0] in ("process", "pty")]
    bad = run_all(engine, {"provider": "local"}, cases)
    assert not bad and len(cases) >= (200 if ROOT else 20), json.dumps(bad, indent=1)
    engine("GET", "/v1/health", status=200)


def some(features, groups):
    return [case for case in OVER_ENGINE if has_all(features, case) and (SOAK or case["name"].split(".")[0] in groups)]


@pytest.mark.once
def test_a_rest_provider(engine, shared):
    backend = Abx(furnished=True)
    service = Door(backend, "--provider", "local")
    try:
        folder = shared.folder / "cloud"
        folder.mkdir()
        (folder / "abx-provider.toml").write_text(MANIFEST, encoding="utf-8")
        shared.ok("provider", "install", folder, "--yes")
        connection = {"provider": "cloud", "options": {"url": service.url, "token": service.key}}
        cases = some(features_of(engine, connection), ("stdin", "watch", "errors"))
        bad = run_all(engine, connection, cases)
        assert set(bad) <= OTHERWISE and len(cases) >= 15, json.dumps(bad, indent=1)
    finally:
        service.stop()
        backend.close()


@pytest.mark.once
def test_an_exec_provider(engine, shared):
    folder = shared.folder / "mine"
    shared.ok("provider", "new", "mine", "--lang", "python", "--dir", folder)
    shared.ok("provider", "install", folder, "--yes")
    connection = {"provider": "mine"}
    cases = some(features_of(engine, connection), ("process", "stdin", "files"))
    bad = run_all(engine, connection, cases)
    assert not bad and len(cases) >= 30, json.dumps(bad, indent=1)


@pytest.mark.once
def test_a_node_provider(engine, shared):
    """The catalog's e2b, in JavaScript over the kit's classes."""
    backend = Abx(furnished=True)
    service = Door(backend, "--provider", "local")
    try:
        shared.ok("provider", "install", "e2b", "--yes")
        connection = {"provider": "e2b", "options": {"key": service.key, "api": service.url, "sandboxes": service.url}}
        cases = some(features_of(engine, connection), ("output", "pty", "code"))
        bad = run_all(engine, connection, cases)
        assert set(bad) <= OTHERWISE and len(cases) >= 20, json.dumps(bad, indent=1)
    finally:
        service.stop()
        backend.close()
