"""Output that is kept in memory, within a bound: the first and the last part of it."""

from __future__ import annotations

import codecs
from collections import deque
from typing import Any, Deque, Dict, List, Mapping, Tuple, Union

from ._items import Chunk, Event

CAPTURE_LIMIT = 64 * 1024 * 1024  # bytes a stream


class Capture:
    """Keeps the first and the last half of `limit` bytes, and counts what fell out between them."""

    def __init__(self, limit: int = CAPTURE_LIMIT) -> None:
        if limit < 0:
            raise ValueError("a limit is no negative number")
        self._head_room = limit - limit // 2
        self._tail_room = limit // 2
        self._head: List[Tuple[int, bytes]] = []  # each with the number of its piece
        self._tail: Deque[Tuple[int, bytes]] = deque()
        self._tail_size = 0
        self.gap = 0

    def add(self, data: bytes, number: int = 0) -> None:
        if self._head_room:
            first = data[: self._head_room]
            self._head.append((number, first))
            self._head_room -= len(first)
            data = data[len(first) :]
        if not data:
            return
        self._tail.append((number, data))
        self._tail_size += len(data)
        over = self._tail_size - self._tail_room
        while over > 0:
            oldest_number, oldest = self._tail[0]
            if len(oldest) <= over:
                self._tail.popleft()
                gone = len(oldest)
            else:
                self._tail[0] = oldest_number, oldest[over:]
                gone = over
            over -= gone
            self._tail_size -= gone
            self.gap += gone

    def value(self) -> bytes:
        """What was kept; a line that tells the size of the gap stands where one is."""
        head, tail = b"".join(data for _, data in self._head), b"".join(data for _, data in self._tail)
        if not self.gap:
            return head + tail
        return head + f"\n[... {self.gap} bytes were not kept ...]\n".encode() + tail

    def pieces(self, channel: str) -> List[Tuple[int, Union[Event, Chunk]]]:
        """What was kept as it came, with the numbers of the pieces; an event `gap` stands where something fell out."""
        out: List[Tuple[int, Union[Event, Chunk]]] = [(number, Chunk(channel, data)) for number, data in self._head]
        if self.gap:
            before = self._tail[0][0] if self._tail else out[-1][0] if out else 0
            out.append((before, Event("gap", {"stream": channel, "bytes": self.gap})))
        out += [(number, Chunk(channel, data)) for number, data in self._tail]
        return out

    @property
    def seen(self) -> int:
        """Bytes that were added, whether they were kept or not."""
        return sum(len(data) for _, data in self._head) + self._tail_size + self.gap


class Decoder:
    """Bytes as they come → text; a character that is cut in two waits for its other part."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def text(self, data: bytes) -> str:
        return self._decoder.decode(data)

    @property
    def state(self) -> Any:
        """Where it is; it can be set back to there."""
        return self._decoder.getstate()

    def back_to(self, state: Any) -> None:
        self._decoder.setstate(state)

    def end(self) -> str:
        """What is left of a character that never ended."""
        return self._decoder.decode(b"", True)


class Kept:
    """Output that was taken from a command for its result, and that an iteration may still ask for."""

    def __init__(self, limit: int, decoders: Mapping[str, Decoder]) -> None:
        self.captures: Dict[str, Capture] = {stream: Capture(limit) for stream in decoders}
        self._states = {stream: decoder.state for stream, decoder in decoders.items()}
        self._count = 0

    def add(self, stream: str, data: bytes) -> None:
        self.captures[stream].add(data, self._count)
        self._count += 1

    def give_back(self, decoders: Mapping[str, Decoder]) -> List[Union[Event, Chunk]]:
        """All of it in its order, as it came; the decoders are set back to before it."""
        for stream, decoder in decoders.items():
            decoder.back_to(self._states[stream])
        pieces = [piece for stream, capture in self.captures.items() for piece in capture.pieces(stream)]
        return [item for _, item in sorted(pieces, key=lambda piece: piece[0])]
