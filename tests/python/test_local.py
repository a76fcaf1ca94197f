"""Both faces over libabx, against the provider local: what a person does with a sandbox."""

import asyncio
import gc
import io
import pathlib
import threading
import time
import warnings

import pytest
from agent_sandbox import (
    AsyncSandbox,
    CancelledError,
    CommandFailedError,
    ConflictError,
    FileNotFoundError,
    ProcessNotFoundError,
    ProcessStartError,
    ProviderFeatureNotSupportedError,
    Sandbox,
    SandboxError,
    SandboxNotFoundError,
    Templates,
    TimeoutError,
    UsageError,
    deadline,
)
from wait import running, wait_for


def test_run_is_like_subprocess(sandbox):
    done = sandbox.commands.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (done.stdout, done.stderr, done.exit_code, done.signal, done.ok) == ("out\n", "err\n", 3, None, False)
    assert sandbox.commands.run("echo $((40+2)) | cat").stdout == "42\n"
    with pytest.raises(CommandFailedError) as failed:
        sandbox.commands.run("echo bad >&2; exit 7", check=True)
    assert failed.value.result.exit_code == 7 and str(failed.value) == "the command ended with exit code 7: bad"
    assert sandbox.commands.run(["cat"], input=b"\xff\0x").stdout_bytes == b"\xff\0x"
    assert sandbox.commands.run(["printf", "\\377"]).stdout == "\ufffd"
    assert sandbox.commands.run("kill -9 $$").signal == "SIGKILL"
    slow = sandbox.commands.run("sleep 60", timeout=0.05)
    assert slow.timed_out and not slow.ok
    assert sandbox.commands.run("pwd; echo $A", cwd="/tmp", env={"A": "b"}).stdout == "/tmp\nb\n"
    with pytest.raises(ProcessStartError):
        sandbox.commands.run(["/no/such/program"])


def test_paths_and_words_are_what_python_has(sandbox):
    place = pathlib.PurePosixPath("/tmp/as a path")
    sandbox.files.write(place, "x")
    assert sandbox.files.read(place) == "x" and sandbox.files.stat(place).name == "as a path"
    sandbox.files.move(place, place.with_name("moved"))
    assert sandbox.commands.run([b"cat", place.with_name("moved")]).stdout == "x"
    assert sandbox.commands.run("pwd", cwd=pathlib.PurePosixPath("/tmp")).stdout == "/tmp\n"
    sandbox.files.remove(place.with_name("moved"))
    with pytest.raises(UsageError):
        sandbox.files.read("/etc/hostname", "lines")
    for wrong in ([5], [b"a", None], 5):
        with pytest.raises(TypeError):
            sandbox.files.write("/tmp/wrong", wrong)


def test_callbacks_get_whole_characters(sandbox):
    texts, pieces = [], []
    script = "printf '\\303'; sleep 0.1; printf '\\251\\n'; printf '\\303' >&2"
    errors = []
    done = sandbox.commands.run(script, on_stdout=texts.append, on_stderr=errors.append, on_output=pieces.append)
    assert "".join(texts) == "é\n" and all("\ufffd" not in t for t in texts) and errors == ["\ufffd"]
    assert b"".join(p.data for p in pieces if p.stream == "stdout") == done.stdout_bytes == "é\n".encode()


def test_a_capture_is_bounded(sandbox):
    done = sandbox.commands.run("head -c 3000000 /dev/zero | tr '\\0' a; echo end", capture_limit=1000)
    assert done.stdout_gap == 3000004 - 1000
    assert done.stdout == "a" * 500 + f"\n[... {done.stdout_gap} bytes were not kept ...]\n" + "a" * 496 + "end\n"
    seen = [0]
    done = sandbox.commands.run("head -c 3000000 /dev/zero", capture=False, on_output=lambda p: seen.__setitem__(0, seen[0] + len(p.data)))
    assert seen == [3000000] and done.stdout_bytes == b""


def test_iterating_holds_the_command_back(sandbox):
    with sandbox.commands.start("yes | head -c 40000000; echo done >&2") as command:
        first = next(iter(command))
        assert first.data
        time.sleep(0.3)  # nobody reads: it must stand still
        assert running(sandbox, "head -c 40000000")
        total = len(first.data) + sum(len(piece.data) for piece in command if piece.stream == "stdout")
    assert total == 40000000
    assert command.wait().exit_code == 0


def test_a_handle_ends_its_command(sandbox):
    with sandbox.commands.start(["sleep", "7001"]) as command:
        assert command.pid and command.id
        assert running(sandbox, "sleep 7001")
    wait_for(lambda: not running(sandbox, "sleep 7001"))
    with pytest.raises(CancelledError):
        command.wait()


def test_stdin_kill_and_detach(sandbox):
    with sandbox.commands.start(["cat"], stdin=True) as command:
        command.send_stdin("one ")
        command.send_stdin([b"two ", b"three"])
        command.close_stdin()
        assert command.wait().stdout == "one two three"
    with sandbox.commands.start(["sleep", "7002"]) as command:
        command.kill()
        assert command.wait().signal == "SIGKILL"
    with sandbox.commands.start("sleep 0.2; echo later") as command:
        command.detach()
    assert sandbox.commands.connect(command.id).wait().stdout == "later\n"


def test_background_and_reattach(sandbox):
    command = sandbox.commands.run("for i in 1 2 3; do echo $i; sleep 0.05; done", background=True)
    first = next(iter(command))
    assert first.text.startswith("1")
    again = sandbox.commands.connect(command.id, from_offset=command.offsets)
    assert first.text + again.wait().stdout == "1\n2\n3\n"
    command.close()
    assert [p.cmd[-1] for p in sandbox.commands.list() if p.id == command.id] == ["for i in 1 2 3; do echo $i; sleep 0.05; done"]
    assert sandbox.commands.kill("p99999") is False
    with pytest.raises(ProcessNotFoundError):
        sandbox.commands.signal("p99999", "TERM")
    lives = sandbox.commands.start(["sleep", "7003"], background=True)
    del lives
    gc.collect()
    assert running(sandbox, "sleep 7003")


def test_files(sandbox):
    files = sandbox.files
    assert files.write("a/b/text", "héllo") == ("/home/user/a/b/text", 6)
    assert files.read("a/b/text") == "héllo" and files.read("a/b/text", "bytes") == "héllo".encode()
    with files.read("a/b/text", "stream") as reader:
        assert reader.read(2) == b"h\xc3" and b"".join(reader) == b"\xa9llo" and reader.read() == b""
    assert files.write("a/stream", (b"x" * 100000 for _ in range(30))).size == 3000000
    assert files.write("a/file", io.BytesIO(b"from a file")).size == 11
    assert files.read("a/file") == "from a file"
    info = files.stat("a/stream")
    assert (info.type, info.size, info.name, info.owner) == ("file", 3000000, "stream", "user")
    assert [(f.name, f.type) for f in files.list("a")] == [("b", "dir"), ("file", "file"), ("stream", "file")]
    assert files.make_dir("a/new") is True and files.make_dir("a/new") is False
    with pytest.raises(ConflictError):
        files.make_dir("a/new", exist_ok=False)
    files.move("a/file", "a/new/moved")
    assert files.exists("a/new/moved") and not files.exists("a/file")
    files.remove("a")
    files.remove("a", missing_ok=True)
    with pytest.raises(FileNotFoundError) as missing:
        files.read("a")
    assert isinstance(missing.value, OSError) and missing.value.code == "E3002"
    assert [w.size for w in files.write_many({"m/1": "1", "m/2": b"22"})] == [1, 2]
    files.write("m/x", "#!/bin/sh\necho ran", mode=0o755)
    assert sandbox.commands.run(["./m/x"]).stdout == "ran\n"


def test_watch(sandbox):
    sandbox.files.make_dir("w")
    with sandbox.files.watch("w", entries=True) as watch:
        sandbox.files.write("w/new", "1")
        change = next(iter(watch))
        assert (change.kind, change.name) == ("create", "new") and change.file.type == "file"


def test_pty(sandbox):
    with sandbox.pty.open(["sh"], cols=91, rows=23) as terminal:
        terminal.write("stty size; echo $((6*7))\n")
        shown = b""
        while b"42" not in shown:
            shown += next(terminal)
        assert b"23 91" in shown
        terminal.resize(100, 30)
        terminal.write("stty size; exit 5\n")
        rest = []
        assert terminal.wait(rest.append).exit_code == 5
        assert b"30 100" in b"".join(rest)


def test_code(sandbox):
    outputs, results = [], []
    done = sandbox.run_code("import sys\nx = 41\nprint('out')\nprint('err', file=sys.stderr)\nx + 1", on_stdout=outputs.append, on_result=results.append)
    assert done.text == "42" and done.stdout == "out\n" and done.stderr == "err\n" and done.error is None
    assert outputs == ["out\n"] and [r.text for r in results] == ["42"]
    assert done._repr_mimebundle_()["text/plain"] == "42"
    rich = sandbox.code.run("class H:\n    def _repr_html_(self): return '<b>x</b>'\nH()")
    assert rich.result.html == "<b>x</b>" and rich.result._repr_mimebundle_()["text/html"] == "<b>x</b>" and "html" in rich.result.formats()
    failed = sandbox.code.run("1/0")
    assert failed.error.name == "ZeroDivisionError" and "1/0" in failed.error.traceback
    assert "ZeroDivisionError" in failed._repr_mimebundle_()["text/plain"]
    context = sandbox.code.create_context("python", cwd="/tmp")
    assert sandbox.code.run("import os; os.getcwd()", context=context).text == "'/tmp'"
    assert context.id in [c.id for c in sandbox.code.list_contexts()]
    assert sandbox.code.run("x", context=context).error.name == "NameError"
    sandbox.code.restart_context(context)
    sandbox.code.remove_context(context)
    slow = sandbox.code.run("while True: pass", timeout=0.1)
    assert slow.timed_out


def test_life(sandbox):
    with Sandbox.create(provider="local", name="python-life", metadata={"a": "b"}, env={"E": "1"}, timeout=600) as mine:
        assert mine.name == "python-life" and mine.provider == "local" and mine.url is None
        assert [s.id for s in Sandbox.list(provider="local", metadata={"a": "b"})] == [mine.id]
        info = mine.info()
        assert info.state == "running" and info.metadata == {"a": "b"} and info.expires_at > info.created_at
        mine.set_timeout(1200)
        assert (mine.info().expires_at - info.expires_at).total_seconds() > 300
        assert mine.pause() is True and mine.info().state == "paused" and not mine.is_running()
        mine.resume()
        assert mine.commands.run("echo $E").stdout == "1\n" and mine.is_running()
        assert mine.metrics().memory_used > 0
        mine.files.write("kept", "x")
        snapshot = mine.snapshot("python-snap")
        assert snapshot.name == "python-snap" and snapshot.id in [s.id for s in mine.list_snapshots()]
        with mine.fork() as other, Sandbox.create(provider="local", snapshot=snapshot) as third:
            assert other.id != mine.id and other.files.read("kept") == third.files.read("kept") == "x"
        mine.remove_snapshot(snapshot)
        with Sandbox.connect("python-life") as same:  # its name
            assert same.files.read("kept") == "x"
        assert mine.features["process"] == "native"
    with pytest.raises(SandboxNotFoundError) as gone:
        Sandbox.connect(mine.id, provider="local")
    assert gone.value.code == "E3001" and gone.value.retryable is False
    assert mine.kill() is False and mine.is_running() is False


def test_ports(sandbox):
    sandbox.commands.run("python3 -m http.server 8431", background=True)
    wait_for(lambda: 8431 in [p.port for p in sandbox.ports()])
    with sandbox.connect_port(8431) as connection:
        connection.write(b"GET / HTTP/1.0\r\n\r\n")
        assert b"".join(connection).startswith(b"HTTP/1.0 200")
    with pytest.raises(NotImplementedError):  # local has no addresses
        sandbox.host(8431)


def test_templates(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "hello").write_text("from a template")
    templates = Templates("local")
    made = templates.add(str(tmp_path), name="python-template")
    try:
        assert made.id in [t.id for t in templates.list()] and templates.info("python-template").id == made.id
    finally:
        templates.remove("python-template")


def test_errors_of_use(sandbox):
    with pytest.raises(ProviderFeatureNotSupportedError) as refused:
        sandbox.logs()
    assert refused.value.code == "E8004" and refused.value.hint
    with pytest.raises(UsageError) as wrong:
        sandbox.pty.open(["sh"], cols=-1)
    assert isinstance(wrong.value, ValueError)
    with pytest.raises(SandboxError):
        Sandbox.create(provider="local", no_such_option=1)
    with pytest.raises(SandboxError):
        Sandbox.create(provider="no-such-provider")
    with pytest.raises(ValueError):
        sandbox.commands.run("true", timeout=-1)


def test_deadline(sandbox):
    with deadline(0.2), pytest.raises(TimeoutError) as late:
        sandbox.commands.run("sleep 7004")
    assert isinstance(late.value, OSError) and late.value.code == "E5001"
    wait_for(lambda: not running(sandbox, "sleep 7004"))
    with deadline(60), deadline(0.01):
        time.sleep(0.05)
        with pytest.raises(TimeoutError):
            sandbox.info()
    assert sandbox.info()


def test_many_threads(sandbox):
    failures = []

    def work(n):
        try:
            for i in range(10):
                assert sandbox.commands.run(["echo", f"{n}.{i}"]).stdout == f"{n}.{i}\n"
                sandbox.files.write(f"t/{n}", str(i))
                assert sandbox.files.read(f"t/{n}") == str(i)
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_close_from_another_thread(sandbox):
    command = sandbox.commands.start(["sleep", "7005"])
    outcome = []

    def read():
        try:
            outcome.append(command.wait())
        except Exception as e:
            outcome.append(e)

    thread = threading.Thread(target=read)
    thread.start()
    time.sleep(0.1)
    command.close()
    thread.join(30)
    assert not thread.is_alive() and isinstance(outcome[0], CancelledError)
    wait_for(lambda: not running(sandbox, "sleep 7005"))


# --- asyncio


def test_async_face(sandbox):
    async def main():
        async with await AsyncSandbox.create(provider="local") as mine:
            texts = []

            async def on_stdout(text):
                await asyncio.sleep(0)
                texts.append(text)

            done = await mine.commands.run("echo out; exit 3", on_stdout=on_stdout)
            assert texts == ["out\n"] and done.exit_code == 3
            many = await asyncio.gather(*[mine.commands.run(["echo", str(i)]) for i in range(50)])
            assert [int(one.stdout) for one in many] == list(range(50))
            async with await mine.commands.start(["cat"], stdin=True) as command:
                await command.send_stdin("a" * 1000000, close=True)
                assert sum([len(piece.data) async for piece in command]) == 1000000

            async def pieces():
                for _ in range(10):
                    await asyncio.sleep(0)
                    yield b"y" * 300000

            assert (await mine.files.write("big", pieces())).size == 3000000
            async with await mine.files.read("big", "stream") as reader:
                assert sum([len(data) async for data in reader]) == 3000000
            async with await mine.files.watch(".") as watch:
                await mine.files.write("n", "1")
                assert (await watch.__anext__()).name == "n"
            async with await mine.pty.open(["sh"]) as terminal:
                await terminal.write("exit 4\n")
                assert (await terminal.wait()).exit_code == 4
            assert (await mine.run_code("40+2")).text == "42"
            with deadline(0.1):
                with pytest.raises(TimeoutError):
                    await mine.commands.run("sleep 60")
            background = await mine.commands.run("sleep 0.1; echo b", background=True)
            assert (await background.wait()).stdout == "b\n"
        with pytest.raises(SandboxNotFoundError):
            await AsyncSandbox.connect(mine.id, provider="local")

    asyncio.run(main())


def test_async_needs_no_thread(sandbox):
    async def main():
        mine = await AsyncSandbox.connect(sandbox.id)
        before = threading.active_count()
        tasks = [asyncio.ensure_future(mine.commands.run(["sleep", "0.3"])) for _ in range(30)]
        await asyncio.sleep(0.1)
        assert threading.active_count() == before
        assert all(done.ok for done in await asyncio.gather(*tasks))

    asyncio.run(main())


def test_a_cancelled_task_ends_its_command(sandbox):
    async def main():
        mine = await AsyncSandbox.connect(sandbox.id)
        task = asyncio.ensure_future(mine.commands.run(["sleep", "7006"]))
        for _ in range(1000):
            if "7006" in (await mine.commands.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).stdout:
                break
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(mine.commands.run(["sleep", "7007"]), 0.2)

    asyncio.run(main())  # and the loop is gone at once
    wait_for(lambda: not running(sandbox, "sleep 7006") and not running(sandbox, "sleep 7007"))


def test_loops_one_after_the_other(sandbox):
    async def main(n):
        mine = await AsyncSandbox.connect(sandbox.id)
        return (await mine.commands.run(["echo", str(n)])).stdout

    import os

    assert [asyncio.run(main(n)) for n in range(3)] == ["0\n", "1\n", "2\n"]
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for n in range(10):
        asyncio.run(main(n))
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before + 2


# --- forgetting


def test_forgotten_things_warn(sandbox):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        sandbox.commands.start(["sleep", "7008"])
        gc.collect()
        sandbox.files.read("/etc/passwd", "stream")
        gc.collect()
        one = Sandbox.create(provider="local")
        id = one.id
        del one
        gc.collect()
    texts = [str(w.message) for w in told if w.category is ResourceWarning]
    assert texts == ["a command was not closed", "a file reader was not closed", f"sandbox {id} was neither ended nor left alone by close(): it lives on"]
    wait_for(lambda: not running(sandbox, "sleep 7008"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        left = Sandbox.connect(id)
        left.kill()
        kept = Sandbox.create(provider="local")
        kept.close()
        id = kept.id
        del kept
        gc.collect()
    Sandbox.connect(id).kill()


def test_a_connection_is_resolved_as_abx_does(tmp_path, monkeypatch):
    from agent_sandbox import Connection
    from agent_sandbox._native import resolved_connection

    monkeypatch.setenv("ABX_API_KEY", "e2b_0123456789")
    given = resolved_connection(Connection(provider="alicloud-express", options={"region": "cn-shanghai"}, domain="d.example"))
    assert given["provider"] == "alicloud-express" and given["apiKey"] == "e2b_0123456789" and given["domain"] == "d.example"
    assert given["options"]["region"] == "cn-shanghai"
    with pytest.raises(SandboxError):
        resolved_connection(Connection(provider="no-such"))
