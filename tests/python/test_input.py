"""Bytes that go into a provider in Python: they are never gathered."""

import asyncio
import threading

import pytest
from agent_sandbox import AsyncSandbox, CancelledError, Chunk, Event, Provider, Sandbox, SandboxError, register_provider, unregister_provider

PIECE, MOST = 256 * 1024, 12  # bytes, pieces between who sends and the method


class Taking(Provider):
    """Blocking methods."""

    id = "taking"
    features = ("filesystem", "process", "process.stdin", "ports")

    def __init__(self, connection=None):
        super().__init__(connection)
        self.sent, self.got, self.most, self.heard = 0, 0, 0, []
        self.over = threading.Event()

    def sandbox_create(self, params):
        return {"id": "one"}

    def sandbox_kill(self, params):
        return {}

    def fs_write(self, params, pieces):
        try:
            for piece in pieces:
                self.most = max(self.most, self.sent - self.got)
                self.got += 1
                if params["path"] == "/full" and self.got == 3:
                    raise OSError("no room")
            return {"path": params["path"], "size": self.got * PIECE}
        except BaseException as error:
            self.heard.append(error)
            raise
        finally:
            self.over.set()

    def process_stdin(self, params, pieces):  # a generator that tells before it takes
        for n in range(100):
            yield Event("note", {"n": n})
        self.got = sum(len(piece) for piece in pieces)
        return {}

    def sandbox_tunnel(self, params, pieces):
        yield Event("started", {})
        for piece in pieces:
            yield Chunk("body", piece.upper())
        yield Event("end", {})
        return {}


class AsyncTaking(Taking):
    """Coroutines."""

    async def fs_write(self, params, pieces):
        async for _ in pieces:
            self.most = max(self.most, self.sent - self.got)
            self.got += 1
        return {"path": params["path"], "size": self.got * PIECE}


@pytest.fixture(params=["sync", "async"])
def made(request):
    """What makes (provider, sandbox, do) of a kind."""
    loop = asyncio.new_event_loop()
    do = loop.run_until_complete if request.param == "async" else lambda value: value

    def make(kind):
        provider = kind()
        register_provider(provider, "taking")
        return provider, do((AsyncSandbox if request.param == "async" else Sandbox).create(provider="taking")), do

    yield make
    unregister_provider("taking")
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def content(provider, pieces):
    for _ in range(pieces):
        provider.sent += 1
        yield bytes(PIECE)


@pytest.mark.parametrize("kind", [Taking, AsyncTaking])
def test_two_hundred_megabytes_are_a_few_pieces_at_a_time(made, kind):
    provider, sandbox, do = made(kind)
    pieces = 200 * 1024 * 1024 // PIECE
    assert do(sandbox.files.write("/big", content(provider, pieces))).size == 200 * 1024 * 1024
    assert provider.got == pieces and provider.most <= MOST
    do(sandbox.kill())


def test_who_gives_up_is_no_end_of_the_file(made):
    provider, sandbox, do = made(Taking)

    def broken():
        yield from content(provider, 3)
        raise KeyError("mine")

    with pytest.raises(KeyError):
        do(sandbox.files.write("/half", broken()))
    assert provider.over.wait(60)
    assert [type(error) for error in provider.heard] == [CancelledError]
    do(sandbox.kill())


def test_a_method_that_fails_does_not_hold_up_who_sends(made):
    provider, sandbox, do = made(Taking)
    with pytest.raises(SandboxError, match="no room"):
        do(sandbox.files.write("/full", content(provider, 50)))
    do(sandbox.kill())


def test_generators_with_input(made):
    provider, sandbox, do = made(Taking)
    do(sandbox.commands.send_stdin("1", [b"x" * PIECE] * 40))
    assert provider.got == 40 * PIECE
    tunnel = do(sandbox.connect_port(80))
    for word in (b"one", b"two", b"three", b"four", b"five", b"six"):
        do(tunnel.write(word))
    first = next(tunnel) if hasattr(tunnel, "__next__") else do(tunnel.__anext__())
    do(tunnel.write_end())

    async def gather():
        return [piece async for piece in tunnel]

    rest = list(tunnel) if hasattr(tunnel, "__next__") else do(gather())
    assert b"".join([first, *rest]) == b"ONETWOTHREEFOURFIVESIX"
    do(sandbox.kill())
