"""A provider that is open: what makes calls. Nothing above it knows which kind it is."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional

if TYPE_CHECKING:
    from ._async.transport import AsyncCall
    from ._sync.transport import Call


class Infra(abc.ABC):
    """A provider that is open, for both faces. Any thread may use it; what it holds is made when it is first needed, anew after
    a fork, and for each event loop."""

    provider: str

    @abc.abstractmethod
    def features(self) -> Mapping[str, str]:
        """Feature, or operation that differs from its feature → `native`, `emulated` or `unsupported`. Empty if not known."""

    @abc.abstractmethod
    def start(
        self,
        method: str,
        params: Dict[str, Any],
        *,
        has_input: bool = False,
        timeout: Optional[float] = None,
    ) -> Call:
        """Begin a call; `has_input`: bytes will be written; `timeout`: seconds for all of it. Raises, or the call's first
        `next` does."""

    @abc.abstractmethod
    async def astart(
        self,
        method: str,
        params: Dict[str, Any],
        *,
        has_input: bool = False,
        timeout: Optional[float] = None,
    ) -> AsyncCall:
        """The same in an event loop."""

    def close(self) -> None:
        """Let go of what it holds. Sandboxes live on."""
