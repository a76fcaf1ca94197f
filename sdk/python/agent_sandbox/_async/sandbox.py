"""A sandbox."""

from __future__ import annotations

import os
import warnings
from typing import Any, Dict, List, Mapping, Optional, Sequence, TypeVar, Union

from .._check import checked
from .._connection import Connection
from .._infra import Infra
from ..errors import SandboxNotFoundError, UsageError
from ..providers.registry import open_for, open_infra
from ..types import (
    LogEntry,
    Metrics,
    PortInfo,
    PortUrl,
    SandboxInfo,
    SnapshotInfo,
    TemplateInfo,
    objects,
)
from .code import AsyncCode
from .commands import AsyncCommands, milliseconds
from .files import AsyncFiles
from .ports import AsyncTunnel
from .pty import AsyncPty
from .transport import begin, unary

Self = TypeVar("Self", bound="AsyncSandbox")


@checked
class AsyncSandbox:
    """An asyncio sandbox: a throw-away machine.

    `create` makes one, `connect` reaches one that lives. Used as a context manager, one that was created is ended at the exit,
    one that was connected to lives on.

    Attributes:
        id: its id.
        provider: id of the provider that it lives at.
        commands, files, pty, code: what can be done in it.
    """

    def __init__(self, infra: Infra, info: SandboxInfo, *, owned: bool = False) -> None:
        """Made by `create`, `connect` and `fork`."""
        self._infra = infra
        self._known = info
        self._owned = owned
        self._open = True
        self._pid = os.getpid()
        self.id = info.id
        self.commands = AsyncCommands(infra, info.id)
        self.files = AsyncFiles(infra, info.id)
        self.pty = AsyncPty(infra, info.id)
        self.code = AsyncCode(infra, info.id)

    # --- making and finding

    @classmethod
    async def create(
        cls: type[Self],
        template: Optional[str] = None,
        *,
        provider: Optional[str] = None,
        name: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        env: Optional[Mapping[str, str]] = None,
        timeout: Optional[float] = None,
        idle_timeout: Optional[float] = None,
        on_timeout: Optional[str] = None,
        image: Union[None, str, os.PathLike[str]] = None,
        snapshot: Union[None, str, SnapshotInfo] = None,
        network: Optional[str] = None,
        memory: Optional[int] = None,
        cpus: Optional[float] = None,
        disk: Optional[int] = None,
        processes: Optional[int] = None,
        open_files: Optional[int] = None,
        idempotency_key: Optional[str] = None,
        reuse: bool = False,
        tied: bool = False,
        allow_weaker: Optional[Sequence[str]] = None,
        connection: Optional[Connection] = None,
        profile: Optional[str] = None,
        api_key: Optional[str] = None,
        api_url: Optional[str] = None,
        domain: Optional[str] = None,
        access_key_id: Optional[str] = None,
        access_key_secret: Optional[str] = None,
        **options: Any,
    ) -> Self:
        """Make a sandbox; returns when its first command can run.

        Args:
            template: name or id of a template; None: the provider's default.
            provider: id of the provider; None: `ABX_PROVIDER`, then the configuration, as for `abx`.
            name: a name, unique among living sandboxes.
            metadata: labels.
            env: environment of every process in it.
            timeout: seconds that it lives; 0: no limit; None: the provider's default.
            idle_timeout: seconds without use after which it ends.
            on_timeout: what happens then: `kill` (default) or `pause`.
            image: path of an image archive or folder, instead of a template.
            snapshot: a snapshot instead of a template.
            network: what it may reach: `none`, `internet`, or `allow:HOST[:PORT]`.
            memory, disk: bytes at most.
            cpus: so many processors at most, as 0.5.
            processes, open_files: so many at most.
            idempotency_key: repeated with the same key it gives the same sandbox.
            reuse: with a name: a living sandbox of this name is the answer.
            tied: it ends when this program ends.
            allow_weaker: layers of the isolation that may be missing.
            connection: all that follows in one object.
            profile: a profile of the configuration.
            api_key, api_url, domain, access_key_id, access_key_secret: instead of what environment and configuration hold.
            options: the provider's own options.

        Raises:
            ProviderFeatureNotSupportedError: the provider cannot do this.
            InvalidAPIKeyError: no key, or not one that the provider takes.
            IsolationError: this machine refuses a layer of the isolation (provider `local`).
        """
        infra = open_infra(
            connection_of(
                connection, provider, profile, api_key, api_url, domain, access_key_id, access_key_secret, options
            )
        )
        params: Dict[str, Any] = {
            "template": template,
            "name": name,
            "metadata": dict(metadata) if metadata else None,
            "env": dict(env) if env else None,
            "timeoutMs": milliseconds(timeout) if timeout is not None else None,
            "idleMs": milliseconds(idle_timeout) if idle_timeout is not None else None,
            "onTimeout": on_timeout,
            "image": os.path.abspath(os.fsdecode(image)) if image is not None else None,
            "snapshot": snapshot.id if isinstance(snapshot, SnapshotInfo) else snapshot,
            "network": network,
            "memoryBytes": memory,
            "cpus": cpus,
            "diskBytes": disk,
            "processes": processes,
            "openFiles": open_files,
            "idempotencyKey": idempotency_key,
            "reuse": reuse or None,
            "tied": tied or None,
            "allowWeaker": list(allow_weaker) if allow_weaker else None,
        }
        params = {name: value for name, value in params.items() if value is not None}
        return cls(infra, SandboxInfo.from_object(await unary(infra, "sandbox.create", params)), owned=True)

    @classmethod
    async def connect(
        cls: type[Self],
        id: str,
        *,
        timeout: Optional[float] = None,
        provider: Optional[str] = None,
        connection: Optional[Connection] = None,
        profile: Optional[str] = None,
        api_key: Optional[str] = None,
        api_url: Optional[str] = None,
        domain: Optional[str] = None,
        access_key_id: Optional[str] = None,
        access_key_secret: Optional[str] = None,
        **options: Any,
    ) -> Self:
        """Reach a sandbox that lives; one that is paused goes on.

        Args:
            id: its id; of one that this machine made also its name or the beginning of its id.
            timeout: seconds that it lives from now; never shortens its life. None: as it was.
            provider: its provider; None: the one that it was made with on this machine, else the one that `ABX_PROVIDER` or the
                configuration names.
            connection, profile, api_key, api_url, domain, access_key_id, access_key_secret, options: as `create`.

        Raises:
            SandboxNotFoundError: no living sandbox has this id; or this machine has not made it, and no provider is named.
            ConflictError: several ids begin so.
        """
        infra, id = open_for(
            id,
            connection_of(
                connection, provider, profile, api_key, api_url, domain, access_key_id, access_key_secret, options
            ),
        )
        params: Dict[str, Any] = {"sandboxId": id}
        if timeout is not None:
            params["timeoutMs"] = milliseconds(timeout)
        result = await unary(infra, "sandbox.connect", params)
        return cls(infra, SandboxInfo.from_object({"id": id, **result}))

    @classmethod
    async def list(
        cls,
        *,
        metadata: Optional[Mapping[str, str]] = None,
        provider: Optional[str] = None,
        connection: Optional[Connection] = None,
        profile: Optional[str] = None,
        api_key: Optional[str] = None,
        api_url: Optional[str] = None,
        domain: Optional[str] = None,
        access_key_id: Optional[str] = None,
        access_key_secret: Optional[str] = None,
        **options: Any,
    ) -> List[SandboxInfo]:
        """The living sandboxes of a provider; `metadata`: only those with these labels. The rest as `create`."""
        infra = open_infra(
            connection_of(
                connection, provider, profile, api_key, api_url, domain, access_key_id, access_key_secret, options
            )
        )
        result = await unary(infra, "sandbox.list", {"metadata": dict(metadata)} if metadata else {})
        return [SandboxInfo.from_object(one) for one in objects(result.get("sandboxes"))]

    # --- its life

    @property
    def provider(self) -> str:
        """Id of its provider."""
        return self._known.provider or self._infra.provider

    @property
    def name(self) -> Optional[str]:
        """The name that it was given."""
        return self._known.name

    @property
    def url(self) -> Optional[str]:
        """For a provider that runs in the engine: `engine://PROVIDER/ID`."""
        mark = getattr(self._infra, "mark", None)
        return str(mark(self.id)) if mark is not None else None

    @property
    def features(self) -> Dict[str, str]:
        """What its provider can do: name → `native`, `emulated` or `unsupported`."""
        return dict(self._known.features or self._infra.features())

    async def info(self) -> SandboxInfo:
        """Everything known about it."""
        self._known = SandboxInfo.from_object(
            {"id": self.id, **await unary(self._infra, "sandbox.info", {"sandboxId": self.id})}
        )
        return self._known

    async def is_running(self) -> bool:
        """Does it live, and is it not paused?"""
        try:
            return (await self.info()).state != "paused"
        except SandboxNotFoundError:
            return False

    async def kill(self) -> bool:
        """End it and remove what it had. False when it had ended already."""
        self._owned = False
        try:
            await unary(self._infra, "sandbox.kill", {"sandboxId": self.id})
        except SandboxNotFoundError:
            return False
        finally:
            self._open = False
        return True

    async def aclose(self) -> None:
        """Leave it alone: it lives on, also after a `with`. Any number of times."""
        self._owned = False
        self._open = False

    async def set_timeout(self, timeout: float) -> None:
        """Let it live so many seconds from now; 0: no limit."""
        await unary(
            self._infra, "sandbox.set_timeout", {"sandboxId": self.id, "timeoutMs": milliseconds(timeout)}
        )

    async def pause(self) -> bool:
        """Stop all that runs in it; `resume` lets it go on. False when it was paused already."""
        result = await unary(self._infra, "sandbox.pause", {"sandboxId": self.id})
        return result.get("paused") is not False

    async def resume(self, timeout: Optional[float] = None) -> SandboxInfo:
        """Let it go on; `timeout`: seconds that it lives from now; None: what was left."""
        params: Dict[str, Any] = {"sandboxId": self.id}
        if timeout is not None:
            params["timeoutMs"] = milliseconds(timeout)
        self._known = SandboxInfo.from_object({"id": self.id, **await unary(self._infra, "sandbox.connect", params)})
        return self._known

    async def metrics(self) -> Metrics:
        """What it uses now."""
        return Metrics.from_object(await unary(self._infra, "sandbox.metrics", {"sandboxId": self.id}))

    async def logs(self, *, since: Optional[str] = None, limit: Optional[int] = None) -> List[LogEntry]:
        """What the service has noted about it, the oldest first; `since`: RFC 3339."""
        params: Dict[str, Any] = {"sandboxId": self.id}
        if since is not None:
            params["since"] = since
        if limit is not None:
            params["limit"] = limit
        result = await unary(self._infra, "sandbox.logs", params)
        return [LogEntry.from_object(one) for one in objects(result.get("entries"))]

    async def set_network(self, network: str) -> None:
        """Change what it may reach; as `create`."""
        await unary(self._infra, "sandbox.set_network", {"sandboxId": self.id, "network": network})

    # --- ports

    async def host(self, port: int) -> PortUrl:
        """The URL at which a port of it answers HTTP; `.headers` is what each request must bear."""
        return PortUrl.from_object(await unary(self._infra, "sandbox.host", {"sandboxId": self.id, "port": port}))

    async def ports(self) -> List[PortInfo]:
        """The TCP ports on which somebody in it listens."""
        result = await unary(self._infra, "sandbox.ports", {"sandboxId": self.id})
        return [
            PortInfo(int(one.get("port", 0)), one.get("address")) for one in objects(result.get("ports"))
        ]

    async def connect_port(self, port: int) -> AsyncTunnel:
        """One TCP connection to a port on its loopback."""
        call = await begin(self._infra, "sandbox.tunnel", {"sandboxId": self.id, "port": port}, True)
        tunnel = AsyncTunnel(call)
        try:
            await tunnel._until_started()
        except BaseException:
            await tunnel.aclose()
            raise
        return tunnel

    # --- snapshots

    async def snapshot(self, name: Optional[str] = None) -> SnapshotInfo:
        """Keep its files as they are now."""
        params: Dict[str, Any] = {"sandboxId": self.id}
        if name is not None:
            params["name"] = name
        return SnapshotInfo.from_object(await unary(self._infra, "sandbox.snapshot_create", params))

    async def list_snapshots(self) -> List[SnapshotInfo]:
        """The snapshots that its provider keeps, the oldest first."""
        result = await unary(self._infra, "sandbox.snapshot_list", {})
        return [SnapshotInfo.from_object(one) for one in objects(result.get("snapshots"))]

    async def remove_snapshot(self, snapshot: Union[str, SnapshotInfo]) -> None:
        """Remove a snapshot; sandboxes made from it live on."""
        id = snapshot.id if isinstance(snapshot, SnapshotInfo) else snapshot
        await unary(self._infra, "sandbox.snapshot_remove", {"snapshotId": id})

    async def fork(
        self: Self,
        *,
        name: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        env: Optional[Mapping[str, str]] = None,
        network: Optional[str] = None,
        timeout: Optional[float] = None,
        idempotency_key: Optional[str] = None,
    ) -> Self:
        """A new sandbox with its files; parameters as `create`."""
        params: Dict[str, Any] = {
            "sandboxId": self.id,
            "name": name,
            "metadata": dict(metadata) if metadata else None,
            "env": dict(env) if env else None,
            "network": network,
            "timeoutMs": milliseconds(timeout) if timeout is not None else None,
            "idempotencyKey": idempotency_key,
        }
        params = {name: value for name, value in params.items() if value is not None}
        result = await unary(self._infra, "sandbox.fork", params)
        return type(self)(self._infra, SandboxInfo.from_object(result), owned=True)

    # --- templates

    async def list_templates(self) -> List[TemplateInfo]:
        """What its provider can make sandboxes from."""
        result = await unary(self._infra, "sandbox.template_list", {})
        return [TemplateInfo.from_object(one) for one in objects(result.get("templates"))]

    # --- Python

    async def run_code(self, code: str, *, language: Optional[str] = None, **more: Any) -> Any:
        """The same as `code.run`."""
        return await self.code.run(code, language=language, **more)

    async def __aenter__(self: Self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._owned and self._pid == os.getpid():
            await self.kill()
        else:
            await self.aclose()

    def __del__(self) -> None:
        if getattr(self, "_owned", False) and self._open and self._pid == os.getpid():
            warnings.warn(
                f"sandbox {self.id} was neither ended nor left alone by close(): it lives on",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}" + (f" at {self._known.provider}>" if self._known.provider else ">")


def connection_of(
    connection: Optional[Connection],
    provider: Optional[str],
    profile: Optional[str],
    api_key: Optional[str],
    api_url: Optional[str],
    domain: Optional[str],
    access_key_id: Optional[str],
    access_key_secret: Optional[str],
    options: Mapping[str, Any],
) -> Connection:
    """The connection that the arguments of a call mean."""
    given = (provider, profile, api_key, api_url, domain, access_key_id, access_key_secret)
    if connection is None:
        return Connection(
            provider=provider,
            profile=profile,
            options=dict(options),
            api_key=api_key,
            api_url=api_url,
            domain=domain,
            access_key_id=access_key_id,
            access_key_secret=access_key_secret,
        )
    if options or any(one is not None for one in given):
        raise UsageError("a connection is given whole: no provider, key or option beside it", code="E1001")
    return connection
