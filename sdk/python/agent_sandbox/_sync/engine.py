# Made from _async/engine.py by scripts/gen_python.py; change that file.
"""Calls of the engine: HTTP requests, streams of events, WebSockets."""

from __future__ import annotations

import json
from collections import deque
from typing import Any, Deque, Dict, Mapping, Optional, Tuple

from .._io import blocking_io as io
from .._items import Chunk, End, Event, Item, Json, object_of
from .._ops import OPS
from .._wire import (
    BINARY,
    CLOSE,
    LAST_CHUNK,
    PING,
    PONG,
    TEXT,
    EventReader,
    FrameReader,
    Head,
    chunk,
    frame,
    item_of,
    json_object,
    protocol_error,
    query,
    request_head,
    target,
    websocket_accept,
    websocket_key,
)
from ..errors import NetworkError, TimeoutError, error_from_object
from .exchange import Exchange, Pool, Return, raise_failure
from .transport import Call, finish

FRAME = 256 * 1024  # bytes in a frame


class StreamReturn(Return):
    """Back to a stream of events by the id of the last one."""

    def __init__(self, engine: Engine, where: str, headers: Mapping[str, str], deadline: Optional[float]) -> None:
        super().__init__()
        self._engine = engine
        self._where = where
        self._headers = dict(headers)
        self._deadline = deadline

    def reached(self, place: Optional[str]) -> None:
        """An event with this id was delivered."""
        if place is not None:
            self._headers["Last-Event-ID"] = place
            self.went_on()

    def reopen(self) -> Exchange:
        return self._engine.follow(self._where, self._headers, self._deadline)


class EngineCall(Call):
    """A call whose answer is one object, a stream of events, or the bytes of a file. `way`: back to it when its connection breaks."""

    def __init__(
        self, method: str, exchange: Exchange, has_input: bool, way: Optional[StreamReturn] = None
    ) -> None:
        self._method = method
        self._exchange = exchange
        self._has_input = has_input
        self._way = way
        self._was_started = False
        self._head: Optional[Head] = None
        self._events: Optional[EventReader] = None
        self._items: Deque[Item] = deque()
        self._started: Json = {}
        self._size = 0
        self._done = False
        self._failed: Optional[Exception] = None  # what `ready` has found
        self._input_broke = False

    def write(self, data: bytes) -> None:
        if data and not self._input_broke:
            try:
                self._exchange.send(chunk(data))
            except NetworkError:
                self._input_broke = True  # the answer tells why

    def write_end(self) -> None:
        if not self._input_broke:
            try:
                self._exchange.send(LAST_CHUNK)
            except NetworkError:
                self._input_broke = True

    def next(self) -> Item:
        if self._done:
            raise RuntimeError("the call has ended")
        try:
            if self._failed is not None:
                raise self._failed
            item = self._next()
        except Exception:
            self._done = True
            self._exchange.close()
            raise
        if isinstance(item, End):
            self._done = True
            self._exchange.finish()
        return item

    def ready(self, seconds: float) -> bool:
        until = io.now() + seconds
        try:
            while not self._items and not self._done:
                if not self._exchange.ready(max(0.0, until - io.now())):
                    return False
                if self._head is None:
                    self._begin()
                if self._events is None:
                    return True
                self._more_events()
        except Exception as error:
            self._failed = error
        return True

    def _begin(self) -> None:
        """Take the head of the answer."""
        while self._head is None:
            try:
                self._head = self._exchange.head()
            except NetworkError as broken:
                self._come_back(broken)
        raise_failure(self._exchange, self._head)
        if self._head.headers.get("content-type", "").startswith("text/event-stream"):
            self._events = EventReader()

    def _come_back(self, broken: NetworkError) -> None:
        if self._way is None or self._done:
            raise broken
        self._exchange.close()
        exchange = self._way.come_back(broken)
        self._exchange, self._head, self._events = exchange, None, None
        if self._done:  # it was closed meanwhile
            exchange.close()
            raise broken

    def _next(self) -> Item:
        if self._head is None:
            self._begin()
        if self._events is not None:
            return self._next_event()
        if OPS[self._method].style == "BODY_OUT":
            data = self._exchange.piece()
            self._size += len(data)
            return Chunk("body", data) if data else End({"size": self._size})
        return End(json_object(self._exchange.text()))

    def _more_events(self) -> None:
        try:
            data = self._exchange.piece()
            if not data:
                raise NetworkError("the engine ended a stream without its end")
        except NetworkError as broken:
            self._come_back(broken)
            self._begin()
            return
        events = self._events
        if events is None:
            raise protocol_error("it is no stream of events any more")
        for kind, value in events.feed(data):
            self._add(kind, value)
            if self._way is not None and kind != "started":
                self._way.reached(events.last_id)

    def _next_event(self) -> Item:
        while not self._items:
            self._more_events()
        item = self._items.popleft()
        if isinstance(item, Event) and item.type == "error" and isinstance(item.value.get("error"), dict):
            raise error_from_object(item.value["error"])
        return item

    def _add(self, kind: str, value: Json) -> None:
        """Queue an event; the last one is the end, too."""
        if kind == "started":
            if self._was_started:  # of a connection that came back
                return
            self._was_started = True
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


class SocketCall(Call):
    """A call over a WebSocket: a terminal, or a connection to a port."""

    def __init__(self, method: str, exchange: Exchange, known: Json) -> None:
        self._method = method
        self._exchange = exchange
        self._frames = FrameReader()
        self._items: Deque[Tuple[str, Any]] = deque()
        self._outcome: Json = {}
        self._failure: Optional[Json] = None
        self._done = False
        self._rest = True
        self._was_started = False
        self.known = known  # sandbox, and what the started event told

    def write(self, data: bytes) -> None:
        if self._done:
            return
        for at in range(0, len(data), FRAME):
            self._exchange.send(frame(BINARY, data[at : at + FRAME]))

    def write_end(self) -> None:
        if self._method == "sandbox.tunnel":
            self.tell({"end": {}})

    def tell(self, value: Mapping[str, Any]) -> None:
        """A text frame."""
        if not self._done:
            self._exchange.send(frame(TEXT, json.dumps(value).encode()))

    def next(self) -> Item:
        if self._done:
            raise RuntimeError("the call has ended")
        try:
            item = self._next()
        except Exception:
            self.close()
            raise
        if isinstance(item, End):
            self.close()
        return item

    def _next(self) -> Item:
        while True:
            while not self._items:
                try:
                    self._more()
                except NetworkError as broken:
                    self._come_back(broken)
            what, value = self._items.popleft()
            if what == "chunk":
                return Chunk("body" if self._method == "sandbox.tunnel" else "pty", value)
            if what == "close":
                return self._closed(value)
            item = self._text(value)
            if item is not None:
                return item

    def _more(self) -> None:
        data = self._exchange.rest() if self._rest else b""
        self._rest = False
        data = data or self._exchange.link.receive()
        if not data:
            raise NetworkError("the engine closed the connection without an end")
        for kind, payload in self._frames.feed(data):
            if kind == PING:
                self._exchange.send(frame(PONG, payload))
            elif kind == BINARY:
                self._items.append(("chunk", payload))
                self._delivered(len(payload))
            elif kind == TEXT:
                told = json_object(payload)
                self._items.append(("text", told))
                self._delivered(int((object_of(told.get("gap")) or {}).get("bytes", 0)))
            elif kind == CLOSE:
                self._items.append(("close", int.from_bytes(payload[:2], "big")))

    def _delivered(self, size: int) -> None:
        """So many bytes were taken from the connection, or are told to be lost."""

    def _reopen(self, broken: NetworkError) -> Exchange:
        """Another connection that goes on where this one broke; raises when there is no way back."""
        raise broken

    def _come_back(self, broken: NetworkError) -> None:
        if self._done:
            raise broken
        self._exchange.close()
        exchange = self._reopen(broken)
        self._exchange, self._frames, self._rest = exchange, FrameReader(), True
        if self._done:  # it was closed meanwhile
            exchange.close()
            raise broken

    def _closed(self, code: int) -> Item:
        try:
            self._exchange.send(frame(CLOSE, code.to_bytes(2, "big")))
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
                if self._was_started:  # of a connection that came back
                    return None
                self._was_started = True
                self.known.update(told)
            if kind == "exit":
                self._outcome = told
            return Event(kind, told)
        return None

    def close(self) -> None:
        self._done = True
        self._exchange.close()


class Engine:
    """One engine under one connection: begins calls."""

    def __init__(self, port: int, token: str, headers: Mapping[str, str]) -> None:
        self.pool = Pool(port, token)
        self.token = token
        self._port = port
        self._headers = dict(headers)
        self._terminals: Dict[Tuple[str, str], SocketCall] = {}

    def request(
        self,
        verb: str,
        where: str,
        headers: Mapping[str, str],
        body: Optional[bytes],
        deadline: Optional[float],
    ) -> Exchange:
        """Send a request; body None: bytes follow in chunks, if the headers say so."""
        all_headers = {**self._headers, **headers}
        if body is not None and verb in ("POST", "PUT"):
            all_headers["Content-Length"] = str(len(body))
        exchange = Exchange(self.pool, self.pool.take(deadline))
        try:
            exchange.send(request_head(verb, where, self._port, all_headers) + (body or b""))
        except BaseException:
            exchange.close()
            raise
        return exchange

    def ask(self, verb: str, where: str, value: Optional[Mapping[str, Any]] = None) -> Json:
        """A request that is no operation: its answer."""
        body = json.dumps(value).encode() if value is not None else b""
        headers = {"Content-Type": "application/json"} if body else {}
        exchange = self.request(verb, where, headers, body, None)
        try:
            head = exchange.head()
            raise_failure(exchange, head)
            return json_object(exchange.text())
        finally:
            exchange.close()

    def start(self, method: str, params: Mapping[str, Any], timeout: Optional[float]) -> Call:
        """Begin an operation."""
        row = OPS.get(method)
        deadline = io.now() + timeout if timeout else None
        if method in ("pty.write", "pty.resize", "pty.close"):
            return self._of_terminal(method, params)
        if method in ("pty.open", "sandbox.tunnel"):
            return self._socket(method, params, deadline)
        if method == "process.attach" and (params.get("missed") or "pty" in params.get("fromOffset", {})):
            return self._socket(method, params, deadline)
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
        exchange = self.request(row.http, where, headers, body, deadline + 5 if deadline else None)
        way = StreamReturn(self, where, headers, deadline) if method == "process.attach" else None
        return EngineCall(method, exchange, has_input, way)

    def follow(self, where: str, headers: Mapping[str, str], deadline: Optional[float]) -> Exchange:
        """Ask once more for a stream, within what is left of its time."""
        again = dict(headers)
        if deadline is not None:
            left = deadline - io.now()
            if left <= 0:
                raise TimeoutError("the time limit of the call passed")
            again["X-Abx-Timeout-Ms"] = str(max(1, round(left * 1000)))
        return self.request("GET", where, again, b"", deadline + 5 if deadline else None)

    # --- WebSockets

    def _socket(self, method: str, params: Mapping[str, Any], deadline: Optional[float]) -> Call:
        exchange, known = self.open_socket(method, params, deadline)
        if method == "sandbox.tunnel":
            return SocketCall(method, exchange, known)
        seen: Optional[int] = 0 if params.get("onDisconnect") == "detach" else None
        if method == "process.attach":
            seen = params.get("fromOffset", {}).get("pty")
        lives_on = method == "process.attach" or seen is not None
        call = _Terminal(self, method, exchange, known, lives_on, seen)
        self.opened(call)
        return call

    def open_socket(
        self, method: str, params: Mapping[str, Any], deadline: Optional[float]
    ) -> Tuple[Exchange, Json]:
        """A WebSocket that stands, and what is known of its terminal."""
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
        exchange = self.request("GET", where + query(left), headers, None, deadline)
        try:
            head = exchange.head()
            raise_failure(exchange, head)
            if head.status != 101 or head.headers.get("sec-websocket-accept") != websocket_accept(key):
                raise protocol_error("it is no WebSocket")
        except BaseException:
            exchange.close()
            raise
        exchange.link.deadline = None
        return exchange, known

    def opened(self, call: SocketCall) -> None:
        if "id" in call.known:
            self._terminals[str(call.known["sandboxId"]), str(call.known["id"])] = call

    def closed(self, call: SocketCall) -> None:
        key = str(call.known.get("sandboxId")), str(call.known.get("id"))
        if self._terminals.get(key) is call:
            del self._terminals[key]

    def _of_terminal(self, method: str, params: Mapping[str, Any]) -> Call:
        """What the WebSocket of a terminal carries besides its bytes."""
        key = str(params["sandboxId"]), str(params["ptyId"])
        if method == "pty.close":
            return self.start("process.signal", {"sandboxId": key[0], "processId": key[1], "signal": "KILL"}, None)
        terminal = self._terminals.get(key)
        own = terminal is None
        if terminal is None:
            attach = {"sandboxId": key[0], "processId": key[1], "missed": True}
            opened = self._socket("process.attach", attach, None)
            assert isinstance(opened, SocketCall)
            terminal = opened
        if method == "pty.resize":
            terminal.tell({"resize": {"cols": params["cols"], "rows": params["rows"]}})
        return _Typed(terminal, own)

    def close(self) -> None:
        self.pool.close()


class TerminalReturn(Return):
    """Back to a terminal by the number of bytes that it has shown."""

    def __init__(self, engine: Engine, known: Json) -> None:
        super().__init__()
        self._engine = engine
        self._known = known
        self.seen = 0

    def reopen(self) -> Exchange:
        attach = {
            "sandboxId": self._known["sandboxId"],
            "processId": self._known["id"],
            "fromOffset": {"pty": self.seen},
        }
        return (self._engine.open_socket("process.attach", attach, None))[0]


class _Terminal(SocketCall):
    """A terminal, which its engine knows while it is open. `lives_on`: without this connection, too; `seen`: bytes of it that were
    delivered when this began, if that is known."""

    def __init__(
        self,
        engine: Engine,
        method: str,
        exchange: Exchange,
        known: Json,
        lives_on: bool,
        seen: Optional[int],
    ) -> None:
        super().__init__(method, exchange, known)
        self._engine = engine
        self._lives_on = lives_on
        self._place_known = seen is not None
        self._way = TerminalReturn(engine, known)
        self._way.seen = seen or 0

    def next(self) -> Item:
        item = super().next()
        if isinstance(item, Event) and item.type == "started":
            self._engine.opened(self)
        return item

    def _text(self, value: Json) -> Optional[Item]:
        item = super()._text(value)
        if isinstance(item, Event) and item.type == "started" and not self._place_known:
            begins = (object_of(item.value.get("offsets")) or {}).get("pty")
            if isinstance(begins, int):
                self._way.seen += begins  # chunks may have been queued behind it
                self._place_known = True
        return item

    def _delivered(self, size: int) -> None:
        self._way.seen += size
        self._way.went_on()

    def _reopen(self, broken: NetworkError) -> Exchange:
        if not (self._lives_on and self._place_known and "id" in self.known):
            raise broken
        return self._way.come_back(broken)

    def close(self) -> None:
        super().close()
        self._engine.closed(self)


class _Typed(Call):
    """Something that is said on the WebSocket of a terminal."""

    def __init__(self, terminal: SocketCall, own: bool) -> None:
        self._terminal = terminal
        self._own = own

    def write(self, data: bytes) -> None:
        self._terminal.write(data)

    def write_end(self) -> None:
        pass

    def next(self) -> Item:
        return End({})

    def close(self) -> None:
        if self._own:
            self._terminal.close()


def ask_once(engine: Engine, method: str, params: Mapping[str, Any]) -> Json:
    """An operation with one answer."""
    call = engine.start(method, params, None)
    try:
        return finish(call)
    finally:
        call.close()
