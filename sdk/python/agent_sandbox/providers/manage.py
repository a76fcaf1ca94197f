"""Which providers there are, what is installed, settings, the ledger: the verbs of `abx provider`, over libabx."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Optional, Sequence, Union

from .._check import checked
from ..types import Leftover, objects


@checked
class Providers:
    """The providers of a home, as `abx provider` has them. Its methods wait for the disk, `gc` also for the providers that are in use.

    Args:
        home: the folder of all state; None: `ABX_HOME`, else `~/.abx`.
    """

    def __init__(self, home: Optional[str] = None) -> None:
        self._home = home

    def _ask(self, function: str, *arguments: Any) -> Dict[str, Any]:
        from .._native import ask_context, blocking_context

        return ask_context(blocking_context(self._home), function, *arguments)

    def list(self) -> List[Dict[str, Any]]:
        """`{"id", "name", "version", "kind", "trust", "chosen", "problem"}` of each: builtin ones, then installed ones."""
        return objects(self._ask("abx_provider_list").get("providers"))

    def info(self, provider: Union[str, os.PathLike[str]]) -> Dict[str, Any]:
        """Everything known of one: an id, or the path of a plugin's folder, with a `/` in it."""
        return self._ask("abx_provider_info", os.fsdecode(provider))

    def caps(self) -> List[Dict[str, Any]]:
        """`{"id", "features"}` of each, or `{"id", "problem"}`."""
        return objects(self._ask("abx_provider_caps").get("providers"))

    def verify(self, provider: Optional[str] = None) -> List[Dict[str, Any]]:
        """Compare installed plugins with what was installed; None: all. `{"id", "version", "trust", "ok", "compared", "problem"}` of each."""
        return objects(self._ask("abx_provider_verify", provider).get("providers"))

    def install(
        self, source: Union[str, os.PathLike[str]], *, inherit: Optional[Sequence[str]] = None, link: bool = False, downgrade: bool = False
    ) -> Dict[str, Any]:
        """Install a plugin, or a newer version of it.

        Args:
            source: a path (with a `/` in it, or ending in `.tar.gz`), else an id of the catalog.
            inherit: the common keys that it may see (`api_key`, ...); None: those that it was given before.
            link: a link to a folder that is still changed; what lies there is run, compared with nothing.
            downgrade: also when a newer version is there.

        Raises:
            ConflictError: a newer version is installed.
        """
        options: Dict[str, Any] = {"link": link, "downgrade": downgrade}
        if inherit is not None:
            options["inherit"] = [str(key) for key in inherit]
        return self._ask("abx_provider_install", os.fsdecode(source), json.dumps(options))

    def remove(self, provider: str, *, force: bool = False) -> None:
        """Take an installed plugin away. `ConflictError` when this machine has sandboxes of it, which nobody could reach any more;
        `force`: also then."""
        self._ask("abx_provider_remove", provider, 1 if force else 0)

    def settings(self) -> List[Dict[str, Any]]:
        """`{"key", "value", "source", "where"}` of each setting; of secrets the last four characters at most."""
        return objects(self._ask("abx_settings_list").get("settings"))

    def ledger(self) -> List[Dict[str, Any]]:
        """The sandboxes that this home has made and not ended, whatever has become of them."""
        return objects(self._ask("abx_ledger_list").get("sandboxes"))

    def gc(self, *, dry_run: bool = False) -> List[Leftover]:
        """Clear what nobody owns any more, at the providers that are in use; `dry_run`: only say what."""
        removed = self._ask("abx_gc", 1 if dry_run else 0).get("removed")
        return [Leftover.from_object(one) for one in objects(removed)]

    def __repr__(self) -> str:
        return f"<Providers of {self._home or 'the home of abx'}>"


__all__ = ["Providers"]
