"""Exceptions. Made from the project's table of errors by scripts/gen_python.py.

Every failure is a `SandboxError` with a code and a type that never change. Those with a counterpart in Python are of
that class too: `except FileNotFoundError` finds a file that is missing in a sandbox as it finds one on the disk.
"""

from __future__ import annotations

import builtins
from typing import Any, Dict, Mapping, Optional, Tuple, Type


class SandboxError(Exception):
    """Anything that goes wrong in a call.

    Attributes:
        message: what went wrong, one line.
        code: `E` and four digits; never changes its meaning.
        type: name of the class, as every door of abx tells it.
        hint: what to do about it, or None.
        retryable: the same call may work later; None when that is not known.
    """

    code: str = "E9001"
    type: str = "SandboxError"
    hint: Optional[str] = None
    retryable: Optional[bool] = None

    def __init__(
        self,
        message: str = "",
        *,
        code: Optional[str] = None,
        type: Optional[str] = None,
        hint: Optional[str] = None,
        retryable: Optional[bool] = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        if type is not None:
            self.type = type
        if hint is not None:
            self.hint = hint
        if retryable is not None:
            self.retryable = retryable

    def __str__(self) -> str:
        return f"{self.message} ({self.code})" + (f"\nhint: {self.hint}" if self.hint else "")

    def __reduce__(self) -> Tuple[Any, ...]:
        return _again, (self.__class__, self.message, self.code, self.type, self.hint, self.retryable)

    def to_object(self) -> Dict[str, Any]:
        """The error as JSON has it: `{"code", "type", "message", "hint", "retryable"}`; what is not known is absent."""
        out: Dict[str, Any] = {"code": self.code, "type": self.type, "message": self.message}
        if self.hint is not None:
            out["hint"] = self.hint
        if self.retryable is not None:
            out["retryable"] = self.retryable
        return out


def _again(
    cls: Type[SandboxError],
    message: str,
    code: str,
    type: str,
    hint: Optional[str],
    retryable: Optional[bool],
) -> SandboxError:
    return cls(message, code=code, type=type, hint=hint, retryable=retryable)


class UsageError(SandboxError, ValueError):
    """E1001: the call itself is wrong: an unknown word, a missing or a wrong parameter."""

    code = "E1001"
    type = "UsageError"
    retryable = False


class ConfigError(SandboxError):
    """E1002: a configuration file or a setting cannot be used; E1004: the folder that holds the state of abx cannot be used."""

    code = "E1002"
    type = "ConfigError"
    retryable = False


class ProviderConfigError(SandboxError):
    """E1003: an option or a key that the provider needs is missing or wrong."""

    code = "E1003"
    type = "ProviderConfigError"
    retryable = False


class ForkedError(SandboxError):
    """E1005: what a process had open is used by one that was forked from it."""

    code = "E1005"
    type = "ForkedError"
    retryable = False


class InvalidAPIKeyError(SandboxError):
    """E2001: no key, or a key that the provider does not accept."""

    code = "E2001"
    type = "InvalidAPIKeyError"
    retryable = False


class PermissionDeniedError(SandboxError, builtins.PermissionError):
    """E2002: the caller may not do this."""

    code = "E2002"
    type = "PermissionDeniedError"
    retryable = False


class EngineTokenError(SandboxError):
    """E2003: a request to the engine without its token, or with another one."""

    code = "E2003"
    type = "EngineTokenError"
    retryable = False


class SandboxNotFoundError(SandboxError):
    """E3001: no living sandbox has this id or name."""

    code = "E3001"
    type = "SandboxNotFoundError"
    retryable = False


class FileNotFoundError(SandboxError, builtins.FileNotFoundError):
    """E3002: no such file or folder."""

    code = "E3002"
    type = "FileNotFoundError"
    retryable = False


class ProcessNotFoundError(SandboxError):
    """E3003: no such process or terminal in the sandbox."""

    code = "E3003"
    type = "ProcessNotFoundError"
    retryable = False


class ProviderNotFoundError(SandboxError):
    """E3004: no provider has this id."""

    code = "E3004"
    type = "ProviderNotFoundError"
    retryable = False


class TemplateNotFoundError(SandboxError):
    """E3005: no template has this name."""

    code = "E3005"
    type = "TemplateNotFoundError"
    retryable = False


class SnapshotNotFoundError(SandboxError):
    """E3006: no snapshot has this id or name."""

    code = "E3006"
    type = "SnapshotNotFoundError"
    retryable = False


class ContextNotFoundError(SandboxError):
    """E3007: the sandbox has no such context of code."""

    code = "E3007"
    type = "ContextNotFoundError"
    retryable = False


class PortNotFoundError(SandboxError):
    """E3008: nobody in the sandbox listens on this port."""

    code = "E3008"
    type = "PortNotFoundError"
    retryable = False


class ConflictError(SandboxError):
    """E4001: it exists already, is busy, or is in a state that does not allow this."""

    code = "E4001"
    type = "ConflictError"
    retryable = False


class RateLimitError(SandboxError):
    """E4002: the provider asks to wait."""

    code = "E4002"
    type = "RateLimitError"
    retryable = True


class NotEnoughSpaceError(SandboxError):
    """E4003: no space is left where the data should go."""

    code = "E4003"
    type = "NotEnoughSpaceError"
    retryable = None


class TooLargeError(SandboxError):
    """E4004: a message, a name or an answer is over its limit."""

    code = "E4004"
    type = "TooLargeError"
    retryable = False


class QuotaError(SandboxError):
    """E4005: a limit on the number or size of things is reached."""

    code = "E4005"
    type = "QuotaError"
    retryable = None


class TimeoutError(SandboxError, builtins.TimeoutError):
    """E5001: the time limit of the call passed."""

    code = "E5001"
    type = "TimeoutError"
    retryable = True


class CancelledError(SandboxError):
    """E5002: the caller cancelled the call."""

    code = "E5002"
    type = "CancelledError"
    retryable = True


class NetworkError(SandboxError, builtins.ConnectionError):
    """E6001: the provider is out of reach, or the connection broke."""

    code = "E6001"
    type = "NetworkError"
    retryable = True


class BackendError(SandboxError):
    """E6002: the provider answered with a failure; E6003: the provider's answer does not fit its protocol; E6004: the sandbox ended while the call ran."""

    code = "E6002"
    type = "BackendError"
    retryable = None


class FileError(SandboxError):
    """E6005: the file system refused this."""

    code = "E6005"
    type = "FileError"
    retryable = False


class ProcessStartError(SandboxError):
    """E6006: the process could not be started."""

    code = "E6006"
    type = "ProcessStartError"
    retryable = False


class ServerNotRunningError(SandboxError):
    """E6007: no server of abx runs where one is needed."""

    code = "E6007"
    type = "ServerNotRunningError"
    retryable = True


class IsolationError(SandboxError):
    """E7001: this machine refuses a layer of the isolation."""

    code = "E7001"
    type = "IsolationError"
    retryable = False


class LocalStateError(SandboxError):
    """E7002: the local backend's own files cannot be used."""

    code = "E7002"
    type = "LocalStateError"
    retryable = None


class ProviderProtocolError(SandboxError):
    """E8001: a provider program broke its protocol."""

    code = "E8001"
    type = "ProviderProtocolError"
    retryable = False


class ProviderKindError(SandboxError):
    """E8002: this kind of provider cannot be run."""

    code = "E8002"
    type = "ProviderKindError"
    retryable = False


class ProviderIntegrityError(SandboxError):
    """E8003: the provider's files are not those that were installed."""

    code = "E8003"
    type = "ProviderIntegrityError"
    retryable = False


class ProviderFeatureNotSupportedError(SandboxError, NotImplementedError):
    """E8004: the provider does not have this feature."""

    code = "E8004"
    type = "ProviderFeatureNotSupportedError"
    retryable = False


class ProviderCrashedError(SandboxError):
    """E8005: a provider program ended in the middle of a call."""

    code = "E8005"
    type = "ProviderCrashedError"
    retryable = None


class ProviderManifestError(SandboxError):
    """E8006: the manifest of a provider has a mistake."""

    code = "E8006"
    type = "ProviderManifestError"
    retryable = False


class ProviderStartError(SandboxError):
    """E8007: a provider program cannot be started."""

    code = "E8007"
    type = "ProviderStartError"
    retryable = False


class ProviderModuleError(SandboxError):
    """E8008: the module of a provider failed with an error of its own."""

    code = "E8008"
    type = "ProviderModuleError"
    retryable = None


class InternalError(SandboxError):
    """E9001: a bug in abx."""

    code = "E9001"
    type = "InternalError"
    retryable = False


_BY_CODE: Dict[str, Type[SandboxError]] = {
    "E1001": UsageError,
    "E1002": ConfigError,
    "E1003": ProviderConfigError,
    "E1004": ConfigError,
    "E1005": ForkedError,
    "E2001": InvalidAPIKeyError,
    "E2002": PermissionDeniedError,
    "E2003": EngineTokenError,
    "E3001": SandboxNotFoundError,
    "E3002": FileNotFoundError,
    "E3003": ProcessNotFoundError,
    "E3004": ProviderNotFoundError,
    "E3005": TemplateNotFoundError,
    "E3006": SnapshotNotFoundError,
    "E3007": ContextNotFoundError,
    "E3008": PortNotFoundError,
    "E4001": ConflictError,
    "E4002": RateLimitError,
    "E4003": NotEnoughSpaceError,
    "E4004": TooLargeError,
    "E4005": QuotaError,
    "E5001": TimeoutError,
    "E5002": CancelledError,
    "E6001": NetworkError,
    "E6002": BackendError,
    "E6003": BackendError,
    "E6004": BackendError,
    "E6005": FileError,
    "E6006": ProcessStartError,
    "E6007": ServerNotRunningError,
    "E7001": IsolationError,
    "E7002": LocalStateError,
    "E8001": ProviderProtocolError,
    "E8002": ProviderKindError,
    "E8003": ProviderIntegrityError,
    "E8004": ProviderFeatureNotSupportedError,
    "E8005": ProviderCrashedError,
    "E8006": ProviderManifestError,
    "E8007": ProviderStartError,
    "E8008": ProviderModuleError,
    "E9001": InternalError,
}
_BY_TYPE: Dict[str, Type[SandboxError]] = {cls.type: cls for cls in _BY_CODE.values()}

# A hint of the table -> what it says in Python
_HINTS: Dict[str, str] = {
    "'abx help VERB' shows what is accepted": "the docstring of the method tells what it takes",
    "'abx config list' shows each setting and where it comes from": "Providers().settings() tells each setting and where it comes from",
    "'abx config list' shows what is set": "Providers().settings() tells what is set",
    "'abx ls' lists the sandboxes": "Sandbox.list() lists the sandboxes",
    "'abx jobs ID' lists the processes": "sandbox.commands.list() lists the processes",
    "'abx snapshot ls' lists the snapshots": "sandbox.list_snapshots() lists the snapshots",
    "'abx code ID --contexts' lists them": "sandbox.code.list_contexts() lists them",
    "'abx port ID' lists the ports": "sandbox.ports() lists the ports",
    "'abx ls' shows what lives; its time limit (--timeout) ends a sandbox, too": "Sandbox.list() tells what lives; its time limit (timeout=) ends a sandbox, too",
    "'abx doctor' tries each layer and prints the fix": "Upkeep().doctor() tries each layer and tells the fix",
    "'abx info ID' lists what it has": "sandbox.features tells what it has",
}


def error_from_object(value: Mapping[str, Any]) -> SandboxError:
    """The exception for an error object `{"code", "type", "message", "hint", "retryable"}`.

    A code that this version does not know gives the class of the type, else a plain `SandboxError`.
    """
    code, name = value.get("code"), value.get("type")
    cls = _BY_CODE.get(str(code)) or _BY_TYPE.get(str(name)) or SandboxError
    hint, retryable = value.get("hint"), value.get("retryable")
    return cls(
        str(value.get("message", "")),
        code=str(code) if code else None,
        type=str(name) if name else None,
        hint=_HINTS.get(str(hint), str(hint)) if hint else None,
        retryable=retryable if isinstance(retryable, bool) else None,
    )
