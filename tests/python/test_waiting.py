"""wait() with a time limit: the command goes on, and what was kept of its output is lost to nobody. Of both faces, in the process and by
the engine, and of providers in Python."""

import asyncio
import builtins
import os
import subprocess
import threading

import pytest
from agent_sandbox import AsyncSandbox, Chunk, Connection, Event, Provider, Sandbox, SandboxInfo, TimeoutError, UsageError, register_provider
from agent_sandbox._sync.transport import unary
from agent_sandbox.providers.engine_provider import EngineInfra
from conftest import BUILD

UNTIL_GO = "while [ ! -e /tmp/go ]; do sleep 0.02; done; "


class Face:
    """A sandbox by one face: `do` gives what a call gives, awaited or not."""

    def __init__(self, sandbox, do):
        self.sandbox, self.do = sandbox, do

    def pieces(self, command):
        if hasattr(command, "__next__"):
            return list(command)

        async def gather():
            return [piece async for piece in command]

        return self.do(gather())

    def first(self, command):
        return next(command) if hasattr(command, "__next__") else self.do(command.__anext__())

    def run_out(self, command, **more):
        """Let waits run out of time until one of them has heard something; what they heard."""
        heard = []
        while not heard:
            with pytest.raises(TimeoutError):
                self.do(command.wait(0.02, on_stdout=heard.append, **more))
        return "".join(heard)

    def go(self):
        self.do(self.sandbox.files.write("/tmp/go", ""))


@pytest.fixture(scope="module")
def engine_infra(tmp_path_factory):
    home = str(tmp_path_factory.mktemp("waiting") / "home")
    infra = EngineInfra(Connection(provider="local", home=home))
    made = SandboxInfo.from_object(unary(infra, "sandbox.create", {}))
    yield infra, made
    unary(infra, "sandbox.kill", {"sandboxId": made.id})
    infra.close()
    subprocess.run([BUILD / "abx", "provider", "engine", "stop"], env={**os.environ, "ABX_HOME": home}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture(params=["sync", "async", "engine-sync", "engine-async"])
def face(request, sandbox):
    if request.param.startswith("engine"):
        infra, info = request.getfixturevalue("engine_infra")
    else:
        infra, info = sandbox._infra, sandbox.info()
    if request.param.endswith("async"):
        loop = asyncio.new_event_loop()
        one = Face(AsyncSandbox(infra, info), loop.run_until_complete)
    else:
        loop, one = None, Face(Sandbox(infra, info), lambda value: value)
    one.do(one.sandbox.files.remove("/tmp/go", missing_ok=True))
    yield one
    if loop is not None:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def test_a_later_wait_has_it_all(face):
    command = face.do(face.sandbox.commands.start("echo one; " + UNTIL_GO + "echo two; echo err >&2; exit 3"))
    assert face.run_out(command) == "one\n"
    with pytest.raises(builtins.TimeoutError) as told:
        face.do(command.wait(timeout=0))
    assert told.value.code == "E5001" and "wait() again" in told.value.hint
    face.go()
    heard = []
    done = face.do(command.wait(60, on_stdout=heard.append))
    assert (done.stdout, done.stderr, done.exit_code) == ("one\ntwo\n", "err\n", 3)
    assert "".join(heard) == "two\n"  # callbacks hear each piece once
    assert face.do(command.wait()) is done and face.do(command.wait(0)) is done
    assert face.pieces(command) == []


def test_a_later_iteration_has_it_all_in_its_order(face):
    command = face.do(face.sandbox.commands.start("printf 'a\\303'; " + UNTIL_GO + "printf '\\251' >&1; echo b >&2; sleep 0.05; echo c"))
    assert face.run_out(command) == "a"
    assert command.offsets == {"stdout": 0, "stderr": 0}  # nobody was given any of it
    face.go()
    pieces = face.pieces(command)
    assert "".join(piece.text for piece in pieces if piece.stream == "stdout") == "aéc\n"
    assert b"".join(piece.data for piece in pieces if piece.stream == "stderr") == b"b\n"
    assert command.offsets == {"stdout": 5, "stderr": 2}
    done = face.do(command.wait())
    assert done.exit_code == 0 and done.stdout == ""


def test_output_without_end_does_not_hold_it_up(face):
    command = face.do(face.sandbox.commands.start(["yes"]))
    with pytest.raises(TimeoutError):
        face.do(command.wait(0.05, capture_limit=1000))
    kept, lost = face.first(command), dict(command.lost)
    assert kept.data.startswith(b"y\ny\n") and len(kept.data) == 500 and lost["stdout"] == 0
    face.first(command)
    assert command.lost["stdout"] > 0  # what did not fit into the limit
    face.do(command.kill())
    face.do(command.aclose() if hasattr(command, "aclose") else command.close())


def test_a_command_in_the_background(face):
    command = face.do(face.sandbox.commands.run("echo one; " + UNTIL_GO + "echo two", background=True))
    assert face.run_out(command) == "one\n"
    face.do(command.aclose() if hasattr(command, "aclose") else command.close())
    face.go()
    assert face.do(command.wait()).stdout == "one\ntwo\n"


def test_times_that_are_none(face):
    command = face.do(face.sandbox.commands.start(["sleep", "7200"]))
    with pytest.raises(UsageError):
        face.do(command.wait(-1))
    face.do(command.kill())
    assert face.do(command.wait(60)).signal == "SIGKILL"


class Slow(Provider):
    id = "slow"
    features = ("process",)
    go = threading.Event()

    def sandbox_create(self, params):
        return {"id": "one"}

    def sandbox_kill(self, params):
        return {}


class Blocking(Slow):
    def process_start(self, params):
        yield Event("started", {"id": "1"})
        yield Chunk("stdout", b"one\n")
        self.go.wait(60)
        yield Chunk("stdout", b"two\n")
        return {"exitCode": 0}


class Asynchronous(Slow):
    async def process_start(self, params):
        yield Event("started", {"id": "1"})
        yield Chunk("stdout", b"one\n")
        while not self.go.is_set():
            await asyncio.sleep(0.005)
        yield Chunk("stdout", b"two\n")


@pytest.mark.parametrize("kind", [Blocking, Asynchronous])
@pytest.mark.parametrize("name", ["sync", "async"])
def test_a_provider_in_python(kind, name):
    kind.go.clear()
    register_provider(kind, "slow")
    loop = asyncio.new_event_loop()
    try:
        do = loop.run_until_complete if name == "async" else lambda value: value
        face = Face(do((AsyncSandbox if name == "async" else Sandbox).create(provider="slow")), do)
        command = do(face.sandbox.commands.start(["x"]))
        assert face.run_out(command) == "one\n"
        with pytest.raises(TimeoutError):
            do(command.wait(0))
        kind.go.set()
        assert do(command.wait(60)).stdout == "one\ntwo\n"
        kind.go.clear()
        given_up = do(face.sandbox.commands.start(["x"]))
        assert face.run_out(given_up) == "one\n"
        do(given_up.aclose() if name == "async" else given_up.close())
        do(face.sandbox.kill())
    finally:
        kind.go.set()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
