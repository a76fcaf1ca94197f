"""The command line as a door of the conformance suite: each call is a run of `abx`, with --json where there is a choice.
What cannot be said that way the cases name themselves (notOver: cli)."""

import base64
import fcntl
import json
import os
import signal
import subprocess
import termios
import threading
import time
from struct import pack

BLOCK = 65536


def duration(ms):
    return f"{ms}ms" if ms else "none"


class Call:
    """One run of the program. Threads read what it prints and wait for its end."""

    def __init__(self, door):
        self.door = door
        self.changed = threading.Condition()
        self.events, self.channels, self.order = [], {}, []
        self.result = self.error = None
        self.ended = False
        self.may_read = threading.Event()
        self.process = None
        self.sink = None  # where input goes

    def event(self, value):
        with self.changed:
            self.events.append(value)
            self.note(value["type"])

    def chunk(self, channel, data):
        with self.changed:
            self.channels.setdefault(channel, bytearray()).extend(data)
            self.note(channel)

    def note(self, kind):
        if not self.order or self.order[-1] != kind:
            self.order.append(kind)
        self.changed.notify_all()

    def end(self, result=None, error=None):
        with self.changed:
            self.result = None if error else (result or {})
            self.error, self.ended = error, True
            self.changed.notify_all()

    def feed(self, data, close):
        try:
            while data:
                data = data[os.write(self.sink, data[:BLOCK]):]
        except BrokenPipeError:
            close = True
        if close and self.sink is not None:
            os.close(self.sink)
            self.sink = None

    def cancel(self):
        self.may_read.set()
        if self.process:
            self.process.kill()

    def pause(self):
        self.may_read.clear()

    def resume(self):
        self.may_read.set()


def read_all(call, file, take):
    while True:
        call.may_read.wait()
        data = os.read(file.fileno(), BLOCK)
        if not data:
            return
        take(data)


def error_of(text, code):
    """The error object that --json prints; also the block for people, which a terminal mixes with the output."""
    for line in reversed(text.splitlines()):
        if line.startswith('{"error":'):
            return json.loads(line)["error"]
    return {"code": None, "exitCode": code, "message": text}


# --- how each operation is said ----------------------------------------------------------------------------


def flags_of_process(p):
    out = []
    if "cwd" in p:
        out += ["-w", p["cwd"]]
    for key, value in p.get("env", {}).items():
        out += ["-e", f"{key}={value}"]
    if "user" in p:
        out += ["-u", p["user"]]
    if "timeoutMs" in p:
        out += ["--timeout", duration(p["timeoutMs"])]
    return out


def place(p, name="path"):
    return f"{p['sandboxId']}:{p[name]}"


def user(p):
    return ["-u", p["user"]] if "user" in p else []


def create(p):
    out = ["create"]
    for name, flag in (("name", "--name"), ("network", "--network"), ("idempotencyKey", "--idempotency-key"),
                       ("onTimeout", "--on-timeout"), ("template", "--template"),
                       ("snapshot", "--snapshot")):
        if name in p:
            out += [flag, p[name]]
    for name, flag in (("timeoutMs", "--timeout"), ("idleMs", "--idle")):
        if name in p:
            out += [flag, duration(p[name])]
    for name, flag in (("memoryBytes", "--memory"), ("diskBytes", "--disk"), ("cpus", "--cpus"),
                       ("processes", "--processes"), ("openFiles", "--open-files")):
        if name in p:
            out += [flag, str(p[name])]
    for name, flag in (("metadata", "-l"), ("env", "-e")):
        for key, value in p.get(name, {}).items():
            out += [flag, f"{key}={value}"]
    if p.get("reuse"):
        out.append("--reuse")
    return out


def fork(p):
    return ["fork", *create({k: v for k, v in p.items() if k != "sandboxId"})[1:], p["sandboxId"]]


def snapshot(p):
    return ["snapshot", "create", p["sandboxId"], *(["--name", p["name"]] if "name" in p else [])]


def labels(p):
    return [word for key, value in p.get("metadata", {}).items() for word in ("-l", f"{key}={value}")]


def renamed(p):
    return ["files", "mv", *user(p), place(p, "from"), place(p, "to")]


def written(p):
    mode = ["--mode", f"{p['mode']:o}"] if "mode" in p else []
    return ["files", "write", *user(p), *mode, place(p)]


def code(p):
    out = ["--lang", p["language"]] if "language" in p else []
    out += ["--context", p["contextId"]] if "contextId" in p else []
    out += ["-w", p["cwd"]] if "cwd" in p else []
    out += ["--timeout", duration(p["timeoutMs"])] if "timeoutMs" in p else []
    for key, value in p.get("env", {}).items():
        out += ["-e", f"{key}={value}"]
    return ["code", *out, p["sandboxId"]]


def listed(p):
    depth = ["--depth", str(p["depth"])] if "depth" in p else []
    return ["files", "ls", "--limit", "0", *user(p), *depth, place(p)]


# Operations whose answer is one JSON object: how they are said.
PLAIN = {
    "sandbox.create": create,
    "sandbox.info": lambda p: ["info", p["sandboxId"]],
    "sandbox.kill": lambda p: ["kill", p["sandboxId"]],
    "sandbox.list": lambda p: ["ls", "--all", "--limit", "0", *labels(p)],
    "sandbox.set_timeout": lambda p: ["extend", p["sandboxId"], duration(p["timeoutMs"])],
    "sandbox.pause": lambda p: ["pause", p["sandboxId"]],
    "sandbox.fork": fork,
    "sandbox.snapshot_create": snapshot,
    "sandbox.snapshot_list": lambda p: ["snapshot", "ls"],
    "sandbox.snapshot_remove": lambda p: ["snapshot", "rm", p["snapshotId"]],
    "sandbox.ports": lambda p: ["port", p["sandboxId"]],
    "sandbox.metrics": lambda p: ["stats", p["sandboxId"]],
    "sandbox.template_list": lambda p: ["template", "ls"],
    "sandbox.template_info": lambda p: ["template", "info", p["template"]],
    "sandbox.template_remove": lambda p: ["template", "rm", p["template"]],
    "code.context_create": lambda p: [*code(p), "--new-context"],
    "code.context_list": lambda p: [*code(p), "--contexts"],
    "code.context_restart": lambda p: [*code(p), "--restart"],
    "code.context_remove": lambda p: [*code(p), "--remove-context"],
    "process.list": lambda p: ["jobs", "--limit", "0", p["sandboxId"]],
    "process.signal": lambda p: ["signal", p["sandboxId"], p["processId"], p["signal"]],
    "fs.stat": lambda p: ["files", "stat", *user(p), place(p)],
    "fs.list": listed,
    "fs.make_dir": lambda p: ["files", "mkdir", "-p", *user(p), place(p)],
    "fs.rename": renamed,
    "fs.remove": lambda p: ["files", "rm", "-r", "-f", *user(p), place(p)],
    "fs.write": written,
}


class Door:
    def __init__(self, program, environment, cwd):
        self.program, self.environment, self.cwd = program, environment, cwd
        self.processes = {}  # (sandbox, process) → the call that started it

    def start(self, method, params, data, ends, deadline_ms, paused):
        call = Call(self)
        if not paused:
            call.may_read.set()
        extra = ["--wait-timeout", duration(deadline_ms)] if deadline_ms else []
        special = {"process.start": self.process, "process.attach": self.attach, "fs.read": self.read,
                   "fs.watch": self.watch, "pty.open": self.terminal, "process.stdin": self.process_stdin,
                   "process.close_stdin": self.process_stdin, "pty.write": self.type, "pty.resize": self.resize,
                   "sandbox.connect": self.connect, "code.run": self.code}
        if method in special:
            special[method](call, params, data, ends, extra)
        else:
            self.plain(call, PLAIN[method](params), data, extra)
        return call

    # --- running

    def spawn(self, call, words, stdin=subprocess.DEVNULL):
        call.process = subprocess.Popen([self.program, *words], env=self.environment, cwd=self.cwd, stdin=stdin,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if stdin == subprocess.PIPE:
            call.sink = os.dup(call.process.stdin.fileno())
            call.process.stdin.close()

    def follow(self, call, take_out, finish):
        """Read both streams; finish(code, text of stderr) when it has ended."""
        err = bytearray()

        def run():
            reader = threading.Thread(target=read_all, args=(call, call.process.stderr, err.extend))
            reader.start()
            read_all(call, call.process.stdout, take_out)
            reader.join()
            code = call.process.wait()
            call.process.stdout.close()
            call.process.stderr.close()
            finish(code, err.decode(errors="replace"))

        threading.Thread(target=run, daemon=True).start()

    def connect(self, call, p, data, ends, extra):
        """`resume` says only that it was done: what it gave, `info` tells."""
        life = ["--timeout", duration(p["timeoutMs"])] if "timeoutMs" in p else []

        def run():
            first = subprocess.run([self.program, "resume", "--json", *life, *extra, p["sandboxId"]],
                                   env=self.environment, cwd=self.cwd, stdin=subprocess.DEVNULL, capture_output=True)
            if first.returncode == 0:
                self.plain(call, ["info", p["sandboxId"]], None, extra)
            else:
                call.end(error=error_of(first.stderr.decode(), first.returncode))

        threading.Thread(target=run, daemon=True).start()

    def plain(self, call, words, data, extra):
        out = bytearray()
        self.spawn(call, [*words, "--json", *extra], subprocess.PIPE if data is not None else subprocess.DEVNULL)

        def finish(code, err):
            if code == 0:
                call.end(json.loads(out) if out.strip() else {})
            else:
                call.end(error=error_of(err, code))

        self.follow(call, out.extend, finish)
        if data is not None:
            threading.Thread(target=call.feed, args=(data, True), daemon=True).start()

    # --- processes

    def lines(self, call, params, words, stdin):
        """A run that prints events, a line each."""
        rest = bytearray()
        last = {}

        def take(data):
            rest.extend(data)
            *whole, tail = bytes(rest).split(b"\n")
            rest[:] = tail
            for line in whole:
                self.line(call, params, json.loads(line), last)

        def finish(code, err):
            if last.get("source") == "abx" and not last.get("timedOut"):
                call.end(error=error_of(err, code))
            elif last or code == 0:
                call.end({k: v for k, v in {**last, **call.started}.items() if k not in ("type", "source", "sandbox")})
            else:
                call.end(error=error_of(err, code))

        call.started = {}
        self.spawn(call, words, stdin)
        self.follow(call, take, finish)

    def line(self, call, params, line, last):
        kind = line["type"]
        if kind in ("stdout", "stderr", "pty"):
            call.chunk(kind, line["text"].encode() if "text" in line else base64.b64decode(line["base64"]))
            return
        if kind == "started" and "id" in line:
            call.started = {"id": line["id"], "pid": line.get("pid")}
            self.processes[params["sandboxId"], line["id"]] = call
        if kind in ("exit", "end"):
            if "signal" in line:
                line.pop("exitCode", None)  # 124: the time limit, told as timedOut too
            last.update(line)
            if line.get("source") == "abx" and not line.get("timedOut"):
                return
        call.event(line)

    def process(self, call, p, data, ends, extra):
        if p.get("background"):
            self.plain(call, ["exec", "-d", *flags_of_process(p), p["sandboxId"]], None, [*extra, "--", *p["cmd"]])
            return
        given = p.get("input")
        stream = p.get("stdin") == "stream"
        stdin = ["-i"] if given or stream else ["-n"]
        words = ["exec", "--json", *stdin, *flags_of_process(p), *extra, p["sandboxId"], "--", *p["cmd"]]
        self.lines(call, p, words, subprocess.PIPE if given or stream else subprocess.DEVNULL)
        if given:
            text = given["text"].encode() if "text" in given else base64.b64decode(given["base64"])
            threading.Thread(target=call.feed, args=(text, True), daemon=True).start()

    def attach(self, call, p, data, ends, extra):
        follow = ["-f"] if p.get("follow", True) else []
        self.lines(call, p, ["logs", "--json", *follow, *extra, p["sandboxId"], p["processId"]], subprocess.DEVNULL)

    def code(self, call, p, data, ends, extra):
        self.lines(call, p, [*code(p), "--json", *extra, "-c", p["code"]], subprocess.DEVNULL)

    def process_stdin(self, call, p, data, ends, extra):
        target = self.processes[p["sandboxId"], p["processId"]]

        def run():
            target.feed(data or b"", p.get("close", data is None))
            call.end()

        threading.Thread(target=run, daemon=True).start()

    # --- files

    def read(self, call, p, data, ends, extra):
        part = [word for name in ("offset", "limit") if name in p for word in (f"--{name}", str(p[name]))]
        self.spawn(call, ["files", "cat", *user(p), *part, *extra, "--json", place(p)])

        def finish(code, err):
            if code == 0:
                call.end({"size": len(call.channels.get("body", b""))})
            else:
                call.end(error=error_of(err, code))

        self.follow(call, lambda piece: call.chunk("body", piece), finish)

    def watch(self, call, p, data, ends, extra):
        deep = ["-r"] if p.get("recursive") else []
        self.lines(call, p, ["files", "watch", "--json", *deep, *user(p), *extra, place(p)], subprocess.DEVNULL)

    # --- terminals

    def terminal(self, call, p, data, ends, extra):
        master, slave = os.openpty()
        fcntl.ioctl(master, termios.TIOCSWINSZ, pack("HHHH", p.get("rows", 24), p.get("cols", 80), 0, 0))
        command = ["--", *p["cmd"]] if "cmd" in p else []
        words = ["exec", "-it"] if command else ["shell"]
        env = {**self.environment, "TERM": p.get("term", "xterm-256color")}
        call.process = subprocess.Popen(
            [self.program, *words, *flags_of_process(p), *extra, p["sandboxId"], *command], env=env, cwd=self.cwd,
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
        call.sink = master
        name = f"t{call.process.pid}"
        self.processes[p["sandboxId"], name] = call

        def read():
            while True:
                call.may_read.wait()
                try:
                    piece = os.read(master, BLOCK)
                except OSError:
                    return
                call.chunk("pty", piece)

        def run():
            # What is typed before the terminal is raw would be echoed here, and lost.
            while call.process.poll() is None and termios.tcgetattr(slave)[3] & termios.ICANON:
                time.sleep(0.005)
            call.event({"type": "started", "id": name})
            reader = threading.Thread(target=read, daemon=True)
            reader.start()
            code = call.process.wait()
            os.close(slave)
            reader.join()
            exit_of = {"signal": signal.Signals(code - 128).name} if code > 128 else {"exitCode": code}
            call.event({"type": "exit", **exit_of})
            call.end(exit_of)

        threading.Thread(target=run, daemon=True).start()

    def type(self, call, p, data, ends, extra):
        self.processes[p["sandboxId"], p["ptyId"]].feed(data, False)
        call.end()

    def resize(self, call, p, data, ends, extra):
        target = self.processes[p["sandboxId"], p["ptyId"]]
        fcntl.ioctl(target.sink, termios.TIOCSWINSZ, pack("HHHH", p["rows"], p["cols"], 0, 0))
        target.process.send_signal(signal.SIGWINCH)
        call.end()
