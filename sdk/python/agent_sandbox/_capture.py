"""Output that is kept in memory, within a bound: the first and the last part of it."""

from __future__ import annotations

import codecs
from collections import deque
from typing import Deque, List

CAPTURE_LIMIT = 64 * 1024 * 1024  # bytes a stream


class Capture:
    """Keeps the first and the last half of `limit` bytes, and counts what fell out between them."""

    def __init__(self, limit: int = CAPTURE_LIMIT) -> None:
        if limit < 0:
            raise ValueError("a limit is no negative number")
        self._head_room = limit - limit // 2
        self._tail_room = limit // 2
        self._head: List[bytes] = []
        self._tail: Deque[bytes] = deque()
        self._tail_size = 0
        self.gap = 0

    def add(self, data: bytes) -> None:
        if self._head_room:
            first = data[: self._head_room]
            self._head.append(first)
            self._head_room -= len(first)
            data = data[len(first) :]
        if not data:
            return
        self._tail.append(data)
        self._tail_size += len(data)
        over = self._tail_size - self._tail_room
        while over > 0:
            oldest = self._tail[0]
            if len(oldest) <= over:
                self._tail.popleft()
                gone = len(oldest)
            else:
                self._tail[0] = oldest[over:]
                gone = over
            over -= gone
            self._tail_size -= gone
            self.gap += gone

    def value(self) -> bytes:
        """What was kept; a line that tells the size of the gap stands where one is."""
        head, tail = b"".join(self._head), b"".join(self._tail)
        if not self.gap:
            return head + tail
        return head + f"\n[... {self.gap} bytes were not kept ...]\n".encode() + tail


class Decoder:
    """Bytes as they come → text; a character that is cut in two waits for its other part."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def text(self, data: bytes) -> str:
        return self._decoder.decode(data)

    def end(self) -> str:
        """What is left of a character that never ended."""
        return self._decoder.decode(b"", True)
