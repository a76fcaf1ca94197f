"""A call that runs, and what is made of whole calls."""

from __future__ import annotations

import abc
import warnings
from typing import Any, AsyncIterable, AsyncIterator, Dict, Iterable, Optional, Union, cast

from .._check import kind
from .._deadline import time_left
from .._infra import Infra
from .._items import Chunk, End, Event, Item, Json
from ..errors import CancelledError

# What files and input are written from.
Content = Any  # text, bytes, an open file, an iterable of bytes; with asyncio an asynchronous one, too
BLOCK = 256 * 1024


class AsyncCall(abc.ABC):
    """A call that runs. One task reads it; another may write."""

    @abc.abstractmethod
    async def next(self) -> Item:
        """What comes next; after `End` there is nothing. Raises a `SandboxError` when the call failed."""

    async def ready(self, seconds: float) -> bool:
        """Wait until `next` has something to tell, so many seconds at most; True: do not wait any more, call it."""
        return True

    @abc.abstractmethod
    async def write(self, data: bytes) -> None:
        """Bytes of the input; waits until they are taken. After the end of the call: dropped."""

    @abc.abstractmethod
    async def write_end(self) -> None:
        """The end of the input."""

    @abc.abstractmethod
    def close(self) -> None:
        """Give it up if it runs, and let go of all that it holds. At once; any number of times."""


async def finish(call: AsyncCall) -> Json:
    """Read a call to its end, for the result only."""
    while True:
        item = await call.next()
        if isinstance(item, End):
            return item.result


async def begin(infra: Infra, method: str, params: Dict[str, Any], has_input: bool = False) -> AsyncCall:
    """Begin a call, under the time limit that is around it."""
    return await infra.astart(method, params, has_input=has_input, timeout=time_left())


async def unary(infra: Infra, method: str, params: Dict[str, Any]) -> Json:
    """A call with one answer."""
    call = await begin(infra, method, params)
    try:
        return await finish(call)
    finally:
        call.close()


def block(piece: Any) -> bytes:
    """One piece of a content. `TypeError` for what holds no bytes: bytes(5) would be five zeros."""
    return piece.encode() if isinstance(piece, str) else bytes(memoryview(piece))


async def blocks(content: Content) -> AsyncIterator[bytes]:
    """The bytes of a content: text (as UTF-8), bytes, an open file, or an iterable of bytes."""
    source: Any = content
    if isinstance(source, str):
        source = source.encode()
    if isinstance(source, (bytes, bytearray, memoryview)):
        view = memoryview(cast(bytes, source)).cast("B")
        for at in range(0, len(view), BLOCK):
            yield bytes(view[at : at + BLOCK])
    elif hasattr(source, "read"):
        while True:
            piece: Any = source.read(BLOCK)
            # asyncio only
            if hasattr(piece, "__await__"):
                piece = await piece
            # end
            if not piece:
                return
            yield block(piece)
    # asyncio only
    elif hasattr(source, "__aiter__"):
        async for piece in cast(AsyncIterable[Any], source):
            yield block(piece)
    # end
    else:
        for piece in cast(Iterable[Any], source):
            yield block(piece)


def check_content(content: Content) -> None:
    """Raise before anything is sent for what holds no bytes."""
    if isinstance(content, (str, bytes, bytearray, memoryview)) or hasattr(content, "read"):
        return
    # asyncio only
    if hasattr(content, "__aiter__"):
        return
    # end
    if not hasattr(content, "__iter__"):
        raise TypeError(f"a content is text, bytes, an open file or an iterable of bytes, not {kind(content)}")


async def upload(infra: Infra, method: str, params: Dict[str, Any], content: Content) -> Json:
    """A call with bytes in."""
    check_content(content)
    call = await begin(infra, method, params, True)
    try:
        async for piece in blocks(content):
            await call.write(piece)
        await call.write_end()
        return await finish(call)
    finally:
        call.close()


class AsyncStream:
    """A call whose items are read as they come. Closing it gives the call up if it still runs."""

    _what = "a stream"
    _call: Optional[AsyncCall] = None

    def __init__(self, call: AsyncCall) -> None:
        self._call = call
        self._end: Optional[Json] = None
        self._failure: Optional[Exception] = None
        self._given_up = False

    async def _next(self) -> Optional[Union[Event, Chunk]]:
        """The next event or chunk; None at the end, and when somebody has closed this (`_end` is None then)."""
        call = self._call
        if call is None:
            if self._failure is not None:
                raise self._failure
            return None
        try:
            item = await call.next()
        except Exception as error:
            if self._given_up:  # in another thread or task, meanwhile
                return None
            self._failure = error
            self._let_go()
            raise
        if isinstance(item, End):
            self._end = item.result
            self._let_go()
            return None
        return item

    def _check_whole(self) -> None:
        """For those whose end a reader takes for the end of the bytes."""
        if self._end is None:
            raise CancelledError(f"{self._what} was closed before its end")

    def _let_go(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.close()

    @property
    def closed(self) -> bool:
        """Nothing more comes: it has ended, failed, or was closed."""
        return self._call is None

    async def aclose(self) -> None:
        """Give it up if it still runs. Any number of times, from any thread: who waits in it goes on."""
        self._given_up = True
        self._let_go()

    def _state(self) -> str:
        if self._end is not None:
            return "ended"
        if self._failure is not None:
            return "failed"
        return "closed" if self._call is None else "open"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, {self._state()}>"

    def __del__(self) -> None:
        call = getattr(self, "_call", None)
        if call is not None:
            warnings.warn(f"{self._what} was not closed", ResourceWarning, stacklevel=2, source=self)
            self._let_go()
