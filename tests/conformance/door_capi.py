"""The C library as a door of the conformance suite: a small program over include/abx/abx.h (tests/capi/door.c) makes the
calls; here its commands are written and its events read."""

import itertools
import json
import subprocess
import threading

import door_cli

PIECE = 65536


class Call(door_cli.Call):
    def __init__(self, door, number):
        super().__init__(door)
        self.number = number

    def feed(self, data, close):
        for at in range(0, len(data), PIECE):
            piece = data[at:at + PIECE]
            self.door.say(f"feed {self.number} {len(piece)}\n".encode() + piece)
        if close:
            self.door.say(f"close {self.number}\n".encode())

    def cancel(self):
        self.door.say(f"stop {self.number}\n".encode())

    def pause(self):
        self.door.say(f"hold {self.number}\n".encode())

    def resume(self):
        self.door.say(f"go {self.number}\n".encode())


class Door:
    """program: tests/capi/door of a build. context, connection: as of abx_context_new and abx_provider_open."""

    def __init__(self, program, environment, cwd, context, connection):
        self.numbers, self.calls, self.lock = itertools.count(), {}, threading.Lock()
        self.process = subprocess.Popen([program, json.dumps(context), json.dumps(connection)], env=environment, cwd=cwd,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def close(self):
        self.process.stdin.close()
        code = self.process.wait(timeout=60)
        self.reader.join()
        self.process.stdout.close()
        return code

    def say(self, data):
        with self.lock:
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def start(self, method, params, data, ends, deadline_ms, paused):
        call = Call(self, next(self.numbers))
        self.calls[call.number] = call
        text = json.dumps(params)
        self.say(f"start {call.number} {deadline_ms or 0} {int(paused)} {method} {text}\n".encode())
        if data is not None or method in ("process.stdin", "fs.write", "pty.write"):
            threading.Thread(target=call.feed, args=(data or b"", ends), daemon=True).start()
        return call

    def read(self):
        out = self.process.stdout
        for line in out:
            word, number, rest = line.decode().rstrip("\n").split(" ", 2)
            call = self.calls[int(number)]
            if word == "chunk":
                channel, size = rest.split()
                call.chunk(channel, out.read(int(size)))
            elif word == "event":
                name, text = rest.split(" ", 1)
                call.event({"type": name, **json.loads(text)})
            elif word == "end":
                call.end(json.loads(rest))
            else:
                call.end(error=json.loads(rest))
        for call in self.calls.values():
            if not call.ended:
                call.end(error={"code": None, "message": "the program of the door has ended"})
