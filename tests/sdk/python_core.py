"""Every documented call of the Python package e2b but the code interpreter's. PROGRAM sync|async [WORD...]"""

import asyncio
import datetime
import io
import sys
import urllib.error
import urllib.request
from importlib.metadata import version

import e2b
from e2b import (AuthenticationException, CommandExitException, InvalidArgumentException, NotFoundException, PtySize,
                 SandboxException, TimeoutException)

from report import ASYNC, case, done, refused, run_all, until

VERSION = version("e2b")
Sandbox = e2b.AsyncSandbox if ASYNC else e2b.Sandbox
UNKNOWN = "iunknown0000000000000"
MISSING = getattr(e2b, "FileNotFoundException", NotFoundException)
GONE = getattr(e2b, "SandboxNotFoundException", NotFoundException)


class Fresh:
    """A sandbox of a case's own."""

    def __init__(self, *args, **more):
        self.args, self.more = args, more

    async def __aenter__(self):
        self.box = await done(Sandbox.create(*self.args, **self.more))
        return self.box

    async def __aexit__(self, *_):
        await done(self.box.kill())


async def sh(box, command, **more):
    return (await done(box.commands.run(command, **more))).stdout


async def pages(paginator):
    found = []
    while paginator.has_next:
        found.append(await done(paginator.next_items()))
    return found


def fetch(url, data=None, headers=None):
    """Status and body."""
    request = urllib.request.Request(url, data=data, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as e:
        return e.code, e.read()


def multipart(name, data):
    edge = b"edge-4711"
    body = (b"--" + edge + b'\r\nContent-Disposition: form-data; name="file"; filename="' + name + b'"\r\n\r\n' + data +
            b"\r\n--" + edge + b"--\r\n")
    return body, {"Content-Type": "multipart/form-data; boundary=" + edge.decode()}


# --- Sandbox -----------------------------------------------------------------------------------------------------


@case("Sandbox.create", "the default template, metadata, environment and time limit")
async def _():
    async with Fresh(metadata={"purpose": "a b&c=é"}, envs={"GREETING": "hi there"}, timeout=600) as box:
        assert box.sandbox_id.isalnum() and box.sandbox_id == box.sandbox_id.lower()
        info = await done(box.get_info())
        assert info.metadata == {"purpose": "a b&c=é"}, info
        left = info.end_at - datetime.datetime.now(datetime.timezone.utc)
        assert datetime.timedelta(seconds=300) < left < datetime.timedelta(seconds=900), left
        said = await sh(box, 'echo "$GREETING $E2B_SANDBOX $E2B_SANDBOX_ID"')
        assert said == f"hi there true {box.sandbox_id}\n", said


@case("Sandbox.create", "by the names base and code-interpreter-v1")
async def _():
    for name in ("base", "code-interpreter-v1"):
        async with Fresh(name) as box:
            assert await sh(box, "echo up") == "up\n"


@case("Sandbox.create", "an unknown template is an error with 404")
async def _():
    e = await refused(SandboxException, Sandbox.create, "no-such-template-4711")
    assert "404" in str(e) and "no-such-template-4711" in str(e), e


@case("Sandbox.create", "without a network")
async def _():
    async with Fresh(allow_internet_access=False) as box:
        names = (await sh(box, "tail -n +3 /proc/net/dev | cut -d: -f1")).split()
        assert names == ["lo"], names


@case("Sandbox.create", "a wrong key")
async def _():
    await refused(AuthenticationException, Sandbox.create, api_key="e2b_" + "0" * 40)


@case("Sandbox.create", "the same idempotency key gives the same sandbox", since="2.63")
async def _():
    import uuid
    key = str(uuid.uuid4())
    async with Fresh(idempotency_key=key) as box:
        again = await done(Sandbox.create(idempotency_key=key))
        assert again.sandbox_id == box.sandbox_id


@case("Sandbox.create(lifecycle=)", "on_timeout pause")
async def _():
    async with Fresh(timeout=1, lifecycle={"on_timeout": "pause"}) as box:
        async def is_paused():
            return (await done(box.get_info())).state.value == "paused"
        await until(is_paused)
        assert not await done(box.is_running())
        again = await done(Sandbox.connect(box.sandbox_id, timeout=300))
        assert await sh(again, "echo on") == "on\n"


@case("Sandbox.create(lifecycle=)", "without: killed at the end of its time")
async def _():
    box = await done(Sandbox.create(timeout=1))

    async def is_gone():
        return not await done(box.is_running())
    await until(is_gone)
    await refused(GONE, box.get_info)
    await refused(TimeoutException, box.commands.run, "true")


@case("Sandbox.create(mcp=)", "is refused")
async def _():
    await refused(SandboxException, Sandbox.create, mcp={"browserbase": {}})


@case("Sandbox.create(volume_mounts=)", "is refused")
async def _():
    await refused(SandboxException, Sandbox.create, volume_mounts={"/data": "volume"})


@case("Sandbox.create(network=)", "differs: everything denied; rules for single hosts are refused")
async def _():
    async with Fresh(network={"deny_out": ["0.0.0.0/0"]}) as box:
        assert (await sh(box, "tail -n +3 /proc/net/dev | cut -d: -f1")).split() == ["lo"]
    await refused(SandboxException, Sandbox.create, network={"allow_out": ["192.0.2.1"], "deny_out": ["0.0.0.0/0"]})


@case("Sandbox.update_network", "is refused")
async def _(box):
    await refused(SandboxException, box.update_network, {"deny_out": ["192.0.2.1"]})


@case("Template.exists", "a name that is there, one that is not")
async def _():
    kind = e2b.AsyncTemplate if ASYNC else e2b.Template
    assert await done(kind.exists("base")) is True
    assert await done(kind.exists("no-such-template-4711")) is False


@case("Template.build", "is refused")
async def _():
    kind = e2b.AsyncTemplate if ASYNC else e2b.Template
    await refused(Exception, kind.build, kind().from_base_image(), "mine")


@case("Volume.create", "is refused")
async def _():
    await refused(Exception, (e2b.AsyncVolume if ASYNC else e2b.Volume).create, "mine")


@case("Sandbox.connect", "by id and from the object")
async def _(box):
    other = await done(Sandbox.connect(box.sandbox_id))
    assert await sh(other, "echo same > /tmp/same; cat /tmp/same") == "same\n"
    assert await sh(await done(box.connect(timeout=60)), "cat /tmp/same") == "same\n"


@case("Sandbox.connect", "an unknown sandbox")
async def _():
    for name in (UNKNOWN, "no-such-id", "x"):
        await refused(GONE, Sandbox.connect, name)


@case("Sandbox.connect", "never shortens the time that is left")
async def _():
    async with Fresh(timeout=900) as box:
        before = (await done(box.get_info())).end_at
        await done(box.connect(timeout=30))
        assert (await done(box.get_info())).end_at == before
        await done(box.connect(timeout=3000))
        assert (await done(box.get_info())).end_at > before


@case("Sandbox.list", "pages, filter by metadata and state, order")
async def _():
    boxes = [await done(Sandbox.create(metadata={"list": Sandbox.__name__ + VERSION, "n": str(n)})) for n in range(3)]
    try:
        query = e2b.SandboxQuery(metadata={"list": Sandbox.__name__ + VERSION})
        found = await pages(Sandbox.list(query=query, limit=2))
        assert [len(page) for page in found] == [2, 1], found
        ids = [x.sandbox_id for page in found for x in page]
        assert sorted(ids) == sorted(b.sandbox_id for b in boxes)
        started = [x.started_at for page in found for x in page]
        assert started == sorted(started, reverse=True)
        one = await pages(Sandbox.list(query=e2b.SandboxQuery(
            metadata={"list": Sandbox.__name__ + VERSION, "n": "1"}, state=[e2b.SandboxState.RUNNING])))
        assert [x.metadata["n"] for page in one for x in page] == ["1"]
        await done(boxes[2].pause())
        paused = await pages(Sandbox.list(query=e2b.SandboxQuery(
            metadata={"list": Sandbox.__name__ + VERSION}, state=[e2b.SandboxState.PAUSED])))
        assert [x.sandbox_id for page in paused for x in page] == [boxes[2].sandbox_id]
        up = await pages(Sandbox.list(query=query, order="asc"))
        assert [x.started_at for page in up for x in page] == sorted(x.started_at for page in up for x in page)
    finally:
        for b in boxes:
            await done(b.kill())


@case("Sandbox.get_info", "of the object and by id")
async def _(box):
    info = await done(box.get_info())
    assert info.sandbox_id == box.sandbox_id and info.state.value == "running" and info.template_id
    assert info.cpu_count >= 1 and info.memory_mb > 0 and info.envd_version.count(".") == 2
    assert info.started_at < info.end_at
    assert (await done(Sandbox.get_info(box.sandbox_id))).sandbox_id == box.sandbox_id
    await refused(GONE, Sandbox.get_info, UNKNOWN)


@case("Sandbox.kill", "true once, then false")
async def _():
    box = await done(Sandbox.create())
    assert await done(box.kill()) is True
    assert await done(box.kill()) is False
    assert await done(Sandbox.kill(UNKNOWN)) is False


@case("Sandbox.kill", "a call in flight ends as a timeout")
async def _():
    box = await done(Sandbox.create())
    handle = await done(box.commands.run("sleep 1000", background=True, timeout=0))
    await done(Sandbox.kill(box.sandbox_id))
    await refused(TimeoutException, handle.wait)


@case("Sandbox.set_timeout", "longer, shorter, by id, unknown")
async def _():
    async with Fresh(timeout=600) as box:
        await done(box.set_timeout(3000))
        long = (await done(box.get_info())).end_at
        await done(Sandbox.set_timeout(box.sandbox_id, 300))
        assert long - (await done(box.get_info())).end_at > datetime.timedelta(seconds=2000)
    await refused(GONE, Sandbox.set_timeout, UNKNOWN, 60)


@case("Sandbox.is_running", "true, false once killed")
async def _():
    box = await done(Sandbox.create())
    assert await done(box.is_running()) is True
    await done(box.kill())
    assert await done(box.is_running()) is False


@case("Sandbox.pause", "processes and files go on after connect; twice is false")
async def _():
    async with Fresh() as box:
        job = await done(box.commands.run("X=kept; read line; echo $X $line", background=True, stdin=True, timeout=0))
        await done(box.files.write("kept.txt", "kept"))
        assert await done(box.pause()) is not False
        assert await done(box.is_running()) is False
        assert await done(Sandbox.pause(box.sandbox_id)) is False
        await done(box.connect())
        assert await done(box.is_running()) is True
        assert await done(box.files.read("kept.txt")) == "kept"
        again = await done(box.commands.connect(job.pid))
        await done(box.commands.send_stdin(job.pid, "on\n"))
        assert (await done(again.wait())).stdout == "kept on\n"
    await refused(GONE, Sandbox.pause, UNKNOWN)


@case("Sandbox.pause(keep_memory=False)", "files stay, processes do not")
async def _():
    async with Fresh() as box:
        job = await done(box.commands.run("sleep 1000", background=True, timeout=0))
        await done(box.files.write("kept.txt", "kept"))
        await done(box.pause(keep_memory=False))
        await done(box.connect())
        assert await done(box.files.read("kept.txt")) == "kept"
        assert job.pid not in [p.pid for p in await done(box.commands.list())]


@case("Sandbox.fork", "differs: copies of the files, each its own afterwards, and not of the processes")
async def _():
    async with Fresh() as box:
        await done(box.files.write("f.txt", "before"))
        await done(box.commands.run("sleep 1000", background=True, timeout=0))
        copies = await done(box.fork(count=2))
        try:
            assert len({c.sandbox_id for c in copies} | {box.sandbox_id}) == 3
            await done(copies[0].files.write("f.txt", "after"))
            assert await done(copies[1].files.read("f.txt")) == "before"
            assert await done(copies[1].commands.list()) == [] != await done(box.commands.list())
            assert await done(box.files.read("f.txt")) == "before"
        finally:
            for c in copies:
                await done(c.kill())
    await refused(GONE, Sandbox.fork, UNKNOWN)


@case("Sandbox.create_snapshot", "differs: several sandboxes from one, without its processes; list; delete")
async def _():
    async with Fresh() as box:
        await done(box.files.write("s.txt", "in the snapshot"))
        await done(box.commands.run("sleep 1000", background=True, timeout=0))
        snapshot = await done(box.create_snapshot())
        await done(box.files.write("s.txt", "later"))
        for _ in range(2):
            async with Fresh(snapshot.snapshot_id) as copy:
                assert await done(copy.files.read("s.txt")) == "in the snapshot"
                assert await done(copy.commands.list()) == [] != await done(box.commands.list())
        listed = [x.snapshot_id for page in await pages(box.list_snapshots()) for x in page]
        assert listed == [snapshot.snapshot_id]
        assert await done(Sandbox.delete_snapshot(snapshot.snapshot_id)) is True
        assert await done(Sandbox.delete_snapshot(snapshot.snapshot_id)) is False
    await refused(SandboxException, Sandbox.create, snapshot.snapshot_id)


@case("Sandbox.list_snapshots", "pages; of one sandbox; by name")
async def _():
    async with Fresh() as box:
        made = [(await done(box.create_snapshot(name=f"snap-{box.sandbox_id}-{n}"))) for n in range(3)]
        try:
            assert any(f"snap-{box.sandbox_id}-0" in name for name in made[0].names), made[0]
            found = await pages(box.list_snapshots(limit=2))
            assert [len(page) for page in found] == [2, 1], found
            assert {x.snapshot_id for page in found for x in page} == {m.snapshot_id for m in made}
            everyone = {x.snapshot_id for page in await pages(Sandbox.list_snapshots()) for x in page}
            assert {m.snapshot_id for m in made} <= everyone
        finally:
            for m in made:
                await done(Sandbox.delete_snapshot(m.snapshot_id))


@case("Sandbox.get_metrics", "a sample; an empty list before its life")
async def _(box):
    async def sample():
        return await done(box.get_metrics())
    first = (await until(sample))[0]
    assert first.cpu_count >= 1 and first.mem_total > 0 and first.mem_used > 0 and first.disk_total > 0
    past = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)
    assert await done(box.get_metrics(start=past, end=past + datetime.timedelta(hours=1))) == []


@case("Sandbox.get_host", "differs: a server inside answers to its host name in the header")
async def _(box):
    job = await done(box.commands.run("cd /tmp && mkdir -p www && echo served > www/i && exec python3 -m http.server 8123 -d www",
                                      background=True, timeout=0))
    host = box.get_host(8123)
    assert host.startswith(f"8123-{box.sandbox_id}."), host

    async def served():
        return await asyncio.to_thread(fetch, f"{box.envd_api_url}/i", None,
                                       {"Host": host}) == (200, b"served\n")
    await until(served)
    await done(job.kill())


@case("Sandbox.download_url", "a signed URL; a wrong signature; an expired one")
async def _(box):
    await done(box.files.write("url.txt", "by url"))
    url = box.download_url("url.txt")
    assert fetch(url) == (200, b"by url")
    assert fetch(box.download_url("url.txt", use_signature_expiration=120))[0] == 200
    assert fetch(box.download_url("url.txt", use_signature_expiration=-60))[0] == 401
    assert fetch(url.replace("url.txt", "other.txt"))[0] == 401


@case("Sandbox.upload_url", "a signed URL takes a file")
async def _(box):
    body, headers = multipart(b"up.txt", b"uploaded")
    status, answer = fetch(box.upload_url("up.txt"), body, headers)
    assert status == 200, answer
    assert await done(box.files.read("up.txt")) == "uploaded"
    assert fetch(box.upload_url("up.txt").replace("up.txt", "no.txt"), body, headers)[0] == 401


# --- commands ------------------------------------------------------------------------------------------------------


@case("commands.run", "output, streams, exit code")
async def _(box):
    out, err = [], []
    result = await done(box.commands.run("echo out; echo err >&2", on_stdout=out.append, on_stderr=err.append))
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 0)
    assert ("".join(out), "".join(err)) == ("out\n", "err\n")


@case("commands.run", "a code that is not 0 raises, with streams")
async def _(box):
    e = await refused(CommandExitException, box.commands.run, "echo some; echo bad >&2; exit 7")
    assert (e.exit_code, e.stdout, e.stderr) == (7, "some\n", "bad\n")


@case("commands.run", "environment, folder, user")
async def _(box):
    assert await sh(box, 'echo "$A"', envs={"A": "1 2"}) == "1 2\n"
    assert await sh(box, "pwd", cwd="/tmp") == "/tmp\n"
    assert await sh(box, "whoami; echo $HOME") == "user\n/home/user\n"
    assert await sh(box, "whoami", user="root") == "root\n"
    await refused(InvalidArgumentException, box.commands.run, "true", cwd="/no/such/folder")
    await refused(AuthenticationException, box.commands.run, "true", user="nobody-of-this-name")


@case("commands.run", "text that is no ASCII, and much of it")
async def _(box):
    assert await sh(box, "printf 'äöü 中文 \\xff'") == "äöü 中文 \ufffd"
    assert len(await sh(box, "head -c 3000000 /dev/zero | tr '\\0' x")) == 3000000


@case("commands.run", "differs: a time limit ends it and all that it started")
async def _(box):
    await refused(TimeoutException, box.commands.run, "sleep 4711 & sleep 4712", timeout=0.5)

    async def none_left():
        return (await sh(box, "ps -eo args | grep -c '[s]leep 471' || true")).strip() == "0"
    await until(none_left)


@case("commands.run", "differs: a background child that holds the pipe does not delay the end")
async def _(box):
    assert await sh(box, "sleep 300 & echo over") == "over\n"
    await sh(box, "pkill -f 'sleep 300'")


@case("commands.run(background=True)", "wait, iterate, kill")
async def _(box):
    handle = await done(box.commands.run("echo a; sleep 0.1; echo b >&2; exit 3", background=True))
    assert handle.pid > 0
    e = await refused(CommandExitException, handle.wait)
    assert (e.exit_code, e.stdout, e.stderr) == (3, "a\n", "b\n")
    if not ASYNC:
        handle = box.commands.run("echo one; echo two >&2", background=True)
        seen = list(handle)
        assert "".join(o or "" for o, _, _ in seen) == "one\n" and "".join(x or "" for _, x, _ in seen) == "two\n"
    handle = await done(box.commands.run("sleep 1000", background=True))
    assert await done(handle.kill()) is True
    assert (await refused(CommandExitException, handle.wait)).exit_code == -1
    assert await done(handle.kill()) is False


@case("commands.list", "what runs, with its command and folder")
async def _(box):
    handle = await done(box.commands.run("sleep 1001", background=True, envs={"L": "1"}, cwd="/tmp"))
    found = [p for p in await done(box.commands.list()) if p.pid == handle.pid]
    assert len(found) == 1 and found[0].args[-1] == "sleep 1001" and found[0].cmd == "/bin/bash", found
    assert found[0].cwd == "/tmp" and found[0].envs.get("L") == "1", found
    await done(handle.kill())

    async def is_gone():
        return handle.pid not in [p.pid for p in await done(box.commands.list())]
    await until(is_gone)


@case("commands.kill", "true, false for an unknown one")
async def _(box):
    handle = await done(box.commands.run("sleep 1002", background=True))
    assert await done(box.commands.kill(handle.pid)) is True
    assert await done(box.commands.kill(999999)) is False
    await refused(CommandExitException, handle.wait)


@case("commands.connect", "two readers; after disconnect; an unknown one")
async def _(box):
    first = await done(box.commands.run("read x; echo got $x", background=True, stdin=True))
    second = await done(box.commands.connect(first.pid))
    await done(first.disconnect())
    await done(box.commands.send_stdin(first.pid, "it\n"))
    assert (await done(second.wait())).stdout == "got it\n"
    await refused(NotFoundException, box.commands.connect, 999999)


@case("commands.send_stdin", "text and bytes, then close_stdin")
async def _(box):
    handle = await done(box.commands.run("cat", background=True, stdin=True))
    await done(box.commands.send_stdin(handle.pid, "one\n"))
    await done(box.commands.send_stdin(handle.pid, b"two\n"))
    await done(box.commands.close_stdin(handle.pid))
    assert (await done(handle.wait())).stdout == "one\ntwo\n"
    await refused(NotFoundException, box.commands.send_stdin, 999999, "x")


@case("commands.close_stdin", "by the handle")
async def _(box):
    handle = await done(box.commands.run("wc -c", background=True, stdin=True))
    await done(handle.send_stdin("12345"))
    await done(handle.close_stdin())
    assert (await done(handle.wait())).stdout == "5\n"


@case("commands.stream_input", "a generator", since="2.63")
async def _(box):
    handle = await done(box.commands.run("cat", background=True, stdin=True))

    def pieces():
        yield "a"
        yield b"b" * 100000

    async def apieces():
        for x in pieces():
            yield x
    if ASYNC:
        stream = box.commands.stream_input(handle.pid)
        for x in pieces():
            await stream.send(x)
        await stream.close()
    else:
        box.commands.stream_input(handle.pid, pieces())
    await done(box.commands.close_stdin(handle.pid))
    assert (await done(handle.wait())).stdout == "a" + "b" * 100000


# --- pty -------------------------------------------------------------------------------------------------------------


async def terminal(box, keep=lambda data: None, **more):
    """The synchronous client reads the output in the end, the other all the time."""
    return await done(box.pty.create(PtySize(rows=24, cols=80), **({"on_data": keep} if ASYNC else {}), **more))


class Screen:
    """A terminal whose output is kept."""

    def __init__(self, box, **more):
        self.box, self.more, self.seen = box, more, b""

    def keep(self, data):
        self.seen += data

    async def __aenter__(self):
        self.handle = await terminal(self.box, self.keep, **self.more)
        return self

    async def type(self, text):
        await done(self.box.pty.send_stdin(self.handle.pid, text.encode()))

    async def end(self):
        await self.type("exit 0\n")
        return await done(self.handle.wait() if ASYNC else self.handle.wait(on_pty=self.keep))

    async def __aexit__(self, *_):
        await done(self.box.pty.kill(self.handle.pid))


@case("pty.create", "a shell of the user, with environment, folder and size")
async def _(box):
    async with Screen(box, envs={"P": "set"}, cwd="/tmp") as screen:
        await screen.type("stty size; echo $P-$PWD-$TERM; tty\n")
        assert (await screen.end()).exit_code == 0
        for text in (b"24 80", b"set-/tmp-xterm-256color", b"/dev/pts/"):
            assert text in screen.seen, screen.seen


@case("pty.resize", "the program inside sees it")
async def _(box):
    async with Screen(box) as screen:
        await done(box.pty.resize(screen.handle.pid, PtySize(rows=33, cols=111)))
        await screen.type("stty size\n")
        await screen.end()
        assert b"33 111" in screen.seen, screen.seen


@case("pty.kill", "true, then false")
async def _(box):
    handle = await terminal(box)
    assert await done(box.pty.kill(handle.pid)) is True
    await refused(CommandExitException, handle.wait)
    assert await done(box.pty.kill(handle.pid)) is False


@case("pty.connect", "goes on where another left")
async def _(box):
    first = await terminal(box)
    await done(box.pty.send_stdin(first.pid, b"V=kept\n"))
    await done(first.disconnect())
    seen = []
    if ASYNC:
        second = await box.pty.connect(first.pid, on_data=seen.append)
    else:
        second = box.pty.connect(first.pid)
    await done(box.pty.send_stdin(first.pid, b"echo V=$V; exit\n"))
    await done(second.wait() if ASYNC else second.wait(on_pty=seen.append))
    assert b"V=kept\r\n" in b"".join(seen), seen


@case("pty.stream_input", "keys from a generator", since="2.63")
async def _(box):
    async with Screen(box) as screen:
        keys = ["echo 1", "$((1+1))", "3\n"]
        if ASYNC:
            stream = box.pty.stream_input(screen.handle.pid)
            for x in keys:
                await stream.send(x)
            await stream.close()
        else:
            box.pty.stream_input(screen.handle.pid, iter(keys))
        await screen.end()
        assert b"123\r\n" in screen.seen, screen.seen


# --- files -----------------------------------------------------------------------------------------------------------


@case("files.write", "text, bytes, a file, and what it answers")
async def _(box):
    made = await done(box.files.write("w/deep/text.txt", "é text"))
    assert (made.name, made.path, made.type.value) == ("text.txt", "/home/user/w/deep/text.txt", "file"), made
    assert await done(box.files.read("w/deep/text.txt")) == "é text"
    await done(box.files.write("/tmp/bytes", b"\0\xff\1"))
    assert bytes(await done(box.files.read("/tmp/bytes", format="bytes"))) == b"\0\xff\1"
    await done(box.files.write("io", io.BytesIO(b"from io")))
    assert await done(box.files.read("io")) == "from io"
    await done(box.files.write("io", ""))
    assert await done(box.files.read("io")) == ""


@case("files.write", "gzip, octet stream, 20 MB")
async def _(box):
    await done(box.files.write("gz", "zipped" * 1000, gzip=True))
    assert await done(box.files.read("gz", gzip=True)) == "zipped" * 1000
    await done(box.files.write("oct", b"octets", use_octet_stream=True))
    assert await done(box.files.read("oct")) == "octets"
    big = bytes(range(256)) * 78125
    await done(box.files.write("big", big))
    assert bytes(await done(box.files.read("big", format="bytes"))) == big


@case("files.write", "a generator", since="2.63")
async def _(box):
    async def apieces():
        for n in range(5):
            yield b"%d" % n * 100000
    await done(box.files.write("gen", apieces() if ASYNC else (b"%d" % n * 100000 for n in range(5))))
    assert (await sh(box, "wc -c < gen")).strip() == "500000"


@case("files.write", "differs: an upload that breaks off leaves the old file", since="2.63")
async def _(box):
    await done(box.files.write("whole", "old"))

    def pieces():
        yield b"x" * 100000
        raise RuntimeError("broken off")

    async def apieces():
        for piece in pieces():
            yield piece
    try:
        await done(box.files.write("whole", apieces() if ASYNC else pieces()))
        raise AssertionError("it was written")
    except AssertionError:
        raise
    except Exception:
        pass  # its own error, or the connection's
    assert await done(box.files.read("whole")) == "old"


@case("files.write", "user and owner; metadata")
async def _(box):
    await done(box.files.write("mine", "x"))
    await done(box.files.write("/tmp/roots", "x", user="root"))
    assert await sh(box, "stat -c %U mine /tmp/roots") == "user\nroot\n"
    made = await done(box.files.write("meta", "x", metadata={"author": "me"}))
    assert made.metadata == {"author": "me"}
    assert (await done(box.files.get_info("meta"))).metadata == {"author": "me"}
    await done(box.files.write("meta", "y"))
    assert not (await done(box.files.get_info("meta"))).metadata


@case("files.write", "onto a folder")
async def _(box):
    await refused(InvalidArgumentException, box.files.write, "/tmp", "x")


@case("files.write_files", "many at once")
async def _(box):
    made = await done(box.files.write_files([{"path": f"many/{n}.txt", "data": f"file {n}"} for n in range(20)]))
    assert [m.path for m in made] == [f"/home/user/many/{n}.txt" for n in range(20)]
    assert await done(box.files.read("many/19.txt")) == "file 19"
    assert await done(box.files.write_files([])) == []


@case("files.read", "a stream; missing; a folder")
async def _(box):
    await done(box.files.write("streamed", b"0123456789" * 200000))
    got = await done(box.files.read("streamed", format="stream"))
    if ASYNC:
        data = b"".join([piece async for piece in got])
    else:
        data = b"".join(got)
    assert data == b"0123456789" * 200000
    await refused(MISSING, box.files.read, "missing")
    await refused(InvalidArgumentException, box.files.read, "/tmp")


@case("files.list", "names, kinds, depth; missing; a file")
async def _(box):
    await sh(box, "mkdir -p l/b/c; echo 1 > l/a; ln -s a l/link; echo 2 > l/b/c/deep")
    found = await done(box.files.list("l"))
    assert [(x.name, x.type.value) for x in found] == [("a", "file"), ("b", "dir"), ("link", "file")], found
    assert found[0].size == 2 and found[0].owner == "user" and found[0].permissions == "-rw-r--r--", found[0]
    assert found[2].symlink_target == "/home/user/l/a"
    deep = [x.path for x in await done(box.files.list("l", depth=3))]
    assert "/home/user/l/b/c/deep" in deep and len(deep) == 5, deep
    await refused(MISSING, box.files.list, "missing")
    await refused(InvalidArgumentException, box.files.list, "l/a")
    await refused(InvalidArgumentException, box.files.list, "l", depth=0)


@case("files.get_info", "of a file, a folder, a link; missing")
async def _(box):
    await sh(box, "mkdir -p g; echo 12345 > g/f; chmod 640 g/f; ln -s f g/l")
    info = await done(box.files.get_info("g/f"))
    assert (info.name, info.size, info.mode & 0o777, info.group) == ("f", 6, 0o640, "user"), info
    assert abs((datetime.datetime.now(datetime.timezone.utc) - info.modified_time.astimezone()).total_seconds()) < 3600
    assert (await done(box.files.get_info("g"))).type.value == "dir"
    assert (await done(box.files.get_info("g/l"))).symlink_target == "/home/user/g/f"
    await refused(MISSING, box.files.get_info, "missing")


@case("files.exists", "true, false")
async def _(box):
    assert await done(box.files.exists("/tmp")) is True
    assert await done(box.files.exists("/tmp/none")) is False


@case("files.make_dir", "true, then false")
async def _(box):
    assert await done(box.files.make_dir("made/a/b")) is True
    assert await done(box.files.make_dir("made/a/b")) is False


@case("files.rename", "moves; a missing one")
async def _(box):
    await done(box.files.write("old", "x"))
    moved = await done(box.files.rename("old", "renamed/new"))
    assert moved.path == "/home/user/renamed/new"
    assert not await done(box.files.exists("old"))
    await refused(MISSING, box.files.rename, "missing", "x")


@case("files.remove", "a file, a tree, a missing one")
async def _(box):
    await sh(box, "mkdir -p rm/tree; touch rm/file rm/tree/x")
    for name in ("rm/file", "rm/tree", "rm/missing"):
        await done(box.files.remove(name))
    assert await done(box.files.list("rm")) == []


async def watch(box, folder, **more):
    """(events: what has come until now, stop)"""
    events = []
    if ASYNC:
        handle = await box.files.watch_dir(folder, on_event=events.append, **more)
        return (lambda: events), handle.stop
    handle = box.files.watch_dir(folder, **more)

    def news():
        events.extend(handle.get_new_events())
        return events
    return news, handle.stop


@case("files.watch_dir", "created, written, renamed, removed")
async def _(box):
    await sh(box, "mkdir -p watched")
    news, stop = await watch(box, "watched")
    await done(box.files.write("watched/new", "x"))
    await done(box.files.rename("watched/new", "watched/other"))
    await done(box.files.remove("watched/other"))

    def all_seen():
        seen = [(e.type.value, e.name) for e in news()]
        return {("create", "new"), ("write", "new"), ("rename", "new"), ("create", "other"), ("remove", "other")} <= set(seen)
    await until(all_seen)
    await done(stop())
    await refused(MISSING, box.files.watch_dir, "missing", *([lambda e: None] if ASYNC else []))


@case("files.watch_dir", "recursive, with entries")
async def _(box):
    await sh(box, "mkdir -p deepwatch/sub")
    news, stop = await watch(box, "deepwatch", recursive=True, include_entry=True)
    await done(box.files.write("deepwatch/sub/x", "12345"))

    def seen():
        return any(e.name == "sub/x" and e.entry and e.entry.path == "/home/user/deepwatch/sub/x" for e in news())
    await until(seen)
    await done(stop())


@case("files.watch_dir", "two watchers of a folder")
async def _(box):
    await sh(box, "mkdir -p twice")
    pairs = [await watch(box, "twice") for _ in range(2)]
    await done(box.files.write("twice/x", "1"))
    for news, stop in pairs:
        await until(lambda: any(e.name == "x" for e in news()))
        await done(stop())


# --- git ---------------------------------------------------------------------------------------------------------------


@case("git", "init, add, commit, status, branches, configuration")
async def _(box):
    git = box.git
    await done(git.init("repo", initial_branch="main"))
    await done(git.configure_user("A", "a@example.com", scope="local", path="repo"))
    assert await done(git.get_config("user.name", scope="local", path="repo")) == "A"
    await done(box.files.write("repo/f", "1"))
    status = await done(git.status("repo"))
    assert [s.name for s in status.file_status] == ["f"] and not status.is_clean, status
    await done(git.add("repo"))
    await done(git.commit("repo", "first"))
    assert (await done(git.status("repo"))).is_clean
    await done(git.create_branch("repo", "side"))
    await done(git.checkout_branch("repo", "main"))
    assert (await done(git.branches("repo"))).current_branch == "main"
    await done(git.delete_branch("repo", "side", force=True))
    await done(box.files.write("repo/f", "2"))
    await done(git.restore("repo", ["f"]))
    assert await done(box.files.read("repo/f")) == "1"


@case("git", "clone, remotes, push and pull")
async def _(box):
    git = box.git
    await done(git.init("bare.git", bare=True, initial_branch="main"))
    await done(git.clone("/home/user/bare.git", "one"))
    await done(git.configure_user("A", "a@example.com", scope="global"))
    await done(box.files.write("one/f", "1"))
    await done(git.add("one"))
    await done(git.commit("one", "first"))
    await done(git.push("one", remote="origin", branch="HEAD"))
    await done(git.clone("/home/user/bare.git", "two", depth=1))
    assert await done(box.files.read("two/f")) == "1"
    assert await done(git.remote_get("two", "origin")) == "/home/user/bare.git"
    await done(git.pull("two"))


asyncio.run(run_all(VERSION, Sandbox.create, sys.argv[2:]))
