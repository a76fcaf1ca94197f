"""The conformance suite over the C library, by tests/capi/door: every case on local, one test a case; a provider of each kind of plugin, of
which a few groups are enough here, since `abx provider test` runs all of it over them."""

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from door import Door
from harness import BUILD, SOAK, Abx, reap, wait_for
from test_engine_conformance import has_all
from test_rest import MANIFEST, OTHERWISE

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance"))
import door_capi  # noqa: E402
import interpreter  # noqa: E402

pytestmark = pytest.mark.once  # test_conformance.py has run them as every caller

SUITE, CASES = interpreter.load()
BY_NAME = {case["name"]: case for case in CASES if "capi" not in case.get("notOver", {})}
LANES = 4


def finished(door, method, params):
    call = door.start(method, params, None, True, None, False)
    with call.changed:
        assert call.changed.wait_for(lambda: call.ended, 60)
    assert call.error is None, call.error
    return call.result


class Runner:
    """Runs cases over a door, each thread with a sandbox that its cases share."""

    def __init__(self, abx, connection):
        self.door = door_capi.Door(str(BUILD / "tests/capi/door"), abx.environment(), abx.work, {}, connection)
        self.local = threading.local()

    def shared(self):
        if not hasattr(self.local, "box"):
            self.local.box = finished(self.door, "sandbox.create", {"timeoutMs": interpreter.LIFE_MS})["id"]
        return self.local.box

    def run(self, case):
        try:
            interpreter.Trial(self.door, SUITE, case, self.shared).run()
        except BaseException:
            self.local.__dict__.pop("box", None)  # what a failed case did to it is not the next one's matter
            raise

    def features(self):
        box = finished(self.door, "sandbox.create", {})["id"]
        told = finished(self.door, "sandbox.info", {"sandboxId": box})["features"]
        finished(self.door, "sandbox.kill", {"sandboxId": box})
        return told


@pytest.fixture(scope="module")
def running(request):
    """The cases that were chosen, under way: name → future."""
    chosen = [item.callspec.params["name"] for item in request.session.items
              if item.module is request.module and hasattr(item, "callspec")]
    abx = Abx(furnished=True)
    runner = Runner(abx, {"provider": "local"})
    with ThreadPoolExecutor(LANES) as pool:
        yield {name: pool.submit(runner.run, BY_NAME[name]) for name in chosen}
    assert runner.door.close() == 0
    abx.close()
    wait_for(lambda: not abx.left())
    reap()


@pytest.mark.parametrize("name", BY_NAME)
def test_case(running, name):
    try:
        running[name].result(timeout=120)
    except interpreter.Failed as e:
        pytest.fail(str(e), pytrace=False)


def run_some(abx, connection, groups, least):
    """The cases of these groups that the provider can have; name → why it failed."""
    runner, bad = Runner(abx, connection), {}
    features = runner.features()
    cases = [c for c in BY_NAME.values() if has_all(features, c) and (SOAK or c["name"].split(".")[0] in groups)]
    with ThreadPoolExecutor(LANES) as pool:
        outcomes = {case["name"]: pool.submit(runner.run, case) for case in cases}
    for name, outcome in outcomes.items():
        why = outcome.exception()
        if why and not isinstance(why, interpreter.NotApplicable):
            bad[name] = str(why) or repr(why)
    assert runner.door.close() == 0
    assert len(cases) >= least
    return bad


@pytest.fixture
def abx():
    home = Abx(furnished=True)
    yield home
    home.close()
    wait_for(lambda: not home.left())
    reap()


@pytest.fixture
def service():
    backend = Abx(furnished=True)
    door = Door(backend, "--provider", "local")
    yield door
    door.stop()
    backend.close()


def test_an_exec_provider(abx):
    """A folder that is not installed."""
    folder = abx.folder / "mine"
    abx.ok("provider", "new", "mine", "--lang", "python", "--dir", folder)
    bad = run_some(abx, {"provider": str(folder)}, ("process", "stdin", "files"), 30)
    assert not bad, json.dumps(bad, indent=1)


def test_a_rest_provider(abx, service):
    """Nothing of the environment and of files counts: all is in the connection."""
    folder = abx.folder / "cloud"
    folder.mkdir()
    (folder / "abx-provider.toml").write_text(MANIFEST, encoding="utf-8")
    options = {"url": service.url, "token": service.key}
    bad = run_some(abx, {"provider": str(folder), "options": options, "config": False}, ("stdin", "watch", "errors"), 15)
    assert set(bad) <= OTHERWISE, json.dumps(bad, indent=1)


def test_a_node_provider(abx, service):
    """The catalog's e2b, in JavaScript over the kit's classes, installed."""
    abx.ok("provider", "install", "e2b", "--yes")
    options = {"key": service.key, "api": service.url, "sandboxes": service.url}
    bad = run_some(abx, {"provider": "e2b", "options": options}, ("output", "pty", "code"), 20)
    assert set(bad) <= OTHERWISE, json.dumps(bad, indent=1)
