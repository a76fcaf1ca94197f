# Made from _async/exchange.py by scripts/gen_python.py; change that file.
"""Requests to the engine: connections that it has proved itself on, a request with its answer, and the way back to a stream."""

from __future__ import annotations

import secrets
from typing import List, Optional

from .._io import NotReached
from .._io import blocking_io as io
from .._io.blocking_io import Link
from .._items import object_of
from .._wire import AnswerReader, Head, is_proof, json_object, nonce_request, protocol_error
from ..errors import BackendError, NetworkError, error_from_object

IDLE_MOST = 16  # connections that wait for another request
TEXT_MAX = 64 * 1024 * 1024  # of an answer that is one object
PROOF_S = 10.0  # seconds
TRIES = 8  # to come back to a stream, without anything new between them
PAUSE_MOST = 1.0  # seconds between two of them


class Pool:
    """Connections to one engine that wait for another request. A new one is proved before it hears the token: another may have
    taken the port when the engine ended."""

    def __init__(self, port: int, token: str) -> None:
        self.port = port
        self._token = token
        self._idle: List[Link] = []

    def take(self, deadline: Optional[float]) -> Link:
        if self._idle:
            io.settle()
        while self._idle:
            try:
                link = self._idle.pop()
            except IndexError:
                break
            if link.is_quiet():
                link.deadline = deadline
                return link
            link.close()
        link = io.connect(self.port, deadline)
        try:
            self._prove(link)
        except BaseException:
            link.close()
            raise
        return link

    def _prove(self, link: Link) -> None:
        nonce = secrets.token_urlsafe(24)
        answer = AnswerReader()
        deadline, soon = link.deadline, io.now() + PROOF_S
        link.deadline = soon if deadline is None else min(deadline, soon)
        try:
            link.send(nonce_request(self.port, nonce))
            while not answer.complete:
                data = link.receive()
                if not data:
                    raise NotReached(f"who listens on 127.0.0.1:{self.port} does not prove that it is the engine")
                answer.feed(data)
                if answer.read_head() is not None:
                    answer.body()
        except NetworkError as error:
            raise NotReached(error.message) from None
        head = answer.head
        if head is None or not is_proof(head, self._token, self.port, nonce) or not answer.reusable:
            raise NotReached(f"who listens on 127.0.0.1:{self.port} does not prove that it is the engine")
        link.deadline = deadline

    def give(self, link: Link) -> None:
        link.deadline = None
        if len(self._idle) < IDLE_MOST:
            self._idle.append(link)
        else:
            link.close()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()


class Exchange:
    """A request and its answer."""

    def __init__(self, pool: Pool, link: Link) -> None:
        self._pool = pool
        self._link: Optional[Link] = link
        self._answer = AnswerReader()
        self._held = b""  # of the body: what `ready` has found

    @property
    def link(self) -> Link:
        if self._link is None:
            raise NetworkError("the connection was closed")
        return self._link

    def send(self, data: bytes) -> None:
        self.link.send(data)

    def head(self) -> Head:
        while True:
            head = self._answer.read_head()
            if head is not None:
                return head
            self._more()

    def _more(self) -> None:
        data = self.link.receive()
        if data:
            self._answer.feed(data)
            return
        self._answer.end()
        if not self._answer.complete:
            raise NetworkError("the engine closed the connection in the middle of an answer")

    def piece(self) -> bytes:
        """The next bytes of the body; `b""` at its end."""
        while True:
            data, self._held = self._held, b""
            data = data or self._answer.body()
            if data:
                return data
            if self._answer.complete:
                self.finish()
                return b""
            self._more()

    def ready(self, seconds: float) -> bool:
        """Wait until something comes, so many seconds at most."""
        if self._answer.head is not None and not self._held:
            self._held = self._answer.body()
        if self._held or self._answer.complete or self._link is None:
            return True
        return self._link.ready(seconds)

    def text(self) -> bytes:
        """The whole body."""
        parts: List[bytes] = []
        size = 0
        while True:
            data = self.piece()
            if not data:
                return b"".join(parts)
            parts.append(data)
            size += len(data)
            if size > TEXT_MAX:
                raise protocol_error("it is too long")

    def rest(self) -> bytes:
        return self._answer.take_rest()

    def finish(self) -> None:
        """The answer was read: the connection goes back, if it can."""
        link, self._link = self._link, None
        if link is None:
            return
        if self._answer.reusable:
            self._pool.give(link)
        else:
            link.close()

    def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()


def raise_failure(exchange: Exchange, head: Head) -> None:
    """Raise what an answer of 400 and more tells."""
    if head.status < 400:
        return
    error = object_of(json_object(exchange.text()).get("error"))
    if error is None:
        raise BackendError(f"the engine answered with status {head.status}", code="E6003")
    raise error_from_object(error)


def ended_early(broken: NetworkError) -> NetworkError:
    """For a stream whose engine cannot be reached any more."""
    return NetworkError(f"the engine ended in the middle of a stream ({broken.message})")


class Return:
    """The way back to what a broken connection followed, while the engine lives. Whoever goes it has seen all up to a place, and gets
    the rest from there."""

    def __init__(self) -> None:
        self._tries = 0

    def went_on(self) -> None:
        """Something new has come."""
        self._tries = 0

    def reopen(self) -> Exchange:
        """One request for the rest."""
        raise NotImplementedError

    def come_back(self, broken: NetworkError) -> Exchange:
        """The exchange that goes on; raises when the engine is gone, or lets nobody in."""
        while True:
            self._tries += 1
            if self._tries > TRIES:
                raise broken
            if self._tries > 1:
                io.sleep(min(PAUSE_MOST, 0.025 * 2**self._tries))
            try:
                return self.reopen()
            except NotReached:
                raise ended_early(broken) from None
            except NetworkError as again:
                broken = again
