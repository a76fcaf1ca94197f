"""The conformance suite over the C library, by tests/capi/door: every case on local, one test a case; the other providers: test_conformance_table.py."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import BUILD, Abx, reap, wait_for

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance"))
import cell  # noqa: E402
import door_capi  # noqa: E402
import interpreter  # noqa: E402

pytestmark = pytest.mark.once  # test_conformance.py has run them as every caller

SUITE, CASES = interpreter.load()
BY_NAME = {case["name"]: case for case in CASES if "capi" not in case.get("notOver", {})}
LANES = 4


@pytest.fixture(scope="module")
def running(request):
    """The cases that were chosen, under way: name → future."""
    chosen = [item.callspec.params["name"] for item in request.session.items
              if item.module is request.module and hasattr(item, "callspec")]
    abx = Abx(furnished=True)
    door = door_capi.Door(str(BUILD / "tests/capi/door"), abx.environment(), abx.work, {}, {"provider": "local"})
    runner = cell.Runner(door, SUITE)
    with ThreadPoolExecutor(LANES) as pool:
        yield {name: pool.submit(runner.run, BY_NAME[name]) for name in chosen}
    assert door.close() == 0
    abx.close()
    wait_for(lambda: not abx.left())
    reap()


@pytest.mark.parametrize("name", BY_NAME)
def test_case(running, name):
    try:
        running[name].result(timeout=120)
    except interpreter.Failed as e:
        pytest.fail(str(e), pytrace=False)
