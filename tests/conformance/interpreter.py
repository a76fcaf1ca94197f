"""The conformance suite's cases for any door: docs/providers/conformance.md is what this does. A door makes calls:

    door.start(method, params, input, ends, deadline_ms, paused) -> Call

Call: `events` (objects with type), `channels` (name → bytearray), `order`, `result` or `error` (objects) once `ended`; all
under `changed` (a Condition that is told of everything); feed(bytes, close), cancel(), pause(), resume(), and
keep=True on calls that are not to be cancelled at the end."""

import base64
import functools
import hashlib
import json
import re
import secrets
import string
import threading
import time
from datetime import datetime, timezone
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHANNELS = ("stdout", "stderr", "pty", "body")
EXPECTATIONS = ("length", "contains", "startsWith", "endsWith", "lacks", "sha256", "oneOf")
BLOCK = 65521
LIMIT_S, EVENTUALLY_S, AGAIN_S, LIFE_MS = 60, 30, 0.05, 900000


class Failed(Exception):
    """A step that is not as the case says."""


class NotApplicable(Failed):
    """The provider has not what the case is about: a parameter that it is free not to have."""


class Stopped(Exception):
    """Another branch has failed."""


def load():
    """suite.json, and the cases in its order."""
    suite = json.loads((HERE / "suite.json").read_text(encoding="utf-8"))
    files = [json.loads(path.read_text(encoding="utf-8")) for path in (HERE / "cases").glob("*.json")]
    by_group = {f["group"]: f["cases"] for f in files}
    return suite, [case for group in suite["groups"] for case in by_group.get(group["name"], [])]


# --- variables ---------------------------------------------------------------------------------------------


def as_text(value):
    return value if isinstance(value, str) else json.dumps(value)


def fill(value, variables):
    if isinstance(value, list):
        return [fill(item, variables) for item in value]
    if isinstance(value, dict):
        return {key: fill(item, variables) for key, item in value.items()}
    if not isinstance(value, str):
        return value

    def find(match):
        if match[1] not in variables:
            raise Failed(f"the variable '{match[1]}' is not set")
        return variables[match[1]]

    whole = re.fullmatch(r"\{\{(.*?)\}\}", value, re.S)
    if whole and "{{" not in whole[1]:
        return find(whole)
    return re.sub(r"\{\{(.*?)\}\}", lambda m: as_text(find(m)), value, flags=re.S)


# --- bytes -------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def block(seed):
    x, out = seed % 2**31, bytearray(BLOCK)
    for i in range(BLOCK):
        x = (x * 1103515245 + 12345) % 2**31
        out[i] = x >> 16 & 255
    return bytes(out)


def make(spec):
    if isinstance(spec, str):
        return spec.encode()
    if "text" in spec:
        return spec["text"].encode()
    if "base64" in spec:
        return base64.b64decode(spec["base64"], validate=True)
    if "hex" in spec:
        return bytes.fromhex(spec["hex"])
    if "repeat" in spec:
        return make(spec["repeat"]) * spec["times"]
    if "pattern" in spec:
        size = spec["pattern"]
        return (block(spec.get("seed", 0)) * (size // BLOCK + 1))[:size]
    return b"".join(make(part) for part in spec["join"])


def show(data):
    return f"{len(data)} bytes {bytes(data[:60])!r}"


def bytes_misfit(spec, have):
    """What is wrong with these bytes, or None."""
    have = bytes(have)
    asked = [name for name in EXPECTATIONS if isinstance(spec, dict) and name in spec]
    if not asked:
        want = make(spec)
        return None if want == have else f"wanted {show(want)}, got {show(have)}"
    for name in asked:
        arg = spec[name]
        if name == "length":
            why = value_misfit(arg, len(have), "length")
            if why:
                return why
            continue
        if name == "oneOf":
            fits = any(bytes_misfit(one, have) is None for one in arg)
        elif name == "sha256":
            fits = hashlib.sha256(have).hexdigest() == arg
        else:
            part = make(arg)
            fits = {"contains": part in have, "lacks": part not in have, "startsWith": have.startswith(part),
                    "endsWith": have.endswith(part)}[name]
        if not fits:
            return f"wanted {name} {arg!r:.80}, got {show(have)}"
    return None


# --- values ------------------------------------------------------------------------------------------------

NOTHING = object()
TYPES = {
    "string": lambda v: isinstance(v, str),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "boolean": lambda v: isinstance(v, bool),
    "array": lambda v: isinstance(v, list),
    "object": lambda v: isinstance(v, dict),
    "null": lambda v: v is None,
}


def time_fits(text, least, most):
    try:
        at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except (AttributeError, ValueError):
        return False
    return least <= (at - datetime.now(timezone.utc)).total_seconds() * 1000 <= most


def has(have, want):
    return any(value_misfit(want, item, "") is None for item in have)


def length_of(have):
    if isinstance(have, str):
        return len(have.encode())
    return len(have) if isinstance(have, (list, dict)) else NOTHING


RULES = {
    "$absent": lambda arg, have: (have is NOTHING) == arg,
    "$type": lambda arg, have: TYPES[arg](have),
    "$oneOf": lambda arg, have: any(value_misfit(one, have, "") is None for one in arg),
    "$not": lambda arg, have: value_misfit(arg, have, "") is not None,
    "$has": lambda arg, have: isinstance(have, list) and all(has(have, want) for want in arg),
    "$lacks": lambda arg, have: isinstance(have, list) and not any(has(have, want) for want in arg),
    "$min": lambda arg, have: TYPES["number"](have) and have >= arg,
    "$max": lambda arg, have: TYPES["number"](have) and have <= arg,
    "$length": lambda arg, have: value_misfit(arg, length_of(have), "") is None,
    "$prefix": lambda arg, have: isinstance(have, str) and have.startswith(arg),
    "$suffix": lambda arg, have: isinstance(have, str) and have.endswith(arg),
    "$contains": lambda arg, have: isinstance(have, str) and arg in have,
    "$fromNowMs": lambda arg, have: time_fits(have, *arg),
}


def misfit(path, want, have):
    got = "nothing" if have is NOTHING else json.dumps(have, ensure_ascii=False)
    return f"{path}: wanted {json.dumps(want, ensure_ascii=False):.300}, got {got:.300}"


def value_misfit(want, have, path):
    """What is wrong with this value, or None."""
    if isinstance(want, dict):
        plain = [key for key in want if not key.startswith("$")]
        if (plain or not want) and not isinstance(have, dict):
            return misfit(path, want, have)
        for key, arg in want.items():
            if key.startswith("$"):
                if not RULES[key](arg, have):
                    return misfit(path, want, have)
                continue
            why = value_misfit(arg, have.get(key, NOTHING), f"{path}.{key}")
            if why:
                return why
        return None
    if isinstance(want, list):
        if not isinstance(have, list) or len(want) != len(have):
            return misfit(path, want, have)
        return next(filter(None, (value_misfit(w, h, f"{path}.{i}") for i, (w, h) in enumerate(zip(want, have)))), None)
    same_kind = isinstance(want, bool) == isinstance(have, bool)
    return None if same_kind and want == have else misfit(path, want, have)


def value_at(root, path):
    for part in path.split("."):
        if isinstance(root, list) and part.isdigit() and int(part) < len(root):
            root = root[int(part)]
        elif isinstance(root, dict) and part in root:
            root = root[part]
        else:
            raise Failed(f"there is no '{path}' to save")
    return root


# --- a call against what is expected -----------------------------------------------------------------------


def events_misfit(wants, events):
    at = 0
    for want in wants:
        while at < len(events) and value_misfit(want, events[at], ""):
            at += 1
        if at == len(events):
            return f"events: no {want} where it should be in {events!r:.500}"
        at += 1
    return None


def end_misfit(call, expect):
    if call.error is not None and "error" not in expect:
        return f"failed: {call.error}"
    have = {"result": call.result, "error": call.error, "events": call.events}
    for name, value in have.items():
        if name in expect:
            why = value_misfit(expect[name], NOTHING if value is None else value, name)
            if why:
                return why
    for name in CHANNELS:
        why = bytes_misfit(expect[name], call.channels.get(name, b"")) if name in expect else None
        if why:
            return f"{name}: {why}"
    if "eventsHave" in expect:
        return events_misfit(expect["eventsHave"], call.events)
    if "order" in expect and expect["order"] != call.order:
        return f"order: wanted {expect['order']}, got {call.order}"
    return None


def await_misfit(call, step):
    """(what is missing or None, the event)"""
    for name in CHANNELS:
        why = bytes_misfit(step[name], call.channels.get(name, b"")) if name in step else None
        if why:
            return f"{name}: {why}", None
    if "event" not in step:
        return None, None
    for event in call.events:
        if value_misfit(step["event"], event, "") is None:
            return None, event
    return f"no event like {step['event']}", None


def seen(call, event=None):
    all_of_it = {"events": call.events, "event": event, "result": call.result, "error": call.error}
    texts = {name: bytes(call.channels.get(name, b"")).decode(errors="replace") for name in CHANNELS}
    return {name: value for name, value in {**all_of_it, **texts}.items() if value is not None}


# --- a case ------------------------------------------------------------------------------------------------


class Trial:
    def __init__(self, door, suite, case, shared):
        """shared: gives the id of a sandbox that cases share."""
        self.door, self.case = door, case
        self.without, self.optional = set(suite["withoutSandbox"]), suite["optional"]
        self.calls, self.named, self.made = [], {}, []
        self.sandbox = None
        self.shared = shared
        self.end = time.monotonic() + case.get("limitMs", LIMIT_S * 1000) / 1000
        self.stop = threading.Event()
        unique = secrets.choice(string.ascii_lowercase) + "".join(
            secrets.choice(string.ascii_lowercase + string.digits) for _ in range(9))
        self.variables = {"unique": unique}

    def run(self):
        """Raises Failed; NotApplicable when the provider refused a parameter that it need not have."""
        try:
            self.take_sandbox()
            self.find_home()
            self.run_steps(self.case["steps"], self.variables)
        finally:
            self.clean_up()

    def take_sandbox(self):
        own = self.case.get("sandbox")
        if own == "none":
            return
        if own is None:
            self.sandbox = self.shared()
        else:
            call = self.call("sandbox.create", {"timeoutMs": LIFE_MS, **fill(own, self.variables)}, None)
            self.wait(call, lambda: call.ended)
            if call.error:
                self.look_for_refusal(call)
                raise Failed(f"no sandbox could be made: {call.error}")
            self.sandbox = call.result["id"]
        self.variables["sandbox"] = self.sandbox

    def find_home(self):
        """Where the case's files go: below the home of the sandbox's user, which is asked of the sandbox, once."""
        text = json.dumps(self.case)
        if not self.sandbox or "{{home}}" not in text and "{{dir}}" not in text:
            return
        known = self.door.__dict__.setdefault("homes", {})
        if self.sandbox not in known:
            call = self.call("fs.stat", {"path": "."}, None)
            self.wait(call, lambda: call.ended)
            if call.error:
                call = self.call("process.start", {"cmd": ["sh", "-c", 'cd && printf %s "$PWD"']}, None)
                self.wait(call, lambda: call.ended)
            path = (call.result or {}).get("path") or bytes(call.channels.get("stdout", b"")).decode()
            if not path.startswith("/"):
                raise Failed(f"no absolute path of the home could be learned: {call.error or path}")
            known[self.sandbox] = path
        home = self.variables["home"] = known[self.sandbox]
        self.variables["dir"] = f"{home.rstrip('/')}/{self.case['name']}-{self.variables['unique']}"

    def look_for_refusal(self, call):
        refused = [name for name in self.optional.get(call.method, []) if name in call.params]
        if call.ended and (call.error or {}).get("code") == "E8004" and refused:
            raise NotApplicable(f"the provider has no '{refused[0]}' in {call.method}")

    def clean_up(self):
        for call in self.calls:
            if not call.ended:
                call.cancel()
        if "cleanup" in self.case:
            try:
                self.stop.clear()
                self.end = time.monotonic() + 30
                self.run_steps(self.case["cleanup"], self.variables)
            except (Failed, Stopped):
                pass
        for call in self.calls:
            if call.result and call.method in ("sandbox.create", "sandbox.fork"):
                self.door.start("sandbox.kill", {"sandboxId": call.result["id"]}, None, True, 30000, False)

    # --- calls

    def call(self, method, params, data, ends=True, deadline_ms=None, paused=False):
        params = dict(params)
        if method not in self.without and self.sandbox and "sandboxId" not in params:
            params["sandboxId"] = self.sandbox
        call = self.door.start(method, params, data, ends, deadline_ms, paused)
        call.method, call.params = method, params
        self.calls.append(call)
        return call

    def wait(self, call, is_done):
        with call.changed:
            while not is_done():
                if self.stop.is_set():
                    raise Stopped
                if time.monotonic() > self.end:
                    raise Failed("not done in time")
                call.changed.wait(0.1)

    def save(self, step, variables, values):
        for name, path in step.get("save", {}).items():
            variables[name] = value_at(values, path)

    # --- steps

    def run_steps(self, steps, variables):
        for number, step in enumerate(steps, 1):
            kind = next(key for key in step if key != "note")
            nested = ("steps", "parallel") if isinstance(step.get("parallel"), list) else ("steps",)
            try:
                filled = fill({k: v for k, v in step.items() if k not in nested}, variables)
                getattr(self, "do_" + kind)({**step, **filled}, variables)
            except NotApplicable:
                raise
            except Failed as e:
                for call in list(self.calls):
                    self.look_for_refusal(call)
                raise Failed(f"step {number} ({kind} {step[kind]!s:.40}): {e}") from None

    def do_call(self, step, variables):
        until = time.monotonic() + EVENTUALLY_S
        data = make(step["input"]) if "input" in step else None
        while True:
            call = self.call(step["call"], step.get("params", {}), data, True, step.get("deadlineMs"))
            self.wait(call, lambda: call.ended)
            why = end_misfit(call, step.get("expect", {}))
            if not why:
                break
            self.look_for_refusal(call)
            if not step.get("eventually") or time.monotonic() > until or self.stop.is_set():
                raise Failed(why)
            time.sleep(AGAIN_S)
        self.save(step, variables, seen(call))

    def do_start(self, step, variables):
        data = make(step["input"]) if "input" in step else None
        call = self.call(step["start"], step.get("params", {}), data, False, step.get("deadlineMs"),
                         step.get("paused", False))
        self.named[step["as"]] = call

    def find(self, step, kind):
        if step[kind] not in self.named:
            raise Failed(f"no call is named '{step[kind]}'")
        return self.named[step[kind]]

    def do_await(self, step, variables):
        call = self.find(step, "await")
        self.wait(call, lambda: await_misfit(call, step)[0] is None or call.ended)
        why, event = await_misfit(call, step)
        if why:
            raise Failed(f"the call ended before: {why}: {call.error}")
        self.save(step, variables, seen(call, event))

    def do_end(self, step, variables):
        call = self.find(step, "end")
        self.wait(call, lambda: call.ended)
        why = end_misfit(call, step.get("expect", {}))
        if why:
            raise Failed(why)
        del self.named[step["end"]]
        self.save(step, variables, seen(call))

    def do_feed(self, step, variables):
        self.find(step, "feed").feed(make(step.get("input", "")), step.get("close", False))

    def do_cancel(self, step, variables):
        self.find(step, "cancel").cancel()

    def do_pause(self, step, variables):
        self.find(step, "pause").pause()

    def do_resume(self, step, variables):
        self.find(step, "resume").resume()

    def do_sleepMs(self, step, variables):
        time.sleep(step["sleepMs"] / 1000)

    def do_check(self, step, variables):
        why = value_misfit(step["is"], step["check"], "check")
        if why:
            raise Failed(why)

    def do_repeat(self, step, variables):
        for i in range(step["repeat"]):
            variables["i"] = i
            self.run_steps(step["steps"], variables)

    def do_parallel(self, step, variables):
        branches = step["parallel"]
        if not isinstance(branches, list):
            branches = [step["steps"]] * branches
        failures = []

        def branch(i, steps):
            try:
                self.run_steps(steps, {**variables, "i": i})
            except Stopped:
                pass
            except BaseException as e:  # a bug of the door fails the case too
                failures.append(Failed(f"branch {i + 1}: {e!r}"))
                self.stop.set()

        threads = [threading.Thread(target=branch, args=pair) for pair in enumerate(branches)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        if self.stop.is_set():
            raise Stopped
