"""Providers that stay in this process, over libabx: calls for both faces.

Blocking calls share one context of the library; the thread that waits drives it. Each event loop has a context of its own, whose
descriptor it watches: no thread is made. After a fork the child begins with new ones.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import math
import os
import sys
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Deque, Dict, List, Mapping, Optional, Set, Tuple

from ._connection import Connection
from ._home import home_folder
from ._infra import Infra
from ._items import Chunk, End, Event, Item, object_of
from ._library import (
    KIND_CHUNK,
    KIND_END,
    KIND_EVENT,
    AbxEvent,
    begin_to_end,
    library,
    nobody_inside,
    stand_still,
    take_error,
    take_text,
    wait_for_leaving,
)
from ._sync.transport import Call
from .errors import CancelledError, error_from_object

if TYPE_CHECKING:
    import asyncio

    from ._async.transport import AsyncCall

TICK_MS = 200  # so often a wait of the main thread lets signals in, at the latest
AHEAD = 64  # items that a writer puts aside for the reader


class Context:
    """A context of libabx."""

    def __init__(self, home: str) -> None:
        self.lib = library()
        self.pid = os.getpid()
        error = ctypes.c_void_p()
        options = json.dumps({"home": home}).encode()
        self.pointer = self.lib.abx_context_new(options, ctypes.byref(error))
        if not self.pointer:
            raise take_error(error)

    def __del__(self) -> None:
        pointer = getattr(self, "pointer", None)
        if pointer and self.pid == os.getpid() and not sys.is_finalizing():
            self.lib.abx_context_free(pointer)

    def run(self) -> None:
        """Do what can be done without waiting."""
        if self.pid == os.getpid():
            self.lib.abx_context_run(self.pointer, 0)


class LoopContext(Context):
    """A context that an event loop drives."""

    def __init__(self, home: str, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(home)
        self.waiting: Dict[int, Any] = {}  # handle → LoopCallOf
        error = ctypes.c_void_p()
        self.fd = self.lib.abx_context_fd(self.pointer, ctypes.byref(error))
        if self.fd < 0:
            raise take_error(error)
        loop.add_reader(self.fd, self.on_readable)

    def on_readable(self) -> None:
        self.lib.abx_context_run(self.pointer, 0)
        self.wake_ready()

    def wake_ready(self) -> None:
        while True:
            pointer = self.lib.abx_context_ready(self.pointer)
            if not pointer:
                return
            call = self.waiting.get(pointer)
            if call is not None:
                call.wake()


class _State:
    """What a process has of contexts; a forked child starts afresh."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.blocking: Dict[str, Context] = {}  # by their home
        self.loops: weakref.WeakKeyDictionary[Any, Dict[str, LoopContext]] = weakref.WeakKeyDictionary()
        self.old: List[Tuple[Any, Context]] = []
        self.infras: weakref.WeakSet[NativeInfra] = weakref.WeakSet()


_state = _State()


def _after_fork() -> None:
    global _state
    _state = _State()
    nobody_inside()


os.register_at_fork(after_in_child=_after_fork)


def blocking_context(home: Optional[str]) -> Context:
    state, home = _state, home_folder(home)
    with state.lock:
        context = state.blocking.get(home)
        if context is None:
            context = state.blocking[home] = Context(home)
        return context


def loop_context(home: Optional[str], loop: asyncio.AbstractEventLoop) -> LoopContext:
    state, home = _state, home_folder(home)
    with state.lock:
        mine = state.loops.setdefault(loop, {})
        context = mine.get(home)
        if context is None:
            context = mine[home] = LoopContext(home, loop)
        return context


def _item(event: AbxEvent) -> Optional[Item]:
    """What the library told; raises if it is a failed end. None: there is room for input."""
    if event.kind == KIND_CHUNK:
        return Chunk((event.name or b"").decode(), ctypes.string_at(event.data, event.length))
    if event.kind == KIND_EVENT:
        text = ctypes.string_at(event.data, event.length)
        return Event((event.name or b"").decode(), json.loads(text) if text else {})
    if event.kind == KIND_END:
        value = json.loads(ctypes.string_at(event.data, event.length) or b"{}")
        if event.error:
            raise error_from_object(value)
        return End(value)
    return None


def _start(
    provider: Provider_, method: str, params: Mapping[str, Any], timeout: Optional[float]
) -> Any:
    error = ctypes.c_void_p()
    lib = library()
    stand_still()
    if not provider.pointer:
        raise CancelledError("the provider was closed")
    pointer = lib.abx_call_start(
        provider.pointer,
        method.encode(),
        json.dumps(params).encode(),
        max(1, round(timeout * 1000)) if timeout else 0,
        None,
        None,
        ctypes.byref(error),
    )
    if not pointer:
        stand_still()
        raise take_error(error)
    return pointer


class Provider_:
    """A provider that a context has opened."""

    def __init__(self, context: Context, connection: Connection) -> None:
        self.context = context
        error = ctypes.c_void_p()
        self.pointer = context.lib.abx_provider_open(
            context.pointer, json.dumps(connection.to_object()).encode(), ctypes.byref(error)
        )
        if not self.pointer:
            raise take_error(error)

    def describe(self) -> Dict[str, Any]:
        error = ctypes.c_void_p()
        text = self.context.lib.abx_provider_describe(self.pointer, ctypes.byref(error))
        if not text:
            raise take_error(error)
        value: Dict[str, Any] = json.loads(take_text(text))
        return value

    def close(self) -> None:
        pointer, self.pointer = self.pointer, None
        if pointer and self.context.pid == os.getpid():
            self.context.lib.abx_provider_close(pointer)


def resolved_connection(connection: Connection) -> Dict[str, Any]:
    """A connection with all that environment and configuration add to it, as `abx` resolves it."""
    provider = Provider_(blocking_context(connection.home), connection)
    try:
        error = ctypes.c_void_p()
        text = provider.context.lib.abx_provider_connection(provider.pointer, ctypes.byref(error))
        if not text:
            raise take_error(error)
        value: Dict[str, Any] = json.loads(take_text(text))
        return value
    finally:
        provider.close()


def ask_context(context: Context, function: str, *arguments: Any) -> Dict[str, Any]:
    """A function of the library on a context that answers with an object, or with 0. Texts are arguments as they are."""
    error = ctypes.c_void_p()
    given = [os.fsencode(one) if isinstance(one, str) else one for one in arguments]
    answer = getattr(context.lib, function)(context.pointer, *given, ctypes.byref(error))
    if error.value or (answer is not None and answer < 0):
        raise take_error(error)
    value: Dict[str, Any] = json.loads(take_text(answer)) if answer else {}
    return value


def find_sandbox(word: str, connection: Connection) -> Dict[str, Any]:
    """Whose a sandbox is: `{"id", "provider", "profile"}`, of its id, its name or the beginning of its id, as `abx` finds it.

    Raises:
        SandboxNotFoundError: it is not known here, and no provider was named.
        ConflictError: several ids begin so.
    """
    provider = Provider_(blocking_context(connection.home), connection)
    try:
        error = ctypes.c_void_p()
        text = provider.context.lib.abx_sandbox_find(provider.pointer, os.fsencode(word), ctypes.byref(error))
        if not text:
            raise take_error(error)
        value: Dict[str, Any] = json.loads(take_text(text))
        return value
    finally:
        provider.close()


class _Running:
    """What calls of both faces share."""

    def __init__(self, provider: Provider_, pointer: Any) -> None:
        self._provider = provider  # lives as long as its calls
        self._context = provider.context
        self._lib = provider.context.lib
        self._pointer = pointer
        self._event = AbxEvent(size=ctypes.sizeof(AbxEvent))
        self._ended = False

    def _handle(self) -> Any:
        if self._context.pid != os.getpid():
            raise RuntimeError("this call was begun in another process")
        if not self._pointer:
            raise RuntimeError("this call was closed")
        return self._pointer

    def _take(self) -> Optional[Item]:
        """The item in the event; keeps in mind that it was the last."""
        try:
            item = _item(self._event)
        except Exception:
            self._ended = True
            raise
        if isinstance(item, End):
            self._ended = True
        return item

    def _release(self, pointer: Any) -> bool:
        """Free the call; True if it still ran."""
        if not pointer or self._context.pid != os.getpid():
            return False
        self._lib.abx_call_free(pointer)
        if self._ended:
            return False
        self._context.run()  # what gives it up leaves now, and not with the next call
        return True


class BlockingCall(_Running, Call):
    """A call whose reader waits in its thread."""

    def __init__(self, provider: Provider_, pointer: Any) -> None:
        super().__init__(provider, pointer)
        self._guard = threading.Lock()
        self._inside = 0  # threads that use the handle
        self._closing = False
        self._aside: Optional[Item] = None  # what `ready` has found
        self._failed: Optional[Exception] = None

    def _enter(self) -> Any:
        with self._guard:
            if self._closing:
                raise RuntimeError("this call was closed")
            handle = self._handle()
            self._inside += 1
            return handle

    def _leave(self) -> None:
        with self._guard:
            self._inside -= 1
            pointer = self._take_pointer() if self._closing and self._inside == 0 else None
        self._release(pointer)

    def _take_pointer(self) -> Any:
        """With the guard: who gets it frees the call."""
        pointer, self._pointer = self._pointer, None
        return pointer

    def next(self) -> Item:
        item, self._aside = self._aside, None
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed
        while item is None:
            item = self._wait(None)
        return item

    def ready(self, seconds: float) -> bool:
        if self._aside is None and self._failed is None:
            try:
                self._aside = self._wait(time.monotonic() + seconds)
            except Exception as error:
                self._failed = error
        return self._aside is not None or self._failed is not None

    def _wait(self, until: Optional[float]) -> Optional[Item]:
        """What comes next; None when the time has come, if there is one."""
        handle = self._enter()
        try:
            event = ctypes.byref(self._event)
            while True:
                left = TICK_MS if until is None else max(0, min(TICK_MS, math.ceil((until - time.monotonic()) * 1000)))
                # Signals end the wait of the thread that drives the context; let any other look around now and then.
                got = self._lib.abx_call_next(handle, event, left)
                if got == 1:
                    item = self._take()
                    if item is not None:
                        return item
                elif got < 0:
                    raise RuntimeError("the call has ended")
                elif left == 0:
                    return None
        except Exception:
            stand_still()
            raise
        finally:
            self._leave()

    def write(self, data: bytes) -> None:
        handle = self._enter()
        try:
            while True:
                taken = self._lib.abx_call_send(handle, data, len(data), TICK_MS)
                if taken == 1:
                    return
                if taken < 0:
                    raise ValueError("too much at once")
        except Exception:
            stand_still()
            raise
        finally:
            self._leave()

    def write_end(self) -> None:
        handle = self._enter()
        try:
            self._lib.abx_call_send_end(handle)
        finally:
            self._leave()

    def close(self) -> None:
        pointer = None
        with self._guard:
            first, self._closing = not self._closing, True
            if self._inside == 0:
                pointer = self._take_pointer()
            elif first and self._pointer and self._context.pid == os.getpid():
                # another thread waits in it: that gets the end, and frees the call
                self._lib.abx_call_stop(self._pointer)
        self._release(pointer)


def _loop_call_class() -> Any:
    """LoopCall is made when an event loop first needs it, so that programs without one do not load asyncio."""
    import asyncio

    from ._async.transport import AsyncCall

    class LoopCallOf(_Running, AsyncCall):
        """A call whose events the loop's context announces."""

        def __init__(self, provider: Provider_, pointer: Any) -> None:
            super().__init__(provider, pointer)
            self._loop = asyncio.get_running_loop()
            self._ahead: Deque[Item] = deque()
            self._failed: Optional[Exception] = None
            self._room = False
            self._waiters: Set[asyncio.Future[None]] = set()
            self._number = pointer
            assert isinstance(self._context, LoopContext)
            self._context.waiting[pointer] = self

        def wake(self) -> None:
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)

        async def _wait(self, seconds: Optional[float] = None) -> None:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.add(waiter)
            try:
                if seconds is None:
                    await waiter
                else:  # also without time the loop gets its turn
                    await asyncio.wait([waiter], timeout=seconds)
            finally:
                self._waiters.discard(waiter)

        def _pull(self, most: int) -> None:
            """Take what has come, so many items at most."""
            event = ctypes.byref(self._event)
            while len(self._ahead) < most and self._failed is None and not self._ended:
                if self._lib.abx_call_next(self._handle(), event, 0) != 1:
                    return
                try:
                    item = self._take()
                except Exception as error:
                    stand_still()
                    self._failed = error
                    return
                if item is None:
                    self._room = True
                else:
                    self._ahead.append(item)

        async def next(self) -> Item:
            while True:
                if self._ahead:
                    return self._ahead.popleft()
                self._pull(1)
                if self._room:
                    self.wake()
                if self._ahead:
                    continue
                if self._failed is not None:
                    raise self._failed
                if self._ended:
                    raise RuntimeError("the call has ended")
                await self._wait()

        async def ready(self, seconds: float) -> bool:
            until = time.monotonic() + seconds
            last = False
            while self._pointer is not None:
                if not self._ahead:
                    self._pull(1)
                if self._room:
                    self.wake()
                if self._ahead or self._failed is not None or self._ended:
                    return True
                left = until - time.monotonic()
                if last:
                    return False
                last = left <= 0
                await self._wait(max(0.0, left))
            return True

        async def write(self, data: bytes) -> None:
            while True:
                self._room = False
                taken = self._lib.abx_call_send(self._handle(), data, len(data), 0)
                if taken == 1:
                    self._context.run()
                    self._wake_others()
                    return
                if taken < 0:
                    raise ValueError("too much at once")
                while not self._room:
                    self._pull(AHEAD)
                    if self._room or self._ended or self._failed is not None:
                        break
                    await self._wait()
                if self._ended or self._failed is not None:
                    return

        def _wake_others(self) -> None:
            assert isinstance(self._context, LoopContext)
            self._context.wake_ready()

        async def write_end(self) -> None:
            self._lib.abx_call_send_end(self._handle())

        def close(self) -> None:
            context = self._context
            assert isinstance(context, LoopContext)
            if self._number is not None:
                context.waiting.pop(self._number, None)
                self._number = None
            pointer, self._pointer = self._pointer, None
            if self._release(pointer) and not self._loop.is_closed():
                context.wake_ready()
            self.wake()

    return LoopCallOf


class NativeInfra(Infra):
    """A provider over libabx."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._state = _state
        self._blocking: Optional[Provider_] = None
        self._loops: weakref.WeakKeyDictionary[Any, Provider_] = weakref.WeakKeyDictionary()
        self._described: Optional[Dict[str, Any]] = None
        _state.infras.add(self)

    def _check_process(self) -> None:
        """After a fork: what the parent opened is the parent's."""
        if self._state is not _state:
            self._state = _state
            self._blocking = None
            self._loops = weakref.WeakKeyDictionary()
            _state.infras.add(self)

    def _provider(self) -> Provider_:
        self._check_process()
        with self._state.lock:
            known = self._blocking
        if known is None:
            known = Provider_(blocking_context(self._connection.home), self._connection)
            with self._state.lock:
                other = self._blocking
                if other is None:
                    self._blocking = known
            if other is not None:
                known.close()
                known = other
        return known

    def _loop_provider(self) -> Provider_:
        import asyncio

        self._check_process()
        loop = asyncio.get_running_loop()
        known = self._loops.get(loop)
        if known is None:
            known = self._loops[loop] = Provider_(loop_context(self._connection.home, loop), self._connection)
        return known

    def describe(self) -> Dict[str, Any]:
        """`{"id", "kind", "features"}`."""
        if self._described is None:
            self._described = self._provider().describe()
        return self._described

    @property
    def provider(self) -> str:  # type: ignore[override]
        pointer = self._provider().pointer
        name = library().abx_provider_id(pointer)
        return (name or b"").decode()

    def features(self) -> Mapping[str, str]:
        return object_of(self.describe().get("features")) or {}

    def start(
        self, method: str, params: Dict[str, Any], *, has_input: bool = False, timeout: Optional[float] = None
    ) -> Call:
        provider = self._provider()
        return BlockingCall(provider, _start(provider, method, params, timeout))

    async def astart(
        self, method: str, params: Dict[str, Any], *, has_input: bool = False, timeout: Optional[float] = None
    ) -> AsyncCall:
        global _loop_call
        if _loop_call is None:
            _loop_call = _loop_call_class()
        provider = self._loop_provider()
        call: AsyncCall = _loop_call(provider, _start(provider, method, params, timeout))
        return call

    def close(self) -> None:
        if self._state is not _state:
            return
        mine, self._blocking = self._blocking, None
        loops, self._loops = list(self._loops.values()), weakref.WeakKeyDictionary()
        for provider in ([mine] if mine else []) + loops:
            provider.close()

    def __del__(self) -> None:
        if getattr(self, "_state", None) is _state:
            self.close()


_loop_call: Any = None


def _at_exit() -> None:
    """Calls that still run are given up, programs of providers end."""
    begin_to_end()
    for infra in list(_state.infras):
        infra.close()
    wait_for_leaving()


atexit.register(_at_exit)
