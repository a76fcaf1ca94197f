"""providers/opensandbox as a program of Node.js (`node provider.mjs`), 20 and 22: the conformance suite over the double."""

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from door import CLIENTS, LIMIT, ROOT

sys.path[:0] = [str(ROOT / "tests/e2e"), str(ROOT / "tests/opensandbox")]
from harness import ABX, Abx  # noqa: E402
from server import Server  # noqa: E402

NODES = ["node20", "node22"]
KIND = 'kind = "node"\nprotocol = "node/1"\nentry = "provider.mjs"'


def as_program(folder, node):
    """The plugin, run by this Node.js."""
    shutil.copytree(ROOT / "providers/opensandbox", folder)
    manifest = folder / "abx-provider.toml"
    text = manifest.read_text(encoding="utf-8")
    assert KIND in text
    program = CLIENTS / "node/node_modules" / node / "bin/node"
    manifest.write_text(text.replace(KIND, f'kind = "exec"\nprotocol = "epp/1"\ncommand = ["{program}", "provider.mjs"]'), encoding="utf-8")
    return folder


def run(server, home, node):
    env = home.environment({"OPEN_SANDBOX_DOMAIN": server.domain, "OPEN_SANDBOX_API_KEY": server.key}, drop=["ABX_PROVIDER"])
    folder = as_program(home.folder / node, node)
    done = subprocess.run([ABX, "provider", "test", str(folder), "-O", "code-timeout=3", "--jobs", "3", "--json"], env=env,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT)
    return json.loads(done.stdout or done.stderr.splitlines()[-1])


@pytest.fixture(scope="module")
def results():
    abx, home = Abx(furnished=True), Abx()
    server = Server(abx)
    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(NODES, pool.map(lambda node: run(server, home, node), NODES)))
    server.close()
    for one in (abx, home):
        one.close()
    return found


@pytest.mark.parametrize("node", NODES)
def test_it_passes_the_suite(results, node):
    found = results[node]
    assert "cases" in found, found
    assert [(c["name"], c["why"]) for c in found["cases"] if c["outcome"] == "failed"] == []
    assert found["summary"]["passed"] > 170


def test_terminals_are_there_where_websockets_are(results):
    assert results["node20"]["features"]["pty"] == "unsupported"
    assert results["node22"]["features"]["pty"] == "native"
