"""Providers that are written in Python: a part of a file where they give whole ones."""

from __future__ import annotations

from typing import Any, AsyncIterator, Callable, Dict, Iterator, Optional

from .._items import Chunk, End, Item
from ..errors import UsageError
from .provider import is_async
from .python_steps import as_item


class Part:
    """A part of a file, cut out of the whole: what a method without `offset` and `limit` cannot do."""

    def __init__(self, params: Dict[str, Any]) -> None:
        self.whole = {name: value for name, value in params.items() if name not in ("offset", "limit")}
        self._skip: int = params.get("offset", 0)
        self._left: Optional[int] = params.get("limit")
        self._size = 0
        if min(self._skip, self._left or 0) < 0:
            raise UsageError("offset and limit of fs.read are not negative")

    @property
    def over(self) -> bool:
        return self._left == 0

    def cut(self, item: Item) -> Optional[Item]:
        """What of it is wanted; None: nothing."""
        if not isinstance(item, Chunk):
            return item
        data = item.data[self._skip :]
        self._skip = max(self._skip - len(item.data), 0)
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        self._size += len(data)
        return Chunk(item.channel, data) if data else None

    def end(self) -> End:
        return End({"size": self._size})


def cut(function: Callable[..., Any], part: Part) -> Callable[..., Any]:
    """fs_read of a provider, for a part."""

    def plain(params: Dict[str, Any]) -> Iterator[Item]:
        answer = function(params)
        for step in answer if hasattr(answer, "__next__") else ():
            item = as_item(step)
            if isinstance(item, End):
                break
            wanted = part.cut(item)
            if wanted is not None:
                yield wanted
            if part.over:
                answer.close()
                break
        yield part.end()

    async def coroutine(params: Dict[str, Any]) -> AsyncIterator[Item]:
        answer = function(params)
        if not hasattr(answer, "__anext__"):
            await answer
        else:
            async for step in answer:
                item = as_item(step)
                if isinstance(item, End):
                    break
                wanted = part.cut(item)
                if wanted is not None:
                    yield wanted
                if part.over:
                    await answer.aclose()
                    break
        yield part.end()

    return coroutine if is_async(function) else plain
