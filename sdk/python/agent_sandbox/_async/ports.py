"""Connections to ports of a sandbox."""

from __future__ import annotations

from typing import AsyncIterator, TypeVar

from .._check import checked
from .._items import Chunk, Event
from .transport import AsyncStream

Self = TypeVar("Self", bound="AsyncTunnel")


@checked
class AsyncTunnel(AsyncStream):
    """A TCP connection to a port of a sandbox: iterate over it to read, `write` to send. Close it, or use it as a context manager."""

    _what = "a connection to a port"

    async def _until_started(self) -> None:
        item = await self._next()
        if not (isinstance(item, Event) and item.type == "started"):
            raise RuntimeError("a connection must begin with 'started'")

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while True:
            item = await self._next()
            if item is None:
                self._check_whole()
            if item is None or (isinstance(item, Event) and item.type == "end"):
                raise StopAsyncIteration
            if isinstance(item, Chunk):
                return item.data

    async def write(self, data: bytes) -> None:
        """Send bytes; waits until they are taken."""
        if self._call is None:
            raise RuntimeError("the connection is closed")
        await self._call.write(bytes(data))

    async def write_end(self) -> None:
        """No more bytes will be sent; reading goes on."""
        if self._call is None:
            raise RuntimeError("the connection is closed")
        await self._call.write_end()

    async def __aenter__(self: Self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
