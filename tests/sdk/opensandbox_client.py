"""The official client of OpenSandbox, unchanged, against the double in tests/opensandbox: its documented calls. Run as PROGRAM
sync|async; OSB_DOMAIN and OSB_KEY say where."""

import asyncio
import os
import sys
import uuid
from datetime import timedelta

from report import ASYNC, case, done, refused, run_all, until

if ASYNC:
    from code_interpreter import CodeInterpreter
    from opensandbox import Sandbox, SandboxManager
    from opensandbox.config import ConnectionConfig
    from opensandbox.models.execd import ExecutionHandlers
else:
    from code_interpreter import CodeInterpreterSync as CodeInterpreter
    from opensandbox import SandboxManagerSync as SandboxManager
    from opensandbox import SandboxSync as Sandbox
    from opensandbox.config import ConnectionConfigSync as ConnectionConfig
    from opensandbox.models.execd_sync import ExecutionHandlersSync as ExecutionHandlers
from opensandbox.exceptions import SandboxApiException, SandboxException, SandboxReadyTimeoutException
from opensandbox.models.execd import RunCommandOpts
from opensandbox.models.filesystem import (ContentReplaceEntry, DirectoryListEntry, MoveEntry, SearchEntry, SetPermissionEntry,
                                           WriteEntry)
from opensandbox.models.sandboxes import SandboxFilter, SnapshotFilter


def config(**more):
    return ConnectionConfig(**{"api_key": os.environ["OSB_KEY"], "domain": os.environ["OSB_DOMAIN"], **more})


def make(**more):
    return Sandbox.create("debian:12", **{"connection_config": config(), "env": {"K": "v"}, "metadata": {"team": "sdk"}, **more})


def texts(messages):
    return [m.text for m in messages]


@case("Sandbox.create", "runs, with environment and labels")
async def _(box):
    info = await done(box.get_info())
    assert info.status.state == "Running" and info.metadata == {"team": "sdk"} and info.image.image == "debian:12"
    assert texts((await done(box.commands.run("echo $K"))).logs.stdout) == ["v"]


@case("Sandbox.create", "a wrong key is told")
async def _():
    e = await refused(SandboxApiException, make, connection_config=config(api_key="wrong"))
    assert e.status_code == 401 and e.error.code == "INVALID_API_KEY"


@case("Sandbox.create", "an entrypoint that ends is noticed, and the sandbox cleared away")
async def _():
    await refused(SandboxReadyTimeoutException, make, entrypoint=["false"], ready_timeout=timedelta(seconds=2),
                  metadata={"gone": str(ASYNC)}, health_check=lambda _: False if not ASYNC else asyncio.sleep(0, False))
    manager = await done(SandboxManager.create(config()))
    assert not (await done(manager.list_sandbox_infos(SandboxFilter(metadata={"gone": str(ASYNC)})))).sandbox_infos


@case("Sandbox.create", "a label that is none is refused")
async def _():
    e = await refused(SandboxApiException, make, metadata={"url": "https://x/y z"})
    assert e.status_code == 400 and e.error.code == "SANDBOX::INVALID_METADATA_LABEL"


@case("Sandbox.connect", "another object for the same sandbox; an unknown id is 404")
async def _(box):
    other = await done(Sandbox.connect(box.id, connection_config=config()))
    assert await done(other.is_healthy())
    e = await refused(SandboxApiException, Sandbox.connect, "nope", connection_config=config())
    assert e.status_code == 404 and e.error.code == "DOCKER::SANDBOX_NOT_FOUND"


@case("sandbox.pause", "stands still, and goes on with resume")
async def _():
    box = await done(make())
    try:
        await done(box.commands.run("sleep 1000", opts=RunCommandOpts(background=True)))
        await done(box.pause())
        assert (await done(box.get_info())).status.state == "Paused"
        box = await done(Sandbox.resume(box.id, connection_config=config()))
        assert (await done(box.get_info())).status.state == "Running"
        assert texts((await done(box.commands.run("pgrep -c sleep"))).logs.stdout) == ["1"]
    finally:
        await done(box.kill())
    e = await refused(SandboxApiException, box.kill)
    assert e.status_code == 404


@case("sandbox.renew", "the expiry is later, and can be sooner")
async def _(box):
    before = (await done(box.get_info())).expires_at
    assert (await done(box.renew(timedelta(hours=2)))).expires_at > before
    assert (await done(box.renew(timedelta(minutes=20)))).expires_at < (before + timedelta(minutes=30))


@case("sandbox.get_endpoint", "leads to a server in the sandbox")
async def _(box):
    import httpx

    server = "import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=%d, bind='127.0.0.1')"
    for port in (3000, 8080):
        opts = RunCommandOpts(background=True, working_directory="/etc")
        await done(box.commands.run(f'exec python3 -c "{server % port}"', opts=opts))
        endpoint = await done(box.get_endpoint(port))

        def ask():
            try:
                return httpx.get(f"http://{endpoint.endpoint}/hostname", headers=endpoint.headers).status_code == 200
            except httpx.HTTPError:
                return False

        await until(ask)


@case("sandbox.get_metrics", "numbers")
async def _(box):
    got = await done(box.get_metrics())
    assert got.cpu_count >= 1 and 0 <= got.cpu_used_percentage <= 100 and 0 < got.memory_used_in_mib < got.memory_total_in_mib


@case("sandbox.patch_metadata", "sets and removes")
async def _():
    box = await done(make())
    try:
        assert (await done(box.patch_metadata({"team": None, "x": "1"}))).metadata == {"x": "1"}
    finally:
        await done(box.kill())


@case("sandbox.create_snapshot", "a snapshot has the files and makes a sandbox")
async def _():
    box, manager, other = await done(make()), await done(SandboxManager.create(config())), None
    try:
        await done(box.files.write_file("/home/user/kept", "kept"))
        name = f"s-{uuid.uuid4().hex[:8]}"
        made = await done(box.create_snapshot(name))

        async def ready():
            return (await done(manager.get_snapshot(made.id))).status.state == "Ready"

        await until(ready)
        listed = await done(manager.list_snapshots(SnapshotFilter(sandbox_id=box.id)))
        assert [s.id for s in listed.snapshot_infos] == [made.id]
        other = await done(Sandbox.create(snapshot_id=made.id, connection_config=config()))
        assert await done(other.files.read_file("/home/user/kept")) == "kept"
        await done(manager.delete_snapshot(made.id))
    finally:
        for one in filter(None, (box, other)):
            await done(one.kill())


@case("SandboxManager.list_sandbox_infos", "by label and state")
async def _(box):
    manager = await done(SandboxManager.create(config()))
    await done(manager.patch_sandbox_metadata(box.id, {"mark": box.id[:8]}))
    found = await done(manager.list_sandbox_infos(SandboxFilter(metadata={"mark": box.id[:8]}, states=["RUNNING"])))
    assert [one.id for one in found.sandbox_infos] == [box.id] and found.pagination.total_items == 1
    none = await done(manager.list_sandbox_infos(SandboxFilter(metadata={"mark": box.id[:8]}, states=["Paused"])))
    assert none.sandbox_infos == []


@case("SandboxManager.kill_sandbox", "ends it; also pause, resume and renew by id")
async def _():
    box, manager = await done(make()), await done(SandboxManager.create(config()))
    await done(manager.pause_sandbox(box.id))
    await done(manager.resume_sandbox(box.id))
    await done(manager.renew_sandbox(box.id, timedelta(minutes=30)))
    assert (await done(manager.get_sandbox_info(box.id))).status.state == "Running"
    await done(manager.kill_sandbox(box.id))
    assert (await refused(SandboxApiException, manager.get_sandbox_info, box.id)).status_code == 404


@case("commands.run", "both streams, blank lines, the code")
async def _(box):
    heard = []

    def take(kind):
        def sync(message):
            heard.append((kind, message.text))

        async def later(message):
            sync(message)

        return later if ASYNC else sync

    got = await done(box.commands.run("printf 'a\\n\\nb\\n'; echo e >&2; exit 3",
                                      handlers=ExecutionHandlers(on_stdout=take("out"), on_stderr=take("err"))))
    assert texts(got.logs.stdout) == ["a", "\n", "b"] and texts(got.logs.stderr) == ["e"] and got.exit_code == 3
    assert got.error.name == "CommandExecError" and got.error.value == "3" and ("err", "e") in heard


@case("commands.run", "folder, environment, time limit")
async def _(box):
    opts = RunCommandOpts(working_directory="/etc", envs={"A": "1 2"}, timeout=timedelta(seconds=30))
    assert texts((await done(box.commands.run("pwd; echo $A", opts=opts))).logs.stdout) == ["/etc", "1 2"]
    late = await done(box.commands.run("sleep 100", opts=RunCommandOpts(timeout=timedelta(milliseconds=500))))
    assert late.error.value == "-1" and late.error.traceback == ["signal: killed"]
    e = await refused(SandboxException, box.commands.run, "pwd", opts=RunCommandOpts(working_directory="/nope"))
    assert "does not exist" in str(e)


@case("commands.run", "in the background: status, logs, interrupt")
async def _(box):
    got = await done(box.commands.run("echo one; sleep 1000", opts=RunCommandOpts(background=True)))

    async def written():
        logs = await done(box.commands.get_background_command_logs(got.id))
        return logs.content == "one\n" and logs.cursor == 4

    await until(written)
    assert (await done(box.commands.get_command_status(got.id))).running
    await done(box.commands.interrupt(got.id))
    status = await done(box.commands.get_command_status(got.id))
    assert not status.running and status.exit_code == -1 and status.error == "signal: terminated"


@case("commands.set_env", "for the commands that follow")
async def _(box):
    await done(box.commands.set_env("LATER", "yes"))
    assert texts((await done(box.commands.run("echo $LATER"))).logs.stdout)[0].strip("'\"") == "yes"


@case("commands.create_session", "folder and exports stay")
async def _(box):
    session = await done(box.commands.create_session(working_directory="/tmp"))
    await done(box.commands.run_in_session(session, "export X=5; cd /etc"))
    assert texts((await done(box.commands.run_in_session(session, "echo $X; pwd"))).logs.stdout) == ["5", "/etc"]
    assert (await done(box.commands.run_in_session(session, "exit 4"))).error.value == "4"
    await done(box.commands.delete_session(session))
    await refused(SandboxApiException, box.commands.delete_session, session)


@case("files.write_file", "text, bytes, parts; read back, ranges, as a stream")
async def _(box):
    await done(box.files.write_file("/home/user/w/a.txt", "héllo\n", mode=640))
    assert await done(box.files.read_file("/home/user/w/a.txt")) == "héllo\n"
    data = bytes(range(256)) * 1000
    await done(box.files.write_files([WriteEntry(path="/home/user/w/b", data=data), WriteEntry(path="/home/user/w/c", data="c")]))
    assert await done(box.files.read_bytes("/home/user/w/b")) == data
    assert await done(box.files.read_bytes("/home/user/w/b", range_header="bytes=256-511")) == bytes(range(256))
    parts = await done(box.files.read_bytes_stream("/home/user/w/b"))
    assert b"".join([p async for p in parts] if ASYNC else list(parts)) == data
    assert (await refused(SandboxApiException, box.files.read_file, "/home/user/w/none")).status_code == 404


@case("files.get_file_info", "kind, size, mode, owner")
async def _(box):
    await done(box.files.write_file("/home/user/i/x", "123", mode=640))
    one = (await done(box.files.get_file_info(["/home/user/i/x"])))["/home/user/i/x"]
    assert (one.size, one.mode, one.owner, one.entry_type) == (3, 640, "user", "file")


@case("files.list_directory", "children, and deeper")
async def _(box):
    await done(box.files.create_directories([WriteEntry(path="/home/user/l/d/e", mode=750)]))
    await done(box.files.write_file("/home/user/l/f", ""))
    got = await done(box.files.list_directory(DirectoryListEntry(path="/home/user/l")))
    assert [(e.path, e.entry_type) for e in got] == [("/home/user/l/d", "directory"), ("/home/user/l/f", "file")]
    assert len(await done(box.files.list_directory(DirectoryListEntry(path="/home/user/l", depth=2)))) == 3


@case("files.search", "by pattern")
async def _(box):
    for name in ("a.py", "x/b.py", "c.txt"):
        await done(box.files.write_file(f"/home/user/s/{name}", ""))
    got = await done(box.files.search(SearchEntry(path="/home/user/s", pattern="*.py")))
    assert sorted(e.path for e in got) == ["/home/user/s/a.py", "/home/user/s/x/b.py"]


@case("files.move_files", "renames; a target that is there is refused")
async def _(box):
    await done(box.files.write_file("/home/user/m/a", "a"))
    await done(box.files.move_files([MoveEntry(src="/home/user/m/a", dest="/home/user/m/n/b")]))
    assert await done(box.files.read_file("/home/user/m/n/b")) == "a"
    await done(box.files.write_file("/home/user/m/c", "c"))
    await refused(SandboxApiException, box.files.move_files, [MoveEntry(src="/home/user/m/c", dest="/home/user/m/n/b")])


@case("files.set_permissions", "mode")
async def _(box):
    await done(box.files.write_file("/home/user/p", ""))
    await done(box.files.set_permissions([SetPermissionEntry(path="/home/user/p", mode=600)]))
    assert (await done(box.files.get_file_info(["/home/user/p"])))["/home/user/p"].mode == 600


@case("files.replace_contents", "every place, and how many")
async def _(box):
    await done(box.files.write_file("/home/user/r", "foo bar foo"))
    got = await done(box.files.replace_contents_detailed([ContentReplaceEntry(path="/home/user/r", old_content="foo", new_content="x")]))
    assert [one.replaced_count for one in got] == [2] and await done(box.files.read_file("/home/user/r")) == "x bar x"


@case("files.delete_files", "files and folders")
async def _(box):
    await done(box.files.write_file("/home/user/del/a", ""))
    await done(box.files.delete_files(["/home/user/del/a"]))
    await refused(SandboxApiException, box.files.delete_files, ["/home/user/del"])
    await done(box.files.delete_directories(["/home/user/del"]))
    await refused(SandboxApiException, box.files.get_file_info, ["/home/user/del"])


@case("codes.run", "value, output, error, kept state")
async def _(box):
    code = await done(CodeInterpreter.create(box))
    context = await done(code.codes.create_context("python"))
    got = await done(code.codes.run("x = 41\nprint('p')\nx + 1", context=context))
    assert [r.text for r in got.result] == ["42"] and "".join(texts(got.logs.stdout)) == "p\n" and got.error is None
    got = await done(code.codes.run("x\n1 / 0", context=context))
    assert got.error.name == "ZeroDivisionError"
    assert context.id in [c.id for c in await done(code.codes.list_contexts("python"))]
    await done(code.codes.delete_context(context.id))
    assert (await refused(SandboxApiException, code.codes.get_context, context.id)).status_code == 404


@case("codes.run", "bash, by language")
async def _(box):
    code = await done(CodeInterpreter.create(box))
    await done(code.codes.run("cd /etc; Y=7", language="bash"))
    got = await done(code.codes.run("pwd; echo $Y", language="bash"))
    assert "".join(texts(got.logs.stdout)) == "/etc\n7\n"


@case("use_server_proxy", "everything through the server")
async def _():
    through = config(use_server_proxy=True)
    box = await done(make(connection_config=through))
    try:
        assert "/proxy/44772" in (await done(box.get_endpoint(44772))).endpoint
        got = await done(box.commands.run("echo hi; exit 2"))
        assert texts(got.logs.stdout) == ["hi"] and got.exit_code == 2
        await done(box.files.write_file("/home/user/proxied", "data" * 50000))
        assert await done(box.files.read_file("/home/user/proxied")) == "data" * 50000
    finally:
        await done(box.kill())


if __name__ == "__main__":
    asyncio.run(run_all("1.1.1", make, sys.argv[2:]))
