"""Commands and bash sessions of execd: one process group each, output through files, events a line at a time."""

import os
import random
import re
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from datetime import datetime, timezone

from web import Failed, Gone, dumps

PLACE = tempfile.gettempdir()
GRACE = int(os.environ.get("EXECD_API_GRACE_SHUTDOWN", "1000ms").removesuffix("ms")) / 1000  # seconds of silence behind the last event
WORDS = {1: "hangup", 2: "interrupt", 3: "quit", 4: "illegal instruction", 5: "trace/breakpoint trap", 6: "aborted", 7: "bus error",
         8: "floating point exception", 9: "killed", 10: "user defined signal 1", 11: "segmentation fault",
         12: "user defined signal 2", 13: "broken pipe", 14: "alarm clock", 15: "terminated"}
commands = {}
sessions = {}


def now():
    return datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")


def expand(path):
    """What execd makes of a path: $NAME, ${NAME} and a leading ~; an unknown name is an error."""
    def value(found):
        name = found[1] or found[2]
        if name not in os.environ:
            raise Failed(500, "RUNTIME_ERROR", f'path references undefined environment variable "{name}"')
        return os.environ[name]

    path = re.sub(r"\$\{(\w+)\}|\$(\w+)", value, path)
    if path == "~" or path.startswith("~/"):
        path = os.environ.get("HOME", "/root") + path[1:]
    return os.path.abspath(path)


class Lines:
    """Cuts what is appended to a file into events, as execd does."""

    def __init__(self, path):
        self.file, self.rest, self.after_return = open(path, "rb"), b"", False

    def take(self, last=False):
        data = self.rest + self.file.read()
        self.rest = b""
        while data:
            if self.after_return and data[:1] == b"\n":
                data = data[1:]
            self.after_return = False
            found = re.search(rb"[\r\n]", data)
            if not found:
                break
            line, data = data[:found.start()], data[found.start():]
            if data[:2] == b"\r\n":
                data = data[2:]
            else:
                self.after_return = data[:1] == b"\r"
                data = data[1:]
            yield line.decode(errors="replace") or "\n"
        if data and last:
            yield data.decode(errors="replace")
        elif data:
            self.rest = data


class Stream:
    """Events to a client. Its pings come every three seconds, the first at a place of its own."""

    def __init__(self, handler, faults):
        self.handler, self.faults, self.lock, self.done = handler, faults, threading.Lock(), threading.Event()
        self.begun, self.gone = time.time(), False
        handler.begin(200, "text/event-stream", {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})

    def send(self, kind, **members):
        event = {"type": kind, **{k: v for k, v in members.items() if v not in ("", 0)}, "timestamp": int(time.time() * 1000)}
        self.raw(dumps(event) + b"\n\n")
        if kind == "init" and "proxyCuts" in self.faults and self.handler.onward:  # what real execd does to itself now and then: an end as if all were well
            self.gone = True
            return self.handler.end()
        if kind == "init":
            late = "latePing" in self.faults or random.random() < 0.05
            threading.Thread(target=self.pings, args=(late,), daemon=True).start()

    def raw(self, data):
        if "dataPrefix" in self.faults and data.startswith(b"{"):
            data = b": a comment\r\nevent: x\r\ndata: " + data.replace(b"\n", b"\r\n")
        with self.lock:
            if self.gone:
                return
            try:
                for part in [data[i:i + 1] for i in range(len(data))] if "split" in self.faults else [data]:
                    self.handler.chunk(part)
            except Gone:
                self.gone = True

    def pings(self, late):
        if late:
            self.done.wait(3)
        while not self.gone:
            self.raw(dumps({"type": "ping", "text": "pong", "timestamp": int(time.time() * 1000)}) + b"\n\n")
            if self.done.wait(3):
                break

    def complete(self):
        self.send("execution_complete", execution_time=int((time.time() - self.begun) * 1000))

    def bare(self, message):
        self.raw(dumps({"code": "RUNTIME_ERROR", "message": message}))

    def linger(self, seconds):
        """After the last event: a while of silence, pings go on; then the end."""
        if "latePing" in self.faults:
            self.done.set()
        limit = time.time() + seconds
        while time.time() < limit and not self.gone and not hung_up(self.handler):
            time.sleep(0.05)
        self.finish()

    def finish(self):
        self.done.set()
        with self.lock:
            if self.gone:
                raise Gone
            self.gone = True
            self.handler.end()


def hung_up(handler):
    """Has the client closed its end? Nothing is taken from the connection."""
    import select
    import socket

    readable, _, _ = select.select([handler.connection], [], [], 0)
    try:
        return bool(readable) and not handler.connection.recv(1, socket.MSG_PEEK)
    except OSError:
        return True


def environment(more=None, with_file=True):
    env = dict(os.environ)
    try:
        if with_file:
            with open(os.environ.get("EXECD_ENVS", ""), encoding="utf-8") as f:
                env.update(line.rstrip("\n").split("=", 1) for line in f if "=" in line)
    except OSError:
        pass
    env.update(more or {})
    return env


class Command:
    def __init__(self, text, cwd, envs, uid, gid, background):
        self.id, self.text, self.background = uuid.uuid4().hex, text, background
        self.started, self.finished, self.code, self.error = now(), None, None, ""
        self.ended, self.stopping = threading.Event(), None
        base = os.path.join(PLACE, self.id)
        self.out, self.err = (base + ".output",) * 2 if background else (base + ".stdout", base + ".stderr")
        more = {} if uid is None else {"user": uid, "group": gid if gid is not None else os.getgid(), "extra_groups": []}
        with open(self.out, "ab") as out, open(self.err, "ab") as err:
            self.process = subprocess.Popen(["bash" if os.path.exists("/bin/bash") else "sh", "-c", text], cwd=cwd, stdin=subprocess.DEVNULL,
                                            env=environment(envs), stdout=out, stderr=err, process_group=0, **more)
        commands[self.id] = self

    def wait(self, timeout):
        def run():
            try:
                code = self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.signal(signal.SIGKILL)
                code = self.process.wait()
            self.code = -1 if code < 0 else code
            self.error = f"signal: {WORDS.get(-code, f'signal {-code}')}" if code < 0 else f"exit status {code}" if code else ""
            self.finished = now()
            self.ended.set()

        threading.Thread(target=run, daemon=True).start()

    def signal(self, number):
        try:
            os.killpg(self.process.pid, number)
        except OSError:
            pass

    def interrupt(self):
        if self.ended.is_set():
            raise Failed(500, "RUNTIME_ERROR", f"error interrupting code execution. process {self.id} is not running")
        self.signal(signal.SIGTERM)
        if not self.ended.wait(3):
            self.signal(signal.SIGKILL)
            self.ended.wait(3)

    def status(self):
        said = {"id": self.id, "content": self.text, "running": not self.ended.is_set(), "exit_code": self.code,
                "error": self.error or None, "started_at": self.started, "finished_at": self.finished}
        return {name: value for name, value in said.items() if value is not None}


def checked(asked):
    """What was asked for, and the folder."""

    def bad(message):
        raise Failed(400, "INVALID_REQUEST_BODY", f"invalid request, validation error {message}")

    if not asked.get("command"):
        bad("Key: 'RunCommandRequest.Command' Error:Field validation for 'Command' failed on the 'required' tag")
    if asked.get("timeout", 0) < 0:
        bad("Key: 'RunCommandRequest.TimeoutMs' Error:Field validation for 'TimeoutMs' failed on the 'gte' tag")
    if asked.get("uid", 0) < 0 or asked.get("gid", 0) < 0:
        raise Failed(400, "INVALID_REQUEST_BODY", "error parsing request, MAYBE invalid body format. json: cannot unmarshal number")
    if "gid" in asked and "uid" not in asked:
        bad("uid is required when gid is provided")
    cwd = None
    if asked.get("cwd"):
        try:
            cwd = expand(asked["cwd"])
        except Failed as e:
            bad(f'cannot resolve working directory "{asked["cwd"]}": {e}')
        if not os.path.lexists(cwd):
            bad(f"working directory does not exist: {cwd}: stat {cwd}: no such file or directory")
        if not os.path.isdir(cwd):
            bad(f"working directory path is not a directory: {cwd}")
    return asked, cwd


def start_error(e):
    words = {1: "operation not permitted", 7: "argument list too long", 13: "permission denied"}
    return f"fork/exec /usr/bin/bash: {words.get(e.errno, e.strerror)}"


def run(handler, grace=GRACE, asked=None):
    from files import json_of

    faults = handler.server.faults
    kinds = {"command": str, "cwd": str, "background": bool, "timeout": int, "uid": int, "gid": int, "envs": dict}
    asked, cwd = checked(asked or json_of(handler, kinds))
    if "cutBeforeInit" in faults:
        return handler.cut()
    text, background = asked["command"], asked.get("background", False)
    try:
        if len(text.encode()) >= 131072:
            raise OSError(7, "")
        command = Command(text, cwd, asked.get("envs"), asked.get("uid"), asked.get("gid"), background)
        command.wait((asked.get("timeout") or 0) / 1000 or None)
    except OSError as e:
        return not_started(handler, start_error(e), background, faults)
    stream = Stream(handler, faults)
    stream.send("init", text=command.id)
    if "bareError" in faults:
        stream.bare("error running codes something broke")
        return stream.finish()
    if background:
        stream.complete()
        return stream.linger(grace)
    follow(stream, command)
    if "cutBeforeEnd" in faults:
        return handler.cut()
    if command.code:
        stream.send("error", error={"ename": "CommandExecError", "evalue": str(command.code),
                                    "traceback": None if "tracebackNull" in faults else [command.error]})
    else:
        stream.complete()
    stream.linger(grace)


def not_started(handler, why, background, faults):
    stream = Stream(handler, faults)
    stream.send("init", text=uuid.uuid4().hex)
    if background:
        stream.bare(f"error running codes failed to start command: {why}")
    else:
        stream.send("error", error={"ename": "CommandExecError", "evalue": why, "traceback": [why]})
    stream.linger(0 if background else GRACE)


def follow(stream, command):
    """Output as events until the end; goes on although nobody listens, so that the command does not notice."""
    readers = {"stdout": Lines(command.out), "stderr": Lines(command.err)}
    last = False
    while not last:
        last = command.ended.wait(0.1)
        for name, reader in readers.items():
            for line in reader.take(last):
                stream.send(name, text=line)


def find(id, status=400):
    if id not in commands:
        raise Failed(status, "INVALID_REQUEST_BODY", f"command not found: {id}")
    return commands[id]


def status(handler, id):
    handler.answer(200, find(id, 404).status())


def logs(handler, id):
    command = find(id)
    if not command.background:
        raise Failed(400, "INVALID_REQUEST_BODY", f"command {id} is not running in background")
    try:
        cursor = int(handler.ask("cursor", "0"))
    except ValueError:
        cursor = 0
    if cursor < 0:
        raise Failed(400, "INVALID_REQUEST_BODY", "negative cursor")
    with open(command.out, "rb") as f:
        f.seek(cursor)
        data = f.read()
    handler.answer(200, data, {"EXECD-COMMANDS-TAIL-CURSOR": str(cursor + len(data))}, "text/plain; charset=utf-8")


def interrupt(handler):
    import interpreter

    id = handler.ask("id")
    if not id:
        raise Failed(400, "MISSING_QUERY", "missing query parameter 'id'")
    if id in sessions:
        return sessions.pop(id).end()
    if id in interpreter.contexts:
        return interpreter.contexts[id].interrupt()
    if id not in commands:
        raise Failed(500, "RUNTIME_ERROR", f"error interrupting code execution. no such session {id}")
    commands[id].interrupt()


class Session:
    """Exported variables and a folder, handed from one bash to the next."""

    def __init__(self, cwd):
        self.id, self.cwd, self.env, self.running = str(uuid.uuid4()), cwd, environment(with_file=False), set()

    def end(self):
        for p in list(self.running):
            try:
                os.killpg(p.pid, signal.SIGKILL)
            except OSError:
                pass


SAVING = '\n__code=$?\nexport -p >/dev/null; env -0 >"$__keep"; pwd >"$__keep.cwd"; exit $__code\n'


def session_make(handler):
    from files import json_of

    asked = json_of(handler, {"cwd": str}, empty=True)
    cwd = expand(asked["cwd"]) if asked.get("cwd") else os.getcwd()
    try:
        os.makedirs(cwd, exist_ok=True)
    except OSError as e:
        raise Failed(500, "RUNTIME_ERROR", f"error creating session. {e.strerror}") from None
    session = Session(cwd)
    sessions[session.id] = session
    handler.answer(200, {"session_id": session.id})


def session_run(handler, id):
    from files import json_of

    asked = json_of(handler, {"command": str, "cwd": str, "timeout": int}, words="error parsing request.")
    if not asked.get("command") or asked.get("timeout", 0) < 0:
        raise Failed(400, "INVALID_REQUEST_BODY", "invalid request. Key: 'RunInSessionRequest'")
    if id not in sessions:
        raise Failed(500, "RUNTIME_ERROR", "error running in session. context not found")
    session = sessions[id]
    if asked.get("cwd"):
        cwd = expand(asked["cwd"])
        if not os.path.isdir(cwd):
            raise Failed(400, "INVALID_REQUEST_BODY", f"invalid request. working directory does not exist: {cwd}")
        session.cwd = cwd
    with tempfile.TemporaryDirectory() as keep:
        return run_in(handler, session, asked, os.path.join(keep, "env"))


def run_in(handler, session, asked, keep):
    stream = Stream(handler, handler.server.faults)
    stream.send("init", text=session.id)
    script = f"trap '' INT; __keep={keep}\n{asked['command']}{SAVING}"
    p = subprocess.Popen(["bash", "--noprofile", "--norc", "-c", script], cwd=session.cwd, env=session.env, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=0)
    session.running.add(p)
    late = []
    limit = (asked.get("timeout") or 0) / 1000
    timer = threading.Timer(limit or 86400, lambda: (late.append(1), p.kill()))
    timer.start()
    threading.Thread(target=end_with_client, args=(handler, p), daemon=True).start()
    for line in p.stdout:
        if text := line.removesuffix(b"\n").removesuffix(b"\r").decode(errors="replace"):
            stream.send("stdout", text=text)
    code = p.wait()
    timer.cancel()
    session.running.discard(p)
    try:
        with open(keep, "rb") as f:
            session.env = dict(pair.decode(errors="surrogateescape").split("=", 1) for pair in f.read().split(b"\0") if b"=" in pair)
        with open(keep + ".cwd", encoding="utf-8") as f:
            session.cwd = f.read().rstrip("\n")
    except OSError:
        pass
    if late:
        stream.bare(f"error running in session. timeout after {asked['timeout']}ms")
    elif code:
        word = f"signal: {WORDS.get(-code)}" if code < 0 else f"exit status {code}"
        stream.send("error", error={"ename": "CommandExecError", "evalue": str(max(code, -1)), "traceback": [word]})
    else:
        stream.complete()
    stream.finish()


def end_with_client(handler, process):
    while process.poll() is None:
        if hung_up(handler):
            return process.kill()
        time.sleep(0.1)


def session_end(handler, id):
    if id not in sessions:
        raise Failed(404, "CONTEXT_NOT_FOUND", f"session {id} not found")
    sessions.pop(id).end()
