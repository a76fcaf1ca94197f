"""How each door of the conformance table is opened: the one place that knows it. A door has two halves: what is started beside it (`DOORS`,
which give what the other half needs to know, an object), and the door itself (`open_door`), in a process of its own."""

import contextlib
import os
from pathlib import Path

import interpreter

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ABX_BUILD") or ROOT / "build/release").resolve()
CLIENTS = Path(os.environ.get("ABX_SDK") or ROOT / "build/sdk").resolve()
PYTHON = "/usr/bin/python3"


@contextlib.contextmanager
def cli(place):
    yield {"environment": place.home.environment()}


@contextlib.contextmanager
def engine(place):
    from engine_client import Engine

    served = Engine(place.home)
    try:
        yield {"environment": place.bare, "port": served.port, "token": served.token}
    finally:
        served.stop()


@contextlib.contextmanager
def library(place):
    yield {"environment": place.bare}


@contextlib.contextmanager
def python(place):
    """The SDK of this tree, or the one that ABX_PYTHON_SITE names, over what was built."""
    site = os.environ.get("ABX_PYTHON_SITE") or str(ROOT / "sdk/python")
    yield {"environment": {**place.bare, "PYTHONPATH": site, "ABX_LIBRARY": str(BUILD / "libabx.so"), "ABX_BIN": str(BUILD / "abx")}}


@contextlib.contextmanager
def e2b(place):
    from door import Door

    if not (CLIENTS / "python-new").is_dir():
        raise FileNotFoundError(f"{CLIENTS}: scripts/sdk.sh installs the clients of E2B")
    served = Door(place.home, "--provider", place.connection["provider"])
    try:
        yield {"environment": {**place.home.environment(), **served.env, "PYTHONPATH": str(CLIENTS / "python-new")}}
    finally:
        served.stop()


DOORS = {"cli": cli, "engine": engine, "c": library, "python-sync": python, "python-async": python, "e2b": e2b}
TITLES = {"cli": "CLI", "engine": "engine", "c": "C", "python-sync": "Python", "python-async": "Python async", "e2b": "E2B"}
NOT_OVER = {"c": "capi"}  # what a door is called in the cases, if not the same


def open_door(name, given):
    """given: what the first half told, with `connection` and `work`."""
    environment, work = given["environment"], given["work"]
    if name == "cli":
        import door_cli

        return door_cli.Door(str(BUILD / "abx"), environment, work)
    if name == "engine":
        import door_engine

        return door_engine.Door(given["port"], given["token"], given["connection"])
    if name == "c":
        import door_capi

        return door_capi.Door(str(BUILD / "tests/capi/door"), environment, work, {}, given["connection"])
    if name == "e2b":
        import door_e2b

        return door_e2b.Door([PYTHON, str(ROOT / "tests/sdk/bridge.py")], environment, str(ROOT / "tests/sdk"))
    import door_python

    return door_python.Door(name.partition("-")[2], door_python.connection_of(given["connection"]))


def missing(name, case):
    """Why a case has no way over a door, or None."""
    if name == "e2b":
        import door_e2b

        return door_e2b.no_counterpart(case)
    return case.get("notOver", {}).get(NOT_OVER.get(name, name))


def known_differences(name):
    """What a door does otherwise whoever provides, case → (what it says, why)."""
    if name == "e2b":
        import door_e2b

        return door_e2b.DIFFERS
    return {}


def finished(door, method, params, seconds=120):
    """The result of one call."""
    call = door.start(method, params, None, True, None, False)
    with call.changed:
        if not call.changed.wait_for(lambda: call.ended, seconds):
            raise interpreter.Failed(f"{method} does not end")
    if call.error:
        raise interpreter.Failed(f"{method}: {call.error}")
    return call.result
