"""Sandboxes for Python: throw-away machines in which code of others runs, at whatever backend.

    from agent_sandbox import Sandbox

    with Sandbox.create(provider="local") as sandbox:
        print(sandbox.commands.run(["uname", "-s"]).stdout)

`AsyncSandbox` is the same for asyncio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List

from ._connection import Connection
from ._deadline import deadline
from ._items import Chunk, End, Event
from ._sync.code import Code
from ._sync.commands import Command, Commands
from ._sync.files import FileReader, Files, Watch, Written
from ._sync.ports import Tunnel
from ._sync.pty import Pty, Terminal
from ._sync.sandbox import Sandbox
from ._sync.templates import Templates
from ._sync.upkeep import Upkeep
from .errors import (
    BackendError,
    CancelledError,
    ConfigError,
    ConflictError,
    ContextNotFoundError,
    FileError,
    FileNotFoundError as FileNotFoundError,
    InternalError,
    InvalidAPIKeyError,
    IsolationError,
    NetworkError,
    NotEnoughSpaceError,
    PermissionDeniedError,
    ProcessNotFoundError,
    ProcessStartError,
    ProviderConfigError,
    ProviderCrashedError,
    ProviderFeatureNotSupportedError,
    ProviderIntegrityError,
    ProviderKindError,
    ProviderNotFoundError,
    ProviderProtocolError,
    QuotaError,
    RateLimitError,
    SandboxError,
    SandboxNotFoundError,
    SnapshotNotFoundError,
    TemplateNotFoundError,
    TimeoutError as TimeoutError,
    UsageError,
)
from .providers import Provider, Providers, register_provider, unregister_provider
from .types import (
    Change,
    CodeContext,
    CodeError,
    CodeResult,
    CommandFailedError,
    CommandResult,
    Execution,
    FileInfo,
    Layer,
    Leftover,
    LogEntry,
    Metrics,
    Output,
    PortInfo,
    PortUrl,
    ProcessInfo,
    PtyResult,
    SandboxInfo,
    SnapshotInfo,
    TemplateInfo,
)

if TYPE_CHECKING:
    from ._async.code import AsyncCode
    from ._async.commands import AsyncCommand, AsyncCommands
    from ._async.files import AsyncFileReader, AsyncFiles, AsyncWatch
    from ._async.ports import AsyncTunnel
    from ._async.pty import AsyncPty, AsyncTerminal
    from ._async.sandbox import AsyncSandbox
    from ._async.templates import AsyncTemplates
    from ._async.upkeep import AsyncUpkeep

__version__ = "0.1.0"

# What needs asyncio is loaded when it is first asked for.
_LATER = {
    "AsyncCode": "code",
    "AsyncCommand": "commands",
    "AsyncCommands": "commands",
    "AsyncFileReader": "files",
    "AsyncFiles": "files",
    "AsyncPty": "pty",
    "AsyncSandbox": "sandbox",
    "AsyncTemplates": "templates",
    "AsyncTerminal": "pty",
    "AsyncTunnel": "ports",
    "AsyncUpkeep": "upkeep",
    "AsyncWatch": "files",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        from importlib import import_module

        value = getattr(import_module(f"._async.{_LATER[name]}", __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> List[str]:
    return sorted({*globals(), *_LATER})


# FileNotFoundError and TimeoutError are here to be named, but not in `import *`: they would hide Python's own.
__all__ = [
    "AsyncCode",
    "AsyncCommand",
    "AsyncCommands",
    "AsyncFileReader",
    "AsyncFiles",
    "AsyncPty",
    "AsyncSandbox",
    "AsyncTemplates",
    "AsyncTerminal",
    "AsyncTunnel",
    "AsyncUpkeep",
    "AsyncWatch",
    "BackendError",
    "CancelledError",
    "Change",
    "Chunk",
    "Code",
    "CodeContext",
    "CodeError",
    "CodeResult",
    "Command",
    "CommandFailedError",
    "CommandResult",
    "Commands",
    "ConfigError",
    "ConflictError",
    "Connection",
    "ContextNotFoundError",
    "End",
    "Event",
    "Execution",
    "FileError",
    "FileInfo",
    "FileReader",
    "Files",
    "InternalError",
    "InvalidAPIKeyError",
    "IsolationError",
    "Layer",
    "Leftover",
    "LogEntry",
    "Metrics",
    "NetworkError",
    "NotEnoughSpaceError",
    "Output",
    "PermissionDeniedError",
    "PortInfo",
    "PortUrl",
    "ProcessInfo",
    "ProcessNotFoundError",
    "ProcessStartError",
    "Provider",
    "ProviderConfigError",
    "ProviderCrashedError",
    "ProviderFeatureNotSupportedError",
    "ProviderIntegrityError",
    "ProviderKindError",
    "ProviderNotFoundError",
    "ProviderProtocolError",
    "Providers",
    "Pty",
    "PtyResult",
    "QuotaError",
    "RateLimitError",
    "Sandbox",
    "SandboxError",
    "SandboxInfo",
    "SandboxNotFoundError",
    "SnapshotInfo",
    "SnapshotNotFoundError",
    "TemplateInfo",
    "TemplateNotFoundError",
    "Templates",
    "Terminal",
    "Tunnel",
    "Upkeep",
    "UsageError",
    "Watch",
    "Written",
    "deadline",
    "register_provider",
    "unregister_provider",
]
