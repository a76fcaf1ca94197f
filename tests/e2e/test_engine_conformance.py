"""The conformance suite over the engine, by plain HTTP, on local; the other providers: test_conformance_table.py."""

import json
import sys
from pathlib import Path

import pytest

from engine_client import Engine
from harness import ROOT, SOAK

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance"))
import cell  # noqa: E402
import door_engine  # noqa: E402
import interpreter  # noqa: E402

SUITE, CASES = interpreter.load()
OVER_ENGINE = [case for case in CASES if "engine" not in case.get("notOver", {})]


@pytest.fixture(scope="module")
def engine(shared):
    started = Engine(shared)
    yield started
    started.stop()


def test_local(engine):
    """As root all of it; what an ordinary user differs in is not what a door does."""
    cases = [case for case in OVER_ENGINE if ROOT or SOAK or case["name"].split(".")[0] in ("process", "pty")]
    outcomes = cell.run(door_engine.Door(engine.port, engine.token, {"provider": "local"}), SUITE, cases)
    assert not any(outcomes.values()) and len(cases) >= (200 if ROOT else 20), json.dumps(outcomes, indent=1)
    engine("GET", "/v1/health", status=200)
