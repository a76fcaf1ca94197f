"""The SDKs of E2B as a door of the conformance suite, over the E2B door of this project: each call is what a program that
uses an SDK would write. A bridge (tests/sdk/bridge.py, bridge.mjs) makes the calls; here is what they are.

What has no counterpart is found by rules (CALLS: operations and parameters that the SDKs have) or named in NONE; such cases
are not run and not counted. DIFFERS are run and must fail as they say: E2B's own semantics (docs/e2b.md).

    python3 tests/conformance/door_e2b.py

prints both. What the SDKs say otherwise than the operations:
- Commands are lines of a shell: a list of arguments is quoted. A process ends as -1 with the signal in words.
- A command that is given up is killed, or let go of when it was started so. Terminals are killed, watches stopped.
- pty.create starts a shell: a command is typed there, behind a mark that ends what the shell showed before.
- Sizes of written files are asked for afterwards. Times are whole seconds."""

import base64
import collections
import json
import math
import re
import secrets
import shlex
import subprocess
import threading

import door_cli
import interpreter

CALLS = {
    "sandbox.create": "timeoutMs metadata env template snapshot onTimeout idempotencyKey",
    "sandbox.info": "", "sandbox.list": "metadata", "sandbox.kill": "", "sandbox.set_timeout": "timeoutMs",
    "sandbox.connect": "timeoutMs", "sandbox.pause": "", "sandbox.fork": "timeoutMs", "sandbox.snapshot_create": "name",
    "sandbox.snapshot_list": "", "sandbox.snapshot_remove": "snapshotId", "sandbox.metrics": "",
    "process.start": "cmd shell cwd env user timeoutMs background stdin input onDisconnect",
    "process.attach": "processId fromOffset", "process.list": "", "process.signal": "processId signal",
    "process.stdin": "processId close", "process.close_stdin": "processId",
    "fs.read": "path user", "fs.write": "path user size", "fs.stat": "path user", "fs.list": "path depth user",
    "fs.make_dir": "path user", "fs.rename": "from to user", "fs.remove": "path user", "fs.watch": "path recursive user",
    "pty.open": "cmd cols rows term cwd env user", "pty.write": "ptyId", "pty.resize": "ptyId cols rows", "pty.close": "ptyId",
    "code.run": "code language contextId timeoutMs env", "code.context_create": "language cwd", "code.context_list": "",
    "code.context_restart": "contextId", "code.context_remove": "contextId",
}

TEXT = "the SDKs decode output as UTF-8: other bytes cannot be seen"
KEPT = "no output is kept for those who connect later"
SHELL = "a line of a shell that names no program ends with exit code 127 or 126"
ARGUMENTS = "parameters there are arguments of functions"
NONE = {
    "output.8mib": TEXT, "output.all-bytes": TEXT, "output.broken-utf8": TEXT, "stdin.given-bytes": TEXT, "stdin.big": TEXT,
    "faults.slow-reader": TEXT,
    "process.background": KEPT, "process.background-stdin": KEPT, "process.attach-live": KEPT,
    "process.not-found": SHELL, "process.not-executable": SHELL, "process.no-shell": SHELL, "pty.not-found": SHELL,
    "errors.stop-not-the-sandbox": SHELL,
    "errors.parameter-type": ARGUMENTS,
    "lifecycle.info": "provider and features are not told",
    "lifecycle.no-limit": "a life without end cannot be asked for",
    "pty.defaults": "a size must be given",
    "files.size-lies": "the SDKs announce the size of what they send",
    "files.write-cancelled": "the SDKs send a content that they have whole",
}
NONE_OF = {
    "python": {},
    "js": dict.fromkeys(["lifecycle.idempotency", "concurrency.same-key"], "the JavaScript SDK takes no key of its own for a creation"),
}
DIFFERS = {
    "states.pause-keeps-streams": ("E3001", "a pause resets the streams that are open"),
    "states.no-time-in-pause": ("expiresAt", "an end is told of each sandbox, also of a paused one"),
    "process.user-unknown": ("E2001", "an unknown user is an AuthenticationException"),
    "signals.time-limit": ("result.signal", "a time limit is a TimeoutException, which names no signal"),
}

CODES = {
    "SandboxNotFound": "E3001", "SandboxNotRunning": "E3001", "FileNotFound": "E3002", "InvalidArgument": "E1001",
    "Authentication": "E2001", "NotEnoughSpace": "E4004", "Timeout": "E5001", "GivenUp": "E5002",
}
MISSING = {"process": "E3003", "pty": "E3003", "fs": "E3002", "code": "E3003", "sandbox": "E3006"}
TYPES = {"E3001": "SandboxNotFoundError", "E3002": "FileNotFoundError", "E3003": "ProcessNotFoundError",
         "E3006": "SnapshotNotFoundError", "E5001": "TimeoutError", "E5002": "CancelledError", "E1001": "UsageError"}
SIGNALS = {"terminated": "SIGTERM", "killed": "SIGKILL", "interrupt": "SIGINT", "hangup": "SIGHUP",
           "segmentation fault": "SIGSEGV", "user defined signal 1": "SIGUSR1"}


# --- which cases -------------------------------------------------------------------------------------------


def steps_of(steps):
    for step in steps:
        yield step
        inner = step.get("parallel")
        for more in inner if isinstance(inner, list) else [step.get("steps", [])]:
            yield from steps_of(more)


def no_call(method, params):
    """Why the SDKs have no such call, or None."""
    if method not in CALLS:
        return f"the SDKs have no {method}"
    for name in params:
        if name not in CALLS[method].split() and name != "sandboxId":
            return f"the SDKs have no '{name}' of {method}"
    if method == "process.signal" and params["signal"] not in ("KILL", "SIGKILL", "9"):
        return "KILL is the only signal that the SDKs send"
    return None


def no_counterpart(case):
    """Why a case cannot be said with the SDKs, or None."""
    if case["name"] in NONE:
        return NONE[case["name"]]
    calls = [("sandbox.create", case["sandbox"])] if isinstance(case.get("sandbox"), dict) else []
    for step in steps_of(case["steps"]):
        method = step.get("call") or step.get("start")
        if method:
            calls.append((method, step.get("params", {})))
            if method == "process.list" and '"exited"' in json.dumps(step.get("expect", {})):
                return "processes that have ended are not listed"
    return next(filter(None, (no_call(*call) for call in calls)), None)


def load(sdk):
    """suite, cases with a counterpart in an SDK ("python", "js"), the others' names with the reason."""
    suite, cases = interpreter.load()
    why = {case["name"]: NONE_OF[sdk].get(case["name"]) or no_counterpart(case) for case in cases}
    return suite, [case for case in cases if not why[case["name"]]], {name: text for name, text in why.items() if text}


# --- calls -------------------------------------------------------------------------------------------------


def seconds(ms):
    return math.ceil(ms / 1000)


def number(name):
    return int(re.sub(r"\D", "", name) or 0)


class Call(door_cli.Call):
    def __init__(self, door, method, params):
        super().__init__(door)
        self.method, self.params = method, params
        self.mark = None  # of a terminal: what stands before the output of its command
        self.before = bytearray()

    def say(self, **what):
        self.door.send({"id": self.number, **what})

    def feed(self, data, close):
        raise interpreter.Failed("the SDKs send input whole")

    def cancel(self):
        self.say(do="cancel")

    def pause(self):
        self.say(do="pause")

    def resume(self):
        self.say(do="resume")

    # --- what comes

    def line(self, line):
        if "event" in line:
            self.told(line["event"])
        elif "channel" in line:
            self.piece(line["channel"], base64.b64decode(line["data"]))
        else:
            self.over(line.get("result"), line.get("error"))

    def told(self, event):
        event = {name: value for name, value in event.items() if value is not None}
        if "id" in event:
            event = {**event, "id": str(event["id"]), "pid": event["id"]}
            self.started = event
            if self.mark:
                self.typed(event["id"])
                return
        self.event(event)

    def typed(self, pid):
        half = len(self.mark) // 2
        line = f" printf %s%s {self.mark[:half]} {self.mark[half:]}; exec {shlex.join(self.params['cmd'])}\n"
        self.door.start("pty.write", {"sandboxId": self.params["sandboxId"], "ptyId": str(pid)}, line.encode(), True, None, False)

    def piece(self, channel, data):
        if self.mark:
            self.before += data
            _, mark, data = bytes(self.before).partition(self.mark.encode())
            if not mark:
                return
            self.mark = None
            self.event(self.started)
        if data:
            self.chunk(channel, data)

    def over(self, result, error):
        if error:
            timed_out = error["class"].startswith("Timeout") and "timeoutMs" in self.params
            if timed_out:
                self.exit({"timedOut": True})
            else:
                self.end(error=error_of(self.method, self.params, error))
        elif self.method in ("process.start", "process.attach", "pty.open") and "exitCode" in result:
            self.exit(exit_of(result))
        elif result.get("done") is False:
            self.end(error=coded("E3001" if self.method == "sandbox.kill" else MISSING[self.method.split(".")[0]], "there is none"))
        else:
            self.end(as_operation(self.method, result))

    def exit(self, how):
        self.event({"type": "exit", **how})
        self.end({**how, **{name: value for name, value in getattr(self, "started", {}).items() if name != "type"}})


def exit_of(result):
    how = re.match(r"signal: ([\w ]+)", result.get("error") or "")
    return {"signal": SIGNALS[how[1].strip()]} if how else {"exitCode": result["exitCode"]}


def coded(code, message):
    return {"code": code, "type": TYPES.get(code), "message": message, "retryable": code == "E5001"}


def error_of(method, params, error):
    name = re.sub(r"(Exception|Error)$", "", error["class"])
    part, text = method.split(".")[0], error["message"]
    told = re.search(r"\((E\d{4})\)|\b(E\d{4}): ", text)
    if told:
        code = told[1] or told[2]
    elif "was killed or reached its end of life" in text:
        code = "E3001"
    elif name == "NotFound":
        code = MISSING[part]
    elif method == "sandbox.create" and text.startswith("404: template"):
        code = "E3006" if "snapshot" in params else "E3005"
    elif method == "process.start" and name == "InvalidArgument" and "cwd" in params:
        code = "E6006"
    elif part == "fs" and (name == "Sandbox" or "already exists" in text):
        code = "E6005"
    elif text.startswith("400"):
        code = "E1001"
    else:
        code = CODES.get(name)
    return {**coded(code, text), "class": error["class"]}


def as_operation(method, result):
    if method == "process.start":
        return {"id": str(result["id"]), "pid": result["id"]}
    if method == "process.list":
        return {"processes": [process(one) for one in result["processes"]]}
    if method in ("fs.stat", "fs.rename"):
        return entry(result)
    if method == "fs.list":
        return {"files": [entry(one) for one in result["files"]]}
    if method == "sandbox.snapshot_create":
        return snapshot(result)
    if method == "sandbox.snapshot_list":
        return {"snapshots": [snapshot(one) for one in result["snapshots"]]}
    return result


def process(one):
    line = one["args"][-1] if one["args"] else one["cmd"]
    return {"id": str(one["id"]), "cmd": shlex.split(line), "cwd": one.get("cwd"), "state": "running"}


def entry(one):
    one = {name: value for name, value in one.items() if value is not None}
    return {**one, "type": "symlink"} if "target" in one else one


def snapshot(one):
    names = [re.sub(r"^.*/|:[^:]*$", "", name) for name in one["names"]]
    return {"id": one["id"], **({"name": names[0]} if names else {})}


def as_call(method, p):
    """The parameters of an operation as those of the SDK's call."""
    out = {name: p[name] for name in ("sandboxId", "metadata", "onTimeout", "cwd", "user", "path", "depth", "from", "to", "recursive",
                                      "name", "snapshotId", "code", "language", "contextId", "rows", "cols", "template") if name in p}
    if "snapshot" in p:
        out["template"] = p["snapshot"]
    if "env" in p:
        out["envs"] = p["env"]
    if "idempotencyKey" in p:
        out["idempotency_key"] = p["idempotencyKey"]
    if "timeoutMs" in p:
        out["timeout"] = seconds(p["timeoutMs"]) if method.startswith("sandbox.") else p["timeoutMs"] / 1000
    if "processId" in p or "ptyId" in p:
        out["pid"] = number(p.get("processId") or p["ptyId"])
    if method == "process.start":
        out["cmd"] = p["cmd"] if p.get("shell") else shlex.join(p["cmd"])
        out["background"], out["detach"] = p.get("background", False), p.get("onDisconnect") == "detach"
        out["stdin"] = "input" in p or p.get("stdin") == "stream"
    if method == "pty.open":
        out = {"rows": 24, "cols": 80, **out}
        if "term" in p:
            out["envs"] = {**out.get("envs", {}), "TERM": p["term"]}
    return out


class Door:
    """A bridge, its lines, and the calls that run."""

    def __init__(self, words, environment, cwd):
        self.lock = threading.Lock()
        self.calls, self.last = {}, 0
        self.bridge = subprocess.Popen(words, env=environment, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for text in self.bridge.stdout:
            line = json.loads(text)
            call = self.calls[line["id"]]
            try:
                call.line(line)
            except Exception as e:  # a bug of this door fails the case, and no other
                call.end(error=coded(None, f"{line}: {e!r}"))
            if call.ended:
                del self.calls[line["id"]]
        for call in list(self.calls.values()):
            call.end(error=coded(None, "the bridge has ended"))

    def send(self, line):
        with self.lock:
            self.bridge.stdin.write(json.dumps(line).encode() + b"\n")
            self.bridge.stdin.flush()

    def start(self, method, params, data, ends, deadline_ms, paused):
        call = Call(self, method, params)
        with self.lock:
            self.last += 1
            call.number = self.last
            self.calls[call.number] = call
        given = as_call(method, params)
        if deadline_ms and method == "process.start":
            given["timeout"] = deadline_ms / 1000
        if method == "pty.open" and "cmd" in params:
            call.mark = secrets.token_hex(8)
        if method == "process.start" and "input" in params:
            data = interpreter.make(params["input"])
        if method in ("process.stdin", "process.close_stdin"):
            given["close"] = params.get("close", data is None)
            call.say(call="process.stdin", params=given, paused=False, **as_input(data))
        else:
            call.say(call=method, params=given, paused=paused, **as_input(data))
        return call

    def close(self):
        self.bridge.stdin.close()
        self.bridge.wait(30)
        self.reader.join(30)


def as_input(data):
    return {} if data is None else {"input": base64.b64encode(data).decode()}


def main():
    for sdk in NONE_OF:
        _, cases, none = load(sdk)
        print(f"{sdk}: {len(cases)} cases have a counterpart, {len(none)} have none:")
        by_reason = collections.defaultdict(list)
        for name, why in none.items():
            by_reason[why].append(name)
        for why, names in by_reason.items():
            print(f"  {why}: {', '.join(names)}")
    print(f"{len(DIFFERS)} differ:")
    for name, (how, why) in DIFFERS.items():
        print(f"  {name}: {why} ({how})")


if __name__ == "__main__":
    main()
