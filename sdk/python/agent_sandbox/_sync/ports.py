# Made from _async/ports.py by scripts/gen_python.py; change that file.
"""Connections to ports of a sandbox."""

from __future__ import annotations

from typing import Iterator, TypeVar

from .._check import checked
from .._items import Chunk, Event
from .transport import Stream

Self = TypeVar("Self", bound="Tunnel")


@checked
class Tunnel(Stream):
    """A TCP connection to a port of a sandbox: iterate over it to read, `write` to send. Close it, or use it as a context manager."""

    _what = "a connection to a port"

    def _until_started(self) -> None:
        item = self._next()
        if not (isinstance(item, Event) and item.type == "started"):
            raise RuntimeError("a connection must begin with 'started'")

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        while True:
            item = self._next()
            if item is None:
                self._check_whole()
            if item is None or (isinstance(item, Event) and item.type == "end"):
                raise StopIteration
            if isinstance(item, Chunk):
                return item.data

    def write(self, data: bytes) -> None:
        """Send bytes; waits until they are taken."""
        if self._call is None:
            raise RuntimeError("the connection is closed")
        self._call.write(bytes(data))

    def write_end(self) -> None:
        """No more bytes will be sent; reading goes on."""
        if self._call is None:
            raise RuntimeError("the connection is closed")
        self._call.write_end()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
