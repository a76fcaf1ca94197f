"""Handles that somebody else closes, wrong arguments, how things show themselves."""

import asyncio
import threading

import pytest
from agent_sandbox import AsyncSandbox, CancelledError, Connection, ProcessNotFoundError, ProviderNotFoundError, Sandbox, SandboxNotFoundError, UsageError
from agent_sandbox.providers.engine_client import FoundEngine
from agent_sandbox.providers.engine_provider import EngineInfra
from conftest import BUILD


def closed_while_read(handle, read):
    """What a thread hears that waits in a handle which another one closes."""
    heard, inside = [], threading.Event()

    def work():
        inside.set()
        try:
            heard.append(read(handle))
        except BaseException as error:
            heard.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait(30)
    handle.close()
    thread.join(60)
    assert not thread.is_alive()
    return heard[0]


def check_closing(sandbox):
    start = lambda: sandbox.commands.start(["sleep", "7200"])
    assert closed_while_read(start(), list) == []
    assert isinstance(closed_while_read(start(), lambda handle: handle.wait()), CancelledError)
    assert closed_while_read(sandbox.files.watch("/tmp"), list) == []
    assert closed_while_read(sandbox.pty.open(["sleep", "7200"]), lambda handle: b"".join(handle)) == b""
    background = sandbox.commands.run("while [ ! -e /tmp/go ]; do sleep 0.05; done; echo later", background=True)
    assert closed_while_read(background, list) == []
    sandbox.files.write("/tmp/go", "")
    assert background.wait().stdout == "later\n"  # it lives on, and can be asked again
    sandbox.files.remove("/tmp/go")
    reader = sandbox.files.read("/etc/passwd", "stream")
    reader.close()
    with pytest.raises(CancelledError):  # and not the end of the file
        reader.read()


def test_a_handle_that_another_thread_closes(sandbox):
    check_closing(sandbox)


def test_a_handle_of_the_engine_that_another_thread_closes(tmp_path, monkeypatch):
    import subprocess

    from agent_sandbox import SandboxInfo
    from agent_sandbox._sync.transport import unary

    monkeypatch.setenv("ABX_HOME", str(tmp_path / "home"))
    infra = EngineInfra(Connection(provider="local"))
    with Sandbox(infra, SandboxInfo.from_object(unary(infra, "sandbox.create", {})), owned=True) as sandbox:
        check_closing(sandbox)
    infra.close()
    subprocess.run([BUILD / "abx", "provider", "engine", "stop"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_a_handle_that_another_task_closes(sandbox):
    async def main():
        mine = await AsyncSandbox.connect(sandbox.id)

        async def pieces(handle):
            return [piece async for piece in handle]

        for handle in (await mine.commands.start(["sleep", "7200"]), await mine.files.watch("/tmp"), await mine.pty.open(["sleep", "7200"])):
            task = asyncio.ensure_future(pieces(handle))
            await asyncio.sleep(0)
            await handle.aclose()
            assert await asyncio.wait_for(task, 60) == []
        command = await mine.commands.start(["sleep", "7200"])
        task = asyncio.ensure_future(command.wait())
        await asyncio.sleep(0)
        await command.aclose()
        with pytest.raises(CancelledError):
            await asyncio.wait_for(task, 60)

    asyncio.run(main())


def test_wrong_arguments_are_told_in_terms_of_python(sandbox):
    before = len(sandbox.commands.list())
    for wrong in (None, 5, b"ls", ["ls", None], ["ls", 5]):
        for call in (sandbox.commands.run, sandbox.commands.start):
            with pytest.raises(TypeError, match="command"):
                call(wrong)
    with pytest.raises(UsageError, match="at least one word"):
        sandbox.commands.run([])
    with pytest.raises(TypeError, match="input"):
        sandbox.commands.run(["cat"], input=5)
    for wrong in (None, 5):
        with pytest.raises(TypeError, match="content"):
            sandbox.files.write("/tmp/never", wrong)
    for call in (sandbox.files.read, sandbox.files.stat, sandbox.files.list, sandbox.files.remove, sandbox.files.watch):
        for wrong in (None, 5):
            with pytest.raises(TypeError):
                call(wrong)
    assert not sandbox.files.exists("/tmp/never") and len(sandbox.commands.list()) == before
    sandbox.files.write(b"/tmp/by bytes", "x")
    assert sandbox.files.read("/tmp/by bytes") == "x"


def test_how_things_show_themselves(sandbox):
    assert repr(sandbox) == f"<Sandbox {sandbox.id} at local>"
    done = sandbox.commands.run("seq 1000; echo oops >&2; exit 3")
    assert repr(done).startswith("CommandResult(exit_code=3, stdout='1\\n2\\n3") and repr(done).endswith("(3893 characters), stderr='oops\\n')")
    assert "signal='SIGKILL'" in repr(sandbox.commands.run("kill -9 $$")) and len(repr(done)) < 250
    with sandbox.commands.start(["sleep", "7200"]) as command:
        assert repr(command) == f"<Command {command.id} of {sandbox.id}, open>"
    assert repr(command) == f"<Command {command.id} of {sandbox.id}, closed>"
    with sandbox.files.watch("/tmp") as watch:
        assert repr(watch) == "<Watch, open>"
    with sandbox.files.read("/etc/passwd", "stream") as reader:
        reader.read()
        assert repr(reader) == "<FileReader, ended>"
    secret = "s3cret-of-mine"
    connection = Connection(provider="p", api_key=secret, access_key_id=secret, access_key_secret=secret, options={"token": secret})
    assert secret not in repr(connection) + repr(FoundEngine(1, secret, 2, "3")) and "provider='p'" in repr(connection)


def test_hints_say_what_to_do_in_python(sandbox):
    with pytest.raises(SandboxNotFoundError) as gone:
        Sandbox.connect("zzzzzzzzzzzzzzzz", provider="local")
    assert gone.value.hint == "Sandbox.list() lists the sandboxes"
    with pytest.raises(ProcessNotFoundError) as gone:
        sandbox.commands.signal("nobody", "TERM")
    assert gone.value.hint == "sandbox.commands.list() lists the processes"
    with pytest.raises(ProviderNotFoundError) as gone:
        Sandbox.create(provider="nobody-has-this")
    assert gone.value.hint.startswith("Providers().install('nobody-has-this')")
