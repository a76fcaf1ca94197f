"""Streams of the engine whose connection breaks while the engine lives: what can go on goes on, without a byte lost or doubled."""

import asyncio
import contextlib
import select
import socket
import struct
import subprocess
import threading

import pytest
from agent_sandbox import AsyncSandbox, Connection, NetworkError, Sandbox, SandboxInfo
from agent_sandbox._sync.transport import unary
from agent_sandbox.providers.engine_client import EngineClient
from agent_sandbox.providers.engine_provider import EngineInfra
from conftest import BUILD
from wait import wait_for

LINES = 60000
WANTED = "".join(f"{n}\n" for n in range(1, LINES + 1))


class Cutter:
    """Between the client and the engine: cuts connections that carry a stream after so many bytes of their answers, in turn; then no more."""

    def __init__(self, port):
        self.port, self.cuts, self.done = port, [], 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.real = socket.create_connection
        threading.Thread(target=self.accept, daemon=True).start()

    def connect(self, address, *args, **kwargs):
        """In the place of socket.create_connection."""
        if address == ("127.0.0.1", self.port):
            address = self.socket.getsockname()
        return self.real(address, *args, **kwargs)

    async def aconnect(self, host, port):
        """In the place of asyncio.open_connection."""
        return await self.areal(host, self.socket.getsockname()[1] if port == self.port else port)

    areal = staticmethod(asyncio.open_connection)

    def accept(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.carry, args=(client,), daemon=True).start()

    def carry(self, client):
        with contextlib.suppress(ConnectionError):  # one side went without a word
            self.pass_on(client)

    def pass_on(self, client):
        with client, self.real(("127.0.0.1", self.port)) as engine:
            left = None
            while True:
                ready = select.select([client, engine], [], [])[0]
                if client in ready:
                    data = client.recv(65536)
                    if not data:
                        return
                    if (b"/stream" in data or b"/terminal" in data) and self.cuts:
                        left = self.cuts.pop(0)
                    engine.sendall(data)
                if engine in ready:
                    data = engine.recv(65536)
                    if not data:
                        return
                    with contextlib.suppress(OSError):
                        client.sendall(data[:left])
                    if left is not None:
                        left -= len(data)
                        if left <= 0:
                            self.done += 1
                            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", self.done % 2, 0))  # now a reset, now an end
                            return


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """The provider local behind an engine, and what cuts the connections to it."""
    monkeypatch.setenv("ABX_HOME", str(tmp_path / "home"))
    infra = EngineInfra(Connection(provider="local"))
    sandbox = Sandbox(infra, SandboxInfo.from_object(unary(infra, "sandbox.create", {})), owned=True)
    infra.close()
    cutter = Cutter(EngineClient(start=False).find().port)
    monkeypatch.setattr(socket, "create_connection", cutter.connect)
    monkeypatch.setattr(asyncio, "open_connection", cutter.aconnect)
    yield sandbox, cutter
    monkeypatch.undo()
    monkeypatch.setenv("ABX_HOME", str(tmp_path / "home"))
    infra.close()
    with sandbox:
        pass
    infra.close()
    with contextlib.suppress(OSError):
        cutter.socket.shutdown(socket.SHUT_RDWR)
    cutter.socket.close()
    subprocess.run([BUILD / "abx", "provider", "engine", "stop"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def break_off(handle):
    """End the connection of a handle that follows something."""
    handle._call._exchange.link._socket.shutdown(socket.SHUT_RDWR)


def test_a_background_command_goes_on(engine):
    sandbox, cutter = engine
    cutter.cuts = [10, 400, 700, 5000, 30000, 100000, 60000]
    command = sandbox.commands.run(f"seq {LINES}; echo end >&2; exit 3", background=True)
    done = command.wait()
    assert cutter.done == 7 and cutter.cuts == []
    assert (done.stdout == WANTED, done.stderr, done.exit_code, done.stdout_gap) == (True, "end\n", 3, 0)
    assert command.offsets == {"stdout": len(WANTED), "stderr": 4} and command.lost == {"stdout": 0, "stderr": 0}


def test_a_background_command_goes_on_under_asyncio(engine):
    mine, cutter = engine

    async def main():
        sandbox = AsyncSandbox(EngineInfra(Connection(provider="local")), mine._known)
        cutter.cuts = [10, 400, 700, 5000, 30000, 100000, 60000]
        command = await sandbox.commands.run(f"seq {LINES}; exit 3", background=True)
        pieces = [piece.text async for piece in command]
        assert cutter.done == 7 and "".join(pieces) == WANTED and (await command.wait()).exit_code == 3

    asyncio.run(main())


def test_what_is_gone_meanwhile_is_told(engine):
    """A command of the foreground keeps nothing of what its own reader has taken."""
    sandbox, cutter = engine
    script = "read go; printf %0100d 0; read go; head -c 3000000 /dev/zero; read go; echo end; exit 4"
    with sandbox.commands.start(script, stdin=True) as own:
        with sandbox.commands.connect(own.id) as other:
            own.send_stdin("\n")
            assert len(next(other).data) == 100 == len(next(own).data)
            results = []
            reader = threading.Thread(target=lambda: results.append(other.wait()))
            way, may_return = other._call._way, threading.Event()
            reopen = way.reopen
            way.reopen = lambda: reopen() if may_return.wait(60) else None  # it comes back when all has been read
            break_off(other)
            reader.start()
            own.send_stdin("\n")
            seen = 100
            while seen < 3000100:
                seen += len(next(own).data)
            may_return.set()
            wait_for(lambda: other.lost["stdout"])
            own.send_stdin("\n")
            assert own.wait().exit_code == 4
            reader.join(60)
            assert results[0].exit_code == 4 and results[0].stdout.endswith("end\n")
            assert 100 + other.lost["stdout"] + len(results[0].stdout_bytes) == 3000104 == other.offsets["stdout"]


def test_a_terminal_that_lives_on_goes_on(engine):
    """A terminal keeps what comes while nobody follows it; what was on its way when a connection broke is gone, and told."""
    sandbox, cutter = engine
    script = f"stty -onlcr; echo ready; while [ ! -e /tmp/go ]; do sleep 0.02; done; seq {LINES}; exit 5"
    terminal = sandbox.pty.open(["sh", "-c", script], detached=True)
    shown = b""
    while not shown.endswith(b"ready\n"):
        shown += next(terminal)
    break_off(terminal)
    sandbox.files.write("/tmp/go", "")
    cutter.cuts = [300, 1000, 20000]
    pieces = []
    assert terminal.wait(pieces.append).exit_code == 5
    assert cutter.done > 0 and terminal.offset == len(shown) + len(WANTED)
    assert len(b"".join(pieces)) + terminal.lost == len(WANTED) and all(piece.decode() in WANTED for piece in pieces)


def test_what_ends_with_its_connection_is_told(engine):
    sandbox, cutter = engine
    cutter.cuts = [400]
    with sandbox.pty.open(["sh", "-c", f"seq {LINES}; sleep 60"]) as terminal:
        with pytest.raises(NetworkError) as broken:
            terminal.wait()
    assert broken.value.retryable
    with sandbox.commands.start("echo $$; sleep 7100") as command:
        assert next(command).text
        break_off(command)
        with pytest.raises(NetworkError):
            command.wait()
    wait_for(lambda: "sleep 7100" not in sandbox.commands.run("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '").stdout)


def test_an_engine_that_is_gone_is_told(engine):
    sandbox, cutter = engine
    command = sandbox.commands.run("echo one; sleep 60", background=True)
    assert next(command).text == "one\n"
    cutter.socket.shutdown(socket.SHUT_RDWR)
    cutter.socket.close()  # nobody listens any more
    break_off(command)
    with pytest.raises(NetworkError) as broken:
        command.wait()
    assert "the engine ended in the middle of a stream" in broken.value.message


def test_a_cancel_that_comes_together_with_the_answer_is_not_lost():
    from agent_sandbox._io.asyncio_io import AsyncLink, now

    async def cancel_after(turns):
        """After so many turns of the loop since the answer has come."""
        reader, writer = asyncio.StreamReader(), object()
        link = AsyncLink(reader, writer)
        link.deadline = now() + 600
        task = asyncio.ensure_future(link.receive())
        for _ in range(5):
            await asyncio.sleep(0)
        reader.feed_data(b"the answer")
        for _ in range(turns):
            await asyncio.sleep(0)
        was_cancelled = task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() == was_cancelled
        return was_cancelled

    outcomes = [asyncio.run(cancel_after(turns)) for turns in range(8)]
    assert outcomes[0] and not outcomes[-1]
