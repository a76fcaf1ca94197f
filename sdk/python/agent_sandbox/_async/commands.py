"""Commands in a sandbox."""

from __future__ import annotations

import base64
import os
import time
from collections import deque
from typing import Any, AsyncIterator, Callable, Deque, Dict, List, Literal, Mapping, Optional, Sequence, TypeVar, Union, cast, overload

from .._capture import CAPTURE_LIMIT, Decoder, Kept
from .._check import checked, kind
from .._infra import Infra
from .._items import Chunk, Event, Json, object_of
from ..errors import CancelledError, ProcessNotFoundError, TimeoutError, UsageError
from ..types import CommandResult, Output, ProcessInfo, command_result, objects
from .transport import AsyncStream, Content, begin, unary, upload

Cmd = Union[str, Sequence[Union[str, bytes, os.PathLike[str]]]]
Path = Union[str, os.PathLike[str]]
Callback = Callable[[str], Any]
Self = TypeVar("Self", bound="AsyncCommand")
LATE = 64  # items that have come already, and that are taken though the time of a `wait` has passed


def checked_seconds(seconds: float) -> float:
    """A time as it was given; raises for what is none."""
    if not seconds >= 0:  # nor is it NaN
        raise UsageError("a time is no negative number")
    return seconds


def milliseconds(seconds: float) -> int:
    """Seconds as the wire has them; 0 and infinity: no limit."""
    checked_seconds(seconds)
    if seconds == float("inf"):
        return 0
    return max(1, round(seconds * 1000)) if seconds else 0


def bytes_object(data: Union[str, bytes]) -> Json:
    """Bytes in JSON."""
    if isinstance(data, str):
        return {"text": data}
    if not isinstance(cast(object, data), (bytes, bytearray, memoryview)):
        raise TypeError(f"an input is text or bytes, not {kind(data)}")
    data = bytes(data)
    try:
        return {"text": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def process_params(
    sandbox: str,
    cmd: Cmd,
    cwd: Optional[Path],
    env: Optional[Mapping[str, str]],
    user: Optional[str],
    timeout: Optional[float],
) -> Dict[str, Any]:
    """What every start of a process has."""
    params: Dict[str, Any] = {"sandboxId": sandbox}
    if isinstance(cmd, str):
        params["cmd"] = cmd
        params["shell"] = True
    else:
        params["cmd"] = words(cmd)
    if cwd is not None:
        params["cwd"] = os.fsdecode(cwd)
    if env:
        params["env"] = dict(env)
    if user is not None:
        params["user"] = user
    if timeout is not None:
        params["timeoutMs"] = milliseconds(timeout)
    return params


def words(cmd: Sequence[Union[str, bytes, os.PathLike[str]]]) -> List[str]:
    """An argument list as it travels; raises for what is none."""
    given: Any = cmd
    if isinstance(given, (bytes, bytearray)) or not hasattr(given, "__iter__"):
        raise TypeError(f"a command is a text for the shell or a list of words, not {kind(given)}")
    listed: List[Any] = list(cast(Sequence[Any], given))
    for word in listed:
        if not isinstance(word, (str, bytes, os.PathLike)):
            raise TypeError(f"a word of a command is text, bytes or a path, not {kind(word)}")
    if not listed:
        raise UsageError("a command has at least one word", code="E1001")
    return [word if isinstance(word, str) else os.fsdecode(word) for word in listed]


def signal_name(name: Union[str, int]) -> str:
    """A signal as it travels."""
    return name if isinstance(name, str) else str(int(name))


async def tell(callback: Optional[Callable[[Any], Any]], value: Any) -> None:
    """Call a callback, if there is one."""
    if callback is not None:
        answer = callback(value)
        # asyncio only
        if hasattr(answer, "__await__"):
            await answer
        # end
        del answer


@checked
class AsyncCommand(AsyncStream):
    """An asyncio handle of a command that runs.

    Iterate over it to get each piece of its output as it comes (`Output`), or `wait()` for its end. Nothing of its output is
    kept unless `wait()` is called; a reader that is slow slows the command down. What a `wait()` has kept that ran out of time
    is given to the next `wait()`, or first of all to an iteration. Used as a context manager, or closed, it ends
    the command if it still runs, unless that was started in the background or `detach()` was called.
    """

    _what = "a command"

    def __init__(self, infra: Infra, sandbox: str, call: Any, lives_on: bool, known: Optional[Json] = None) -> None:
        super().__init__(call)
        self._infra = infra
        self._sandbox = sandbox
        self._lives_on = lives_on
        self._id: Optional[str] = None
        self._pid: Optional[int] = None
        self._decoders = {"stdout": Decoder(), "stderr": Decoder()}
        self._offsets = {"stdout": 0, "stderr": 0}
        self._ahead: Deque[Union[Event, Chunk]] = deque()
        self._kept: Optional[Kept] = None
        self._result: Optional[CommandResult] = None
        self.lost: Dict[str, int] = {"stdout": 0, "stderr": 0}
        if known is not None:
            self._note(known)

    def _note(self, value: Json) -> None:
        if value.get("id") is not None:
            self._id = str(value["id"])
        pid = value.get("pid")
        self._pid = pid if isinstance(pid, int) else self._pid
        begins = object_of(value.get("offsets")) or {}
        for stream in self._offsets:
            if isinstance(begins.get(stream), int):
                self._offsets[stream] = begins[stream]

    async def _until_started(self) -> None:
        while True:
            item = await self._next()
            if item is None:
                return
            if isinstance(item, Event) and item.type == "started":
                self._note(item.value)
                return
            self._ahead.append(item)

    @property
    def id(self) -> str:
        """What the sandbox knows it by."""
        if self._id is None:
            raise RuntimeError("the command has not started")
        return self._id

    @property
    def pid(self) -> Optional[int]:
        """Its number inside, where there is one."""
        return self._pid

    @property
    def offsets(self) -> Dict[str, int]:
        """So many bytes of each stream were delivered: where `commands.connect(id, from_offset=...)` goes on."""
        held = self._kept.captures if self._kept is not None else {}
        return {stream: at - (held[stream].seen if stream in held else 0) for stream, at in self._offsets.items()}

    async def _reattach(self) -> None:
        """Follow a process whose output is kept in the sandbox."""
        self._call = await begin(
            self._infra, "process.attach", {"sandboxId": self._sandbox, "processId": self.id, "fromOffset": dict(self._offsets)}
        )

    async def _in_time(self, until: Optional[float], late: List[int]) -> None:
        """Wait until something comes; raises when the time has passed. `late`: what has come by then is taken as well, but not the
        output of a command that writes without end."""
        if until is None or self._call is None:
            return
        left = until - time.monotonic()
        late[0] += left <= 0
        if late[0] > LATE or not await self._call.ready(max(0.0, left)):
            raise TimeoutError(
                "the command did not end in the time that was given to wait()",
                hint="it goes on, and nothing of its output is lost: wait() again, or kill() it",
            )

    async def _output(self, until: Optional[float] = None, late: Optional[List[int]] = None) -> Optional[Output]:
        """The next piece of output; None at the end."""
        if self._call is None and self._end is None and self._lives_on and not self._given_up and not self._ahead:
            await self._reattach()
            if self._given_up:  # meanwhile
                self._let_go()
        while True:
            if not self._ahead:
                await self._in_time(until, late or [0])
            item = self._ahead.popleft() if self._ahead else await self._next()
            if item is None:
                return None
            if isinstance(item, Chunk):
                if item.channel not in self._offsets:
                    continue
                self._offsets[item.channel] += len(item.data)
                return Output(item.channel, item.data, self._decoders[item.channel].text(item.data))
            if item.type == "started":
                self._note(item.value)
            elif item.type == "gap":
                stream, size = str(item.value.get("stream")), item.value.get("bytes")
                if stream in self.lost and isinstance(size, int):
                    self.lost[stream] += size
                    self._offsets[stream] += size

    def __aiter__(self) -> AsyncIterator[Output]:
        return self

    def _give_back(self) -> None:
        """What waits have kept comes once more, before what is new."""
        kept, self._kept = self._kept, None
        if kept is not None:
            for stream, capture in kept.captures.items():
                self._offsets[stream] -= capture.seen
            self._ahead.extendleft(reversed(kept.give_back(self._decoders)))

    async def __anext__(self) -> Output:
        self._give_back()
        piece = await self._output()
        if piece is None:
            raise StopAsyncIteration
        return piece

    async def wait(
        self,
        timeout: Optional[float] = None,
        *,
        check: bool = False,
        on_stdout: Optional[Callback] = None,
        on_stderr: Optional[Callback] = None,
        on_output: Optional[Callable[[Output], Any]] = None,
        capture: bool = True,
        capture_limit: int = CAPTURE_LIMIT,
    ) -> CommandResult:
        """Wait for its end.

        Args:
            timeout: seconds to wait at most, as of `subprocess.Popen.wait`; None: no limit. The command goes on when they have passed,
                and so can this handle: what was kept until then is in the result of a later `wait()`.
            check: raise `CommandFailedError` when it is not `ok`.
            on_stdout, on_stderr: called with each piece of text as it comes.
            on_output: called with each `Output`, which has the bytes.
            capture: keep the output for the result.
            capture_limit: bytes of each stream that are kept: the first and the last part. Of several waits the first one's counts.

        Returns:
            How it ended, with the output that came since it was last read. Once it has ended, every `wait()` returns the same.

        Raises:
            TimeoutError: it has not ended in the time that was given.
            CancelledError: the handle was closed before its end.
        """
        until = None if timeout is None else time.monotonic() + checked_seconds(timeout)
        if self._result is not None:
            return self._result.check() if check else self._result
        if self._lives_on and self._call is None:
            self._given_up = False  # it was closed, and is asked for once more
        kept = self._kept or Kept(capture_limit, self._decoders)
        if capture:
            self._kept = kept
        callbacks = {"stdout": on_stdout, "stderr": on_stderr}
        late = [0]
        while True:
            piece = await self._output(until, late)
            if piece is None:
                break
            if capture:
                kept.add(piece.stream, piece.data)
            await tell(on_output, piece)
            if piece.text:
                await tell(callbacks[piece.stream], piece.text)
        for stream, decoder in self._decoders.items():
            rest = decoder.end()
            if rest:
                await tell(callbacks[stream], rest)
        if self._end is None:
            raise CancelledError("the command was closed before its end")
        out, err = kept.captures["stdout"], kept.captures["stderr"]
        self._result = command_result(
            self._end,
            (out.value(), out.gap + self.lost["stdout"]),
            (err.value(), err.gap + self.lost["stderr"]),
        )
        self._kept = None
        return self._result.check() if check else self._result

    async def send_stdin(self, data: Content, *, close: bool = False) -> None:
        """Write to its standard input (text, bytes, an open file, or an iterable of bytes); it must have been started with
        `stdin=True`. Waits until all of it is taken. `close`: and close it."""
        params: Dict[str, Any] = {"sandboxId": self._sandbox, "processId": self.id}
        if close:
            params["close"] = True
        await upload(self._infra, "process.stdin", params, data)

    async def close_stdin(self) -> None:
        """Close its standard input."""
        await unary(self._infra, "process.close_stdin", {"sandboxId": self._sandbox, "processId": self.id})

    async def signal(self, name: Union[str, int]) -> None:
        """Send a signal to it and its group: `TERM`, `SIGTERM` or 15. `KILL` ends all that it started."""
        await unary(
            self._infra,
            "process.signal",
            {"sandboxId": self._sandbox, "processId": self.id, "signal": signal_name(name)},
        )

    async def kill(self) -> None:
        """End it and all that it started."""
        await self.signal("KILL")

    async def detach(self) -> None:
        """Let it live on without this handle; its output is kept in the sandbox from now on."""
        await unary(self._infra, "process.detach", {"sandboxId": self._sandbox, "processId": self.id})
        self._lives_on = True
        self._let_go()

    async def __aenter__(self: Self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if getattr(self, "_lives_on", True):
            self._let_go()
        else:
            super().__del__()

    def __repr__(self) -> str:
        state = "in the background" if self._call is None and self._lives_on and self._end is None else self._state()
        return f"<{type(self).__name__} {self._id} of {self._sandbox}, {state}>"


@checked
class AsyncCommands:
    """Commands of a sandbox: `sandbox.commands`."""

    def __init__(self, infra: Infra, sandbox: str) -> None:
        self._infra = infra
        self._sandbox = sandbox

    @overload
    async def run(
        self,
        cmd: Cmd,
        *,
        background: Literal[False] = False,
        check: bool = False,
        cwd: Optional[Path] = None,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
        timeout: Optional[float] = None,
        input: Optional[Union[str, bytes]] = None,
        on_stdout: Optional[Callback] = None,
        on_stderr: Optional[Callback] = None,
        on_output: Optional[Callable[[Output], Any]] = None,
        capture: bool = True,
        capture_limit: int = CAPTURE_LIMIT,
    ) -> CommandResult: ...

    @overload
    async def run(
        self,
        cmd: Cmd,
        *,
        background: Literal[True],
        cwd: Optional[Path] = None,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
        timeout: Optional[float] = None,
        input: Optional[Union[str, bytes]] = None,
    ) -> AsyncCommand: ...

    async def run(
        self,
        cmd: Cmd,
        *,
        background: bool = False,
        check: bool = False,
        cwd: Optional[Path] = None,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
        timeout: Optional[float] = None,
        input: Optional[Union[str, bytes]] = None,
        on_stdout: Optional[Callback] = None,
        on_stderr: Optional[Callback] = None,
        on_output: Optional[Callable[[Output], Any]] = None,
        capture: bool = True,
        capture_limit: int = CAPTURE_LIMIT,
    ) -> Union[CommandResult, AsyncCommand]:
        """Run a command and wait for its end, like `subprocess.run`.

        Args:
            cmd: a list is an argument list; a string goes to the sandbox's shell.
            background: do not wait: the command runs in the background, its output is kept in the sandbox (8 MiB in memory,
                then a file of up to 256 MiB), and a handle is returned. It lives on when this program ends.
            check: raise `CommandFailedError` on an exit code that is not 0, a signal, or its time limit.
            cwd: its working directory.
            env: more environment.
            user: user inside.
            timeout: seconds after which it is ended, with all that it started; 0: no limit. Then `timed_out` is set; it is no
                error by itself.
            input: its whole standard input; else that is closed.
            on_stdout, on_stderr: called with each piece of text as it comes (with asyncio they may be coroutine functions).
            on_output: called with each `Output`, which has the bytes.
            capture: keep the output for the result.
            capture_limit: bytes of each stream that are kept: the first and the last part (64 MiB by default).

        Returns:
            `CommandResult`, or the handle of a command in the background.

        Raises:
            ProcessStartError: it could not be started.
            SandboxNotFoundError: the sandbox does not live.
            SandboxError: anything else.
        """
        params = process_params(self._sandbox, cmd, cwd, env, user, timeout)
        if input is not None:
            params["input"] = bytes_object(input)
        if background:
            return await self._background(params)
        command = AsyncCommand(self._infra, self._sandbox, await begin(self._infra, "process.start", params), False)
        try:
            return await command.wait(
                check=check,
                on_stdout=on_stdout,
                on_stderr=on_stderr,
                on_output=on_output,
                capture=capture,
                capture_limit=capture_limit,
            )
        finally:
            await command.aclose()

    async def _background(self, params: Dict[str, Any]) -> AsyncCommand:
        result = await unary(self._infra, "process.start", {**params, "background": True})
        return AsyncCommand(self._infra, self._sandbox, None, True, result)

    async def start(
        self,
        cmd: Cmd,
        *,
        stdin: bool = False,
        background: bool = False,
        cwd: Optional[Path] = None,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> AsyncCommand:
        """Start a command and go on: a handle whose output can be iterated over.

        Args:
            stdin: it has a standard input that `send_stdin` writes to; else that is closed.
            background: see `run`. Else the command ends with the handle.
            cmd, cwd, env, user, timeout: as `run`.
        """
        params = process_params(self._sandbox, cmd, cwd, env, user, timeout)
        if stdin:
            params["stdin"] = "stream"
        if background:
            return await self._background(params)
        command = AsyncCommand(self._infra, self._sandbox, await begin(self._infra, "process.start", params), False)
        try:
            await command._until_started()
        except BaseException:
            await command.aclose()
            raise
        return command

    async def connect(
        self, id: Union[str, int], *, from_offset: Union[None, int, Mapping[str, int]] = 0, follow: bool = True
    ) -> AsyncCommand:
        """Follow a process that runs, or one that has ended and is still kept.

        Args:
            id: its id.
            from_offset: bytes of each stream that were seen already (`handle.offsets`, or one number for both); 0: all that is
                kept; None: only what is new. What is no longer kept is counted in `handle.lost`.
            follow: else it ends with what is kept now.
        """
        params: Dict[str, Any] = {"sandboxId": self._sandbox, "processId": str(id)}
        offsets = {"stdout": 0, "stderr": 0}
        if isinstance(from_offset, int):
            offsets = {"stdout": from_offset, "stderr": from_offset}
        elif from_offset is not None:
            offsets.update(from_offset)
            if len(offsets) > 2:
                raise UsageError("offsets are of 'stdout' and of 'stderr'")
        if from_offset is not None:
            params["fromOffset"] = offsets
        if not follow:
            params["follow"] = False
        call = await begin(self._infra, "process.attach", params)
        command = AsyncCommand(self._infra, self._sandbox, call, True, {"id": str(id)})
        command._offsets.update(offsets)
        await command._until_started()
        return command

    async def list(self) -> List[ProcessInfo]:
        """The processes that calls started; ended ones while they are kept."""
        result = await unary(self._infra, "process.list", {"sandboxId": self._sandbox})
        return [ProcessInfo.from_object(one) for one in objects(result.get("processes"))]

    async def signal(self, id: Union[str, int], name: Union[str, int]) -> None:
        """Send a signal to a process and its group: `TERM`, `SIGTERM` or 15. `KILL` ends all that it started."""
        await unary(
            self._infra, "process.signal", {"sandboxId": self._sandbox, "processId": str(id), "signal": signal_name(name)}
        )

    async def kill(self, id: Union[str, int]) -> bool:
        """End a process and all that it started. False when there is none of that id."""
        try:
            await self.signal(id, "KILL")
        except ProcessNotFoundError:
            return False
        return True

    async def send_stdin(self, id: Union[str, int], data: Content, *, close: bool = False) -> None:
        """Write to the standard input of a process that was started with `stdin=True`."""
        params: Dict[str, Any] = {"sandboxId": self._sandbox, "processId": str(id)}
        if close:
            params["close"] = True
        await upload(self._infra, "process.stdin", params, data)

    async def close_stdin(self, id: Union[str, int]) -> None:
        """Close the standard input of a process."""
        await unary(self._infra, "process.close_stdin", {"sandboxId": self._sandbox, "processId": str(id)})
