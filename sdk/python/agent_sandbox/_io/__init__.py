"""Connections to this machine."""

from __future__ import annotations

from ..errors import NetworkError


class NotReached(NetworkError):
    """Nobody took the connection, or not who should: nothing was sent."""
