"""The engine's routes that answer once: parameters, results, statuses, errors, whose sandbox it is."""

import base64
from urllib.parse import quote

import pytest

from engine import LOCAL, Engine, connection, error_of


@pytest.fixture(scope="module")
def engine(shared):
    e = Engine(shared)
    yield e
    e.stop()


@pytest.fixture(scope="module")
def sandbox(engine):
    sandbox = engine.create(metadata={"for": "tests"})
    yield sandbox
    engine.kill(sandbox)


def test_health_and_providers_need_no_connection(engine):
    health = engine("GET", "/v1/health", connection=None, status=200).json
    assert health == {"status": "ok", "protocol": "abx-engine/1", "version": engine.info["version"]}
    listed = {p["id"]: p for p in engine("GET", "/v1/providers", connection=None, status=200).json["providers"]}
    assert listed["local"]["kind"] == "builtin" and listed["local"]["features"]["process"] == "native"
    assert "alicloud-express" in listed


def test_a_sandbox_from_its_creation_to_its_end(engine):
    made = engine("POST", "/v1/sandboxes", {"name": "one", "metadata": {"k": "v"}, "timeoutMs": 600000}, status=201).json
    box = f"/v1/sandboxes/{made['id']}"
    assert made["provider"] == "local" and made["state"] == "running" and made["metadata"] == {"k": "v"}
    assert engine("GET", box, status=200).json["name"] == "one"
    ids = [s["id"] for s in engine("GET", "/v1/sandboxes?metadata=k%3Dv", status=200).json["sandboxes"]]
    assert ids == [made["id"]]
    assert engine("GET", "/v1/sandboxes?metadata=k%3Dw", status=200).json == {"sandboxes": []}
    assert engine("POST", f"{box}/timeout", {"timeoutMs": 60000}, status=200).json["expiresAt"] < made["expiresAt"]
    assert engine("POST", f"{box}/pause", status=200).json == {"paused": True}
    assert engine("GET", box, status=200).json["state"] == "paused"
    assert engine("POST", f"{box}/connect", {}, status=200).json["state"] == "running"
    assert engine("GET", f"{box}/metrics", status=200).json["processes"] == 0
    error_of(engine("POST", "/v1/sandboxes", {"name": "one"}), 409, "E4001")
    assert engine("DELETE", box, status=200).json == {}
    assert error_of(engine("GET", box), 404, "E3001")["type"] == "SandboxNotFoundError"


def test_files_snapshots_ports_contexts(engine, sandbox):
    box = f"/v1/sandboxes/{sandbox}"
    name = "/work/a b+ü"
    assert engine("POST", f"{box}/files/mkdir", {"path": name}, status=200).json == {"created": True}
    assert engine("GET", f"{box}/files/stat?path={quote(name)}", status=200).json["type"] == "dir"
    engine("POST", f"{box}/files/rename", {"from": name, "to": "/work/c"}, status=200)
    listed = engine("GET", f"{box}/files/list?path=/work&depth=1", status=200).json["files"]
    assert [f["path"] for f in listed] == ["/work/c"]
    engine("DELETE", f"{box}/files?path=/work/c", status=200)
    error_of(engine("GET", f"{box}/files/stat?path=/work/c"), 404, "E3002")
    snapshot = engine("POST", f"{box}/snapshot", {"name": "kept"}, status=201).json
    assert [s["id"] for s in engine("GET", "/v1/snapshots", status=200).json["snapshots"]] == [snapshot["id"]]
    engine("DELETE", "/v1/snapshots/kept", status=200)
    error_of(engine("DELETE", "/v1/snapshots/kept"), 404, "E3006")
    forked = engine("POST", f"{box}/fork", {}, status=201).json["id"]
    assert engine("GET", f"/v1/sandboxes/{forked}/processes", status=200).json == {"processes": []}
    engine.kill(forked)
    assert engine("GET", f"{box}/ports", status=200).json == {"ports": []}
    assert engine("GET", f"{box}/processes", status=200).json == {"processes": []}
    error_of(engine("POST", f"{box}/processes/99/signal", {"signal": "TERM"}), 404, "E3003")
    assert engine("GET", f"{box}/code/contexts", status=200).json == {"contexts": []}
    error_of(engine("DELETE", f"{box}/code/contexts/nope"), 404, "E3007")
    assert "templates" in engine("GET", "/v1/templates", status=200).json


@pytest.mark.once
@pytest.mark.parametrize("method,path,body,status,code", [
    ("GET", "/v1/nope", None, 404, "E1001"),
    ("GET", "/", None, 404, "E1001"),
    ("PATCH", "/v1/sandboxes", None, 405, "E1001"),
    ("DELETE", "/v1/health", None, 405, "E1001"),
    ("GET", "BOX/files/stat", None, 400, "E1001"),
    ("GET", "BOX/files/stat?path=/&nope=1", None, 400, "E1001"),
    ("GET", "BOX/files/stat?path=/&path=/", None, 400, "E1001"),
    ("GET", "BOX/files/stat?path=%ff", None, 400, "E1001"),
    ("GET", "BOX/files/stat?path=a%00b", None, 400, "E1001"),
    ("GET", "BOX/files/list?path=/&depth=x", None, 400, "E1001"),
    ("GET", "BOX/files/list?path=/&depth=-1", None, 400, "E1001"),
    ("POST", "BOX/timeout", {"timeoutMs": "5"}, 400, "E1001"),
    ("POST", "BOX/timeout", {}, 400, "E1001"),
    ("POST", "BOX/timeout?timeoutMs=5", {}, 400, "E1001"),
    ("POST", "BOX/timeout", {"timeoutMs": 60000, "sandboxId": "x"}, 400, "E1001"),
    ("POST", "BOX/timeout", b"[1]", 400, "E1001"),
    ("POST", "BOX/timeout", b"{", 400, "E1001"),
    ("POST", "BOX/timeout", b'{"timeoutMs":1,"timeoutMs":2}', 400, "E1001"),
    ("POST", "BOX/files/mkdir", b'{"path":"a\\u0000b"}', 400, "E1001"),
    ("POST", "BOX/files/mkdir", b'{"path":"\xff"}', 400, "E1001"),
    ("POST", "BOX/files/mkdir", b'{"path":' + b"[" * 100000 + b"]" * 100000 + b"}", 400, "E1001"),
    ("GET", "BOX/ports/80", None, 501, "E8004"),
    ("GET", "BOX/ports/x", None, 400, "E1001"),
    ("GET", "/v1/sandboxes/..", None, 400, "E1001"),
    ("GET", "/v1/sandboxes/%2e%2e", None, 400, "E1001"),
    ("GET", "/v1/sandboxes/%2e%2e%2f%2e%2e%2fetc", None, 400, "E1001"),
    ("GET", "/v1/sandboxes/a%00b", None, 400, "E1001"),
    ("GET", "/v1/sandboxes/%ff%fe", None, 400, "E1001"),
    ("GET", "/v1/sandboxes/%zz", None, 400, "E1001"),
    ("GET", "/v1/sandboxes/nobody", None, 404, "E3001"),
    ("GET", "/v1/sandboxes/nobody/processes", None, 404, "E3001"),
    ("DELETE", "/v1/sandboxes/nobody", None, 404, "E3001"),
    ("DELETE", "/v1/snapshots/..%2f..%2fetc", None, 400, "E1001"),
    ("DELETE", "/v1/templates/nope", None, 404, "E3005"),
])
def test_what_is_wrong_is_said(engine, sandbox, method, path, body, status, code):
    answer = engine(method, path.replace("BOX", f"/v1/sandboxes/{sandbox}"), body)
    error = error_of(answer, status, code)
    assert error["message"] and error["type"] and answer.headers["Content-Type"] == "application/json"
    assert (status == 405) == ("Allow" in answer.headers)


@pytest.mark.once
@pytest.mark.parametrize("header,status,code", [
    (None, 400, "E1001"),
    ("", 400, "E1001"),
    ("!!", 400, "E1001"),
    ("e30", 400, "E1001"),
    ("bnVsbA", 400, "E1001"),
    ("W10", 400, "E1001"),
    (connection(provider=5), 400, "E1001"),
    (connection(provider="../local"), 400, "E1001"),
    (connection(provider="local", nope=1), 400, "E1001"),
    (connection(provider="local", apiKey=5), 400, "E1001"),
    (connection(provider="local", options=[]), 400, "E1001"),
    (connection(provider="local", options={"disk": ["memory"]}), 400, "E1001"),
    (connection(provider="local", options={"a.b": "c"}), 400, "E1001"),
    (connection(provider="local", options={"disk": "nope"}), 422, "E1003"),
    (connection(provider="local", options={"nope": "x"}), 422, "E1003"),
    (connection(provider="local", apiUrl="no url"), 422, "E1003"),
    (connection(provider="nope"), 404, "E3004"),
    (connection(provider="local", options={"disk": {"b": [1]}}), 400, "E1001"),
])
def test_a_bad_connection_is_refused(engine, header, status, code):
    error_of(engine("GET", "/v1/sandboxes", connection=header), status, code)


@pytest.mark.once
def test_a_connection_twice_in_any_shape_is_refused(engine):
    auth = ("Authorization", f"Bearer {engine.token}")
    twice = [auth, ("X-Abx-Connection", LOCAL), ("X-Abx-Connection", LOCAL)]
    error_of(engine.raw("GET", "/v1/sandboxes", headers=twice), 400, "E1001")
    doubled = base64.urlsafe_b64encode(b'{"provider":"local","provider":"nope"}').rstrip(b"=").decode()
    error_of(engine("GET", "/v1/sandboxes", connection=doubled), 400, "E1001")
    deep = base64.urlsafe_b64encode(b'{"provider":' + b"[" * 20000 + b"]" * 20000 + b"}").decode()
    error_of(engine("GET", "/v1/sandboxes", connection=deep.rstrip("=")), 400, "E1001")


@pytest.mark.once
def test_a_connection_with_a_nul_is_refused(engine):
    for member in (b'"provider":"local\\u0000x"', b'"provider":"local","apiKey":"a\\u0000b"', b'"provider":"local","domain\\u0000":"a"'):
        header = base64.urlsafe_b64encode(b"{" + member + b"}").rstrip(b"=").decode()
        error_of(engine("GET", "/v1/sandboxes", connection=header), 400, "E1001")


@pytest.mark.once
def test_nobody_waits_for_a_body_of_many_members(engine, sandbox):
    path = f"/v1/sandboxes/{sandbox}/processes"
    many = {str(i): "" for i in range(300_000)}
    error_of(engine("POST", path, {"cmd": ["true"], "env": many}), 413, "E4004")
    error_of(engine("POST", path, {"cmd": ["true"] + list(many)}), 413, "E4004")
    error_of(engine("POST", path, many), 400, "E1001")
    largest = dict(list(many.items())[:8192])
    assert engine("POST", path, {"cmd": ["true"], "env": largest}).status in (200, 400, 413)


@pytest.mark.once
def test_hints_of_parameters_are_of_this_door(engine, sandbox):
    hint = error_of(engine("POST", f"/v1/sandboxes/{sandbox}/processes", {"cmd": 5}), 400, "E1001")["hint"]
    assert hint == "docs/operations.md lists the parameters of process.start, POST /v1/sandboxes/:id/processes"
    for body in ({"nmae": "x"}, {"name": 1}, {"metadata": []}, b"[", b"[]"):
        assert "abx help" not in error_of(engine("POST", "/v1/sandboxes", body), 400, "E1001")["hint"]


@pytest.mark.once
def test_a_name_that_is_there_twice_in_a_map_is_refused(engine, sandbox):
    path = f"/v1/sandboxes/{sandbox}/processes"
    body = b'{"cmd":["true"],"env":{"A":"1","B":"","A":"2"}}'
    assert "'A' twice" in error_of(engine("POST", path, body), 400, "E1001")["message"]
    error_of(engine("POST", "/v1/sandboxes", b'{"metadata":{"k":"v","k":"v"}}'), 400, "E1001")
    assert "'k' twice" in error_of(engine("GET", "/v1/sandboxes?metadata=k%3Dv&metadata=k%3Dw"), 400, "E1001")["message"]
    engine("GET", "/v1/sandboxes?metadata=k%3Dv&metadata=l%3Dw", status=200)
    shown = engine("POST", path, {"cmd": ["sh", "-c", "env | grep -c ^MANY_"], "env": {f"MANY_{i}": "" for i in range(8000)}})
    assert b'"8000\\n"' in shown.body


@pytest.mark.once
def test_a_mode_that_looks_octal_is_refused(engine, sandbox):
    files = f"/v1/sandboxes/{sandbox}/files"
    error_of(engine("PUT", f"{files}?path=/tmp/mode&mode=0644", b"x"), 400, "E1001")
    engine("PUT", f"{files}?path=/tmp/mode&mode={0o640}", b"x", status=200)
    assert engine("GET", f"{files}/stat?path=/tmp/mode", status=200).json["mode"] == 0o640
