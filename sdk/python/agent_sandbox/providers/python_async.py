"""Providers that are written in Python, for asyncio: their coroutines as calls, and their blocking methods in a thread."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, AsyncIterator, Deque, Dict, List, Optional

from .._async.transport import AsyncCall
from .._items import End, Item
from ..errors import SandboxError
from .python_input import AHEAD, InputCall
from .python_provider import PythonCall
from .python_steps import as_item, wrap


class CoroutineCall(AsyncCall):
    """A call of a coroutine function or an asynchronous generator."""

    def __init__(self, function: Any, params: Dict[str, Any], takes_input: bool) -> None:
        self._input: Deque[bytes] = deque()
        self._input_ended = False
        self._has_room = asyncio.Event()  # cleared by who writes
        self._has_input = asyncio.Event()  # cleared by who takes it
        self._done = False
        arguments: List[Any] = [params, self._pieces()] if takes_input else [params]
        self._answer: Any = function(*arguments)
        self._task: Optional[asyncio.Task[Any]] = None
        self._step: Optional[asyncio.Future[Any]] = None  # of a generator, begun by `ready`
        if not hasattr(self._answer, "__anext__"):
            self._task = asyncio.ensure_future(self._answer)

    async def _pieces(self) -> AsyncIterator[bytes]:
        while True:
            while self._input:
                piece = self._input.popleft()
                self._has_room.set()
                yield piece
            if self._input_ended or self._done:
                return
            self._has_input.clear()
            await self._has_input.wait()

    async def write(self, data: bytes) -> None:
        while len(self._input) >= AHEAD and not self._is_over():
            self._has_room.clear()
            waits = [asyncio.ensure_future(self._has_room.wait())]
            if self._task is not None:
                await asyncio.wait([*waits, self._task], return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.wait(waits)
            waits[0].cancel()
        if not self._is_over():
            self._input.append(data)
            self._has_input.set()

    def _is_over(self) -> bool:
        return self._done or (self._task is not None and self._task.done())

    async def write_end(self) -> None:
        self._input_ended = True
        self._has_input.set()

    async def next(self) -> Item:
        if self._done:
            raise RuntimeError("the call has ended")
        try:
            item = await self._next()
        except SandboxError:
            self._done = True
            raise
        except Exception as error:
            self._done = True
            raise wrap(error) from error
        if isinstance(item, End):
            self._done = True
        return item

    async def _next(self) -> Item:
        if self._task is not None:
            return End(await self._task or {})
        step, self._step = self._step, None
        try:
            return as_item(await (step or self._answer.__anext__()))
        except StopAsyncIteration:
            return End({})

    async def ready(self, seconds: float) -> bool:
        if self._done:
            return True
        if self._task is None and self._step is None:
            self._step = asyncio.ensure_future(self._answer.__anext__())
        waits: Any = self._task or self._step
        return bool((await asyncio.wait([waits], timeout=seconds))[0])

    def close(self) -> None:
        self._done = True
        self._has_room.set()
        self._has_input.set()
        if self._task is not None:
            if not self._task.done():
                self._task.cancel()
        elif self._answer is not None:
            answer, self._answer = self._answer, None
            step, self._step = self._step, None
            asyncio.ensure_future(_close(answer, step))


async def _close(generator: Any, step: Optional[asyncio.Future[Any]]) -> None:
    try:
        if step is not None:
            step.cancel()
            await asyncio.wait([step])
        await generator.aclose()
    except Exception:
        pass  # nobody reads it any more


class ThreadCall(AsyncCall):
    """A call of a blocking method: each step of it runs in a thread, while it is waited for."""

    def __init__(self, call: PythonCall) -> None:
        self._call = call
        self._step: Optional[asyncio.Future[Item]] = None
        self._closed = False

    def _begin_step(self) -> asyncio.Future[Item]:
        if self._step is None:
            self._step = asyncio.get_running_loop().run_in_executor(None, self._call.next)
            self._step.add_done_callback(self._stepped)
        return self._step

    async def next(self) -> Item:
        step = self._begin_step()
        try:
            return await asyncio.shield(step)
        finally:
            if step.done():
                self._step = None

    async def ready(self, seconds: float) -> bool:
        return self._closed or bool((await asyncio.wait([self._begin_step()], timeout=seconds))[0])

    def _stepped(self, step: asyncio.Future[Item]) -> None:
        if not step.cancelled():
            step.exception()  # it was told to whoever waits; or nobody does
        if self._closed:
            self._call.close()

    async def write(self, data: bytes) -> None:
        self._call.write(data)

    async def write_end(self) -> None:
        self._call.write_end()

    def close(self) -> None:
        self._closed = True
        if self._step is None or self._step.done():
            self._call.close()


class InputThreadCall(AsyncCall):
    """A call of a blocking method with bytes in, which has a thread of its own."""

    def __init__(self, function: Any, params: Dict[str, Any], most: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._call = InputCall(function, params, most, self._tell)

    def _tell(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._changed.set)
        except RuntimeError:
            pass  # the event loop has ended

    async def write(self, data: bytes) -> None:
        while True:
            self._changed.clear()
            if self._call.offer(data):
                return
            await self._changed.wait()

    async def write_end(self) -> None:
        self._call.write_end()

    async def next(self) -> Item:
        while True:
            self._changed.clear()
            if self._call.ready(0):
                return self._call.next()
            await self._changed.wait()

    def close(self) -> None:
        self._call.close()
