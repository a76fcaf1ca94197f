"""Calls of the engine: HTTP requests, streams of events, WebSockets."""

from __future__ import annotations

import json
import secrets
from collections import deque
from typing import Any, Deque, Dict, List, Mapping, Optional, Tuple

from .._io import NotReached
from .._io import asyncio_io as io
from .._io.asyncio_io import AsyncLink
from .._items import Chunk, End, Event, Item, Json, object_of
from .._ops import OPS
from .._wire import (
    BINARY,
    CLOSE,
    LAST_CHUNK,
    PING,
    PONG,
    TEXT,
    AnswerReader,
    EventReader,
    FrameReader,
    Head,
    chunk,
    frame,
    is_proof,
    item_of,
    json_object,
    nonce_request,
    protocol_error,
    query,
    request_head,
    target,
    websocket_accept,
    websocket_key,
)
from ..errors import BackendError, NetworkError, error_from_object
from .transport import AsyncCall, finish

IDLE_MOST = 16  # connections that wait for another request
TEXT_MAX = 64 * 1024 * 1024  # of an answer that is one object
PROOF_S = 10.0  # seconds
FRAME = 256 * 1024  # bytes in a frame


class AsyncPool:
    """Connections to one engine that wait for another request. A new one is proved before it hears the token: another may have
    taken the port when the engine ended."""

    def __init__(self, port: int, token: str) -> None:
        self.port = port
        self._token = token
        self._idle: List[AsyncLink] = []

    async def take(self, deadline: Optional[float]) -> AsyncLink:
        if self._idle:
            await io.settle()
        while self._idle:
            try:
                link = self._idle.pop()
            except IndexError:
                break
            if link.is_quiet():
                link.deadline = deadline
                return link
            link.close()
        link = await io.connect(self.port, deadline)
        try:
            await self._prove(link)
        except BaseException:
            link.close()
            raise
        return link

    async def _prove(self, link: AsyncLink) -> None:
        nonce = secrets.token_urlsafe(24)
        answer = AnswerReader()
        deadline, soon = link.deadline, io.now() + PROOF_S
        link.deadline = soon if deadline is None else min(deadline, soon)
        try:
            await link.send(nonce_request(self.port, nonce))
            while not answer.complete:
                data = await link.receive()
                if not data:
                    raise NotReached(f"who listens on 127.0.0.1:{self.port} does not prove that it is the engine")
                answer.feed(data)
                if answer.read_head() is not None:
                    answer.body()
        except NetworkError as error:
            raise NotReached(error.message) from None
        head = answer.head
        if head is None or not is_proof(head, self._token, self.port, nonce) or not answer.reusable:
            raise NotReached(f"who listens on 127.0.0.1:{self.port} does not prove that it is the engine")
        link.deadline = deadline

    def give(self, link: AsyncLink) -> None:
        link.deadline = None
        if len(self._idle) < IDLE_MOST:
            self._idle.append(link)
        else:
            link.close()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()


class AsyncExchange:
    """A request and its answer."""

    def __init__(self, pool: AsyncPool, link: AsyncLink) -> None:
        self._pool = pool
        self._link: Optional[AsyncLink] = link
        self._answer = AnswerReader()

    @property
    def link(self) -> AsyncLink:
        if self._link is None:
            raise NetworkError("the connection was closed")
        return self._link

    async def send(self, data: bytes) -> None:
        await self.link.send(data)

    async def head(self) -> Head:
        while True:
            head = self._answer.read_head()
            if head is not None:
                return head
            await self._more()

    async def _more(self) -> None:
        data = await self.link.receive()
        if data:
            self._answer.feed(data)
            return
        self._answer.end()
        if not self._answer.complete:
            raise NetworkError("the engine closed the connection in the middle of an answer")

    async def piece(self) -> bytes:
        """The next bytes of the body; `b""` at its end."""
        while True:
            data = self._answer.body()
            if data:
                return data
            if self._answer.complete:
                self.finish()
                return b""
            await self._more()

    async def text(self) -> bytes:
        """The whole body."""
        parts: List[bytes] = []
        size = 0
        while True:
            data = await self.piece()
            if not data:
                return b"".join(parts)
            parts.append(data)
            size += len(data)
            if size > TEXT_MAX:
                raise protocol_error("it is too long")

    def rest(self) -> bytes:
        return self._answer.take_rest()

    def finish(self) -> None:
        """The answer was read: the connection goes back, if it can."""
        link, self._link = self._link, None
        if link is None:
            return
        if self._answer.reusable:
            self._pool.give(link)
        else:
            link.close()

    def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()


async def raise_failure(exchange: AsyncExchange, head: Head) -> None:
    """Raise what an answer of 400 and more tells."""
    if head.status < 400:
        return
    error = object_of(json_object(await exchange.text()).get("error"))
    if error is None:
        raise BackendError(f"the engine answered with status {head.status}", code="E6003")
    raise error_from_object(error)


class AsyncEngineCall(AsyncCall):
    """A call whose answer is one object, a stream of events, or the bytes of a file."""

    def __init__(self, method: str, exchange: AsyncExchange, has_input: bool) -> None:
        self._method = method
        self._exchange = exchange
        self._has_input = has_input
        self._head: Optional[Head] = None
        self._events: Optional[EventReader] = None
        self._items: Deque[Item] = deque()
        self._started: Json = {}
        self._size = 0
        self._done = False
        self._input_broke = False

    async def write(self, data: bytes) -> None:
        if data and not self._input_broke:
            try:
                await self._exchange.send(chunk(data))
            except NetworkError:
                self._input_broke = True  # the answer tells why

    async def write_end(self) -> None:
        if not self._input_broke:
            try:
                await self._exchange.send(LAST_CHUNK)
            except NetworkError:
                self._input_broke = True

    async def next(self) -> Item:
        if self._done:
            raise RuntimeError("the call has ended")
        try:
            item = await self._next()
        except Exception:
            self._done = True
            self._exchange.close()
            raise
        if isinstance(item, End):
            self._done = True
            self._exchange.finish()
        return item

    async def _next(self) -> Item:
        if self._head is None:
            self._head = await self._exchange.head()
            await raise_failure(self._exchange, self._head)
            if self._head.headers.get("content-type", "").startswith("text/event-stream"):
                self._events = EventReader()
        if self._events is not None:
            return await self._next_event(self._events)
        if OPS[self._method].style == "BODY_OUT":
            data = await self._exchange.piece()
            self._size += len(data)
            return Chunk("body", data) if data else End({"size": self._size})
        return End(json_object(await self._exchange.text()))

    async def _next_event(self, events: EventReader) -> Item:
        while not self._items:
            data = await self._exchange.piece()
            if not data:
                raise NetworkError("the engine ended a stream without its end")
            for kind, value in events.feed(data):
                self._add(kind, value)
        item = self._items.popleft()
        if isinstance(item, Event) and item.type == "error" and isinstance(item.value.get("error"), dict):
            raise error_from_object(item.value["error"])
        return item

    def _add(self, kind: str, value: Json) -> None:
        """Queue an event; the last one is the end, too."""
        if kind == "end":
            value.pop("type", None)
            if self._method == "code.run":
                self._items.append(Event("end", value))
            self._items.append(End({**self._started, **value}))
            return
        item = item_of(kind, value)
        self._items.append(item)
        if isinstance(item, Event):
            if kind == "started" and self._method == "process.start":
                self._started = {name: value[name] for name in ("id", "pid") if name in value}
            if kind == "exit":
                self._items.append(End({**self._started, **value}))

    def close(self) -> None:
        if not self._done:
            self._done = True
            self._exchange.close()


class AsyncSocketCall(AsyncCall):
    """A call over a WebSocket: a terminal, or a connection to a port."""

    def __init__(self, method: str, exchange: AsyncExchange, known: Json) -> None:
        self._method = method
        self._exchange = exchange
        self._frames = FrameReader()
        self._items: Deque[Tuple[str, Any]] = deque()
        self._outcome: Json = {}
        self._failure: Optional[Json] = None
        self._done = False
        self._rest = True
        self.known = known  # sandbox, and what the started event told

    async def write(self, data: bytes) -> None:
        if self._done:
            return
        for at in range(0, len(data), FRAME):
            await self._exchange.send(frame(BINARY, data[at : at + FRAME]))

    async def write_end(self) -> None:
        if self._method == "sandbox.tunnel":
            await self.tell({"end": {}})

    async def tell(self, value: Mapping[str, Any]) -> None:
        """A text frame."""
        if not self._done:
            await self._exchange.send(frame(TEXT, json.dumps(value).encode()))

    async def next(self) -> Item:
        if self._done:
            raise RuntimeError("the call has ended")
        try:
            item = await self._next()
        except Exception:
            self.close()
            raise
        if isinstance(item, End):
            self.close()
        return item

    async def _next(self) -> Item:
        while True:
            while not self._items:
                data = self._exchange.rest() if self._rest else b""
                self._rest = False
                data = data or await self._exchange.link.receive()
                if not data:
                    raise NetworkError("the engine closed the connection without an end")
                for kind, payload in self._frames.feed(data):
                    if kind == PING:
                        await self._exchange.send(frame(PONG, payload))
                    elif kind == BINARY:
                        self._items.append(("chunk", payload))
                    elif kind == TEXT:
                        self._items.append(("text", json_object(payload)))
                    elif kind == CLOSE:
                        self._items.append(("close", int.from_bytes(payload[:2], "big")))
            what, value = self._items.popleft()
            if what == "chunk":
                return Chunk("body" if self._method == "sandbox.tunnel" else "pty", value)
            if what == "close":
                return await self._closed(value)
            item = self._text(value)
            if item is not None:
                return item

    async def _closed(self, code: int) -> Item:
        try:
            await self._exchange.send(frame(CLOSE, code.to_bytes(2, "big")))
        except NetworkError:
            pass  # it has gone
        if self._failure is not None:
            raise error_from_object(self._failure)
        if code != 1000:
            raise NetworkError(f"the engine closed the connection with {code}")
        return End(self._outcome)

    def _text(self, value: Json) -> Optional[Item]:
        for kind, told in value.items():
            if kind == "error":
                self._failure = told
                return None
            if kind == "started":
                self.known.update(told)
            if kind == "exit":
                self._outcome = told
            return Event(kind, told)
        return None

    def close(self) -> None:
        self._done = True
        self._exchange.close()


class AsyncEngine:
    """One engine under one connection: begins calls."""

    def __init__(self, port: int, token: str, headers: Mapping[str, str]) -> None:
        self.pool = AsyncPool(port, token)
        self.token = token
        self._port = port
        self._headers = dict(headers)
        self._terminals: Dict[Tuple[str, str], AsyncSocketCall] = {}

    async def request(
        self,
        verb: str,
        where: str,
        headers: Mapping[str, str],
        body: Optional[bytes],
        deadline: Optional[float],
    ) -> AsyncExchange:
        """Send a request; body None: bytes follow in chunks, if the headers say so."""
        all_headers = {**self._headers, **headers}
        if body is not None and verb in ("POST", "PUT"):
            all_headers["Content-Length"] = str(len(body))
        exchange = AsyncExchange(self.pool, await self.pool.take(deadline))
        try:
            await exchange.send(request_head(verb, where, self._port, all_headers) + (body or b""))
        except BaseException:
            exchange.close()
            raise
        return exchange

    async def ask(self, verb: str, where: str, value: Optional[Mapping[str, Any]] = None) -> Json:
        """A request that is no operation: its answer."""
        body = json.dumps(value).encode() if value is not None else b""
        headers = {"Content-Type": "application/json"} if body else {}
        exchange = await self.request(verb, where, headers, body, None)
        try:
            head = await exchange.head()
            await raise_failure(exchange, head)
            return json_object(await exchange.text())
        finally:
            exchange.close()

    async def start(self, method: str, params: Mapping[str, Any], timeout: Optional[float]) -> AsyncCall:
        """Begin an operation."""
        row = OPS.get(method)
        deadline = io.now() + timeout if timeout else None
        if method in ("pty.write", "pty.resize", "pty.close"):
            return await self._of_terminal(method, params)
        if method in ("pty.open", "sandbox.tunnel"):
            return await self._socket(method, params, deadline)
        if method == "process.attach" and (params.get("missed") or "pty" in params.get("fromOffset", {})):
            return await self._socket(method, params, deadline)
        if row is None or not row.route:
            raise error_from_object(
                {"code": "E1001", "type": "UsageError", "message": f"the engine has no operation '{method}'"}
            )
        where, left = target(method, params)
        headers: Dict[str, str] = {}
        if timeout:
            headers["X-Abx-Timeout-Ms"] = str(max(1, round(timeout * 1000)))
        offsets = left.pop("fromOffset", None)
        if offsets is not None:
            headers["Last-Event-ID"] = f"{offsets.get('stdout', 0)}.{offsets.get('stderr', 0)}"
        has_input = row.style == "BODY_IN"
        body: Optional[bytes] = b""
        if has_input:
            headers.update({"Content-Type": "application/octet-stream", "Transfer-Encoding": "chunked"})
            where, body = where + query(left), None
        elif row.http in ("POST", "PUT"):
            headers["Content-Type"] = "application/json"
            body = json.dumps(left).encode()
        else:
            where += query(left)
        # the engine keeps the deadline; a little later so do we
        exchange = await self.request(row.http, where, headers, body, deadline + 5 if deadline else None)
        return AsyncEngineCall(method, exchange, has_input)

    # --- WebSockets

    async def _socket(self, method: str, params: Mapping[str, Any], deadline: Optional[float]) -> AsyncCall:
        left = dict(params)
        known: Json = {"sandboxId": params["sandboxId"]}
        if method == "process.attach":
            known["id"] = left["pty"] = left.pop("processId")
            left.pop("missed", None)
            offset = left.pop("fromOffset", {}).get("pty")
            if offset is not None:
                left["from"] = offset
        where, left = target("sandbox.tunnel" if method == "sandbox.tunnel" else "pty.open", left)
        key = websocket_key()
        headers = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": key,
        }
        exchange = await self.request("GET", where + query(left), headers, None, deadline)
        try:
            head = await exchange.head()
            await raise_failure(exchange, head)
            if head.status != 101 or head.headers.get("sec-websocket-accept") != websocket_accept(key):
                raise protocol_error("it is no WebSocket")
        except BaseException:
            exchange.close()
            raise
        exchange.link.deadline = None
        call = AsyncSocketCall(method, exchange, known)
        if method != "sandbox.tunnel":
            call = _Terminal(self, method, exchange, known)
            if "id" in known:
                self._terminals[str(known["sandboxId"]), str(known["id"])] = call
        return call

    def opened(self, call: AsyncSocketCall) -> None:
        if "id" in call.known:
            self._terminals[str(call.known["sandboxId"]), str(call.known["id"])] = call

    def closed(self, call: AsyncSocketCall) -> None:
        key = str(call.known.get("sandboxId")), str(call.known.get("id"))
        if self._terminals.get(key) is call:
            del self._terminals[key]

    async def _of_terminal(self, method: str, params: Mapping[str, Any]) -> AsyncCall:
        """What the WebSocket of a terminal carries besides its bytes."""
        key = str(params["sandboxId"]), str(params["ptyId"])
        if method == "pty.close":
            return await self.start("process.signal", {"sandboxId": key[0], "processId": key[1], "signal": "KILL"}, None)
        terminal = self._terminals.get(key)
        own = terminal is None
        if terminal is None:
            attach = {"sandboxId": key[0], "processId": key[1], "missed": True}
            opened = await self._socket("process.attach", attach, None)
            assert isinstance(opened, AsyncSocketCall)
            terminal = opened
        if method == "pty.resize":
            await terminal.tell({"resize": {"cols": params["cols"], "rows": params["rows"]}})
        return _Typed(terminal, own)

    def close(self) -> None:
        self.pool.close()


class _Terminal(AsyncSocketCall):
    """A terminal, which its engine knows while it is open."""

    def __init__(self, engine: AsyncEngine, method: str, exchange: AsyncExchange, known: Json) -> None:
        super().__init__(method, exchange, known)
        self._engine = engine

    async def next(self) -> Item:
        item = await super().next()
        if isinstance(item, Event) and item.type == "started":
            self._engine.opened(self)
        return item

    def close(self) -> None:
        super().close()
        self._engine.closed(self)


class _Typed(AsyncCall):
    """Something that is said on the WebSocket of a terminal."""

    def __init__(self, terminal: AsyncSocketCall, own: bool) -> None:
        self._terminal = terminal
        self._own = own

    async def write(self, data: bytes) -> None:
        await self._terminal.write(data)

    async def write_end(self) -> None:
        pass

    async def next(self) -> Item:
        return End({})

    def close(self) -> None:
        if self._own:
            self._terminal.close()


async def ask_once(engine: AsyncEngine, method: str, params: Mapping[str, Any]) -> Json:
    """An operation with one answer."""
    call = await engine.start(method, params, None)
    try:
        return await finish(call)
    finally:
        call.close()
