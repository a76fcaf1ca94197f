"""Which provider is meant, and how it is reached: kind `node` through the engine, all others in this process."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from dataclasses import replace
from typing import Any, Callable, Deque, Dict, Optional, Tuple, Type, Union

from .._check import checked_function
from .._connection import Connection
from .._infra import Infra
from ..errors import ProviderNotFoundError, SandboxNotFoundError, UsageError
from .provider import BuiltinProvider, ExecProvider, Provider, RestProvider
from .store import ID, read_receipt

BUILTIN = ("local", "alicloud-express")
RECENT = 8  # providers that stay open though no sandbox uses them

Factory = Callable[[Connection], Provider]

_registered: Dict[str, Factory] = {}
_open: weakref.WeakValueDictionary[str, Infra] = weakref.WeakValueDictionary()
_recent: Deque[Infra] = deque(maxlen=RECENT)
_lock = threading.RLock()


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


@checked_function
def register_provider(provider: Union[Type[Provider], Provider], id: Optional[str] = None) -> None:
    """Make a provider that is written in Python known under its id, in this process.

    Args:
        provider: a subclass of `Provider`, made anew for each connection, or an object of one, which serves all.
        id: instead of its own id.

    Raises:
        UsageError: it has no usable id, or that of a builtin provider.
    """
    name = id or provider.id
    if not ID.match(name):
        raise UsageError(f"'{name}' is no usable id of a provider")
    if name in BUILTIN:
        raise UsageError(f"'{name}' is the id of a builtin provider")
    with _lock:
        _registered[name] = provider if isinstance(provider, type) else lambda connection: provider


@checked_function
def unregister_provider(id: str) -> None:
    """Forget a provider that was registered. Sandboxes that are open keep it."""
    with _lock:
        _registered.pop(id, None)
        for key in [key for key, infra in _open.items() if getattr(infra, "registered", None) == id]:
            del _open[key]


@checked_function
def load_installed(id: str, connection: Optional[Connection] = None) -> Provider:
    """The provider that is installed under an id: `EngineProvider` for kind `node`, `RestProvider`, `ExecProvider`.

    Raises:
        ProviderNotFoundError: nothing is installed under this id.
        ProviderIntegrityError: its receipt cannot be used.
    """
    connection = replace(connection or Connection(), provider=id)
    receipt = read_receipt(id, connection.home)
    if receipt.kind == "node":
        from .engine_provider import EngineProvider

        return EngineProvider(connection)
    return RestProvider(connection) if receipt.kind == "rest" else ExecProvider(connection)


@checked_function
def get_provider(id: str, connection: Optional[Connection] = None) -> Provider:
    """The provider of an id: registered, builtin, or installed."""
    connection = replace(connection or Connection(), provider=id)
    factory = _registered.get(id)
    if factory is not None:
        return factory(connection)
    if id in BUILTIN:
        return BuiltinProvider(connection)
    return load_installed(id, connection)


def chosen_provider(connection: Connection) -> str:
    """The id that a connection without one means: `ABX_PROVIDER`, then what the configuration of abx says."""
    named = os.environ.get("ABX_PROVIDER")
    if named and not connection.profile:
        return named
    return BuiltinProvider(connection).build_infra().provider


def open_for(sandbox: str, connection: Connection) -> Tuple[Infra, str]:
    """The provider that a sandbox is of, opened, and its id: the provider that is named, else the one that it was made with on this
    machine, else the one that environment or configuration name."""
    if connection.provider is not None:
        return open_infra(connection), sandbox
    from .._native import find_sandbox

    named = os.environ.get("ABX_PROVIDER")
    registered = named if named in _registered and not connection.profile else None
    try:
        known = find_sandbox(sandbox, Connection(profile=connection.profile, home=connection.home))
    except (ProviderNotFoundError, SandboxNotFoundError):
        if registered is None:
            raise
        known = {"id": sandbox, "provider": registered}
    connection = replace(connection, provider=known["provider"], profile=connection.profile or known.get("profile"))
    return open_infra(connection), str(known["id"])


def open_infra(connection: Connection) -> Infra:
    """The provider that a connection means, opened; shared by all that mean the same."""
    key = connection.key() + "\n" + os.environ.get("ABX_PROVIDER", "") + "\n" + os.environ.get("ABX_HOME", "")
    with _lock:
        infra = _open.get(key)
        if infra is None:
            id = connection.provider or chosen_provider(connection)
            if "/" in id:  # the folder of a plugin
                provider: Provider = ExecProvider(connection)
            else:
                provider = get_provider(id, connection)
            infra = provider.build_infra()
            setattr_registered(infra, id)
            _open[key] = infra
        if not _recent or _recent[-1] is not infra:
            _recent.append(infra)
    return infra


def setattr_registered(infra: Any, id: str) -> None:
    if id in _registered:
        infra.registered = id


def close_all() -> None:
    """Let go of all providers that are open: programs that they started end. Sandboxes live on."""
    with _lock:
        _recent.clear()
        infras = list(_open.values())
        _open.clear()
    for infra in infras:
        infra.close()


__all__ = [
    "ProviderNotFoundError",
    "close_all",
    "get_provider",
    "load_installed",
    "open_for",
    "open_infra",
    "register_provider",
    "unregister_provider",
]
