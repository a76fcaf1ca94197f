"""The cases of the conformance suite through the official SDKs, over the E2B door: each case with a counterpart is a test of
each SDK. Those that differ must fail as door_e2b.DIFFERS says."""

import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from door import BUILD, CLIENTS, ROOT, SOAK, command

sys.path.insert(0, str(ROOT / "tests/conformance"))
import door_e2b  # noqa: E402
import interpreter  # noqa: E402

BRIDGES = {"python-new": "bridge.py", "js-new": "bridge.mjs"}
LOADED = {client: door_e2b.load(client.split("-")[0]) for client in BRIDGES}
CASES = {client: {case["name"]: case for case in cases} for client, (_, cases, _) in LOADED.items()}
LANES = 3
TABLE = ROOT / "tests/conformance/table.py"
OTHERS = [name for name in subprocess.run([sys.executable, str(TABLE), "--list"], check=True, text=True, stdout=subprocess.PIPE).stdout.split() if name != "local"]


def run_case(door, suite, case, local):
    def shared():
        if not hasattr(local, "box"):
            call = door.start("sandbox.create", {"timeoutMs": interpreter.LIFE_MS}, None, True, None, False)
            with call.changed:
                call.changed.wait_for(lambda: call.ended, 60)
            local.box = call.result["id"]
        return local.box

    try:
        interpreter.Trial(door, suite, case, shared).run()
    except BaseException:
        local.__dict__.pop("box", None)  # what a failed case did to it is not the next one's matter
        raise


@pytest.fixture(scope="module")
def running(request, door):
    """The cases that were chosen, under way: (client, name) → future; both SDKs at once."""
    chosen = [item.callspec.params for item in request.session.items
              if item.module is request.module and "name" in getattr(getattr(item, "callspec", None), "params", {})]
    bridges, futures, pools = [], {}, []
    for client in CASES:
        names = [params["name"] for params in chosen if params["client"] == client]
        if not names:
            continue
        words, more, folder = command(client, BRIDGES[client])
        bridges.append(door_e2b.Door(words, door.environment(**more), folder))
        pools.append(ThreadPoolExecutor(LANES))
        local = threading.local()
        for name in names:
            futures[client, name] = pools[-1].submit(run_case, bridges[-1], LOADED[client][0], CASES[client][name], local)
    yield futures
    for pool, bridge in zip(pools, bridges):
        pool.shutdown(cancel_futures=True)
        bridge.close()


@pytest.mark.parametrize("client,name", [(client, name) for client in CASES for name in CASES[client]])
def test_case(running, client, name):
    try:
        running[client, name].result(timeout=120)
        failure = None
    except interpreter.Failed as e:
        failure = str(e)
    if name in door_e2b.DIFFERS:
        assert re.search(door_e2b.DIFFERS[name][0], failure or "it passed"), failure
    elif failure:
        pytest.fail(failure, pytrace=False)


@pytest.mark.parametrize("client", BRIDGES)
def test_counts(client, capsys):
    none = LOADED[client][2]
    assert len(CASES[client]) >= 100 and len(door_e2b.DIFFERS) <= 10
    assert set(door_e2b.NONE) <= set(none) and set(door_e2b.DIFFERS) <= set(CASES[client])
    with capsys.disabled():
        print(f"\nconformance, {client}: {len(CASES[client])} cases with a counterpart, {len(door_e2b.DIFFERS)} of them differ; "
              f"{len(none)} without")


@pytest.mark.parametrize("provider", OTHERS)
def test_other_providers(provider):
    """The E2B door over them, as scripts/conformance.sh has it: a few cases, with ABX_SOAK=1 all."""
    done = subprocess.run([sys.executable, str(TABLE), provider, "--door", "e2b", *([] if SOAK else ["--few"])],
                          env={**os.environ, "ABX_BUILD": str(BUILD), "ABX_SDK": str(CLIENTS)}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=6000)
    assert done.returncode == 0, done.stdout
