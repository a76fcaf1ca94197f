"""Which provider is meant, and with what keys and options."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional

from ._check import checked

# Field here → its name on the wire.
_WIRE = {
    "provider": "provider",
    "profile": "profile",
    "api_key": "apiKey",
    "api_url": "apiUrl",
    "domain": "domain",
    "access_key_id": "accessKeyId",
    "access_key_secret": "accessKeySecret",
}


def _none() -> Dict[str, Any]:
    return {}


@checked
@dataclass(frozen=True)
class Connection:
    """How a provider is reached. What is None comes from the environment and the configuration, as for `abx` itself.

    Attributes:
        provider: its id; None: the one that `abx` would use.
        profile: a profile of the configuration.
        options: the provider's own options.
        api_key, api_url, domain, access_key_id, access_key_secret: the common keys.
        home: the folder of all state instead of `ABX_HOME` or `~/.abx`.
    """

    provider: Optional[str] = None
    profile: Optional[str] = None
    options: Mapping[str, Any] = field(default_factory=_none, repr=False)
    api_key: Optional[str] = field(default=None, repr=False)
    api_url: Optional[str] = None
    domain: Optional[str] = None
    access_key_id: Optional[str] = field(default=None, repr=False)
    access_key_secret: Optional[str] = field(default=None, repr=False)
    home: Optional[str] = None

    def __post_init__(self) -> None:
        for name, value in self.options.items():
            try:
                json.dumps(value)
            except (TypeError, ValueError, RecursionError) as error:
                raise TypeError(f"the option '{name}' is what JSON can say, and this is not: {error}") from None

    def to_object(self) -> Dict[str, Any]:
        """As it travels: what is None is absent."""
        out: Dict[str, Any] = {
            wire: getattr(self, name) for name, wire in _WIRE.items() if getattr(self, name) is not None
        }
        if self.options:
            out["options"] = dict(self.options)
        return out

    def key(self) -> str:
        """A text that two connections share if and only if they are the same."""
        return json.dumps([self.home, self.to_object()], sort_keys=True)
