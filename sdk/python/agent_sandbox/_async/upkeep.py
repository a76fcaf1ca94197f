"""The backend itself: what is left over, and what it needs."""

from __future__ import annotations

from typing import List, Optional

from .._check import checked
from .._connection import Connection
from ..providers.registry import open_infra
from ..types import Layer, Leftover, objects
from .transport import unary


@checked
class AsyncUpkeep:
    """Upkeep of a provider. `Providers().gc()` clears up at all that are in use.

    Args:
        provider: id of the provider; None: the one that `Sandbox.create` would use.
        connection: provider, keys and options in one object.
    """

    def __init__(self, provider: Optional[str] = None, *, connection: Optional[Connection] = None) -> None:
        self._connection = connection or Connection(provider=provider)

    async def gc(self, *, dry_run: bool = False) -> List[Leftover]:
        """Clear what nobody owns any more: sandboxes whose maker was killed, files of sandboxes that are gone.

        Args:
            dry_run: only say what would be removed.

        Returns:
            What was removed.
        """
        result = await unary(open_infra(self._connection), "provider.gc", {"dryRun": True} if dry_run else {})
        return [Leftover.from_object(one) for one in objects(result.get("removed"))]

    async def doctor(self) -> List[Layer]:
        """Try what the backend needs, each by itself; one that is not `ok` says why, and what to do about it."""
        result = await unary(open_infra(self._connection), "provider.doctor", {})
        return [Layer.from_object(one) for one in objects(result.get("layers"))]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._connection.provider or 'the chosen provider'}>"
