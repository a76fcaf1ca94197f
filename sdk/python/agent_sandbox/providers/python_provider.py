"""Providers that are written in Python: their methods as calls, for both faces."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Optional

from .._infra import Infra
from .._items import Item, object_of
from .._ops import FEATURES, OPS
from .._sync.transport import Call
from ..errors import ProviderFeatureNotSupportedError, TimeoutError, UsageError
from .provider import Provider, is_async
from .python_input import AHEAD, InputCall
from .python_part import Part, cut
from .python_steps import Steps

if TYPE_CHECKING:
    from concurrent.futures import Future

    from .._async.transport import AsyncCall

INPUT = ("BODY_IN", "DUPLEX")
_TYPES: Dict[str, Any] = {
    "STRING": str,
    "BOOL": bool,
    "INT": int,
    "NUMBER": (int, float),
    "ARGV": (list, tuple, str),
    "LIST": (list, tuple),
    "MAP": dict,
    "OBJECT": dict,
    "BYTES": dict,
}


def check_params(method: str, params: Mapping[str, Any]) -> None:
    """As the table says: no unknown parameter, none missing, each of its type."""
    row = OPS.get(method)
    if row is None:
        raise UsageError(f"there is no operation '{method}'")
    known = {name: (kind, needed) for name, kind, needed in row.params}
    for name, value in params.items():
        if name not in known:
            raise UsageError(f"{method} has no parameter '{name}'")
        kind = known[name][0]
        is_bool = isinstance(value, bool)
        if not isinstance(value, _TYPES[kind]) or (is_bool and kind in ("INT", "NUMBER")):
            raise UsageError(f"parameter '{name}' of {method} has the wrong type")
    for name, (_, needed) in known.items():
        if needed and name not in params:
            raise UsageError(f"{method} needs the parameter '{name}'")


class PythonCall(Call):
    """A call of a method that is no coroutine and takes no input. It runs while it is read, in the thread that reads."""

    def __init__(self, function: Any, params: Dict[str, Any]) -> None:
        self._steps = Steps(function, [params])
        self._ahead: Optional[Future[Item]] = None  # begun by `ready`

    def write(self, data: bytes) -> None:
        """It has no input."""

    def write_end(self) -> None:
        """It has no input."""

    def next(self) -> Item:
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return self._steps.next()
        try:
            return ahead.result()
        except BaseException:
            if not ahead.done():  # an interrupt
                self._ahead = ahead
            raise

    def ready(self, seconds: float) -> bool:
        if self._steps.done:
            return True
        if self._ahead is None:
            self._ahead = in_a_thread(self._steps.next)
        from concurrent.futures import wait

        return bool(wait([self._ahead], timeout=seconds).done)

    def close(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None and not ahead.done():
            ahead.add_done_callback(lambda _: self._steps.close())  # it runs now
        else:
            self._steps.close()


def in_a_thread(function: Callable[[], Item]) -> Future[Item]:
    """Call it in a thread of its own."""
    from concurrent.futures import Future
    from contextvars import copy_context

    future: Future[Item] = Future()
    around = copy_context()

    def work() -> None:
        try:
            future.set_result(around.run(function))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, name="agent_sandbox", daemon=True).start()
    return future


def ahead_of(method: str) -> float:
    """Items that a method with input may be ahead of its reader: an upload is read when all is written."""
    return float("inf") if OPS[method].style == "BODY_IN" else AHEAD


class PythonInfra(Infra):
    """A provider that is an object in this process."""

    registered: Optional[str] = None

    def __init__(self, provider: Provider) -> None:
        self.owner = provider
        self.provider = provider.id
        given: Any = provider.features
        states = object_of(given) or {str(name): "native" for name in given}
        self._features: Dict[str, str] = {name: "unsupported" for name in FEATURES}
        self._features.update(sandbox="native")
        self._features.update(states)
        state = self._features.get("fs.read", self._features.get("filesystem", "unsupported"))
        self._cuts = state != "unsupported" and self._features["filesystem.range"] == "unsupported"
        if self._cuts:
            self._features["filesystem.range"] = "emulated"
        self._threads: Optional[LoopThread] = None
        self._lock = threading.Lock()

    def features(self) -> Mapping[str, str]:
        return self._features

    def _method(self, method: str, params: Mapping[str, Any]) -> Any:
        """The gate, the check of the parameters, then the method."""
        check_params(method, params)
        feature = OPS[method].feature
        state = self._features.get(method, self._features.get(feature, "unsupported"))
        function = getattr(self.owner, method.replace(".", "_"), None)
        if state == "unsupported" or function is None:
            raise ProviderFeatureNotSupportedError(f"provider '{self.provider}' does not have '{feature}' ({method})")
        return function

    def start(
        self, method: str, params: Dict[str, Any], *, has_input: bool = False, timeout: Optional[float] = None
    ) -> Call:
        function = self._method(method, params)
        takes = OPS[method].style in INPUT
        if is_async(function):
            with self._lock:
                if self._threads is None:
                    self._threads = LoopThread()
                threads = self._threads
            return BridgeCall(threads, self, method, params)
        if takes:
            return InputCall(function, params, ahead_of(method))
        function, params = self._part(method, function, params)
        return PythonCall(function, params)

    def _part(self, method: str, function: Any, params: Dict[str, Any]) -> Any:
        """The function and its parameters; of fs.read only a part, where the provider gives whole files."""
        if not self._cuts or method != "fs.read" or not {"offset", "limit"} & params.keys():
            return function, params
        part = Part(params)
        return cut(function, part), part.whole

    async def astart(
        self, method: str, params: Dict[str, Any], *, has_input: bool = False, timeout: Optional[float] = None
    ) -> AsyncCall:
        from .python_async import CoroutineCall, InputThreadCall, ThreadCall

        function = self._method(method, params)
        takes = OPS[method].style in INPUT
        function, params = self._part(method, function, params)
        if is_async(function):
            return CoroutineCall(function, params, takes)
        if takes:
            return InputThreadCall(function, params, ahead_of(method))
        return ThreadCall(PythonCall(function, params))

    def close(self) -> None:
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.close()
        self.owner.close()


class LoopThread:
    """An event loop in a thread of its own, for the blocking face of methods that are coroutines."""

    def __init__(self) -> None:
        import asyncio

        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="agent_sandbox", daemon=True)
        self._thread.start()
        self._finalizer = weakref.finalize(self, LoopThread._stop, self.loop)

    def _run(self) -> None:
        self.loop.run_forever()
        self.loop.close()

    @staticmethod
    def _stop(loop: Any) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(loop.stop)

    def ask(self, coroutine: Any) -> Any:
        """Run a coroutine there and wait for it; an interrupt cancels it."""
        import asyncio
        from concurrent.futures import TimeoutError as NotYet

        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            while True:
                try:
                    return future.result(0.2)
                except NotYet:
                    if future.done():
                        raise
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        self._finalizer()


class BridgeCall(Call):
    """A call of a coroutine, for the blocking face."""

    def __init__(self, threads: LoopThread, infra: PythonInfra, method: str, params: Dict[str, Any]) -> None:
        self._threads = threads
        self._call: AsyncCall = threads.ask(infra.astart(method, params))

    def next(self) -> Item:
        item: Item = self._threads.ask(self._call.next())
        return item

    def ready(self, seconds: float) -> bool:
        return bool(self._threads.ask(self._call.ready(seconds)))

    def write(self, data: bytes) -> None:
        self._threads.ask(self._call.write(data))

    def write_end(self) -> None:
        self._threads.ask(self._call.write_end())

    def close(self) -> None:
        if not self._threads.loop.is_closed():
            self._threads.loop.call_soon_threadsafe(self._call.close)


__all__ = ["PythonInfra", "TimeoutError", "check_params"]
