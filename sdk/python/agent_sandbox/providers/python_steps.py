"""Providers that are written in Python: what a blocking method answers, item by item."""

from __future__ import annotations

from typing import Any, Iterator, List, Optional, cast

from .._items import Chunk, End, Event, Item
from ..errors import ProviderModuleError, SandboxError


def wrap(error: BaseException) -> SandboxError:
    """For an exception of a provider's own code."""
    return ProviderModuleError(f"the provider failed: {type(error).__name__}: {error}")


def as_item(value: Any) -> Item:
    """What a provider has yielded."""
    if isinstance(value, (Event, Chunk, End)):
        return value
    raise ProviderModuleError(f"the provider yielded {value!r}, which is no Event, Chunk or End")


class Steps:
    """A call of a function or a generator; it runs while `next` is called."""

    def __init__(self, function: Any, arguments: List[Any]) -> None:
        self._function = function
        self._arguments = arguments
        self._steps: Optional[Iterator[Any]] = None
        self.done = False

    def next(self) -> Item:
        """The next item; the last one is an `End`."""
        if self.done:
            raise RuntimeError("the call has ended")
        try:
            item = self._next()
        except SandboxError:
            self.done = True
            raise
        except Exception as error:
            self.done = True
            raise wrap(error) from error
        if isinstance(item, End):
            self.done = True
        return item

    def _next(self) -> Item:
        if self._steps is None:
            answer = self._function(*self._arguments)
            if not hasattr(answer, "send"):
                return End(answer or {})
            self._steps = cast("Iterator[Any]", answer)
        try:
            return as_item(next(self._steps))
        except StopIteration as end:
            return End(end.value or {})

    def close(self) -> None:
        """A generator ends where it is."""
        self.done = True
        steps, self._steps = self._steps, None
        if steps is not None:
            cast(Any, steps).close()
