"""The conformance suite over both faces of the Python SDK: whole against `local`, a few cases against every other provider."""

import itertools
import os
import subprocess
import sys

import pytest
from conftest import BUILD, ROOT, SITE, SOAK

sys.path.insert(0, str(ROOT / "tests/conformance"))
import cell  # noqa: E402
import door_python  # noqa: E402
import interpreter  # noqa: E402

SUITE, CASES = interpreter.load()
TABLE = ROOT / "tests/conformance/table.py"
FEW = 2  # of each group
FACES = pytest.mark.parametrize("face", ["sync", "async"])


def chosen(kind):
    if kind == "local" or SOAK:
        return CASES
    return [case for _, group in itertools.groupby(CASES, lambda c: c["name"].split(".")[0]) for case in list(group)[:FEW]]


def run_all(face, connection, cases):
    """Outcomes of cell.run; counts of calls."""
    door = door_python.Door(face, connection)
    outcomes = cell.run(door, SUITE, cases)
    counts = door.face_calls, door.raw_calls
    door.close()
    return outcomes, counts


def report(kind, face, outcomes, counts, capsys):
    bad = cell.failures(outcomes)
    passed = sum(1 for outcome in outcomes.values() if outcome is None)
    with capsys.disabled():
        print(f"\nconformance, python {face}, {kind}: {passed} passed, {len(bad)} failed; {counts[0]} calls by methods, {counts[1]} as they are")
    return bad, passed


@FACES
def test_local(face, capsys):
    from agent_sandbox import Connection

    bad, passed = report("local", face, *run_all(face, Connection(provider="local"), chosen("local")), capsys)
    assert bad == {} and passed >= 200


OTHERS = [name for name in subprocess.run([sys.executable, str(TABLE), "--list"], check=True, text=True, stdout=subprocess.PIPE).stdout.split() if name != "local"]


@pytest.mark.parametrize("provider", OTHERS)
def test_other_providers(provider, capsys):
    """As scripts/conformance.sh has them, over what is installed here; with ABX_SOAK=1 all cases."""
    words = [provider, "--door", "python-sync", "--door", "python-async", *([] if SOAK else ["--few"])]
    done = subprocess.run([sys.executable, str(TABLE), *words], env={**os.environ, "ABX_BUILD": str(BUILD), "ABX_PYTHON_SITE": str(SITE)},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=6000)
    assert done.returncode == 0, done.stdout
    with capsys.disabled():
        print("\n" + next(line for line in done.stdout.splitlines() if line.startswith(f"| `{provider}`")))


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
