"""Files of a sandbox."""

from __future__ import annotations

import os
from datetime import datetime
from typing import (
    Any,
    AsyncIterator,
    Dict,
    Iterable,
    List,
    Literal,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
    Union,
    cast,
    overload,
)

from .._check import checked, kind
from .._infra import Infra
from .._items import Chunk, Event
from ..errors import ConflictError, FileNotFoundError, UsageError
from ..types import Change, FileInfo, objects, rfc3339
from .transport import AsyncCall, AsyncStream, Content, begin, unary, upload

Path = Union[str, os.PathLike[str]]
ReaderSelf = TypeVar("ReaderSelf", bound="AsyncFileReader")
WatchSelf = TypeVar("WatchSelf", bound="AsyncWatch")


class Written(NamedTuple):
    """A file that was written: its absolute path and size in bytes."""

    path: str
    size: int


@checked
class AsyncFileReader(AsyncStream):
    """A file that is read as it comes: iterate over it, or `read(n)`. Whoever reads slowly slows the transfer down; nothing
    is kept. Close it, or use it as a context manager."""

    _what = "a file reader"

    def __init__(self, call: AsyncCall) -> None:
        super().__init__(call)
        self._rest = b""

    async def _piece(self) -> bytes:
        while True:
            item = await self._next()
            if item is None:
                self._check_whole()
                return b""
            if isinstance(item, Chunk) and item.data:
                return item.data

    async def read(self, size: int = -1) -> bytes:
        """At most so many bytes; all that is left without a size; `b""` at the end."""
        if size < 0:
            parts = [self._rest]
            self._rest = b""
            while True:
                piece = await self._piece()
                if not piece:
                    return b"".join(parts)
                parts.append(piece)
        data = self._rest or (await self._piece() if size else b"")
        self._rest = data[size:]
        return data[:size]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        data, self._rest = self._rest, b""
        data = data or await self._piece()
        if not data:
            raise StopAsyncIteration
        return data

    async def __aenter__(self: ReaderSelf) -> ReaderSelf:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


class AsyncWatch(AsyncStream):
    """Changes below a folder, as they come: iterate over it. Close it, or use it as a context manager."""

    _what = "a watch"

    async def _until_started(self) -> None:
        while True:
            item = await self._next()
            if item is None or (isinstance(item, Event) and item.type == "started"):
                return

    def __aiter__(self) -> AsyncIterator[Change]:
        return self

    async def __anext__(self) -> Change:
        while True:
            item = await self._next()
            if item is None:
                raise StopAsyncIteration
            if isinstance(item, Event) and item.type == "change":
                return Change.from_object(item.value)

    async def __aenter__(self: WatchSelf) -> WatchSelf:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


@checked
class AsyncFiles:
    """Files of a sandbox: `sandbox.files`. A relative path is taken from the user's home."""

    def __init__(self, infra: Infra, sandbox: str) -> None:
        self._infra = infra
        self._sandbox = sandbox

    def _params(self, user: Optional[str], **more: Any) -> Dict[str, Any]:
        params: Dict[str, Any] = {"sandboxId": self._sandbox}
        for name, value in more.items():
            if name in ("path", "from", "to"):
                params[name] = os.fsdecode(cast(Path, value))
            elif value is not None:
                params[name] = value
        if user is not None:
            params["user"] = user
        return params

    @overload
    async def read(
        self,
        path: Path,
        format: Literal["text"] = "text",
        *,
        user: Optional[str] = None,
        offset: Optional[int] = None,
        limit: Optional[int] = None,
    ) -> str: ...

    @overload
    async def read(
        self,
        path: Path,
        format: Literal["bytes"],
        *,
        user: Optional[str] = None,
        offset: Optional[int] = None,
        limit: Optional[int] = None,
    ) -> bytes: ...

    @overload
    async def read(
        self,
        path: Path,
        format: Literal["stream"],
        *,
        user: Optional[str] = None,
        offset: Optional[int] = None,
        limit: Optional[int] = None,
    ) -> AsyncFileReader: ...

    async def read(
        self,
        path: Path,
        format: Literal["text", "bytes", "stream"] = "text",
        *,
        user: Optional[str] = None,
        offset: Optional[int] = None,
        limit: Optional[int] = None,
    ) -> Union[str, bytes, AsyncFileReader]:
        """Read a file.

        Args:
            path: the file.
            format: `text` (UTF-8; bytes that are none become U+FFFD), `bytes`, or `stream`: a reader that keeps nothing.
            user: user inside who reads it.
            offset: bytes before the first one that is wanted; behind the end there is nothing to read.
            limit: so many bytes at most. Only the part travels, where the provider's feature `filesystem.range` is native.

        Raises:
            FileNotFoundError: there is none.
            FileError: it cannot be read.
        """
        if cast(str, format) not in ("text", "bytes", "stream"):
            raise UsageError(f"a file is read as text, bytes or stream, not as {format!r}")
        reader = AsyncFileReader(await begin(self._infra, "fs.read", self._params(user, path=path, offset=offset, limit=limit)))
        if format == "stream":
            return reader
        try:
            data = await reader.read()
        finally:
            await reader.aclose()
        return data if format == "bytes" else data.decode("utf-8", "replace")

    async def write(
        self,
        path: Path,
        data: Content,
        *,
        user: Optional[str] = None,
        mode: Optional[int] = None,
        size: Optional[int] = None,
        whole: Optional[bool] = None,
        modified_at: Optional[datetime] = None,
        metadata: Optional[Mapping[str, str]] = None,
    ) -> Written:
        """Write a file; folders on the way are made.

        Args:
            path: the file.
            data: text (written as UTF-8), bytes, an open file, or an iterable of bytes (with asyncio also an asynchronous one).
            user: user inside, owner of what is new.
            mode: permission bits, as 0o755.
            size: bytes that will come, if known beforehand; a difference is an error.
            whole: the old file stays until the new one is there with all its bytes.
            modified_at: time of the last change, instead of now.
            metadata: texts that are remembered with the file, where the provider can.
        """
        if isinstance(data, str):
            data = data.encode()
        if size is None and isinstance(data, (bytes, bytearray)):
            size = len(data)
        params = self._params(
            user,
            path=path,
            mode=mode,
            size=size,
            whole=whole,
            modifiedAt=rfc3339(modified_at) if modified_at is not None else None,
            metadata=dict(metadata) if metadata else None,
        )
        result = await upload(self._infra, "fs.write", params, data)
        return Written(str(result.get("path", params["path"])), int(result.get("size", size or 0)))

    async def write_many(
        self, files: Union[Mapping[Any, Content], Iterable[Tuple[Path, Content]]], *, user: Optional[str] = None
    ) -> List[Written]:
        """Write several files, one after the other: `{path: data}` or pairs. The first failure ends it."""
        given: Any = files
        written: List[Written] = []
        for pair in given.items() if hasattr(given, "items") else given:
            if not isinstance(pair, (tuple, list)) or len(cast(Sequence[Any], pair)) != 2:
                raise TypeError(f"a file to write is a pair of its path and its content, not {kind(pair)}")
            path, data = cast(Sequence[Any], pair)
            written.append(await self.write(path, data, user=user))
        return written

    async def stat(self, path: Path, *, user: Optional[str] = None) -> FileInfo:
        """What a path is. `FileNotFoundError` if there is nothing."""
        return FileInfo.from_object(await unary(self._infra, "fs.stat", self._params(user, path=path)))

    async def exists(self, path: Path, *, user: Optional[str] = None) -> bool:
        """Is there something?"""
        try:
            await self.stat(path, user=user)
        except FileNotFoundError:
            return False
        return True

    async def list(self, path: Path = ".", *, depth: Optional[int] = None, user: Optional[str] = None) -> List[FileInfo]:
        """What a folder holds, sorted by path; `depth`: so many levels (1)."""
        result = await unary(self._infra, "fs.list", self._params(user, path=path, depth=depth))
        return [FileInfo.from_object(one) for one in objects(result.get("files"))]

    async def make_dir(self, path: Path, *, exist_ok: bool = True, user: Optional[str] = None) -> bool:
        """Make a folder and those on the way. False when it was there already, which is an error with `exist_ok=False`."""
        result = await unary(self._infra, "fs.make_dir", self._params(user, path=path))
        created = result.get("created") is not False
        if not created and not exist_ok:
            raise ConflictError(f"'{path}' exists already")
        return created

    async def move(self, source: Path, target: Path, *, user: Optional[str] = None) -> None:
        """Move a file or a folder."""
        await unary(self._infra, "fs.rename", self._params(user, **{"from": source, "to": target}))

    async def remove(self, path: Path, *, missing_ok: bool = False, user: Optional[str] = None) -> None:
        """Remove a file, or a folder with all in it."""
        try:
            await unary(self._infra, "fs.remove", self._params(user, path=path))
        except FileNotFoundError:
            if not missing_ok:
                raise

    async def watch(
        self, path: Path = ".", *, recursive: bool = False, entries: bool = False, user: Optional[str] = None
    ) -> AsyncWatch:
        """Follow changes below a folder. From when this returns, each change comes.

        Args:
            recursive: folders below it too.
            entries: tell with each change what is there now.
        """
        params = self._params(user, path=path, recursive=recursive or None, entries=entries or None)
        watch = AsyncWatch(await begin(self._infra, "fs.watch", params))
        try:
            await watch._until_started()
        except BaseException:
            await watch.aclose()
            raise
        return watch
