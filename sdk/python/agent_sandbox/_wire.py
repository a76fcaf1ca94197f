"""HTTP/1.1, server-sent events and WebSocket as bytes, without any connection: what the engine speaks."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import struct
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple, Union
from urllib.parse import quote

from ._items import CHANNELS, Chunk, Event, Json, list_of, object_of
from ._ops import OPS
from .errors import BackendError

PROTOCOL = "abx-engine/1"
HEAD_MAX = 64 * 1024
EVENT_MAX = 32 * 1024 * 1024
FRAME_MAX = 16 * 1024 * 1024
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # of RFC 6455


def protocol_error(text: str) -> BackendError:
    return BackendError(f"the engine's answer does not fit its protocol: {text}", code="E6003")


# --- requests


def _pairs(name: str, value: Any) -> List[Tuple[str, str]]:
    """A parameter as the query has it."""
    if isinstance(value, bool):
        return [(name, "true" if value else "false")]
    if isinstance(value, dict):
        return [(name, f"{key}={inner}") for key, inner in (object_of(value) or {}).items()]
    if isinstance(value, list):
        return [(name, str(item)) for item in list_of(value)]
    return [(name, str(value))]


def query(params: Mapping[str, Any]) -> str:
    """Parameters as a query, with its question mark; empty without any."""
    pairs = [pair for name, value in params.items() for pair in _pairs(name, value)]
    return "?" + "&".join(f"{quote(n, safe='')}={quote(v, safe='')}" for n, v in pairs) if pairs else ""


def target(method: str, params: Mapping[str, Any]) -> Tuple[str, Json]:
    """The path of an operation, and the parameters that are not in it."""
    row = OPS[method]
    left = dict(params)
    names = [name for name, _, _ in row.params]
    parts: List[str] = []
    for part in row.route.split("/"):
        if part.startswith(":"):
            word = part[1:]
            name = names[0] if word == "id" else word if word in names else word + "Id"
            part = quote(str(left.pop(name, "")), safe="")
        parts.append(part)
    return "/".join(parts), left


def request_head(verb: str, where: str, port: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"{verb} {where} HTTP/1.1", f"Host: 127.0.0.1:{port}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def nonce_request(port: int, nonce: str) -> bytes:
    """Asks who is there for a proof, and tells nothing."""
    return request_head("GET", "/v1/health", port, {"X-Abx-Nonce": nonce})


def is_proof(head: Head, token: str, port: int, nonce: str) -> bool:
    """Is that the answer of who knows the token?"""
    text = f"{PROTOCOL}\n{port}\n{nonce}".encode("ascii")
    want = base64.urlsafe_b64encode(hmac.new(token.encode(), text, hashlib.sha256).digest())
    have = head.headers.get("x-abx-proof", "").encode("latin-1", "replace")
    return hmac.compare_digest(want.rstrip(b"="), have.rstrip(b"="))


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"

# --- answers


class Head(NamedTuple):
    """Status and headers of an answer, names in lower case."""

    status: int
    headers: Dict[str, str]


class AnswerReader:
    """Takes the bytes of one answer: first its head, then the pieces of its body."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.head: Optional[Head] = None
        self._left = 0  # of the body, or of the chunk
        self._chunked = False
        self._until_end = False
        self._between = False  # chunks: behind one, before its line end
        self._trailer = False
        self.complete = False
        self.raw = False  # no HTTP any more: it was upgraded

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def end(self) -> None:
        """The connection has ended."""
        if self._until_end:
            self.complete = True

    def take_rest(self) -> bytes:
        """What came behind the head of an upgrade."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest

    def read_head(self) -> Optional[Head]:
        """The head, when it is there."""
        while self.head is None:
            at = self._buffer.find(b"\r\n\r\n")
            if at < 0:
                if len(self._buffer) > HEAD_MAX:
                    raise protocol_error("its head is too long")
                return None
            lines = self._buffer[:at].decode("latin-1").split("\r\n")
            del self._buffer[: at + 4]
            words = lines[0].split(" ", 2)
            if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
                raise protocol_error("it is no HTTP")
            status = int(words[1])
            headers: Dict[str, str] = {}
            for line in lines[1:]:
                name, colon, value = line.partition(":")
                if not colon:
                    raise protocol_error("a header is broken")
                headers[name.strip().lower()] = value.strip()
            if 100 <= status < 200 and status != 101:
                continue
            self.head = Head(status, headers)
            self._begin_body(status, headers)
        return self.head

    def _begin_body(self, status: int, headers: Mapping[str, str]) -> None:
        if status == 101:
            self.raw = True
        elif status in (204, 304):
            self.complete = True
        elif headers.get("transfer-encoding", "").lower() == "chunked":
            self._chunked = True
        elif "content-length" in headers:
            if not headers["content-length"].isdigit():
                raise protocol_error("its length is no number")
            self._left = int(headers["content-length"])
            self.complete = self._left == 0
        else:
            self._until_end = True

    @property
    def reusable(self) -> bool:
        """The connection can carry another request."""
        head = self.head
        return (
            self.complete
            and not self._until_end
            and head is not None
            and head.headers.get("connection", "").lower() != "close"
        )

    def body(self) -> bytes:
        """What has come of the body since the last time."""
        if self._chunked:
            return b"".join(self._chunks())
        if self._until_end:
            return self.take_rest()
        data = bytes(self._buffer[: self._left])
        del self._buffer[: len(data)]
        self._left -= len(data)
        self.complete = self.complete or self._left == 0
        return data

    def _line(self) -> Optional[bytes]:
        at = self._buffer.find(b"\r\n")
        if at < 0:
            if len(self._buffer) > HEAD_MAX:
                raise protocol_error("a line is too long")
            return None
        line = bytes(self._buffer[:at])
        del self._buffer[: at + 2]
        return line

    def _chunks(self) -> Iterator[bytes]:
        while not self.complete:
            if self._left:
                data = bytes(self._buffer[: self._left])
                if not data:
                    return
                del self._buffer[: len(data)]
                self._left -= len(data)
                self._between = self._left == 0
                yield data
                continue
            line = self._line()
            if line is None:
                return
            if self._between:
                if line:
                    raise protocol_error("a chunk is longer than it says")
                self._between = False
            elif self._trailer:
                self.complete = not line
            else:
                try:
                    self._left = int(line.split(b";")[0], 16)
                except ValueError:
                    raise protocol_error("the size of a chunk is no number") from None
                self._trailer = self._left == 0


def bytes_of(value: Mapping[str, Any]) -> bytes:
    """Bytes as JSON has them: text or base64."""
    text = value.get("text")
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(str(value.get("base64", "")), validate=True)
    except ValueError:
        raise protocol_error("base64 is broken") from None


def json_object(text: Union[str, bytes, bytearray]) -> Json:
    try:
        value = object_of(json.loads(text or "{}"))
    except ValueError:
        raise protocol_error("it is no JSON") from None
    if value is None:
        raise protocol_error("it is no JSON object")
    return value


class EventReader:
    """Server-sent events: bytes → (event, data). `last_id`: of the last one that was given out, where a client comes back."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0
        self.last_id: Optional[str] = None

    def feed(self, data: bytes) -> Iterator[Tuple[str, Json]]:
        self._buffer += data
        while True:
            at = self._buffer.find(b"\n\n", max(0, self._searched - 1))
            if at < 0:
                self._searched = len(self._buffer)
                if self._searched > EVENT_MAX:
                    raise protocol_error("an event is too long")
                return
            block = bytes(self._buffer[:at])
            del self._buffer[: at + 2]
            self._searched = 0
            kind = "message"
            data_lines: List[bytes] = []
            for line in block.split(b"\n"):
                name, _, value = line.partition(b":")
                value = value[1:] if value.startswith(b" ") else value
                if name == b"event":
                    kind = value.decode("utf-8", "replace")
                elif name == b"data":
                    data_lines.append(value)
                elif name == b"id":
                    self.last_id = value.decode("ascii", "replace")
            if data_lines:
                yield kind, json_object(b"\n".join(data_lines))


def item_of(kind: str, value: Json) -> Union[Event, Chunk]:
    """An event of a stream as an item."""
    if kind in CHANNELS:
        return Chunk(kind, bytes_of(value))
    value.pop("type", None)
    return Event(kind, value)


# --- WebSocket

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def websocket_key() -> str:
    return base64.b64encode(os.urandom(16)).decode("ascii")


def websocket_accept(key: str) -> str:
    return base64.b64encode(hashlib.sha1((key + GUID).encode("ascii")).digest()).decode("ascii")


def frame(kind: int, data: bytes) -> bytes:
    """A frame of a client: whole, masked."""
    size = len(data)
    if size < 126:
        head = struct.pack("!BB", 0x80 | kind, 0x80 | size)
    elif size < 65536:
        head = struct.pack("!BBH", 0x80 | kind, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | kind, 0x80 | 127, size)
    mask = os.urandom(4)
    wide = int.from_bytes((mask * (size // 4 + 1))[:size], "big")
    return head + mask + (int.from_bytes(data, "big") ^ wide).to_bytes(size, "big")


class FrameReader:
    """Frames of a server: bytes → (kind, data) of whole messages and of control frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._kind = 0
        self._message = bytearray()

    def feed(self, data: bytes) -> Iterator[Tuple[int, bytes]]:
        self._buffer += data
        while True:
            one = self._take()
            if one is None:
                return
            last, kind, payload = one
            if kind >= CLOSE:
                yield kind, payload
                continue
            if kind:
                self._kind = kind
            self._message += payload
            if len(self._message) > FRAME_MAX:
                raise protocol_error("a message is too long")
            if last:
                message = bytes(self._message)
                self._message.clear()
                yield self._kind, message

    def _take(self) -> Optional[Tuple[bool, int, bytes]]:
        have = self._buffer
        if len(have) < 2:
            return None
        size, at = have[1] & 0x7F, 2
        if have[1] & 0x80 or have[0] & 0x70:
            raise protocol_error("a frame is masked, or of an extension")
        if size == 126:
            if len(have) < 4:
                return None
            size, at = struct.unpack_from("!H", have, 2)[0], 4
        elif size == 127:
            if len(have) < 10:
                return None
            size, at = struct.unpack_from("!Q", have, 2)[0], 10
        if size > FRAME_MAX:
            raise protocol_error("a frame is too long")
        if len(have) < at + size:
            return None
        payload = bytes(have[at : at + size])
        kind, last = have[0] & 0x0F, bool(have[0] & 0x80)
        del have[: at + size]
        return last, kind, payload
