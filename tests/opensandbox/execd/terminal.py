"""PTY sessions of execd over WebSocket."""

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import termios
import threading
import time
import uuid

from commands import expand
from files import json_of
from web import Failed, Gone, WebSocket

KEPT = 1 << 20  # bytes of output that are kept for who comes back
SIGNALS = ("SIGINT", "SIGTERM", "SIGKILL", "SIGQUIT", "SIGHUP")
sessions = {}


class Session:
    def __init__(self, cwd, command):
        self.id, self.cwd, self.command = str(uuid.uuid4()), cwd, command
        self.lock, self.seat = threading.RLock(), threading.Lock()
        self.process = self.socket = self.stdin = None
        self.ring, self.total = b"", 0

    def running(self):
        return self.process is not None and self.process.poll() is None

    def start(self, with_terminal):
        words = ["bash", "--norc", "--noprofile"] + (["-c", self.command] if self.command else [])
        words = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", *words]  # Ctrl-C is dead, as delivered
        self.with_terminal = with_terminal
        if with_terminal:
            main, side = pty.openpty()
            self.stdin, sources = main, {1: main}
            fcntl.ioctl(main, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
            words = ["setsid", "--ctty", *words]
            streams = {"stdin": side, "stdout": side, "stderr": side}
        else:
            streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": True}
        env = {"TERM": "dumb", **os.environ}
        self.process = subprocess.Popen(words, cwd=self.cwd, env=env, **streams)
        if with_terminal:
            os.close(side)
        else:
            self.stdin, sources = self.process.stdin.fileno(), {1: self.process.stdout.fileno(), 2: self.process.stderr.fileno()}
        self.pumps = [threading.Thread(target=self.pump, args=item, daemon=True) for item in sources.items()]
        for one in self.pumps:
            one.start()
        threading.Thread(target=self.watch, args=(self.process, self.pumps), daemon=True).start()

    def pump(self, number, source):
        while True:
            try:
                data = os.read(source, 32768)
            except OSError:
                data = b""
            if not data:
                return
            with self.lock:
                self.ring = (self.ring + data)[-KEPT:]
                self.total += len(data)
                socket = self.socket
            if socket:
                try:
                    socket.send(2, bytes([number]) + data)
                except Gone:
                    pass

    def watch(self, process, pumps):
        code = process.wait()
        if "lostTail" not in self.faults:
            for one in pumps:
                one.join(1)
        with self.lock:
            socket = self.socket
        if socket:
            self.text(socket, type="exit", exit_code=max(code, -1))
            socket.close(1000, "process exited")

    def text(self, socket, **members):
        try:
            socket.send(1, json.dumps(members).encode() + b"\n")
        except Gone:
            pass

    def kill(self, number=signal.SIGKILL):
        if self.running():
            try:
                os.killpg(self.process.pid, number)
            except OSError:
                pass


def make(handler):
    asked = json_of(handler, {"cwd": str, "command": str}, empty=True)
    cwd = expand(asked["cwd"]) if asked.get("cwd") else os.getcwd()
    try:
        os.makedirs(cwd, exist_ok=True)
    except OSError as e:
        raise Failed(500, "RUNTIME_ERROR", f"error creating pty session. {e.strerror}") from None
    session = Session(cwd, None if "old" in handler.server.faults else asked.get("command"))
    session.faults = handler.server.faults
    sessions[session.id] = session
    handler.answer(201, {"session_id": session.id})


def find(id):
    if id not in sessions:
        raise Failed(404, "CONTEXT_NOT_FOUND", f"pty session {id} not found")
    return sessions[id]


def status(handler, id):
    session = find(id)
    handler.answer(200, {"session_id": id, "running": session.running(), "output_offset": session.total})


def end(handler, id):
    find(id).kill()
    sessions.pop(id, None)


def connect(handler, id):
    session = find(id)
    if not session.seat.acquire(blocking=False):
        if handler.ask("takeover") != "1":
            raise Failed(409, "ALREADY_CONNECTED", f"another client is already connected to pty session {id}")
        if session.socket:
            session.socket.close(4001, "TAKEN_OVER")
        session.seat.acquire(timeout=5)
    try:
        if "websocket" not in handler.headers.get("Upgrade", "").lower():
            return handler.answer(400, b"Bad Request\n")
        attend(handler, session, WebSocket(handler))
    finally:
        session.seat.release()


def attend(handler, session, socket):
    terminal = handler.ask("pty") != "0"
    try:
        since = int(handler.ask("since", "0"))
    except ValueError:
        since = 0
    with session.lock:
        first = max(since, session.total - len(session.ring))
        kept = session.ring[first - (session.total - len(session.ring)):]
        if kept:
            socket.send(2, b"\x03" + struct.pack(">Q", first) + kept)
        session.text(socket, type="connected", session_id=session.id, mode="pty" if terminal else "pipe")
        session.socket = socket
        if not session.running():
            session.start(terminal)
    try:
        while True:
            kind, data = socket.receive()
            if kind == 2:
                if data[:1] == b"\0" and len(data) > 1:
                    write_all(session, data[1:])
            else:
                obey(session, socket, data)
    except (Gone, OSError):
        pass
    finally:
        with session.lock:
            if session.socket is socket:
                session.socket = None


def write_all(session, data):
    while data:
        data = data[os.write(session.stdin, data):]


def obey(session, socket, data):
    try:
        asked = json.loads(data)
    except ValueError:
        return
    kind = asked.get("type")
    if kind == "stdin":
        write_all(session, asked.get("data", "").encode())
    elif kind == "resize":
        if session.with_terminal and asked.get("cols", 0) > 0 and asked.get("rows", 0) > 0:
            fcntl.ioctl(session.stdin, termios.TIOCSWINSZ, struct.pack("HHHH", asked["rows"], asked["cols"], 0, 0))
    elif kind == "signal":
        if asked.get("signal") in SIGNALS:
            session.kill(getattr(signal, asked["signal"]))
    elif kind == "ping":
        session.text(socket, type="pong")
    else:
        session.text(socket, type="error", error=f"unknown frame type {kind}", code="INVALID_FRAME")


def metrics_of():
    with open("/proc/stat", encoding="ascii") as f:
        numbers = [int(n) for n in f.readline().split()[1:8]]
    return sum(numbers), numbers[3] + numbers[4]


def metrics():
    before = metrics_of()
    time.sleep(1)
    after = metrics_of()
    spent = max(1, after[0] - before[0])
    memory = dict(line.split(":") for line in open("/proc/meminfo", encoding="ascii"))
    total, free = (int(memory[name].split()[0]) / 1024 for name in ("MemTotal", "MemAvailable"))
    return {"cpu_count": os.cpu_count(), "cpu_used_pct": max(0, 100 * (1 - (after[1] - before[1]) / spent)),
            "mem_total_mib": total, "mem_used_mib": total - free, "timestamp": int(time.time() * 1000)}
