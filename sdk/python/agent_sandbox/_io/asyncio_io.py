"""A TCP connection to this machine, for asyncio. `blocking_io` has the same for threads."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Awaitable, Optional

from ..errors import NetworkError, TimeoutError
from . import NotReached

READ = 256 * 1024


def now() -> float:
    """Seconds that only go forward."""
    return time.monotonic()


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def settle() -> None:
    """Let what has come be noticed: the end of a connection."""
    await asyncio.sleep(0)


class AsyncLink:
    """A connection. `deadline`: the `now()` after which waiting fails; None: never."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer: Optional[asyncio.StreamWriter] = writer
        self.deadline: Optional[float] = None
        self._reading: Optional[asyncio.Future[bytes]] = None  # begun by `ready`

    async def _within(self, waits: Awaitable[Any]) -> Any:
        if self.deadline is None:
            return await waits
        # Not `asyncio.wait_for`: until Python 3.12 that forgets a cancel that comes together with the result.
        work = asyncio.ensure_future(waits)
        try:
            await asyncio.wait([work], timeout=max(0.0, self.deadline - now()))
            if work.done():
                return work.result()
            work.cancel()
            await asyncio.wait([work])
        finally:
            if not work.done():
                work.cancel()
            elif not work.cancelled():
                work.exception()  # seen, also when nobody hears it
        raise TimeoutError("the time limit of the call passed")

    def _ready(self) -> asyncio.StreamWriter:
        if self._writer is None:
            raise NetworkError("the connection was closed")
        return self._writer

    async def send(self, data: bytes) -> None:
        """All of it; waits while the other side does not take it."""
        writer = self._ready()
        try:
            writer.write(data)
            await self._within(writer.drain())
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            raise NetworkError(f"the connection broke: {error}") from None

    async def receive(self) -> bytes:
        """What has come; `b""` at the end."""
        self._ready()
        try:
            data: bytes = await self._within(self._reading or self._reader.read(READ))
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            raise NetworkError(f"the connection broke: {error}") from None
        finally:
            if self._reading is not None and self._reading.done():
                self._reading = None
        if not data and self._writer is None:
            raise NetworkError("the connection was closed")
        return data

    async def ready(self, seconds: float) -> bool:
        """Wait until `receive` has something, so many seconds at most."""
        if self._writer is None:
            return True
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._reader.read(READ))
            # Nobody may ever ask for it: what went wrong is told by `receive` alone.
            self._reading.add_done_callback(lambda read: read.cancelled() or read.exception())
        return bool((await asyncio.wait([self._reading], timeout=seconds))[0])

    def is_quiet(self) -> bool:
        """Nothing has come, and it has not ended: it can be used again."""
        return self._writer is not None and not self._writer.is_closing() and not self._reader.at_eof()

    def close(self) -> None:
        """At once; any number of times. A task that waits in it goes on."""
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.transport.abort()
            except RuntimeError:
                pass  # its event loop has ended


async def connect(port: int, deadline: Optional[float] = None) -> AsyncLink:
    """To a port of 127.0.0.1."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError as error:
        raise NotReached(f"cannot connect to 127.0.0.1:{port}: {error}") from None
    link = AsyncLink(reader, writer)
    link.deadline = deadline
    return link
