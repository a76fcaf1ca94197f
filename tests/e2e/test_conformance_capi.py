"""The conformance suite over the C library, on local: every case, by tests/capi/door. They run some at once; a test waits
for the end of its case."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import BUILD, Abx, reap, wait_for

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance"))
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
    local = threading.local()

    def shared():
        if not hasattr(local, "box"):
            local.box = abx.create("--timeout", "15m")
        return local.box

    def run(case):
        try:
            interpreter.Trial(door, SUITE, case, shared).run()
        except BaseException:
            local.__dict__.pop("box", None)  # what a failed case did to it is not the next one's matter
            raise

    with ThreadPoolExecutor(LANES) as pool:
        yield {name: pool.submit(run, BY_NAME[name]) for name in chosen}
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
