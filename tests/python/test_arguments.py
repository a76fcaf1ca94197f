"""Arguments of a wrong type: every public method and function, every parameter, both faces, against a provider that takes everything."""

import asyncio
import inspect

import agent_sandbox
import pytest
from agent_sandbox import Chunk, CommandFailedError, Connection, Event, Provider, Sandbox, SandboxError, register_provider
from agent_sandbox._ops import FEATURES, OPS
from agent_sandbox._sync.transport import Call
from agent_sandbox.providers import engine_client, registry, store


def answer(method):
    """A method of the provider below."""
    style = OPS[method].style

    def unary(self, params, *pieces):
        return {"id": "one", "url": "http://x"}

    def stream(self, params, *pieces):
        yield Event("started", {"id": "1", "pid": 2})
        yield Chunk("body", b"x")
        return {}

    return unary if style in ("UNARY", "BODY_IN") else stream


Anything = type("Anything", (Provider,), {"id": "anything", "features": tuple(FEATURES),
                                          **{method.replace(".", "_"): answer(method) for method in OPS}})


class Strange:
    """Nothing that any parameter asks for."""


def nested():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    return deep


WRONG = [None, 5, -5, 5.5, float("nan"), True, "x", "", "\0", "\ud800", b"x", [1], ["x"], {"a": 1}, {1: "a"}, {"a": "b"}, (), object, Strange(), nested()]
# Not called: what is made by others, and what ends or installs something of this machine.
LEFT = {"Providers.install", "Providers.remove", "Providers.gc", "Upkeep.gc", "Upkeep.doctor", "EngineClient.ask", "EngineClient.find", "EngineClient.health",
        "EngineClient.shutdown", "EngineClient.providers", "EngineClient.features", "EngineClient.headers", "EngineClient.forget"}
RIGHT = {"cmd": ["ls"], "path": "/x", "source": "/x", "target": "/y", "data": b"x", "files": {}, "id": "1", "name": "TERM", "port": 80, "code": "1",
         "context": "python", "timeout": 5, "network": "none", "snapshot": "s", "template": "t", "cols": 1, "rows": 1, "size": 1, "provider": "anything",
         "function": print, "home": "/nowhere", "start": False, "seconds": 5, "folder": "/nowhere", "sandbox": "one"}


def objects(asynchronous, do):
    """What has public methods, made."""
    pre = "Async" if asynchronous else ""
    get = lambda name: getattr(agent_sandbox, pre + name)
    box = do(get("Sandbox").create(provider="anything"))
    made = {"Sandbox": lambda: box, "Commands": lambda: box.commands, "Files": lambda: box.files, "Pty": lambda: box.pty, "Code": lambda: box.code,
            "Command": lambda: do(box.commands.start(["ls"])), "Terminal": lambda: do(box.pty.open(["ls"])),
            "FileReader": lambda: do(box.files.read("/x", "stream")), "Tunnel": lambda: do(box.connect_port(80)),
            "Templates": lambda: get("Templates")("anything"), "Upkeep": lambda: get("Upkeep")("anything")}
    if not asynchronous:
        made.update(Providers=agent_sandbox.Providers, Connection=Connection, EngineClient=lambda: engine_client.EngineClient(start=False),
                    deadline=lambda: agent_sandbox.deadline(5))
    return made


def parameters(function):
    return [one for one in inspect.signature(function).parameters.values() if one.name not in ("self", "cls")]


def calls(asynchronous, do):
    """(name, how it is made to be called, parameters) of all that is public."""
    for name, make in objects(asynchronous, do).items():
        cls = type(make())
        for method, value in inspect.getmembers(cls):
            label = f"{name}.{method}"
            if (method.startswith("_") and method != "__init__") or not callable(value) or label in LEFT:
                continue
            if method == "__init__":
                if name in ("Templates", "Upkeep", "Providers", "Connection", "EngineClient", "deadline"):
                    yield name, lambda cls=cls: cls, parameters(value)
            elif parameters(value):
                yield label, lambda make=make, method=method: getattr(make(), method), parameters(value)
    if not asynchronous:
        for function in (registry.load_installed, registry.get_provider, agent_sandbox.register_provider, agent_sandbox.unregister_provider,
                         store.read_receipt, store.verify_integrity, store.tree_sha256):
            yield function.__name__, lambda function=function: function, parameters(function)


def result(do, function, given):
    """What a call raised, or None; what it made is closed."""
    positional = [given.pop(name) for name in list(given) if name.startswith("*")]
    try:
        made = function(*positional, **given)
        made = do(made) if inspect.isawaitable(made) else made
    except Exception as error:
        return error
    if hasattr(made, "aclose") and not isinstance(made, Sandbox):
        do(made.aclose())
    elif hasattr(made, "close") and not isinstance(made, (Sandbox, type)):
        made.close()
    return None


def ask(do, label, get, wanted, name, value):
    given = {one.name: RIGHT[one.name] for one in wanted if one.default is inspect.Parameter.empty and one.kind is not one.VAR_KEYWORD}
    if any(one.name == "provider" for one in wanted) and "." in label and name != "connection":
        given["provider"] = "anything"
    if label == "register_provider":
        given["provider"] = Anything
    given[name] = value
    return result(do, get(), given)


@pytest.mark.parametrize("name", ["sync", "async"])
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_nothing_of_the_inside_is_ever_told(name):
    register_provider(Anything)
    loop = asyncio.new_event_loop()
    do = loop.run_until_complete if name == "async" else lambda value: value
    seen, bad = 0, []
    try:
        for label, get, wanted in calls(name == "async", do):
            for one in wanted:
                if one.kind is one.VAR_KEYWORD:
                    continue
                seen += 1
                anything = one.annotation in ("Any", "Content") or one.name in ("data", "files", "cmd")
                for value in WRONG:
                    error = ask(do, label, get, wanted, one.name, value)
                    if error is not None and not isinstance(error, (TypeError, ValueError, OSError, SandboxError, CommandFailedError)):
                        bad.append((label, one.name, type(value).__name__, repr(error)[:200]))
                    if isinstance(value, Strange) and (not isinstance(error, TypeError) or not (anything or f"'{one.name}' of " in str(error))):
                        bad.append((label, one.name, "Strange", repr(error)[:200]))
                    if "NoneType" in str(error) or "object has no attribute" in str(error):
                        bad.append((label, one.name, type(value).__name__, repr(error)[:200]))
    finally:
        agent_sandbox.unregister_provider("anything")
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
    assert bad == [] and seen > 120, "\n".join(map(str, bad))


def test_what_is_said():
    def told(function, *given, **named):
        with pytest.raises(TypeError) as error:
            function(*given, **named)
        return str(error.value)

    assert told(Sandbox.create, provider=5) == "'provider' of Sandbox.create is a str or None, not int"
    assert told(Sandbox.create, timeout="x") == "'timeout' of Sandbox.create is a number or None, not str"
    assert told(Sandbox.create, metadata=[1]) == "'metadata' of Sandbox.create is a mapping of a str to a str or None, not list"
    assert told(Sandbox.create, env={"A": 1}).endswith("and the value of 'A' is int")
    assert told(Sandbox.create, reuse="yes") == "'reuse' of Sandbox.create is True or False, not str"
    assert told(Sandbox.create, allow_weaker="pids").endswith("not str")
    assert told(Sandbox.create, provider="local", token={1, 2}).startswith("the option 'token' is what JSON can say")
    assert told(Sandbox.connect, 3) == "'id' of Sandbox.connect is a str, not int"
    assert told(Connection, api_key=b"s3cret") == "'api_key' of Connection is a str or None, not bytes"
    assert told(agent_sandbox.register_provider, "x").endswith("not str")


def test_what_is_right_stays_right(sandbox, tmp_path):
    import pathlib
    import signal

    assert sandbox.commands.run(("pwd",), cwd=pathlib.Path("/tmp"), timeout=60.5).stdout == "/tmp\n"
    assert sandbox.commands.run((word for word in ("echo", "x"))).stdout == "x\n"
    with sandbox.commands.start(["sleep", "7200"]) as command:
        command.signal(signal.SIGTERM)
        assert command.wait().signal == "SIGTERM"
    assert issubclass(type(sandbox.commands), agent_sandbox.Commands) and Call
    assert inspect.iscoroutinefunction(agent_sandbox.AsyncSandbox.create)
    assert "cwd" in inspect.signature(agent_sandbox.Commands.run).parameters
    sandbox.files.write_many([(pathlib.Path("/tmp/many"), "x")])
    with pytest.raises(TypeError, match="pair"):
        sandbox.files.write_many(["ab"])
