# Made from _async/templates.py by scripts/gen_python.py; change that file.
"""What sandboxes are made from."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Union

from .._check import checked
from .._connection import Connection
from ..providers.registry import open_infra
from ..types import TemplateInfo, objects
from .transport import unary


@checked
class Templates:
    """Templates of a provider.

    Args:
        provider: id of the provider; None: the one that `Sandbox.create` would use.
        connection: provider, keys and options in one object.
    """

    def __init__(self, provider: Optional[str] = None, *, connection: Optional[Connection] = None) -> None:
        self._connection = connection or Connection(provider=provider)

    def list(self) -> List[TemplateInfo]:
        """All of them."""
        result = unary(open_infra(self._connection), "sandbox.template_list", {})
        return [TemplateInfo.from_object(one) for one in objects(result.get("templates"))]

    def info(self, template: str) -> TemplateInfo:
        """One of them, by name or id. `TemplateNotFoundError` if there is none."""
        return TemplateInfo.from_object(
            unary(open_infra(self._connection), "sandbox.template_info", {"template": template})
        )

    def add(self, source: Union[str, os.PathLike[str]], *, name: Optional[str] = None) -> TemplateInfo:
        """Add one; it never changes afterwards.

        Args:
            source: path of an image (an archive, or a folder in OCI layout), or of a folder.
            name: its name; None: it is known by its id.
        """
        params: Dict[str, Any] = {"source": os.path.abspath(os.fsdecode(source))}
        if name is not None:
            params["name"] = name
        return TemplateInfo.from_object(unary(open_infra(self._connection), "sandbox.template_add", params))

    def remove(self, template: str) -> None:
        """Remove one that nothing uses, by name or id."""
        unary(open_infra(self._connection), "sandbox.template_remove", {"template": template})
