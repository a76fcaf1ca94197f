"""A provider for engine_bench.py: one sandbox, one process that never ends, and whoever follows it gets a line when its input does."""
import json
import sys

followers = []


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def event(stream, name, **more):
    say({"method": f"process.{name}", "params": {"stream": stream, **more}})


def answer(call, result):
    say({"id": call["id"], "result": result})


for line in sys.stdin:
    call = json.loads(line)
    method, params = call["method"], call.get("params", {})
    if method == "initialize":
        answer(call, {"protocol": "epp/1", "features": ["process", "process.stdin", "process.replay"]})
    elif method in ("sandbox.create", "sandbox.info"):
        answer(call, {"id": "box", "state": "running"})
    elif method == "process.start":
        event(call["id"], "started", id="1", pid=1)
        answer(call, {"id": "1", "pid": 1})
    elif method == "process.attach":
        event(call["id"], "started", id="1", pid=1)
        followers.append(call["id"])
    elif method == "process.stdin":
        answer(call, {})
    elif method == "stream.write":
        answer(call, {})
        for stream in followers:
            event(stream, "output", channel="stdout", text="hello\n")
    elif method == "cancel":
        if params["stream"] in followers:
            followers.remove(params["stream"])
            say({"id": params["stream"], "error": {"code": -32000, "message": "cancelled", "data": {"code": "E5002"}}})
    elif "id" in call:
        answer(call, {})
