"""Code contexts of execd. Kernels are children that take a line of JSON for each run; which languages have one, the image
says (here: the variable EXECD_KERNELS)."""

import json
import os
import signal
import subprocess
import threading
import time
import uuid

from commands import Stream, expand, run
from files import json_of
from web import Failed

LANGUAGES = ("python", "java", "javascript", "typescript", "go", "bash")
contexts = {}
shared = {}
making = threading.Lock()


def kernels():
    return [name for name in os.environ.get("EXECD_KERNELS", "").split(",") if name]


class Context:
    def __init__(self, language, cwd=None):
        self.id, self.language, self.cwd, self.busy, self.failed, self.stopped = str(uuid.uuid4()), language, cwd, threading.Lock(), 0, False
        kernel = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernel.py")
        self.process = subprocess.Popen(["python3", "-u", kernel, language], cwd=cwd or os.getcwd(), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, start_new_session=True)
        contexts[self.id] = self

    def interrupt(self):
        if self.busy.locked():
            self.stopped = True
            os.killpg(self.process.pid, signal.SIGINT)

    def end(self):
        contexts.pop(self.id, None)
        if shared.get(self.language) is self:
            del shared[self.language]
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except OSError:
            pass
        self.process.wait()

    def said(self):
        return {"id": self.id, "language": self.language, **({"cwd": self.cwd} if self.cwd else {})}


def wait_for_ever():
    """What a context does that no kernel comes for: not a byte is sent."""
    while True:
        time.sleep(60)


def make(handler):
    asked = json_of(handler, {"language": str, "cwd": str}, empty=True)
    if asked.get("language") not in kernels() or "noKernel" in handler.server.faults:
        wait_for_ever()
    cwd = expand(asked["cwd"]) if asked.get("cwd") else None
    if cwd:
        os.makedirs(cwd, exist_ok=True)
    handler.answer(200, Context(asked["language"], cwd).said())


def all_of(handler):
    wanted = handler.ask("language")
    handler.answer(200, [c.said() for c in list(contexts.values()) if not wanted or c.language == wanted])


def find(id):
    if id not in contexts:
        raise Failed(404, "CONTEXT_NOT_FOUND", f"context {id} not found")
    return contexts[id]


def get(handler, id):
    handler.answer(200, find(id).said())


def remove(handler, id):
    find(id).end()


def remove_all(handler):
    if not handler.ask("language"):
        raise Failed(400, "MISSING_QUERY", "missing query parameter 'language'")
    for one in [c for c in contexts.values() if c.language == handler.ask("language")]:
        one.end()


def context_for(asked, handler):
    language, id = asked.get("language"), asked.get("id")
    if language not in LANGUAGES:
        raise Failed(500, "RUNTIME_ERROR", f"error running codes unknown language: {language}")
    if not kernels():
        raise Failed(500, "RUNTIME_ERROR", "error running codes language runtime server not configured, please check your image runtime")
    if id:
        if id not in contexts:
            raise Failed(500, "RUNTIME_ERROR", "error running codes context not found")
        return contexts[id]
    if language not in kernels():
        wait_for_ever()
    with making:
        if language not in shared:
            shared[language] = Context(language)
    return shared[language]


def execute(handler):
    asked = json_of(handler, {"code": str, "context": dict})
    if not asked.get("code"):
        raise Failed(400, "INVALID_REQUEST_BODY", "invalid request, validation error Key: 'RunCodeRequest.Code'")
    context = asked.get("context") or {}
    if not context.get("language") or context["language"] in ("command", "background-command"):
        return run(handler, 0, {"command": asked["code"], "background": context.get("language") == "background-command"})
    one = context_for(context, handler)
    stream = Stream(handler, handler.server.faults)
    stream.send("init", text=one.id)
    if not one.busy.acquire(blocking=False):
        stream.bare("error running codes session is busy")
        return stream.finish()
    finished = False
    try:
        finished = run_in(stream, one, asked["code"])
    finally:
        one.busy.release() if finished else None
    stream.finish()


def run_in(stream, one, code):
    """Tells what the kernel says. True unless the kernel died: then pings go on for ever."""
    early = "earlyComplete" in stream.faults
    if "abortsAfterError" in stream.faults and time.time() - one.failed < 0.1:  # a kernel throws away what comes right behind an error
        stream.complete()
        wait_for_ever()
    one.stopped = False
    one.process.stdin.write(json.dumps({"code": code}).encode() + b"\n")
    one.process.stdin.flush()
    if early:
        stream.complete()
    for line in one.process.stdout:
        event = json.loads(line)
        lost = one.stopped and "lostEnd" in stream.faults
        if event["type"] == "error":
            one.failed = time.time()
        if event["type"] == "done":
            if lost:
                return True
            if not early and "noTerminal" not in stream.faults:
                stream.complete()
            return True
        if not lost:
            stream.send(event.pop("type"), **event)
    stream.complete()
    wait_for_ever()
