"""A TCP connection to this machine, blocking. `asyncio_io` has the same for asyncio."""

from __future__ import annotations

import math
import select
import socket
import time
from typing import Optional

from ..errors import NetworkError, TimeoutError
from . import NotReached

READ = 256 * 1024


def now() -> float:
    """Seconds that only go forward."""
    return time.monotonic()


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def settle() -> None:
    """For asyncio: let what has come be noticed."""


class Link:
    """A connection. `deadline`: the `now()` after which waiting fails; None: never."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket: Optional[socket.socket] = sock
        self.deadline: Optional[float] = None

    def _ready(self) -> socket.socket:
        if self._socket is None:
            raise NetworkError("the connection was closed")
        if self.deadline is not None:
            left = self.deadline - now()
            if left <= 0:
                raise TimeoutError("the time limit of the call passed")
            self._socket.settimeout(left)
        else:
            self._socket.settimeout(None)
        return self._socket

    def send(self, data: bytes) -> None:
        """All of it; waits while the other side does not take it."""
        try:
            self._ready().sendall(data)
        except socket.timeout:
            raise TimeoutError("the time limit of the call passed") from None
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            raise NetworkError(f"the connection broke: {error}") from None

    def receive(self) -> bytes:
        """What has come; `b""` at the end."""
        try:
            return self._ready().recv(READ)
        except socket.timeout:
            raise TimeoutError("the time limit of the call passed") from None
        except (OSError, ValueError) as error:
            if isinstance(error, (TimeoutError, NetworkError)):
                raise
            raise NetworkError(f"the connection broke: {error}") from None

    def ready(self, seconds: float) -> bool:
        """Wait until `receive` has something, so many seconds at most."""
        sock = self._socket
        if sock is None:
            return True
        try:
            poll = select.poll()
            poll.register(sock, select.POLLIN)
            return bool(poll.poll(math.ceil(max(0.0, seconds) * 1000)))
        except (OSError, ValueError):
            return True  # it was closed meanwhile

    def is_quiet(self) -> bool:
        """Nothing has come, and it has not ended: it can be used again."""
        if self._socket is None:
            return False
        try:
            poll = select.poll()
            poll.register(self._socket, select.POLLIN)
            return not poll.poll(0)
        except (OSError, ValueError):
            return False

    def close(self) -> None:
        """At once; any number of times. A thread that waits in it goes on."""
        sock, self._socket = self._socket, None
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            sock.close()


def connect(port: int, deadline: Optional[float] = None) -> Link:
    """To a port of 127.0.0.1."""
    try:
        sock = socket.create_connection(("127.0.0.1", port), timeout=10)
    except OSError as error:
        raise NotReached(f"cannot connect to 127.0.0.1:{port}: {error}") from None
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link = Link(sock)
    link.deadline = deadline
    return link
