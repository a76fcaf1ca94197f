"""libabx by ctypes: its functions, and where it is found."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import threading
import time
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from .errors import ConfigError, InternalError, SandboxError, error_from_object

KIND_EVENT, KIND_CHUNK, KIND_END, KIND_WRITABLE = 1, 2, 3, 4
HERE = Path(__file__).resolve().parent


def carried(name: str) -> Optional[str]:
    """A file that a wheel carries; in a checkout, the one of its build."""
    places = [HERE / "_native" / name]
    if (HERE.parent / "build_backend").is_dir():
        places.append(HERE.parents[2] / "build" / "release" / name)
    return next((str(path) for path in places if path.exists()), None)


class AbxEvent(ctypes.Structure):
    """abx_event of abx.h."""

    _fields_ = [
        ("size", c_uint32),
        ("kind", c_int32),
        ("name", c_char_p),
        ("data", c_void_p),
        ("length", c_size_t),
        ("error", c_void_p),
    ]


Errors = POINTER(c_void_p)
FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {  # Function → (result, parameters). A text that the caller owns is a c_void_p.
    "abx_version": (c_char_p, []),
    "abx_free": (None, [c_void_p]),
    "abx_error_to_json": (c_void_p, [c_void_p]),
    "abx_error_free": (None, [c_void_p]),
    "abx_context_new": (c_void_p, [c_char_p, Errors]),
    "abx_context_free": (None, [c_void_p]),
    "abx_context_fd": (c_int, [c_void_p, Errors]),
    "abx_context_run": (c_int, [c_void_p, c_int]),
    "abx_context_ready": (c_void_p, [c_void_p]),
    "abx_provider_open": (c_void_p, [c_void_p, c_char_p, Errors]),
    "abx_provider_close": (None, [c_void_p]),
    "abx_provider_id": (c_char_p, [c_void_p]),
    "abx_provider_describe": (c_void_p, [c_void_p, Errors]),
    "abx_provider_connection": (c_void_p, [c_void_p, Errors]),
    "abx_provider_list": (c_void_p, [c_void_p, Errors]),
    "abx_provider_info": (c_void_p, [c_void_p, c_char_p, Errors]),
    "abx_provider_caps": (c_void_p, [c_void_p, Errors]),
    "abx_provider_verify": (c_void_p, [c_void_p, c_char_p, Errors]),
    "abx_provider_install": (c_void_p, [c_void_p, c_char_p, c_char_p, Errors]),
    "abx_provider_remove": (c_int, [c_void_p, c_char_p, c_int, Errors]),
    "abx_settings_list": (c_void_p, [c_void_p, Errors]),
    "abx_ledger_list": (c_void_p, [c_void_p, Errors]),
    "abx_gc": (c_void_p, [c_void_p, c_int, Errors]),
    "abx_sandbox_find": (c_void_p, [c_void_p, c_char_p, Errors]),
    "abx_call_start": (c_void_p, [c_void_p, c_char_p, c_char_p, c_int64, c_void_p, c_void_p, Errors]),
    "abx_call_next": (c_int, [c_void_p, POINTER(AbxEvent), c_int]),
    "abx_call_send": (c_int, [c_void_p, c_char_p, c_size_t, c_int]),
    "abx_call_send_end": (None, [c_void_p]),
    "abx_call_stop": (None, [c_void_p]),
    "abx_call_free": (None, [c_void_p]),
}

_loaded: List[Any] = []
_waiting: List[None] = []  # one for each thread that waits in the library now
_inside: List[None] = []  # one for each that is in it otherwise
_ending: List[None] = []  # not empty: the program ends
LEAVE_S = 2.0
WAITS = ("abx_call_next", "abx_call_send", "abx_context_run")


def stand_still() -> None:
    """At the end of the program only daemon threads are left beside the main one. They are to end with it: neither to begin anything, nor to tell
    that what they waited for was given up."""
    if _ending and threading.current_thread().daemon:
        while True:
            time.sleep(3600)


def nobody_inside() -> None:
    """After a fork: those that were in it are the parent's."""
    _inside.clear()
    _waiting.clear()


def begin_to_end() -> None:
    """The program ends: no daemon thread enters the library any more, and none is in it but those that wait for something to be given up."""
    _ending.append(None)
    _until_empty(_inside)


def wait_for_leaving() -> None:
    """Until those have come out as well that waited: what the library stands on is taken down next."""
    _until_empty(_waiting)
    _until_empty(_inside)


def _until_empty(threads: List[None]) -> None:
    until = time.monotonic() + LEAVE_S
    while threads and time.monotonic() < until:
        time.sleep(0.001)


def _counted(function: Any, threads: List[None]) -> Any:
    def call(*arguments: Any) -> Any:
        threads.append(None)
        try:
            if not (_ending and threading.current_thread().daemon):
                return function(*arguments)
        finally:
            threads.pop()
        stand_still()

    return call


class _Functions:
    """The functions of the library."""


def library() -> Any:
    """libabx, loaded once: the one that `ABX_LIBRARY` names, the one in this package, or the system's."""
    if not _loaded:
        _loaded.append(_load())
    return _loaded[0]


def _load() -> Any:
    named = os.environ.get("ABX_LIBRARY")
    path = named or carried("libabx.so.0") or "libabx.so.0"
    try:
        lib, made = ctypes.CDLL(path, use_errno=False), _Functions()
        for name, (result, params) in FUNCTIONS.items():
            function = getattr(lib, name)
            function.restype, function.argtypes = result, params
            setattr(made, name, _counted(function, _waiting if name in WAITS else _inside))
    except (OSError, AttributeError) as error:
        raise ConfigError(
            f"the library of abx cannot be used: {error}",
            hint="install the wheel of abx-sandbox, or let ABX_LIBRARY name libabx.so.0 of the same version",
        ) from None
    return made


def take_text(pointer: Optional[int]) -> str:
    """A text that the library gave away."""
    if not pointer:
        return ""
    try:
        return ctypes.string_at(pointer).decode("utf-8", "replace")
    finally:
        library().abx_free(pointer)


def take_error(holder: Any) -> SandboxError:
    """The exception for an error that a function put there."""
    import json

    lib = library()
    if not holder.value:
        return InternalError("libabx failed without an error")
    text = take_text(lib.abx_error_to_json(holder.value))
    lib.abx_error_free(holder.value)
    return error_from_object(json.loads(text))


def abx_command() -> List[str]:
    """The command line of `abx`: `ABX_BIN` (words as in a shell; no shell is run), the one in this package, or the one on PATH."""
    named = os.environ.get("ABX_BIN")
    if named:
        words = shlex.split(named)
        if words:
            return words
    found = carried("abx") or shutil.which("abx")
    if found:
        return [found]
    raise ConfigError("there is no abx here", hint="let ABX_BIN name it, or put it on PATH")
