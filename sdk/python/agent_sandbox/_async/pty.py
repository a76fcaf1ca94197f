"""Terminals in a sandbox."""

from __future__ import annotations

from typing import Any, AsyncIterator, Callable, Dict, Mapping, Optional, TypeVar, Union

from .._check import checked
from .._infra import Infra
from .._items import Chunk, Event, Json, object_of
from ..errors import CancelledError, ProcessNotFoundError
from ..types import PtyResult
from .commands import Cmd, Path, process_params, tell
from .transport import AsyncCall, AsyncStream, begin, unary, upload

Self = TypeVar("Self", bound="AsyncTerminal")


@checked
class AsyncTerminal(AsyncStream):
    """A terminal in a sandbox: iterate over it to get what it shows (bytes), `write` to type. Closing it ends what runs on it,
    unless it was started with `detached=True` or connected to."""

    _what = "a terminal"

    def __init__(self, infra: Infra, sandbox: str, call: AsyncCall, lives_on: bool, id: Optional[str] = None) -> None:
        super().__init__(call)
        self._infra = infra
        self._sandbox = sandbox
        self._lives_on = lives_on
        self._id = id
        self._pid: Optional[int] = None
        self._seen = 0
        self.lost = 0

    def _note(self, value: Json) -> None:
        if value.get("id") is not None:
            self._id = str(value["id"])
        pid = value.get("pid")
        self._pid = pid if isinstance(pid, int) else self._pid
        begins = (object_of(value.get("offsets")) or {}).get("pty")
        self._seen = begins if isinstance(begins, int) else self._seen

    async def _until_started(self) -> None:
        item = await self._next()
        if isinstance(item, Event) and item.type == "started":
            self._note(item.value)

    @property
    def id(self) -> str:
        """What the sandbox knows it by."""
        if self._id is None:
            raise RuntimeError("the terminal has not started")
        return self._id

    @property
    def pid(self) -> Optional[int]:
        """Number of its first process inside, where there is one."""
        return self._pid

    @property
    def offset(self) -> int:
        """So many bytes of it were delivered, or are gone (`lost`): where `pty.connect(id, from_offset=...)` goes on."""
        return self._seen

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while True:
            item = await self._next()
            if item is None:
                raise StopAsyncIteration
            if isinstance(item, Chunk):
                self._seen += len(item.data)
                return item.data
            if item.type == "started":
                self._note(item.value)
            elif item.type == "gap" and isinstance(item.value.get("bytes"), int):
                self.lost += item.value["bytes"]
                self._seen += item.value["bytes"]

    async def write(self, data: Union[str, bytes]) -> None:
        """Type something."""
        await upload(self._infra, "pty.write", {"sandboxId": self._sandbox, "ptyId": self.id}, data)

    async def resize(self, cols: int, rows: int) -> None:
        """Give it another size."""
        await unary(
            self._infra, "pty.resize", {"sandboxId": self._sandbox, "ptyId": self.id, "cols": cols, "rows": rows}
        )

    async def kill(self) -> None:
        """End it and all that runs on it."""
        await unary(self._infra, "pty.close", {"sandboxId": self._sandbox, "ptyId": self.id})

    async def wait(self, on_data: Optional[Callable[[bytes], Any]] = None) -> PtyResult:
        """Wait for the end of what runs on it; `on_data` gets what it shows meanwhile, else that is dropped."""
        async for data in self:
            await tell(on_data, data)
        if self._end is None:
            raise CancelledError("the terminal was closed before its end")
        return PtyResult.from_object(self._end)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._id} of {self._sandbox}, {self._state()}>"

    async def __aenter__(self: Self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if getattr(self, "_lives_on", True):
            self._let_go()
        else:
            super().__del__()


@checked
class AsyncPty:
    """Terminals of a sandbox: `sandbox.pty`."""

    def __init__(self, infra: Infra, sandbox: str) -> None:
        self._infra = infra
        self._sandbox = sandbox

    async def open(
        self,
        cmd: Optional[Cmd] = None,
        *,
        cols: int = 80,
        rows: int = 24,
        term: Optional[str] = None,
        cwd: Optional[Path] = None,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
        timeout: Optional[float] = None,
        detached: bool = False,
    ) -> AsyncTerminal:
        """Start a process on a terminal.

        Args:
            cmd: an argument list, or a string for the shell; None: the user's shell.
            cols, rows: its size in characters.
            term: `TERM` inside (xterm-256color).
            cwd, env, user: as `commands.run`.
            timeout: seconds after which it is ended; 0: no limit.
            detached: it lives on when the handle is closed, and `connect` comes back to it.
        """
        params = process_params(self._sandbox, cmd if cmd is not None else "", cwd, env, user, timeout)
        if cmd is None:
            del params["cmd"], params["shell"]
        params.update(cols=cols, rows=rows)
        if term is not None:
            params["term"] = term
        if detached:
            params["onDisconnect"] = "detach"
        terminal = AsyncTerminal(self._infra, self._sandbox, await begin(self._infra, "pty.open", params), detached)
        try:
            await terminal._until_started()
        except BaseException:
            await terminal.aclose()
            raise
        return terminal

    async def connect(self, id: Union[str, int], *, from_offset: Optional[int] = None) -> AsyncTerminal:
        """Come back to a terminal; `from_offset`: bytes of it that were seen already; None: what was missed (at most 64 KiB)."""
        params: Dict[str, Any] = {"sandboxId": self._sandbox, "processId": str(id)}
        if from_offset is None:
            params["missed"] = True
        else:
            params["fromOffset"] = {"pty": from_offset}
        call = await begin(self._infra, "process.attach", params)
        terminal = AsyncTerminal(self._infra, self._sandbox, call, True, str(id))
        terminal._seen = from_offset or 0
        return terminal

    async def kill(self, id: Union[str, int]) -> bool:
        """End a terminal and all that runs on it. False when there is none of that id."""
        try:
            await unary(self._infra, "pty.close", {"sandboxId": self._sandbox, "ptyId": str(id)})
        except ProcessNotFoundError:
            return False
        return True
