"""Providers of kind `node`: run by the engine, not by Python."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional

from .._connection import Connection
from .._infra import Infra
from .._io import NotReached
from .._native import NativeInfra
from ..errors import UsageError
from .engine_client import EngineClient, FoundEngine, engine_connection
from .provider import Provider
from .store import verify_integrity

if TYPE_CHECKING:
    from .._async.engine import AsyncEngine
    from .._async.transport import AsyncCall
    from .._sync.engine import Engine
    from .._sync.transport import Call


class EngineProvider(Provider):
    """A provider whose code the engine runs. Its files are verified here before the engine is told of it."""

    kind = "node"

    def build_infra(self) -> EngineInfra:
        if self.connection.provider is None:
            raise UsageError("an engine's provider needs an id")
        verify_integrity(self.connection.provider, self.connection.home)
        return EngineInfra(self.connection)


def is_of_the_machine(method: str) -> bool:
    """Is that upkeep of this machine, which the engine leaves to whoever sits at it?"""
    return method.startswith("provider.")


class EngineInfra(Infra):
    """A provider in the engine."""

    def __init__(self, connection: Connection, client: Optional[EngineClient] = None) -> None:
        self.provider = connection.provider or ""
        self._client = client or EngineClient(home=connection.home)
        self._connection = engine_connection(connection)
        self._blocking: Optional[Engine] = None
        self._loops: weakref.WeakKeyDictionary[Any, AsyncEngine] = weakref.WeakKeyDictionary()
        self._pid = self._client.pid
        self._lock = threading.Lock()
        self._features: Optional[Dict[str, str]] = None
        self._here = NativeInfra(connection)  # nothing is opened before it is asked

    def mark(self, sandbox: str) -> str:
        """The URL that a sandbox of it is known by."""
        return f"engine://{self.provider}/{sandbox}"

    def features(self) -> Mapping[str, str]:
        if self._features is None:
            self._features = self._client.features(self._connection)
        return self._features

    def _check_process(self) -> None:
        """After a fork the connections are the parent's."""
        if self._pid != self._client.pid:
            self._pid = self._client.pid
            self._blocking = None
            self._loops = weakref.WeakKeyDictionary()
            self._lock = threading.Lock()

    def start(
        self, method: str, params: Dict[str, Any], *, has_input: bool = False, timeout: Optional[float] = None
    ) -> Call:
        self._check_process()
        if is_of_the_machine(method):
            return self._here.start(method, params, has_input=has_input, timeout=timeout)
        found = self._client.find()
        try:
            return self._engine(found).start(method, params, timeout)
        except NotReached:  # it has ended since
            self._client.forget(found)
            return self._engine(self._client.find()).start(method, params, timeout)

    def _engine(self, found: FoundEngine) -> Engine:
        from .._sync.engine import Engine

        with self._lock:
            engine = self._blocking
            if engine is None or engine.token != found.token:
                if engine is not None:
                    engine.close()
                engine = self._blocking = Engine(found.port, found.token, self._client.headers(found, self._connection))
            return engine

    async def astart(
        self, method: str, params: Dict[str, Any], *, has_input: bool = False, timeout: Optional[float] = None
    ) -> AsyncCall:
        self._check_process()
        if is_of_the_machine(method):
            return await self._here.astart(method, params, has_input=has_input, timeout=timeout)
        found = await self._afind()
        try:
            return await self._aengine(found).start(method, params, timeout)
        except NotReached:
            self._client.forget(found)
            return await self._aengine(await self._afind()).start(method, params, timeout)

    async def _afind(self) -> FoundEngine:
        """What waits for an engine to start does so in a thread."""
        import asyncio

        known = self._client.known()
        if known is not None:
            return known
        return await asyncio.get_running_loop().run_in_executor(None, self._client.find)

    def _aengine(self, found: FoundEngine) -> AsyncEngine:
        import asyncio

        from .._async.engine import AsyncEngine

        loop = asyncio.get_running_loop()
        engine = self._loops.get(loop)
        if engine is None or engine.token != found.token:
            if engine is not None:
                engine.close()
            engine = AsyncEngine(found.port, found.token, self._client.headers(found, self._connection))
            self._loops[loop] = engine
        return engine

    def close(self) -> None:
        self._here.close()
        if self._blocking is not None and self._pid == self._client.pid:
            self._blocking.close()
            self._blocking = None
