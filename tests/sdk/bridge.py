"""The Python SDK behind lines of JSON: tests/conformance/door_e2b.py says what is to be called, this calls it. One line in:
{"id", "call", "params", "input"}, or {"id", "do": "cancel|pause|resume"} for a call that runs. Lines out: {"id"} with
"event", with "channel" and "data", and at last with "result" or "error". Bytes are base64."""

import asyncio
import base64
import json
import sys
import threading

from e2b import CommandExitException, NotFoundException, PtySize, SandboxQuery
from e2b_code_interpreter import AsyncSandbox as Sandbox
from e2b_code_interpreter import Context

PIECE = 262144
boxes, running = {}, {}


class Call:
    def __init__(self, number, has_handle):
        self.number = number
        self.started, self.may_read = asyncio.Event(), asyncio.Event()
        self.may_read.set()
        self.give_up = None  # how the SDK gives up what runs
        self.has_handle = has_handle  # it comes when the call has begun, and is waited for
        self.cancelled = False

    def say(self, **what):
        line = json.dumps({"id": self.number, **what}, default=str) + "\n"
        sys.stdout.write(line)
        sys.stdout.flush()

    def event(self, **event):
        self.say(event=event)
        self.started.set()

    def taker(self, channel):
        async def take(piece):
            await self.started.wait()
            await self.may_read.wait()
            data = piece.encode("utf-8", "surrogatepass") if isinstance(piece, str) else bytes(piece)
            self.say(channel=channel, data=base64.b64encode(data).decode())

        return take

    async def cancel(self, task):
        self.cancelled = True
        self.may_read.set()
        if self.give_up:
            await self.give_up()
        elif not self.has_handle:
            await asyncio.sleep(0)  # a task that has not begun would end without a word
            task.cancel()


async def box_of(p):
    if p["sandboxId"] not in boxes:
        boxes[p["sandboxId"]] = await Sandbox.connect(p["sandboxId"])
    return boxes[p["sandboxId"]]


def given(p, *names):
    return {name: p[name] for name in names if name in p}


# --- sandboxes ---------------------------------------------------------------------------------------------


def described(info):
    return {"id": info.sandbox_id, "state": info.state.value, "metadata": info.metadata, "createdAt": info.started_at.isoformat(),
            "expiresAt": info.end_at.isoformat(), "template": info.template_id}


async def known(box):
    boxes[box.sandbox_id] = box
    return described(await Sandbox.get_info(box.sandbox_id))


async def sandbox_create(call, p, data):
    lifecycle = {"lifecycle": {"on_timeout": p["onTimeout"]}} if "onTimeout" in p else {}
    return await known(await Sandbox.create(**given(p, "template", "timeout", "metadata", "envs", "idempotency_key"), **lifecycle))


async def sandbox_info(call, p, data):
    return described(await Sandbox.get_info(p["sandboxId"]))


async def pages(paginator):
    found = []
    while paginator.has_next:
        found += await paginator.next_items()
    return found


async def sandbox_list(call, p, data):
    query = SandboxQuery(metadata=p["metadata"]) if "metadata" in p else None
    return {"sandboxes": [described(info) for info in await pages(Sandbox.list(query=query))]}


async def sandbox_kill(call, p, data):
    return {"done": await Sandbox.kill(p["sandboxId"])}


async def sandbox_set_timeout(call, p, data):
    await Sandbox.set_timeout(p["sandboxId"], p["timeout"])
    return described(await Sandbox.get_info(p["sandboxId"]))


async def sandbox_connect(call, p, data):
    return await known(await Sandbox.connect(p["sandboxId"], **given(p, "timeout")))


async def sandbox_pause(call, p, data):
    return {"paused": await Sandbox.pause(p["sandboxId"])}


async def sandbox_fork(call, p, data):
    fork = (await Sandbox.fork(p["sandboxId"], **given(p, "timeout")))[0]
    if isinstance(fork, Exception):
        raise fork
    return await known(fork)


async def sandbox_snapshot_create(call, p, data):
    made = await (await box_of(p)).create_snapshot(**given(p, "name"))
    return {"id": made.snapshot_id, "names": made.names}


async def sandbox_snapshot_list(call, p, data):
    return {"snapshots": [{"id": s.snapshot_id, "names": s.names} for s in await pages(Sandbox.list_snapshots())]}


async def sandbox_snapshot_remove(call, p, data):
    return {"done": await Sandbox.delete_snapshot(p["snapshotId"])}


async def sandbox_metrics(call, p, data):
    m = (await Sandbox.get_metrics(p["sandboxId"]))[-1]
    return {"timestamp": m.timestamp.isoformat(), "cpuCount": m.cpu_count, "cpuUsedPct": m.cpu_used_pct, "memUsed": m.mem_used,
            "memTotal": m.mem_total}


# --- commands and terminals --------------------------------------------------------------------------------


async def ended(call, handle):
    """exitCode, and error: what the SDK says of a process that did not end by itself."""
    try:
        result = await handle.wait()
    except CommandExitException as e:
        result = e
    return {"exitCode": result.exit_code, "error": result.error}


async def process_start(call, p, data):
    box = await box_of(p)
    handle = await box.commands.run(p["cmd"], background=True, timeout=p.get("timeout", 0), on_stdout=call.taker("stdout"),
                                    on_stderr=call.taker("stderr"), **given(p, "envs", "cwd", "user", "stdin"))
    if p["background"]:
        call.started.set()
        await handle.disconnect()
        return {"id": handle.pid}
    call.give_up = handle.disconnect if p["detach"] else handle.kill
    if call.cancelled:
        await call.give_up()
    call.event(type="started", id=handle.pid)
    if data is not None:
        await send(box, handle.pid, data)
        await close(box, handle.pid, data)
    return await ended(call, handle)


async def process_attach(call, p, data):
    handle = await (await box_of(p)).commands.connect(p["pid"], timeout=0, on_stdout=call.taker("stdout"),
                                                      on_stderr=call.taker("stderr"))
    call.give_up = handle.disconnect
    call.event(type="started", id=handle.pid)
    return await ended(call, handle)


async def process_list(call, p, data):
    found = await (await box_of(p)).commands.list()
    return {"processes": [{"id": one.pid, "cmd": one.cmd, "args": one.args, "cwd": one.cwd} for one in found]}


async def process_signal(call, p, data):
    return {"done": await (await box_of(p)).commands.kill(p["pid"])}


async def send(box, pid, data):
    for at in range(0, len(data), PIECE):
        await box.commands.send_stdin(pid, data[at:at + PIECE])


async def close(box, pid, data):
    """After data a process may have ended by itself."""
    try:
        await box.commands.close_stdin(pid)
    except NotFoundException:
        if not data:
            raise


async def process_stdin(call, p, data):
    box = await box_of(p)
    await send(box, p["pid"], data or b"")
    if p["close"]:
        await close(box, p["pid"], data)


async def pty_open(call, p, data):
    handle = await (await box_of(p)).pty.create(PtySize(p["rows"], p["cols"]), call.taker("pty"), timeout=0,
                                                **given(p, "envs", "cwd", "user"))
    call.give_up = handle.kill
    if call.cancelled:
        await handle.kill()
    call.event(type="started", id=handle.pid)
    return await ended(call, handle)


async def pty_write(call, p, data):
    await (await box_of(p)).pty.send_stdin(p["pid"], data)


async def pty_resize(call, p, data):
    await (await box_of(p)).pty.resize(p["pid"], PtySize(p["rows"], p["cols"]))


async def pty_close(call, p, data):
    return {"done": await (await box_of(p)).pty.kill(p["pid"])}


# --- files -------------------------------------------------------------------------------------------------


def entry(info):
    return {"path": info.path, "name": info.name, "type": info.type.value if info.type else None, "size": info.size, "mode": info.mode,
            "owner": info.owner, "group": info.group, "modifiedAt": info.modified_time.isoformat(), "target": info.symlink_target}


async def fs_read(call, p, data):
    size = 0
    call.started.set()
    take = call.taker("body")
    async with await (await box_of(p)).files.read(p["path"], format="stream", **given(p, "user")) as stream:
        async for piece in stream:
            await take(piece)
            if call.cancelled:
                break
            size += len(piece)
    return {"size": size}


async def fs_write(call, p, data):
    files = (await box_of(p)).files
    written = await files.write(p["path"], data or b"", **given(p, "user"))
    return {"path": written.path, "size": (await files.get_info(written.path, **given(p, "user"))).size}


async def fs_stat(call, p, data):
    return entry(await (await box_of(p)).files.get_info(p["path"], **given(p, "user")))


async def fs_list(call, p, data):
    return {"files": [entry(one) for one in await (await box_of(p)).files.list(p["path"], **given(p, "depth", "user"))]}


async def fs_make_dir(call, p, data):
    return {"created": await (await box_of(p)).files.make_dir(p["path"], **given(p, "user"))}


async def fs_rename(call, p, data):
    return entry(await (await box_of(p)).files.rename(p["from"], p["to"], **given(p, "user")))


async def fs_remove(call, p, data):
    await (await box_of(p)).files.remove(p["path"], **given(p, "user"))


async def fs_watch(call, p, data):
    over = asyncio.get_running_loop().create_future()

    async def told(event):
        await call.started.wait()
        call.event(type="change", kind=event.type.value, name=event.name)

    handle = await (await box_of(p)).files.watch_dir(p["path"], told, over.set_result, timeout=0, **given(p, "recursive", "user"))
    call.give_up = handle.stop
    if call.cancelled:
        await handle.stop()
    call.event(type="started")
    error = await over
    if error:
        raise error


# --- code --------------------------------------------------------------------------------------------------


async def code_run(call, p, data):
    context = {"context": Context(p["contextId"], "", "")} if "contextId" in p else {}
    call.event(type="started")

    def shown(kind, text):
        call.say(channel=kind, data=base64.b64encode(text.encode()).decode())

    await (await box_of(p)).run_code(
        p["code"], **given(p, "language", "envs", "timeout"), **context, on_stdout=lambda m: shown("stdout", m.line),
        on_stderr=lambda m: shown("stderr", m.line),
        on_result=lambda r: call.event(type="result", isMainResult=r.is_main_result, text=r.text, html=r.html),
        on_error=lambda e: call.event(type="error", name=e.name, value=e.value, traceback=e.traceback))


def context_entry(context):
    return {"id": context.id, "language": context.language, "cwd": context.cwd}


async def code_context_create(call, p, data):
    return context_entry(await (await box_of(p)).create_code_context(**given(p, "language", "cwd")))


async def code_context_list(call, p, data):
    return {"contexts": [context_entry(c) for c in await (await box_of(p)).list_code_contexts()]}


async def code_context_restart(call, p, data):
    await (await box_of(p)).restart_code_context(p["contextId"])


async def code_context_remove(call, p, data):
    await (await box_of(p)).remove_code_context(p["contextId"])


# --- lines -------------------------------------------------------------------------------------------------


async def run(call, line):
    try:
        data = base64.b64decode(line["input"]) if "input" in line else None
        result = await globals()[line["call"].replace(".", "_")](call, line["params"], data)
        answer = {"result": result or {}}
    except asyncio.CancelledError:
        answer = {"error": {"class": "GivenUp", "message": "given up"}}
    except Exception as e:
        answer = {"error": {"class": type(e).__name__, "message": str(e)}}
    if call.cancelled:
        answer = {"error": {"class": "GivenUp", "message": "given up"}}
    running.pop(call.number, None)
    call.say(**answer)


async def take(line):
    if "call" in line:
        call = Call(line["id"], line["call"] in ("process.start", "pty.open", "fs.watch"))
        if line["paused"]:
            call.may_read.clear()
        running[line["id"]] = call, asyncio.create_task(run(call, line))
        return
    call, task = running.get(line["id"], (None, None))
    if not call:
        return
    if line["do"] == "cancel":
        await call.cancel(task)
    elif line["do"] == "pause":
        call.may_read.clear()
    else:
        call.may_read.set()


async def main():
    loop = asyncio.get_running_loop()
    over = asyncio.Event()

    def read():
        for line in sys.stdin.buffer:
            asyncio.run_coroutine_threadsafe(take(json.loads(line)), loop)
        loop.call_soon_threadsafe(over.set)

    threading.Thread(target=read, daemon=True).start()
    await over.wait()


asyncio.run(main())
