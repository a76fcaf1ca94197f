"""Providers of kind node: the store is verified, the engine found, proved and started, and lost."""

import asyncio
import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from conftest import BUILD, ROOT, VENV
from wait import wait_for

from agent_sandbox import (
    AsyncSandbox,
    NetworkError,
    ProviderIntegrityError,
    ProviderNotFoundError,
    ProviderProtocolError,
    Sandbox,
    SandboxNotFoundError,
)
from agent_sandbox.errors import ServerNotRunningError
from agent_sandbox.providers import ExecProvider, registry, store
from agent_sandbox.providers.engine_client import EngineClient
from agent_sandbox.providers.engine_provider import EngineProvider


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home with the provider toy, of kind node; whatever engine it has is ended."""
    place = tmp_path / "home"
    monkeypatch.setenv("ABX_HOME", str(place))
    subprocess.run([BUILD / "abx", "provider", "install", str(ROOT / "tests/plugins/toy"), "--yes"], check=True, stdout=subprocess.DEVNULL)
    yield place
    registry.close_all()
    subprocess.run([BUILD / "abx", "provider", "engine", "stop"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def told(home):
    return json.loads((home / "engine.json").read_text())


# --- the store


def test_tree_sha256(tmp_path):
    vectors = json.loads((ROOT / "tests/data/store/tree_sha256.json").read_text())
    checked = 0
    for n, vector in enumerate(vectors["vectors"] if isinstance(vectors, dict) else vectors):
        folder = tmp_path / str(n)
        folder.mkdir()
        for entry in vector["entries"]:
            name = base64.b64decode(entry["pathBase64"]) if "pathBase64" in entry else entry["path"].encode()
            path = os.path.join(os.fsencode(folder), name)
            if entry["type"] == "d":
                os.makedirs(path, exist_ok=True)
            elif entry["type"] == "l":
                os.symlink(entry["target"], path)
            else:
                data = base64.b64decode(entry["base64"]) if "base64" in entry else entry.get("text", "").encode()
                Path(os.fsdecode(path)).write_bytes(data)
            if "mode" in entry and entry["type"] != "l":
                mode = entry["mode"]
                os.chmod(path, int(mode, 8) if isinstance(mode, str) else mode)
        wanted = vector.get("tree_sha256") or vector["sha256"]
        assert store.tree_sha256(str(folder)) == wanted, vector.get("name", n)
        checked += 1
    assert checked >= 3


def test_what_is_installed(home):
    receipt = store.verify_integrity("toy")
    assert (receipt.kind, receipt.trust) == ("node", "local") and receipt.tree_sha256 == store.tree_sha256(receipt.folder)
    provider = registry.load_installed("toy")
    assert type(provider) is EngineProvider and provider.kind == "node"
    with pytest.raises(ProviderNotFoundError):
        registry.load_installed("no-such")
    with pytest.raises(ProviderNotFoundError):
        store.read_receipt("../toy")
    subprocess.run([BUILD / "abx", "provider", "new", "mine", "--lang", "python", "--dir", str(home / "../mine")], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([BUILD / "abx", "provider", "link", str(home / "../mine"), "--yes"], check=True, stdout=subprocess.DEVNULL)
    linked = store.verify_integrity("mine")
    assert (linked.trust, linked.tree_sha256, type(registry.load_installed("mine"))) == ("link", None, ExecProvider)


@pytest.mark.parametrize("change", ["content", "mode", "more", "less", "receipt", "loose"])
def test_what_was_changed_is_not_run(home, change):
    folder = home / "providers/toy"
    file = next(path for path in sorted(folder.rglob("*.mjs")))
    if change == "content":
        file.write_text(file.read_text() + "// more\n")
    elif change == "mode":
        file.chmod(0o755)
    elif change == "more":
        (folder / "more").write_text("")
    elif change == "less":
        file.unlink()
    elif change == "receipt":
        (folder / ".abx-receipt.json").write_text("{")
    else:
        folder.chmod(0o777)
    with pytest.raises(ProviderIntegrityError) as refused:
        Sandbox.create(provider="toy")
    assert refused.value.code == "E8003" and not (home / "engine.json").exists()


# --- found and started


def test_the_engine_is_started_and_shared(home):
    with Sandbox.create(provider="toy") as sandbox:
        assert sandbox.commands.run(["echo", "hello"]).stdout == "hello\n"
        assert sandbox.url == f"engine://toy/{sandbox.id}" and sandbox.provider == "toy"
        assert sandbox.features["process"] == "native"
        first = told(home)
        assert (home / "engine.json").stat().st_mode & 0o777 == 0o600
        client = EngineClient()
        assert client.health()["protocol"] == "abx-engine/1" and "toy" in [one["id"] for one in client.providers()]
        program = "from agent_sandbox.providers.engine_client import EngineClient; print(EngineClient(start=False).find().pid)"
        done = subprocess.run([VENV / "bin/python", "-c", program], stdout=subprocess.PIPE, text=True, check=True)
        assert int(done.stdout) == first["pid"] and told(home) == first
    with pytest.raises(SandboxNotFoundError):
        sandbox.info()


def test_who_starts_at_once_gets_one_engine(home):
    program = "from agent_sandbox.providers.engine_client import EngineClient; print(EngineClient().find().pid)"
    started = [subprocess.Popen([VENV / "bin/python", "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(6)]
    pids, lock = [], threading.Lock()

    def find():
        pid = EngineClient().find().pid
        with lock:
            pids.append(pid)

    threads = [threading.Thread(target=find) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pids += [int(one.communicate(timeout=60)[0]) for one in started]
    assert len(pids) == 12 and len(set(pids)) == 1


def test_abx_bin_is_a_command_line(home, monkeypatch, tmp_path):
    shown = tmp_path / "a b"
    shown.write_text(f"#!/bin/sh\necho \"$@\" >> {tmp_path}/calls\nexec {BUILD}/abx \"$@\"\n")
    shown.chmod(0o755)
    monkeypatch.setenv("ABX_BIN", f"/usr/bin/env X=1 '{shown}'")
    assert EngineClient.abx_command() == ["/usr/bin/env", "X=1", str(shown)]
    EngineClient().find()
    assert (tmp_path / "calls").read_text() == "provider engine serve --detach\n"
    monkeypatch.setenv("ABX_BIN", "/bin/false")
    EngineClient().shutdown()
    wait_for(lambda: not (home / "engine.json").exists() or not alive(home))
    with pytest.raises(ServerNotRunningError):
        EngineClient().find()
    with pytest.raises(ServerNotRunningError):
        EngineClient(start=False).find()


def alive(home):
    try:
        os.kill(told(home)["pid"], 0)
    except (OSError, ValueError):
        return False
    return True


class Stranger:
    """Somebody else on the port of the file: takes what comes, and answers as if all was well."""

    def __enter__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port, self.heard = self.socket.getsockname()[1], bytearray()
        threading.Thread(target=self.run, daemon=True).start()
        return self

    def run(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            self.heard += client.recv(65536)
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Abx-Proof: AAAA\r\nConnection: close\r\n\r\n{}")
            client.close()

    def __exit__(self, *exc):
        self.socket.shutdown(socket.SHUT_RDWR)  # the thread that waits in accept would keep it open
        self.socket.close()


def test_a_stranger_on_the_port_hears_no_token(home):
    home.mkdir(mode=0o700, exist_ok=True)
    with Stranger() as stranger:
        file = home / "engine.json"
        file.write_text(json.dumps({"protocol": "abx-engine/1", "pid": os.getpid(), "port": stranger.port, "token": "secret" * 5, "version": "0"}))
        file.chmod(0o600)
        with Sandbox.create(provider="toy") as sandbox:
            assert sandbox.commands.run(["echo", "x"]).stdout == "x\n"
        assert told(home)["port"] != stranger.port
        assert b"X-Abx-Nonce" in stranger.heard and b"secret" not in stranger.heard and b"Authorization" not in stranger.heard


def test_files_that_are_not_to_be_trusted(home):
    home.mkdir(mode=0o700, exist_ok=True)
    file = home / "engine.json"
    file.write_text("no json")
    file.chmod(0o600)
    first = EngineClient().find()
    data = told(home)
    file.write_text(json.dumps(data))
    file.chmod(0o644)  # others could have written down what it says
    assert EngineClient(start=False)._look() is None
    file.chmod(0o600)
    assert EngineClient(start=False).find() == first
    file.write_text(json.dumps({**data, "protocol": "abx-engine/9"}))
    with pytest.raises(ProviderProtocolError) as other:
        EngineClient().find()
    assert "abx-engine/9" in str(other.value) and "restart" in other.value.hint
    file.write_text(json.dumps(data))


# --- lost


def kill_engine(home):
    pid = told(home)["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not alive(home))


def test_an_engine_that_is_killed(home):
    with Sandbox.create(provider="toy") as sandbox:
        with sandbox.commands.start(["sleep", "60"]) as command:
            kill_engine(home)
            with pytest.raises(NetworkError) as lost:
                command.wait()
            assert isinstance(lost.value, ConnectionError) and lost.value.retryable
        with pytest.raises(SandboxNotFoundError):  # of another engine, which was started; the module's sandboxes are gone with its process
            sandbox.info()
        sandbox.close()
    with Sandbox.create(provider="toy") as again:
        assert again.commands.run(["echo", "again"]).stdout == "again\n"


def test_an_engine_that_is_killed_under_asyncio(home):
    async def main():
        sandbox = await AsyncSandbox.create(provider="toy")
        tasks = [asyncio.ensure_future(sandbox.commands.run(["sleep", "60"])) for _ in range(5)]
        await asyncio.sleep(0.2)
        kill_engine(home)
        for task in tasks:
            with pytest.raises(NetworkError):
                await task
        await sandbox.aclose()
        async with await AsyncSandbox.create(provider="toy") as again:
            assert (await again.commands.run(["echo", "again"])).stdout == "again\n"
            task = asyncio.ensure_future(again.commands.run(["sleep", "60"]))
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            many = await asyncio.gather(*[again.commands.run(["echo", str(n)]) for n in range(40)])
            assert [one.stdout for one in many] == [f"{n}\n" for n in range(40)]

    asyncio.run(main())


def test_a_fork_uses_the_engine_with_connections_of_its_own(home):
    process = subprocess.run([VENV / "bin/python", "-c", """
import os
from agent_sandbox import Sandbox
with Sandbox.create(provider="toy") as sandbox:
    print(sandbox.commands.run(["echo", "parent"]).stdout, end="", flush=True)
    for n in range(3):
        pid = os.fork()
        if pid == 0:
            print(sandbox.commands.run(["echo", str(n)]).stdout, end="", flush=True)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    print(sandbox.commands.run(["echo", "parent"]).stdout, end="")
"""], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout == "parent\n0\n1\n2\nparent\n", process.stderr
    assert shutil.which("sh") and sys.version_info
