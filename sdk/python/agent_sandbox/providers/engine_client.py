"""The engine: found, started, asked."""

from __future__ import annotations

import base64
import json
import os
import stat
import threading
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from .._check import checked
from .._connection import Connection
from .._home import home_folder
from .._io import blocking_io
from .._items import object_of
from ..types import objects
from .._library import abx_command
from .._sync.engine import Engine
from .._sync.exchange import Pool
from .._wire import PROTOCOL
from ..errors import ProviderProtocolError, SandboxError, ServerNotRunningError

PROOF_S = 10.0
START_S = 20.0  # until an engine that was started answers
FILE_MAX = 64 * 1024


class FoundEngine(NamedTuple):
    """An engine that lives: where, and the token that it wants."""

    port: int
    token: str
    pid: int
    version: str

    def __repr__(self) -> str:
        return f"FoundEngine(port={self.port}, pid={self.pid}, version={self.version!r})"


@checked
class EngineClient:
    """Finds the one engine of a home, starts it when there is none, and asks it.

    Args:
        home: the folder of all state; None: `ABX_HOME`, else `~/.abx`.
        start: start an engine when none lives; else that is an error.
    """

    def __init__(self, home: Optional[str] = None, *, start: bool = True) -> None:
        self.home = home_folder(home)
        self._may_start = start
        self._found: Optional[FoundEngine] = None
        self._file: Optional[tuple[int, int, int]] = None
        self._lock = threading.Lock()
        self._pid = os.getpid()

    @property
    def pid(self) -> int:
        """This process."""
        return os.getpid()

    @staticmethod
    def abx_command() -> List[str]:
        """The command line of `abx`: `ABX_BIN` (words as in a shell), the one that this package carries, or the one on PATH."""
        return abx_command()

    # --- finding

    @property
    def file(self) -> str:
        """The file that tells where the engine is."""
        return os.path.join(self.home, "engine.json")

    def known(self) -> Optional[FoundEngine]:
        """The engine that was found last, if its file is still the same; asks nobody."""
        if self._found is not None and self._pid == os.getpid() and self._stamp() == self._file:
            return self._found
        return None

    def forget(self, found: FoundEngine) -> None:
        """It could not be reached: look anew the next time."""
        if self._found == found:
            self._found = None

    def _stamp(self) -> Optional[tuple[int, int, int]]:
        try:
            what = os.stat(self.file)
        except OSError:
            return None
        return what.st_ino, what.st_mtime_ns, what.st_size

    def find(self) -> FoundEngine:
        """The engine that lives, started if need be.

        Raises:
            ServerNotRunningError: there is none, and none could be started.
            ProviderProtocolError: it speaks another protocol.
        """
        found = self.known()
        if found is not None:
            return found
        if self._pid != os.getpid():
            self._lock = threading.Lock()
            self._pid = os.getpid()
        with self._lock:
            return self.known() or self._search()

    def _search(self) -> FoundEngine:
        found = self._look()
        if found is None:
            if not self._may_start:
                raise ServerNotRunningError("no engine runs", hint="'abx provider engine serve --detach' starts one")
            self._start()
            until = time.monotonic() + START_S
            while found is None:
                found = self._look()
                if found is None and time.monotonic() > until:
                    raise ServerNotRunningError(f"the engine that was started does not answer (home '{self.home}')")
                if found is None:
                    time.sleep(0.02)
        self._found = found
        return found

    def _read_file(self) -> Optional[Dict[str, Any]]:
        """What the file says; None: there is none, or it is not to be trusted."""
        try:
            fd = os.open(self.file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            what = os.fstat(fd)
            if not stat.S_ISREG(what.st_mode) or what.st_uid != os.geteuid() or what.st_mode & 0o077:
                return None
            self._file = (what.st_ino, what.st_mtime_ns, what.st_size)
            return object_of(json.loads(os.read(fd, FILE_MAX)))
        except ValueError:
            return None
        finally:
            os.close(fd)

    def _look(self) -> Optional[FoundEngine]:
        """The engine of the file, if it lives and proves that it is the one."""
        told = self._read_file()
        if told is None:
            return None
        port, token = told.get("port"), told.get("token")
        if not isinstance(port, int) or not isinstance(token, str) or not token:
            return None
        if told.get("protocol") not in (None, PROTOCOL):
            raise ProviderProtocolError(
                f"the engine that runs speaks '{told['protocol']}', and this client '{PROTOCOL}'",
                hint="'abx provider engine restart --detach' starts one of the installed version",
            )
        pid = told.get("pid")
        found = FoundEngine(port, token, pid if isinstance(pid, int) else 0, str(told.get("version", "")))
        pool = Pool(port, token)
        try:
            pool.give(pool.take(blocking_io.now() + PROOF_S))  # which proves that it is the one
        except SandboxError:
            return None
        finally:
            pool.close()
        return found

    def _start(self) -> None:
        """Start an engine; of several that are started at once, one stays."""
        import subprocess

        env = {**os.environ, "ABX_HOME": self.home}
        done = subprocess.run(
            [*abx_command(), "provider", "engine", "serve", "--detach"],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            close_fds=True,
        )
        if done.returncode != 0 and self._look() is None:
            text = done.stderr.decode("utf-8", "replace").strip()
            raise ServerNotRunningError(f"the engine could not be started (code {done.returncode}): {text[-2000:]}")

    # --- asking

    def headers(self, found: FoundEngine, connection: Optional[Mapping[str, Any]]) -> Dict[str, str]:
        """What every request bears."""
        headers = {"Authorization": f"Bearer {found.token}"}
        if connection is not None:
            text = base64.urlsafe_b64encode(json.dumps(connection, sort_keys=True).encode())
            headers["X-Abx-Connection"] = text.decode("ascii").rstrip("=")
        return headers

    def ask(self, verb: str, path: str, connection: Optional[Mapping[str, Any]] = None) -> Dict[str, Any]:
        """A request that is no operation: `health`, `providers`, `shutdown`."""
        found = self.find()
        engine = Engine(found.port, found.token, self.headers(found, connection))
        try:
            return engine.ask(verb, path)
        finally:
            engine.close()

    def health(self) -> Dict[str, Any]:
        """`{"status", "protocol", "version"}`."""
        return self.ask("GET", "/v1/health")

    def providers(self) -> List[Dict[str, Any]]:
        """The providers that the engine knows, with their features."""
        return objects(self.ask("GET", "/v1/providers").get("providers"))

    def features(self, connection: Mapping[str, Any]) -> Dict[str, str]:
        """Features of a provider: name → `native`, `emulated` or `unsupported`."""
        for one in self.providers():
            features = object_of(one.get("features"))
            if one.get("id") == connection.get("provider") and features is not None:
                return {name: str(state) for name, state in features.items()}
        return {}

    def shutdown(self) -> None:
        """End the engine."""
        self.ask("POST", "/v1/shutdown")
        self._found = None


def engine_connection(connection: Connection) -> Dict[str, Any]:
    """What X-Abx-Connection says: the connection with all that environment and configuration add to it. The engine itself reads
    neither."""
    from .._native import resolved_connection

    return resolved_connection(connection)
