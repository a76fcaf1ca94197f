"""What a call answers with: events and chunks of bytes in their order, then exactly one end."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Union

Json = Dict[str, Any]

CHANNELS = ("stdout", "stderr", "pty", "body")


def _is(value: Any, kind: type) -> bool:
    """isinstance, after which a type checker still takes the value for Any."""
    return isinstance(value, kind)


def object_of(value: Any) -> Optional[Json]:
    """A JSON value if it is an object."""
    return value if _is(value, dict) else None


def list_of(value: Any) -> List[Any]:
    """A JSON value if it is a list, else an empty one."""
    return value if _is(value, list) else []


class Event(NamedTuple):
    """Something that happened: `type` and an object with what belongs to it."""

    type: str
    value: Json


class Chunk(NamedTuple):
    """Bytes on a channel: `stdout`, `stderr`, `pty` or `body`."""

    channel: str
    data: bytes


class End(NamedTuple):
    """The end of a call that succeeded. A call that failed raises instead."""

    result: Json


Item = Union[Event, Chunk, End]
