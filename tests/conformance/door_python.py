"""The Python SDK as a door of the conformance suite, both faces: each call is what a program that uses the SDK would write. One way is
written here, with `await`; over the blocking face nothing in it waits, so that it runs to its end in a thread of its own.

What has no method is one call of the provider (`raw`): parameters that no method can have, and operations for the machine, not a sandbox."""

import asyncio
import base64
import threading

import interpreter


async def value(answer):
    """What a method of either face gives."""
    return await answer if hasattr(answer, "__await__") else answer


async def close(stream):
    await value(stream.aclose() if hasattr(stream, "aclose") else stream.close())


async def each(stream):
    if hasattr(stream, "__aiter__"):
        async for one in stream:
            yield one
    else:
        for one in stream:
            yield one


def bytes_of(given):
    return given["text"].encode() if "text" in given else base64.b64decode(given["base64"])


class Input:
    """What is fed, as an iterable of bytes: blocking, or for asyncio."""

    def __init__(self, loop):
        self.pieces, self.ended, self.changed, self.loop = [], False, threading.Condition(), loop
        self.given_up = False
        self.event = asyncio.Event() if loop else None

    def feed(self, data, close):
        with self.changed:
            if data:
                self.pieces.append(data)
            self.ended = self.ended or close
            self.changed.notify_all()
        if self.loop:
            self.loop.call_soon_threadsafe(self.event.set)

    def take(self):
        with self.changed:
            pieces, self.pieces = self.pieces, []
            return pieces, self.ended

    def __iter__(self):
        while True:
            pieces, ended = self.take()
            if self.given_up:
                raise InterruptedError("given up")
            yield from pieces
            if ended and not pieces:
                return
            with self.changed:
                self.changed.wait_for(lambda: self.pieces or self.ended)


class AsyncInput(Input):
    __iter__ = None

    async def __aiter__(self):
        while True:
            self.event.clear()
            pieces, ended = self.take()
            for piece in pieces:
                yield piece
            if ended and not pieces:
                return
            if not pieces:
                await self.event.wait()


class Call:
    """A call on its way; its methods are for the thread of the case."""

    def __init__(self, door, method, params):
        self.door, self.method, self.params = door, method, params
        self.changed = threading.Condition()
        self.events, self.channels, self.order = [], {}, []
        self.result = self.error = self.running = self.task = None
        self.ended = self.given_up = False
        self.may_read = threading.Event()
        self.input = None

    @property
    def stream(self):
        return self.running

    @stream.setter
    def stream(self, stream):
        """What ends with a cancel, over the blocking face."""
        self.running = stream
        if self.given_up and not self.door.loop:
            stream.close()

    def note(self, kind):
        if not self.order or self.order[-1] != kind:
            self.order.append(kind)
        self.changed.notify_all()

    def event(self, kind, told):
        with self.changed:
            self.events.append({"type": kind, **{k: v for k, v in told.items() if v is not None}})
            self.note(kind)

    def chunk(self, channel, data):
        with self.changed:
            self.channels.setdefault(channel, bytearray()).extend(data)
            self.note(channel)

    def end(self, result=None, error=None):
        with self.changed:
            if not self.ended:
                self.result = None if error else {k: v for k, v in (result or {}).items() if v is not None}
                self.error, self.ended = error, True
            self.changed.notify_all()

    def feed(self, data, close):
        self.input.feed(data, close)

    def pause(self):
        self.may_read.clear()

    def resume(self):
        self.may_read.set()

    def cancel(self):
        self.given_up = True
        self.may_read.set()
        if self.input and not self.door.loop:  # a task is cancelled where it waits: an end of its input could come before that
            self.input.given_up = True
            self.input.feed(b"", True)
        self.door.give_up(self)

    async def reading(self):
        while not self.may_read.is_set():
            if self.door.loop:
                await asyncio.sleep(0.01)
            else:
                self.may_read.wait()


# --- how each operation is said: (door, call, parameters) → result ------------------------------------------------


def optional(p, names):
    """Parameters under the names that they have in Python; times become seconds."""
    out = {}
    for name, python in names.items():
        if name in p:
            out[python] = p[name] / 1000 if name.endswith("Ms") else p[name]
    return out


def only(p, *names):
    """Are these all parameters that there are?"""
    return set(p) <= {"sandboxId", *names}


CREATE = {"name": "name", "metadata": "metadata", "env": "env", "timeoutMs": "timeout", "idleMs": "idle_timeout", "onTimeout": "on_timeout",
          "template": "template", "image": "image", "snapshot": "snapshot", "network": "network", "memoryBytes": "memory", "cpus": "cpus",
          "diskBytes": "disk", "processes": "processes", "openFiles": "open_files", "idempotencyKey": "idempotency_key", "reuse": "reuse"}
PROCESS = {"cwd": "cwd", "env": "env", "user": "user", "timeoutMs": "timeout"}


async def sandbox_create(door, call, p):
    made = await value(door.faces.create(connection=door.connection, **optional(p, CREATE)))
    await close(made)
    return made._known.raw


async def sandbox_connect(door, call, p):
    made = await value(door.faces.connect(p["sandboxId"], connection=door.connection, **optional(p, {"timeoutMs": "timeout"})))
    return made._known.raw


async def sandbox_list(door, call, p):
    return {"sandboxes": [one.raw for one in await value(door.faces.list(connection=door.connection, **optional(p, {"metadata": "metadata"})))]}


async def sandbox_info(door, call, p):
    return (await value(door.box(p).info())).raw


async def sandbox_kill(door, call, p):
    from agent_sandbox import SandboxNotFoundError

    if not await value(door.box(p).kill()):
        raise SandboxNotFoundError("no such sandbox")


async def sandbox_set_timeout(door, call, p):
    await value(door.box(p).set_timeout(p["timeoutMs"] / 1000))
    return await sandbox_info(door, call, p)


async def sandbox_pause(door, call, p):
    return {"paused": await value(door.box(p).pause())}


async def sandbox_metrics(door, call, p):
    return (await value(door.box(p).metrics())).raw


async def sandbox_ports(door, call, p):
    return {"ports": [{"port": one.port, "address": one.address} for one in await value(door.box(p).ports())]}


async def sandbox_fork(door, call, p):
    made = await value(door.box(p).fork(**optional(p, CREATE)))
    await close(made)
    return made._known.raw


async def sandbox_snapshot_create(door, call, p):
    return (await value(door.box(p).snapshot(p.get("name")))).raw


async def sandbox_tunnel(door, call, p):
    tunnel = call.stream = await value(door.box(p).connect_port(p["port"]))
    call.event("started", {})

    async def send():
        async for piece in each(call.input):
            await value(tunnel.write(piece))
        await value(tunnel.write_end())

    sending = door.beside(send())
    try:
        async for data in each(tunnel):
            await call.reading()
            call.chunk("body", data)
        call.event("end", {})
        await door.joined(sending)
    finally:
        await close(tunnel)


async def process_start(door, call, p):
    words = optional(p, PROCESS)
    if p.get("background"):
        command = await value(door.box(p).commands.start(p["cmd"], background=True, stdin=p.get("stdin") == "stream", **words))
        return {"id": command.id, "pid": command.pid}
    given = bytes_of(p["input"]) if "input" in p else None
    command = await value(door.box(p).commands.start(p["cmd"], stdin=given is not None or p.get("stdin") == "stream", **words))
    call.stream = command
    call.event("started", {"id": command.id, "pid": command.pid})
    sending = None
    if given is not None:

        async def send():
            await value(command.send_stdin(given, close=True))

        sending = door.beside(send())
    return await follow(door, call, command, sending)


async def follow(door, call, command, sending=None):
    lost = dict(command.lost)
    try:
        async for piece in each(command):
            await call.reading()
            for stream, count in command.lost.items():
                if count != lost[stream]:
                    call.event("gap", {"stream": stream, "bytes": count - lost[stream]})
            lost = dict(command.lost)
            call.chunk(piece.stream, piece.data)
        end = await value(command.wait(capture=False))
        await door.joined(sending)
        told = {k: v for k, v in end.raw.items() if k not in ("id", "pid")}
        if "exitCode" in told or "signal" in told:
            call.event("exit", told)
        return {"id": command.id, "pid": command.pid, **told}
    finally:
        await close(command)


async def process_attach(door, call, p):
    command = await value(door.box(p).commands.connect(p["processId"], from_offset=p.get("fromOffset"), follow=p.get("follow", True)))
    call.stream = command
    call.event("started", {"id": command.id, "pid": command.pid})
    result = await follow(door, call, command)
    return {k: v for k, v in result.items() if k not in ("id", "pid")}


async def process_list(door, call, p):
    return {"processes": [one.raw for one in await value(door.box(p).commands.list())]}


async def process_signal(door, call, p):
    await value(door.box(p).commands.signal(p["processId"], p["signal"]))


async def process_stdin(door, call, p):
    await value(door.box(p).commands.send_stdin(p["processId"], call.input, close=p.get("close", False)))


async def process_close_stdin(door, call, p):
    await value(door.box(p).commands.close_stdin(p["processId"]))


USER = {"user": "user"}


async def fs_read(door, call, p):
    reader = call.stream = await value(door.box(p).files.read(p["path"], "stream", **optional(p, {**USER, "offset": "offset", "limit": "limit"})))
    size = 0
    try:
        async for data in each(reader):
            await call.reading()
            call.chunk("body", data)
            size += len(data)
    finally:
        await close(reader)
    return {"size": size}


async def fs_write(door, call, p):
    words = optional(p, {**USER, "size": "size", "mode": "mode", "whole": "whole", "metadata": "metadata"})
    path, size = await value(door.box(p).files.write(p["path"], call.input, **words))
    return {"path": path, "size": size}


async def fs_stat(door, call, p):
    return (await value(door.box(p).files.stat(p["path"], **optional(p, USER)))).raw


async def fs_list(door, call, p):
    found = await value(door.box(p).files.list(p["path"], **optional(p, {**USER, "depth": "depth"})))
    return {"files": [one.raw for one in found]}


async def fs_make_dir(door, call, p):
    return {"created": await value(door.box(p).files.make_dir(p["path"], **optional(p, USER)))}


async def fs_rename(door, call, p):
    await value(door.box(p).files.move(p["from"], p["to"], **optional(p, USER)))


async def fs_remove(door, call, p):
    await value(door.box(p).files.remove(p["path"], **optional(p, USER)))


async def fs_watch(door, call, p):
    watch = call.stream = await value(door.box(p).files.watch(p["path"], **optional(p, {**USER, "recursive": "recursive", "entries": "entries"})))
    call.event("started", {})
    try:
        async for change in each(watch):
            await call.reading()
            call.event("change", change.raw)
    finally:
        await close(watch)
    if call.given_up:  # a watch that somebody has closed ends without an error
        call.end(error=GIVEN_UP)


async def pty_open(door, call, p):
    words = optional(p, {**PROCESS, "cols": "cols", "rows": "rows", "term": "term"})
    terminal = call.stream = await value(door.box(p).pty.open(p.get("cmd"), **words))
    with door.lock:
        door.terminals[p["sandboxId"], terminal.id] = terminal
    call.event("started", {"id": terminal.id, "pid": terminal.pid})
    try:
        async for data in each(terminal):
            await call.reading()
            call.chunk("pty", data)
        told = {k: v for k, v in (await value(terminal.wait())).raw.items() if k not in ("id", "pid")}
        call.event("exit", told)
        return told
    finally:
        await close(terminal)


async def pty_write(door, call, p):
    terminal = door.terminals.get((p["sandboxId"], p["ptyId"]))
    if terminal is None:
        return await raw(door, call, p)
    async for piece in each(call.input):
        await value(terminal.write(piece))


async def pty_resize(door, call, p):
    terminal = door.terminals.get((p["sandboxId"], p["ptyId"]))
    if terminal is None:
        return await raw(door, call, p)
    await value(terminal.resize(p["cols"], p["rows"]))


async def pty_close(door, call, p):
    from agent_sandbox import ProcessNotFoundError

    if not await value(door.box(p).pty.kill(p["ptyId"])):
        raise ProcessNotFoundError("no such terminal")


async def code_run(door, call, p):
    words = optional(p, {"language": "language", "contextId": "context", "env": "env", "timeoutMs": "timeout"})

    async def waits():
        await call.reading()

    def chunk(channel):
        async def take(text):
            await waits()
            call.chunk(channel, text.encode())

        return take if door.loop else lambda text: call.chunk(channel, text.encode())

    def told(kind):
        return lambda one: call.event(kind, one.raw if kind == "result" else error_of_code(one))

    done = await value(door.box(p).code.run(p["code"], on_stdout=chunk("stdout"), on_stderr=chunk("stderr"), on_result=told("result"),
                                            on_error=told("error"), **words))
    call.event("end", done.raw)
    call.events.insert(0, {"type": "started", "executionCount": done.execution_count})
    return done.raw


def error_of_code(error):
    return {"name": error.name, "value": error.value, "traceback": error.traceback, "exitCode": error.exit_code}


async def code_interrupt(door, call, p):
    return {"interrupted": await value(door.box(p).code.interrupt(p["contextId"]))}


async def code_context_create(door, call, p):
    return (await value(door.box(p).code.create_context(**optional(p, {"language": "language", "cwd": "cwd", "env": "env"})))).raw


async def code_context_list(door, call, p):
    return {"contexts": [one.raw for one in await value(door.box(p).code.list_contexts())]}


async def code_context_restart(door, call, p):
    await value(door.box(p).code.restart_context(p["contextId"]))


async def code_context_remove(door, call, p):
    await value(door.box(p).code.remove_context(p["contextId"]))


# Operation → its method, and the parameters that this can have.
FACE = {
    "sandbox.create": (sandbox_create, [*CREATE]),
    "sandbox.connect": (sandbox_connect, ["timeoutMs"]),
    "sandbox.list": (sandbox_list, ["metadata"]),
    "sandbox.info": (sandbox_info, []),
    "sandbox.kill": (sandbox_kill, []),
    "sandbox.pause": (sandbox_pause, []),
    "sandbox.metrics": (sandbox_metrics, []),
    "sandbox.ports": (sandbox_ports, []),
    "sandbox.fork": (sandbox_fork, ["name", "metadata", "env", "network", "timeoutMs", "idempotencyKey"]),
    "sandbox.snapshot_create": (sandbox_snapshot_create, ["name"]),
    "sandbox.tunnel": (sandbox_tunnel, ["port"]),
    "process.start": (process_start, ["cmd", "shell", *PROCESS, "stdin", "input", "background"]),
    "process.attach": (process_attach, ["processId", "fromOffset", "follow"]),
    "process.list": (process_list, []),
    "process.signal": (process_signal, ["processId", "signal"]),
    "process.stdin": (process_stdin, ["processId", "close"]),
    "process.close_stdin": (process_close_stdin, ["processId"]),
    "fs.read": (fs_read, ["path", "user", "offset", "limit"]),
    "fs.write": (fs_write, ["path", "user", "size", "mode", "whole", "metadata"]),
    "fs.stat": (fs_stat, ["path", "user"]),
    "fs.list": (fs_list, ["path", "user", "depth"]),
    "fs.make_dir": (fs_make_dir, ["path", "user"]),
    "fs.rename": (fs_rename, ["from", "to", "user"]),
    "fs.remove": (fs_remove, ["path", "user"]),
    "fs.watch": (fs_watch, ["path", "user", "recursive", "entries"]),
    "pty.open": (pty_open, ["cmd", "shell", *PROCESS, "cols", "rows", "term"]),
    "pty.write": (pty_write, ["ptyId"]),
    "pty.resize": (pty_resize, ["ptyId", "cols", "rows"]),
    "pty.close": (pty_close, ["ptyId"]),
    "code.run": (code_run, ["code", "language", "contextId", "env", "timeoutMs"]),
    "code.interrupt": (code_interrupt, ["contextId"]),
    "code.context_create": (code_context_create, ["language", "cwd", "env"]),
    "code.context_list": (code_context_list, []),
    "code.context_restart": (code_context_restart, ["contextId"]),
    "code.context_remove": (code_context_remove, ["contextId"]),
}
GIVEN_UP = {"code": "E5002", "type": "CancelledError", "message": "given up", "retryable": True}
TYPES = {str: ("name", "path", "cwd", "user", "cmd"), int: ("timeoutMs", "cols", "rows", "port", "mode")}


async def raw(door, call, p):
    """One call of the provider."""
    from agent_sandbox import Chunk, End

    begin = door.infra.astart if door.loop else door.infra.start
    running = call.stream = await value(begin(call.method, p, has_input=call.input is not None, timeout=door.seconds(call)))

    async def send():
        async for piece in each(call.input):
            await value(running.write(piece))
        await value(running.write_end())

    sending = door.beside(send()) if call.input is not None else None
    try:
        while True:
            item = await value(running.next())
            await call.reading()
            if isinstance(item, End):
                return item.result
            if isinstance(item, Chunk):
                call.chunk(item.channel, item.data)
            else:
                call.event(item.type, item.value)
    finally:
        running.close()
        if call.input:
            call.input.feed(b"", True)
        await door.joined(sending)


def is_plain(method, p):
    """Can a person write this in Python without a type checker crying out?"""
    from agent_sandbox._ops import OPS

    if not all(name in p for name, _, needed in OPS[method].params if needed):
        return False
    cmd = p.get("cmd", [])
    if isinstance(cmd, str) != bool(p.get("shell")):
        return False
    if not all(isinstance(text, str) for text in p.get("env", {}).values()):
        return False
    return all(isinstance(p[name], kind) for kind, names in TYPES.items() for name in names if name in p and name != "cmd")


def connection_of(given):
    """A connection as it travels (docs/engine-api.md) as the SDK writes it."""
    from agent_sandbox import Connection

    words = {"apiKey": "api_key", "apiUrl": "api_url", "accessKeyId": "access_key_id", "accessKeySecret": "access_key_secret"}
    return Connection(**{words.get(name, name): value for name, value in given.items()})


class Door:
    """face: `sync` or `async`; connection: an `agent_sandbox.Connection`."""

    def __init__(self, face, connection):
        import agent_sandbox
        from agent_sandbox.providers.registry import open_infra

        self.connection, self.infra = connection, open_infra(connection)
        self.terminals, self.lock = {}, threading.Lock()
        self.raw_calls = self.face_calls = 0
        self.faces = agent_sandbox.AsyncSandbox if face == "async" else agent_sandbox.Sandbox
        self.loop = asyncio.new_event_loop() if face == "async" else None
        if self.loop:
            self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
            self.thread.start()

    def close(self):
        if self.loop:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join()
            self.loop.close()

    def box(self, p):
        from agent_sandbox import SandboxInfo

        return self.faces(self.infra, SandboxInfo.from_object({"id": p["sandboxId"]}))

    @staticmethod
    def seconds(call):
        return call.deadline_ms / 1000 if call.deadline_ms else None

    # --- the two faces

    def beside(self, work):
        if self.loop:
            return asyncio.ensure_future(work)
        failures = []

        def run():
            try:
                drive(work)
            except Exception as e:
                failures.append(e)

        thread = threading.Thread(target=run, daemon=True)
        thread.failures = failures
        thread.start()
        return thread

    async def joined(self, work):
        if work is None:
            return
        if self.loop:
            try:
                await work
            except Exception:
                pass  # the call itself tells
        else:
            work.join()

    def give_up(self, call):
        if self.loop:
            self.loop.call_soon_threadsafe(lambda: call.task and call.task.cancel())
        elif call.stream is not None:
            call.stream.close()

    def start(self, method, params, data, ends, deadline_ms, paused):
        call = Call(self, method, params)
        call.deadline_ms = deadline_ms
        if not paused:
            call.may_read.set()
        function, known = FACE.get(method, (raw, []))
        if function is not raw and (not only(params, *known) or not is_plain(method, params)):
            function = raw
        takes = method in ("fs.write", "process.stdin", "pty.write", "sandbox.tunnel")
        if takes:
            call.input = AsyncInput(self.loop) if self.loop else Input(None)
            call.input.feed(data or b"", ends)
        with self.lock:
            if function is raw:
                self.raw_calls += 1
            else:
                self.face_calls += 1
        work = self.run(call, function)
        if self.loop:

            def begin():
                call.task = asyncio.ensure_future(work)
                call.task.add_done_callback(lambda task: call.end(error=GIVEN_UP))  # cancelled before it began
                if call.given_up:
                    call.task.cancel()

            self.loop.call_soon_threadsafe(begin)
        else:
            threading.Thread(target=drive, args=(work,), daemon=True).start()
        return call

    async def run(self, call, function):
        from agent_sandbox import SandboxError, deadline

        try:
            if call.deadline_ms:
                with deadline(call.deadline_ms / 1000):
                    result = await function(self, call, call.params)
            else:
                result = await function(self, call, call.params)
            call.end(result)
        except SandboxError as e:
            call.end(error=GIVEN_UP if call.given_up else e.to_object())
        except asyncio.CancelledError:
            call.end(error=GIVEN_UP)
        except Exception as e:
            call.end(error=GIVEN_UP if call.given_up else {"code": None, "type": type(e).__name__, "message": repr(e)})


def drive(work):
    """Run a coroutine in which nothing waits."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise interpreter.Failed("something waited in the blocking face")
