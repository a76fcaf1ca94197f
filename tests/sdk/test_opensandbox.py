"""The double of OpenSandbox's server in tests/opensandbox against that project's own client: what the provider's tests stand on
is not wrong in the way the provider is."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from door import CLIENTS, HERE, LIMIT, PYTHON, ROOT
from test_sdk import cases_of

sys.path[:0] = [str(ROOT / "tests/e2e"), str(ROOT / "tests/opensandbox")]
from harness import Abx  # noqa: E402
from server import Server  # noqa: E402

PROGRAM = "opensandbox_client.py"
CASES = [(way, call, about) for way in ("sync", "async") for call, about in cases_of(PROGRAM)]


def run(server, way):
    env = {**os.environ, "PYTHONPATH": str(CLIENTS / "opensandbox"), "PYTHONDONTWRITEBYTECODE": "1", "OSB_DOMAIN": server.domain,
           "OSB_KEY": server.key}
    done = subprocess.run([PYTHON, str(HERE / PROGRAM), way], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=LIMIT)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {(one["call"], one["about"]): one for one in found}, done.stderr[-3000:]


@pytest.fixture(scope="module")
def results():
    abx = Abx(furnished=True)
    server = Server(abx)
    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(("sync", "async"), pool.map(lambda way: run(server, way), ("sync", "async"))))
    server.close()
    abx.close()
    return found


@pytest.mark.parametrize("way,call,about", CASES, ids=lambda text: text.replace(" ", "-"))
def test_call(results, way, call, about):
    found, errors = results[way]
    assert (call, about) in found, errors
    assert found[call, about]["passed"], found[call, about]["why"]
