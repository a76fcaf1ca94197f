"""What a provider is here, and those that stay in this process."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, ClassVar, Iterable, Mapping, Optional, Union

from .._connection import Connection
from .._infra import Infra

if TYPE_CHECKING:
    from .._native import NativeInfra


class Provider:
    """A backend that sandboxes come from.

    To write one in Python, derive from this class, name its `id` and its `features`, and write a method for each operation that
    it has: `sandbox_create`, `process_start`, `fs_read` and so on (the names in docs/operations.md with `_` for the dot). Give it
    to `register_provider`. A method takes the parameters (a dict); those of operations with bytes in take the pieces of
    these as a second argument, an iterable of bytes, while they come: a blocking one in a thread of its own, so that who uploads is
    never more than a few pieces ahead. It returns the result (a dict), or yields events and chunks on the way:

        class Mine(Provider):
            id = "mine"
            features = ("process",)

            def sandbox_create(self, params):
                return {"id": "one", "state": "running"}

            def process_start(self, params):
                yield Event("started", {"id": "1"})
                yield Chunk("stdout", b"hello\\n")
                return {"exitCode": 0}

    Methods may be plain functions, generators, coroutine functions or asynchronous generators (of which the last item that is an
    `End` is the result). A reader that is slow slows a generator down; one that gives up closes it. Errors are exceptions of
    `agent_sandbox.errors`. What needs a feature that is not named is refused before a method is called.
    """

    id: ClassVar[str] = ""
    kind: ClassVar[str] = "python"
    features: Union[Iterable[str], Mapping[str, str]] = ()

    def __init__(self, connection: Optional[Connection] = None) -> None:
        self.connection = connection or Connection(provider=self.id)

    def build_infra(self) -> Infra:
        """The provider, opened: what makes calls."""
        from .python_provider import PythonInfra

        return PythonInfra(self)

    def close(self) -> None:
        """It is not needed any more. Written by providers that hold something."""


class _NativeProvider(Provider):
    """One that libabx runs in this process."""

    def build_infra(self) -> NativeInfra:
        from .._native import NativeInfra

        return NativeInfra(self.connection)


class BuiltinProvider(_NativeProvider):
    """`local`, `alicloud-express`: what is built into abx."""

    kind = "builtin"


class RestProvider(_NativeProvider):
    """A service of E2B's shape, which a manifest describes; its HTTP is spoken in this process."""

    kind = "rest"


class ExecProvider(_NativeProvider):
    """A provider program, started by this process."""

    kind = "exec"


def is_async(function: Any) -> bool:
    """Does it need an event loop?"""
    inspect = sys.modules.get("inspect")
    if inspect is None:
        import inspect as loaded

        inspect = loaded
    return bool(inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function))
