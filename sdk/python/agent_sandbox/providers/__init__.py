"""Providers: what is installed, how each kind is reached, and providers that are written in Python."""

from __future__ import annotations

from .manage import Providers
from .provider import BuiltinProvider, ExecProvider, Provider, RestProvider
from .registry import get_provider, load_installed, register_provider, unregister_provider

__all__ = [
    "BuiltinProvider",
    "ExecProvider",
    "Provider",
    "Providers",
    "RestProvider",
    "get_provider",
    "load_installed",
    "register_provider",
    "unregister_provider",
]
