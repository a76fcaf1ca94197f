"""Time limits of calls."""

from __future__ import annotations

import time
from contextvars import ContextVar, Token
from typing import List, Optional

from ._check import checked
from .errors import TimeoutError

# The time until which calls are done: of the `deadline` that is around them.
_until: ContextVar[Optional[float]] = ContextVar("agent_sandbox_deadline", default=None)


@checked
class deadline:
    """A time limit for calls: `with deadline(5): ...` lets every call that begins in it fail with `TimeoutError` when so many
    seconds have passed since its beginning, streams too. The innermost that ends first counts."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._tokens: List[Token[Optional[float]]] = []

    def __enter__(self) -> None:
        outer, mine = _until.get(), time.monotonic() + self._seconds
        self._tokens.append(_until.set(mine if outer is None else min(outer, mine)))

    def __exit__(self, *exc: object) -> None:
        _until.reset(self._tokens.pop())


def time_left() -> Optional[float]:
    """Seconds until the time limit that is around; None: there is none."""
    until = _until.get()
    left = None if until is None else until - time.monotonic()
    if left is not None and left <= 0:
        raise TimeoutError("the time limit of the call passed")
    return left
