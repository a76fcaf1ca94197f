"""What calls give back. Times are `datetime` in UTC; what a provider does not know is None.

Each object keeps what came over the wire in `raw`.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ._items import Json, list_of, object_of


def _text(value: Any) -> Optional[str]:
    return value if isinstance(value, str) else None


def _int(value: Any) -> Optional[int]:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Any) -> Optional[float]:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _time(value: Any) -> Optional[datetime]:
    """An RFC 3339 time; digits of the second beyond the sixth are left out."""
    if not isinstance(value, str):
        return None
    plain = re.sub(r"(\.\d{1,6})\d*", lambda m: m[1].ljust(7, "0"), value.replace("Z", "+00:00").replace("z", "+00:00"))
    try:
        at = datetime.fromisoformat(plain)
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=timezone.utc)


def rfc3339(at: datetime) -> str:
    """A time as it travels; one without a zone is of this machine's."""
    return at.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")


def _texts(value: Any) -> Dict[str, str]:
    found = object_of(value) or {}
    return {str(k): v if isinstance(v, str) else str(v) for k, v in found.items()}


def _none() -> Json:
    return {}


def objects(value: Any) -> List[Json]:
    """The objects of a list."""
    found = (object_of(item) for item in list_of(value))
    return [one for one in found if one is not None]


@dataclass(frozen=True)
class SandboxInfo:
    """A sandbox. `state` is `running` or `paused`; `features` is name → `native`, `emulated` or `unsupported`."""

    id: str
    provider: Optional[str]
    name: Optional[str]
    state: Optional[str]
    template: Optional[str]
    created_at: Optional[datetime]
    expires_at: Optional[datetime]
    metadata: Dict[str, str]
    features: Dict[str, str]
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_object(cls, value: Json) -> SandboxInfo:
        return cls(
            id=str(value.get("id", "")),
            provider=_text(value.get("provider")),
            name=_text(value.get("name")),
            state=_text(value.get("state")),
            template=_text(value.get("template")),
            created_at=_time(value.get("createdAt")),
            expires_at=_time(value.get("expiresAt")),
            metadata=_texts(value.get("metadata")),
            features=_texts(value.get("features")),
            raw=value,
        )


@dataclass(frozen=True)
class ProcessInfo:
    """A process that a call started. `cmd` is its argument list; `state` is `running` or `exited`."""

    id: str
    pid: Optional[int]
    cmd: Tuple[str, ...]
    cwd: Optional[str]
    started_at: Optional[datetime]
    background: Optional[bool]
    state: Optional[str]
    exit_code: Optional[int]
    signal: Optional[str]
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_object(cls, value: Json) -> ProcessInfo:
        background = value.get("background")
        cmd = value.get("cmd")
        return cls(
            id=str(value.get("id", "")),
            pid=_int(value.get("pid")),
            cmd=(cmd,) if isinstance(cmd, str) else tuple(str(word) for word in list_of(cmd)),
            cwd=_text(value.get("cwd")),
            started_at=_time(value.get("startedAt")),
            background=background if isinstance(background, bool) else None,
            state=_text(value.get("state")),
            exit_code=_int(value.get("exitCode")),
            signal=_text(value.get("signal")),
            raw=value,
        )


@dataclass(frozen=True)
class FileInfo:
    """A file. `type` is `file`, `dir`, `symlink` or `other`; `size` in bytes; `target` is where a symlink leads."""

    path: str
    name: str
    type: Optional[str]
    size: Optional[int]
    mode: Optional[int]
    owner: Optional[str]
    group: Optional[str]
    modified_at: Optional[datetime]
    target: Optional[str]
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_object(cls, value: Json) -> FileInfo:
        path = str(value.get("path", ""))
        return cls(
            path=path,
            name=_text(value.get("name")) or path.rstrip("/").rpartition("/")[2],
            type=_text(value.get("type")),
            size=_int(value.get("size")),
            mode=_int(value.get("mode")),
            owner=_text(value.get("owner")),
            group=_text(value.get("group")),
            modified_at=_time(value.get("modifiedAt")),
            target=_text(value.get("target")),
            raw=value,
        )


@dataclass(frozen=True)
class Change:
    """A change below a watched folder. `kind` is `create`, `write`, `remove`, `rename` or `chmod`; `name` is the path below the
    folder; `file` is what is there now, where that was asked for."""

    kind: str
    name: str
    file: Optional[FileInfo]
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_object(cls, value: Json) -> Change:
        file = object_of(value.get("file"))
        return cls(
            kind=str(value.get("kind", "")),
            name=str(value.get("name", "")),
            file=FileInfo.from_object(file) if file is not None else None,
            raw=value,
        )


@dataclass(frozen=True)
class Metrics:
    """What a sandbox uses. Memory and disk in bytes; `cpu_used_percent` is 0 to 100 of all its processors together."""

    timestamp: Optional[datetime]
    cpu_count: Optional[int]
    cpu_used_percent: Optional[float]
    memory_used: Optional[int]
    memory_total: Optional[int]
    memory_cache: Optional[int]
    disk_used: Optional[int]
    disk_total: Optional[int]
    processes: Optional[int]
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_object(cls, value: Json) -> Metrics:
        return cls(
            timestamp=_time(value.get("timestamp")),
            cpu_count=_int(value.get("cpuCount")),
            cpu_used_percent=_number(value.get("cpuUsedPct")),
            memory_used=_int(value.get("memUsed")),
            memory_total=_int(value.get("memTotal")),
            memory_cache=_int(value.get("memCache")),
            disk_used=_int(value.get("diskUsed")),
            disk_total=_int(value.get("diskTotal")),
            processes=_int(value.get("processes")),
            raw=value,
        )


@dataclass(frozen=True)
class LogEntry:
    """A line of what a service has noted about a sandbox."""

    timestamp: Optional[datetime]
    level: Optional[str]
    message: Optional[str]
    fields: Mapping[str, Any]
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_object(cls, value: Json) -> LogEntry:
        return cls(
            timestamp=_time(value.get("timestamp")),
            level=_text(value.get("level")),
            message=_text(value.get("message")),
            fields=object_of(value.get("fields")) or {},
            raw=value,
        )


@dataclass(frozen=True)
class SnapshotInfo:
    """The files of a sandbox, kept. `size` in bytes where it is known."""

    id: str
    name: Optional[str]
    sandbox: Optional[str]
    created_at: Optional[datetime]
    size: Optional[int]
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_object(cls, value: Json) -> SnapshotInfo:
        return cls(
            id=str(value.get("id", "")),
            name=_text(value.get("name")),
            sandbox=_text(value.get("sandbox")),
            created_at=_time(value.get("createdAt")),
            size=_int(value.get("size")),
            raw=value,
        )


@dataclass(frozen=True)
class TemplateInfo:
    """What a sandbox can be made from. `size` in bytes where it is known."""

    id: str
    name: Optional[str]
    created_at: Optional[datetime]
    size: Optional[int]
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def from_object(cls, value: Json) -> TemplateInfo:
        return cls(
            id=str(value.get("id", "")),
            name=_text(value.get("name")),
            created_at=_time(value.get("createdAt")),
            size=_int(value.get("size")),
            raw=value,
        )


@dataclass(frozen=True)
class Leftover:
    """Something that nobody owned any more: its id, and what it was."""

    id: str
    what: str

    @classmethod
    def from_object(cls, value: Json) -> Leftover:
        return cls(id=str(value.get("id", "")), what=str(value.get("what", "")))


@dataclass(frozen=True)
class Layer:
    """Something that a backend needs: whether it is there; `fix` is what to do about it when it is not."""

    name: str
    ok: bool
    detail: Optional[str]
    fix: Optional[str]

    @classmethod
    def from_object(cls, value: Json) -> Layer:
        return cls(
            name=str(value.get("name", "")),
            ok=value.get("ok") is True,
            detail=_text(value.get("detail")),
            fix=_text(value.get("fix")),
        )


@dataclass(frozen=True)
class PortInfo:
    """A TCP port on which somebody in a sandbox listens."""

    port: int
    address: Optional[str]


class PortUrl(str):
    """The URL of a port, without a slash at its end. `headers` is what each request to it must bear, which may be secret."""

    headers: Dict[str, str]

    @classmethod
    def from_object(cls, value: Json) -> PortUrl:
        self = cls(value.get("url", ""))
        self.headers = _texts(value.get("headers"))
        return self


@dataclass(frozen=True)
class Output:
    """A piece of what a command writes: its bytes, and the same as text (a character that is not complete yet comes with the
    next piece)."""

    stream: str
    data: bytes
    text: str


class CommandFailedError(Exception):
    """A command ended with an exit code that is not 0, by a signal or by its time limit, and `check` was asked for.

    Attributes:
        result: the `CommandResult`.
    """

    def __init__(self, result: CommandResult) -> None:
        super().__init__(result)
        self.result = result

    def __str__(self) -> str:
        r = self.result
        how = "its time limit" if r.timed_out else f"signal {r.signal}" if r.signal else f"exit code {r.exit_code}"
        last = r.stderr.strip().rpartition("\n")[2][-500:]
        return f"the command ended with {how}" + (f": {last}" if last else "")


def shortened(text: str, most: int = 60) -> str:
    """A text as its repr, of so many characters."""
    return repr(text) if len(text) <= most else f"{text[:most]!r}... ({len(text)} characters)"


@dataclass(frozen=True, repr=False)
class CommandResult:
    """How a command ended.

    Attributes:
        exit_code: its exit code; None when a signal ended it.
        signal: name of the signal that ended it (`SIGKILL`), else None.
        timed_out: its time limit ended it.
        limit: `memory` or `disk` when it failed because the sandbox was at that limit, else None.
        stdout_bytes, stderr_bytes: what it wrote, at most the capture limit each. Where more came, the first and the last part
            are kept, with a line between them that tells the size of the gap.
        stdout_gap, stderr_gap: so many bytes were not kept.
    """

    exit_code: Optional[int]
    signal: Optional[str]
    timed_out: bool
    limit: Optional[str]
    stdout_bytes: bytes = field(repr=False)
    stderr_bytes: bytes = field(repr=False)
    stdout_gap: int = 0
    stderr_gap: int = 0
    raw: Json = field(default_factory=_none, repr=False, compare=False)

    @property
    def stdout(self) -> str:
        """What it wrote on standard output, as UTF-8; bytes that are none became U+FFFD."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """What it wrote on standard error, as UTF-8; bytes that are none became U+FFFD."""
        return self.stderr_bytes.decode("utf-8", "replace")

    @property
    def ok(self) -> bool:
        """It ended by itself with exit code 0."""
        return self.exit_code == 0 and self.signal is None and not self.timed_out

    def __repr__(self) -> str:
        how = [f"exit_code={self.exit_code}"] if self.signal is None else [f"signal={self.signal!r}"]
        how += ["timed_out=True"] if self.timed_out else []
        how += [f"limit={self.limit!r}"] if self.limit else []
        return f"CommandResult({', '.join(how)}, stdout={shortened(self.stdout)}, stderr={shortened(self.stderr)})"

    def check(self) -> CommandResult:
        """Itself, or `CommandFailedError` if it is not `ok`."""
        if not self.ok:
            raise CommandFailedError(self)
        return self


@dataclass(frozen=True)
class PtyResult:
    """How a process on a terminal ended; as `CommandResult`."""

    exit_code: Optional[int]
    signal: Optional[str]
    timed_out: bool
    limit: Optional[str]
    raw: Json = field(default_factory=_none, repr=False, compare=False)

    @classmethod
    def from_object(cls, value: Json) -> PtyResult:
        return cls(
            exit_code=_int(value.get("exitCode")),
            signal=_text(value.get("signal")),
            timed_out=value.get("timedOut") is True,
            limit=_text(value.get("limit")),
            raw=value,
        )


def command_result(
    value: Json, stdout: Tuple[bytes, int] = (b"", 0), stderr: Tuple[bytes, int] = (b"", 0)
) -> CommandResult:
    end = PtyResult.from_object(value)
    return CommandResult(
        exit_code=end.exit_code,
        signal=end.signal,
        timed_out=end.timed_out,
        limit=end.limit,
        stdout_bytes=stdout[0],
        stderr_bytes=stderr[0],
        stdout_gap=stdout[1],
        stderr_gap=stderr[1],
        raw=value,
    )


@dataclass(frozen=True)
class CodeContext:
    """A state that code runs in. `busy`: something runs there now."""

    id: str
    language: Optional[str]
    cwd: Optional[str]
    busy: Optional[bool] = None
    pid: Optional[int] = None
    raw: Json = field(default_factory=_none, repr=False, compare=False)

    @classmethod
    def from_object(cls, value: Json) -> CodeContext:
        busy = value.get("busy")
        return cls(
            id=str(value.get("id", "")),
            language=_text(value.get("language")),
            cwd=_text(value.get("cwd")),
            busy=busy if isinstance(busy, bool) else None,
            pid=_int(value.get("pid")),
            raw=value,
        )


@dataclass(frozen=True)
class CodeError:
    """Code that failed: the name of its error, its text, and where it happened."""

    name: str
    value: str
    traceback: str
    exit_code: Optional[int] = None

    @classmethod
    def from_object(cls, value: Json) -> CodeError:
        trace = value.get("traceback")
        lines = list_of(trace)
        return cls(
            name=str(value.get("name", "")),
            value=str(value.get("value", "")),
            traceback="\n".join(str(line) for line in lines) if lines else str(trace or ""),
            exit_code=_int(value.get("exitCode")),
        )


# Form of a result → (MIME type, it is base64)
_MIME: Dict[str, Tuple[str, bool]] = {
    "text": ("text/plain", False),
    "html": ("text/html", False),
    "markdown": ("text/markdown", False),
    "svg": ("image/svg+xml", False),
    "png": ("image/png", True),
    "jpeg": ("image/jpeg", True),
    "pdf": ("application/pdf", True),
    "latex": ("text/latex", False),
    "json": ("application/json", False),
    "javascript": ("application/javascript", False),
}


@dataclass(frozen=True)
class CodeResult:
    """A value that code showed, in the forms that it has. In a notebook it shows itself."""

    is_main_result: bool
    raw: Json = field(repr=False)

    @classmethod
    def from_object(cls, value: Json) -> CodeResult:
        return cls(is_main_result=value.get("isMainResult") is True, raw=value)

    @property
    def text(self) -> Optional[str]:
        """The value as plain text."""
        return _text(self.raw.get("text"))

    @property
    def html(self) -> Optional[str]:
        """The value as HTML."""
        return _text(self.raw.get("html"))

    @property
    def markdown(self) -> Optional[str]:
        """The value as Markdown."""
        return _text(self.raw.get("markdown"))

    @property
    def svg(self) -> Optional[str]:
        """The value as SVG."""
        return _text(self.raw.get("svg"))

    @property
    def latex(self) -> Optional[str]:
        """The value as LaTeX."""
        return _text(self.raw.get("latex"))

    @property
    def javascript(self) -> Optional[str]:
        """The value as JavaScript."""
        return _text(self.raw.get("javascript"))

    @property
    def json(self) -> Any:
        """The value as JSON, decoded."""
        return self.raw.get("json")

    @property
    def png(self) -> Optional[bytes]:
        """The value as a PNG image."""
        return self._bytes("png")

    @property
    def jpeg(self) -> Optional[bytes]:
        """The value as a JPEG image."""
        return self._bytes("jpeg")

    @property
    def pdf(self) -> Optional[bytes]:
        """The value as a PDF document."""
        return self._bytes("pdf")

    def _bytes(self, name: str) -> Optional[bytes]:
        value = _text(self.raw.get(name))
        return base64.b64decode(value) if value is not None else None

    def formats(self) -> List[str]:
        """Names of the forms that it has."""
        return [name for name in (*_MIME, "data", "chart") if self.raw.get(name) is not None]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Dict[str, Any]:
        """For notebooks."""
        return {_MIME[name][0]: self.raw[name] for name in _MIME if self.raw.get(name) is not None}

    def __str__(self) -> str:
        return self.text or f"<{', '.join(self.formats()) or 'nothing'}>"


@dataclass(frozen=True)
class Execution:
    """What running code gave: values, output, and the error if it failed. In a notebook it shows its main result.

    Attributes:
        results: values that it showed, in their order.
        stdout, stderr: what it wrote, at most the capture limit each.
        stdout_gap, stderr_gap: so many bytes were not kept.
        error: how it failed, or None.
        context_id, language: where it ran, if known.
        execution_count: runs of this kernel up to this one.
        timed_out: its time limit interrupted it.
        state_lost: the kernel ended; the next run starts a fresh one.
    """

    results: List[CodeResult]
    stdout: str
    stderr: str
    stdout_gap: int
    stderr_gap: int
    error: Optional[CodeError]
    context_id: Optional[str]
    language: Optional[str]
    execution_count: Optional[int]
    timed_out: bool
    state_lost: bool
    raw: Json = field(repr=False, compare=False)

    @property
    def result(self) -> Optional[CodeResult]:
        """The main result: the value of the last expression."""
        return next((one for one in self.results if one.is_main_result), None)

    @property
    def text(self) -> Optional[str]:
        """The main result as plain text."""
        main = self.result
        return main.text if main else None

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Dict[str, Any]:
        """For notebooks."""
        if self.error is not None:
            return {"text/plain": self.error.traceback or f"{self.error.name}: {self.error.value}"}
        shown = self.result or (self.results[-1] if self.results else None)
        return shown._repr_mimebundle_() if shown else {"text/plain": self.stdout}


def execution(
    results: List[CodeResult],
    stdout: Tuple[bytes, int],
    stderr: Tuple[bytes, int],
    error: Optional[CodeError],
    end: Json,
) -> Execution:
    return Execution(
        results=results,
        stdout=stdout[0].decode("utf-8", "replace"),
        stderr=stderr[0].decode("utf-8", "replace"),
        stdout_gap=stdout[1],
        stderr_gap=stderr[1],
        error=error,
        context_id=_text(end.get("contextId")),
        language=_text(end.get("language")),
        execution_count=_int(end.get("executionCount")),
        timed_out=end.get("timedOut") is True,
        state_lost=end.get("stateLost") is True,
        raw=end,
    )
