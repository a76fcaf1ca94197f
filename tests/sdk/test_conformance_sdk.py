"""The cases of the conformance suite through the official SDKs, over the E2B door: each case with a counterpart is a test of
each SDK. Those that differ must fail as door_e2b.DIFFERS says."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from door import ROOT, command

sys.path.insert(0, str(ROOT / "tests/conformance"))
import door_e2b  # noqa: E402
import interpreter  # noqa: E402

SUITE, CASES, NONE = door_e2b.load()
BRIDGES = {"python-new": "bridge.py"}
LANES = 4


def run_case(door, case, local):
    def shared():
        if not hasattr(local, "box"):
            call = door.start("sandbox.create", {"timeoutMs": interpreter.LIFE_MS}, None, True, None, False)
            with call.changed:
                call.changed.wait_for(lambda: call.ended, 60)
            local.box = call.result["id"]
        return local.box

    try:
        interpreter.Trial(door, SUITE, case, shared).run()
    except BaseException:
        local.__dict__.pop("box", None)  # what a failed case did to it is not the next one's matter
        raise


@pytest.fixture(scope="module", params=BRIDGES)
def running(request, door):
    """The cases, under way: name → future."""
    client = request.param
    words, more, folder = command(client, BRIDGES[client])
    bridge = door_e2b.Door(words, door.environment(**more), folder)
    local = threading.local()
    chosen = {item.callspec.params["name"] for item in request.session.items
              if item.module is request.module and hasattr(item, "callspec")}
    with ThreadPoolExecutor(LANES) as pool:
        yield {case["name"]: pool.submit(run_case, bridge, case, local) for case in CASES if case["name"] in chosen}
    bridge.close()


@pytest.mark.parametrize("name", [case["name"] for case in CASES])
def test_case(running, name):
    try:
        running[name].result(timeout=120)
        failure = None
    except interpreter.Failed as e:
        failure = str(e)
    if name in door_e2b.DIFFERS:
        assert door_e2b.DIFFERS[name][0] in (failure or "it passed"), failure
    elif failure:
        pytest.fail(failure, pytrace=False)


def test_counts(capsys):
    assert len(CASES) >= 100 and len(door_e2b.DIFFERS) <= 10
    assert set(door_e2b.NONE) <= set(NONE) and set(door_e2b.DIFFERS) <= {case["name"] for case in CASES}
    with capsys.disabled():
        print(f"\nconformance by each SDK: {len(CASES)} cases with a counterpart, {len(door_e2b.DIFFERS)} of them differ; {len(NONE)} without")
