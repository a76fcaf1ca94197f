"""Providers that are written in Python: blocking methods with bytes in. Each runs in a thread of its own, so that it gets the bytes while they come."""

from __future__ import annotations

import threading
from collections import deque
from contextvars import copy_context
from typing import Any, Callable, Deque, Dict, Iterator, Optional

from .._items import Item
from .._sync.transport import Call
from ..errors import CancelledError, SandboxError
from .python_steps import Steps, wrap

AHEAD = 4  # pieces of input that wait


def _nothing() -> None:
    pass


class InputCall(Call):
    """A call of such a method.

    Args:
        function, params: what is called.
        most: items that it may be ahead of who reads them.
        told: called from whatever thread when something has changed.
    """

    def __init__(self, function: Any, params: Dict[str, Any], most: float, told: Callable[[], None] = _nothing) -> None:
        self._changed = threading.Condition()
        self._input: Deque[bytes] = deque()
        self._items: Deque[Item] = deque()
        self._most = most
        self._failed: Optional[SandboxError] = None
        self._input_ended = self._over = self._closed = False
        self._told = told
        steps = Steps(function, [params, self._pieces()])
        threading.Thread(target=copy_context().run, args=(self._work, steps), name="agent_sandbox", daemon=True).start()

    def _tell(self) -> None:
        """With the lock."""
        self._changed.notify_all()
        self._told()

    # --- in the thread of the method

    def _work(self, steps: Steps) -> None:
        failed: Optional[SandboxError] = None
        try:
            while not steps.done and self._take(steps.next()):
                pass
            steps.close()
        except SandboxError as error:
            failed = error
        except BaseException as error:
            failed = wrap(error)
        with self._changed:
            self._failed, self._over = failed, True
            self._input.clear()
            self._tell()

    def _take(self, item: Item) -> bool:
        """Put an item aside for who reads; False: nobody does."""
        with self._changed:
            while len(self._items) >= self._most and not self._closed:
                self._changed.wait()
            self._items.append(item)
            self._tell()
            return not self._closed

    def _pieces(self) -> Iterator[bytes]:
        while True:
            with self._changed:
                while not (self._input or self._input_ended or self._closed):
                    self._changed.wait()
                if self._closed:
                    raise CancelledError("the input was given up before its end")
                if not self._input:
                    return
                piece = self._input.popleft()
                self._tell()
            yield piece

    # --- in any other

    def _has_room(self) -> bool:
        return len(self._input) < AHEAD or self._over or self._closed

    def offer(self, data: bytes) -> bool:
        """Bytes of the input, taken if there is room for them."""
        with self._changed:
            if not self._has_room():
                return False
            if not (self._over or self._closed):
                self._input.append(data)
                self._tell()
            return True

    def write(self, data: bytes) -> None:
        while not self.offer(data):
            with self._changed:
                self._changed.wait_for(self._has_room)

    def write_end(self) -> None:
        with self._changed:
            self._input_ended = True
            self._tell()

    def _is_ready(self) -> bool:
        return bool(self._items) or self._over or self._closed

    def ready(self, seconds: float) -> bool:
        with self._changed:
            return bool(self._changed.wait_for(self._is_ready, seconds))

    def next(self) -> Item:
        with self._changed:
            self._changed.wait_for(self._is_ready)
            if self._items:
                item = self._items.popleft()
                self._tell()
                return item
            failed, self._failed = self._failed, None
            if failed is not None:
                raise failed
            raise RuntimeError("the call has ended")

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._input.clear()
            self._tell()
