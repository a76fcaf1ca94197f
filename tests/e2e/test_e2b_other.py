"""The E2B door over a provider that is not this machine: ids of another form, few features, failures. The provider is a program of
the test's, which knows sandboxes and nothing else."""

import json
import threading
import time

import pytest

from door import Door
from harness import wait_for
from test_e2b_control import ids_of, is_refusal

pytestmark = pytest.mark.once

MANIFEST = """schema = 1
id = "odd"
name = "Odd"
version = "0.1.0"
[runtime]
kind = "exec"
protocol = "epp/1"
command = ["python3", "plugin.py"]
features = ["list", "logs", "network"]
"""

PLUGIN = r"""
import json, os, sys
FILE = "boxes.json"
held = []
boxes = json.load(open(FILE)) if os.path.exists(FILE) else {}
def say(m): sys.stdout.write(json.dumps(m) + "\n"); sys.stdout.flush()
def box(id): return {"id": id, "state": "running", "createdAt": "2026-01-01T00:00:00Z", **boxes[id]}
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    method, p, answer, error = m["method"], m.get("params", {}), {}, None
    if method == "initialize":
        answer = {"protocol": "epp/1", "features": ["list", "logs", "network"]}
    elif method == "sandbox.create":
        if p.get("template") == "broken":
            error = {"code": "E6002", "type": "BackendError", "message": "the machine room is on fire"}
        elif p.get("template") == "busy":
            error = {"code": "E4002", "type": "RateLimitError", "message": "not so fast"}
        elif p.get("template") == "locked":
            error = {"code": "E2001", "type": "InvalidAPIKeyError", "message": "the key of odd is wrong"}
        else:
            id = "Box.%d/%s" % (len(boxes) + 1, "a-b")
            boxes[id] = {"metadata": p.get("metadata", {})}
            answer = box(id)
    elif method == "sandbox.list":
        answer = {"sandboxes": [box(id) for id in boxes]}
    elif p.get("sandboxId") not in boxes or os.path.exists("gone"):
        for line in held:
            print(line, flush=True)
        held.clear()
        error = {"code": "E3001", "type": "SandboxNotFoundError", "message": "no such sandbox"}
    elif method == "sandbox.info":
        answer = box(p["sandboxId"])
        if os.path.exists("hold"):  # true now, told later
            held.append(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": answer}))
            open("held", "w").close()
            continue
    elif method == "sandbox.logs":
        print(*held, sep="\n", end="\n" if held else "", flush=True)
        held.clear()
        all = [{"timestamp": "2026-01-01T00:00:0%dZ" % n, "level": level, "message": "line %d" % n} for n, level in enumerate(("info", "error", "info"))]
        answer = {"entries": [e for e in all if e["timestamp"] >= p.get("since", "")][:p.get("limit", 99)]}
    elif method == "sandbox.set_network":
        boxes[p["sandboxId"]]["network"] = p["network"]
    elif method == "sandbox.kill":
        del boxes[p["sandboxId"]]
    json.dump(boxes, open(FILE, "w"))
    say({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32000, "message": error["message"], "data": error}} if error
        else {"jsonrpc": "2.0", "id": m["id"], "result": answer})
"""


@pytest.fixture(scope="module")
def odd(shared):
    folder = shared.work / "odd"
    folder.mkdir(mode=0o755)
    (folder / "abx-provider.toml").write_text(MANIFEST)
    (folder / "plugin.py").write_text(PLUGIN)
    door = Door(shared, "-P", "./odd")
    door.boxes = folder / "boxes.json"
    yield door
    door.stop()


def test_ids_of_another_form_are_mapped_to_ours_and_stay_so(odd, shared):
    sandbox = odd.create(metadata={"k": "v"})
    where = sandbox["sandboxID"]
    assert where.isalnum() and where.islower() and 12 <= len(where) <= 32
    assert list(json.loads(odd.boxes.read_text())) == ["Box.1/a-b"]
    assert odd("GET", f"/sandboxes/{where}", status=200).json["metadata"] == {"k": "v"}
    assert ids_of(odd("GET", "/v2/sandboxes", status=200)) == [where]
    # made by somebody else, and the door begins anew without its files
    boxes = json.loads(odd.boxes.read_text())
    odd.stop()
    for file in (shared.home / "e2b" / "boxes").iterdir():
        file.unlink()
    odd.boxes.write_text(json.dumps({**boxes, "Box.9/a-b": {"metadata": {}}}))
    odd.__init__(shared, "-P", "./odd")
    odd.boxes = shared.work / "odd/boxes.json"
    assert odd("GET", f"/sandboxes/{where}", status=200).json["sandboxID"] == where
    all_ids = ids_of(odd("GET", "/v2/sandboxes", status=200))
    assert where in all_ids and len(all_ids) == 2
    for one in all_ids:
        odd("DELETE", f"/sandboxes/{one}", status=204)
        assert is_refusal(odd("DELETE", f"/sandboxes/{one}"), 404)
    assert json.loads(odd.boxes.read_text()) == {}


@pytest.mark.parametrize("method, tail, body", [
    ("POST", "/timeout", {"timeout": 5}), ("POST", "/pause", {}), ("POST", "/fork", {}), ("POST", "/snapshots", {}),
    ("GET", "/metrics", None), ("PUT", "/network", {"denyOut": ["1.1.1.1"]}),
])
def test_what_the_provider_lacks_is_told_with_our_code(odd, method, tail, body):
    sandbox = odd.create()
    answer = odd(method, f"/sandboxes/{sandbox['sandboxID']}{tail}", body)
    assert is_refusal(answer, 501, "E8004") and answer.json["error_code"] == "E8004"
    odd("DELETE", f"/sandboxes/{sandbox['sandboxID']}", status=204)


def test_connect_works_without_a_feature_of_that_name(odd):
    sandbox = odd.create()
    again = odd("POST", f"/v2/sandboxes/{sandbox['sandboxID']}/connect", {}, status=200).json
    assert again == sandbox
    odd("DELETE", f"/sandboxes/{sandbox['sandboxID']}", status=204)


@pytest.mark.parametrize("template, status, code, text", [
    ("broken", 500, "E6002", "machine room"), ("busy", 429, "E4002", "not so fast"), ("locked", 403, "E2001", "key of odd"),
])
def test_failures_of_the_provider_have_e2bs_shape(odd, template, status, code, text):
    answer = odd("POST", "/v2/sandboxes", {"templateID": template})
    assert is_refusal(answer, status, text) and answer.json["error_code"] == code
    assert (answer.headers["Should-Retry"] == "false") == (status != 429)
    assert odd("GET", "/v2/sandboxes", status=200).json == []


def test_what_the_provider_noted_is_told_in_both_forms(odd):
    where = odd.create()["sandboxID"]
    logs = odd("GET", f"/sandboxes/{where}/logs?limit=2", status=200).json
    assert [json.loads(one["line"])["message"] for one in logs["logs"]] == ["line 0", "line 1"]
    assert logs["logEntries"][0] == {"timestamp": "2026-01-01T00:00:00Z", "level": "info", "message": "line 0", "fields": {}}
    since = 1767225601000
    later = odd("GET", f"/sandboxes/{where}/logs?start={since}", status=200).json["logEntries"]
    assert [one["message"] for one in later] == ["line 1", "line 2"]
    newest = odd("GET", f"/v2/sandboxes/{where}/logs?direction=backward&level=info", status=200).json["logs"]
    assert [one["message"] for one in newest] == ["line 2", "line 0"]
    found = odd("GET", f"/v2/sandboxes/{where}/logs?search=LINE%201", status=200).json["logs"]
    assert [one["level"] for one in found] == ["error"]
    odd("DELETE", f"/sandboxes/{where}", status=204)


def test_a_network_is_changed_where_the_provider_can(odd):
    where = odd.create()["sandboxID"]
    for body, word in (({"allow_internet_access": False}, "none"), ({}, "internet"),
                       ({"allowOut": ["1.1.1.1", "example.com"], "denyOut": ["0.0.0.0/0"]}, "allow:1.1.1.1,allow:example.com")):
        odd("PUT", f"/sandboxes/{where}/network", body, status=204)
        assert [box["network"] for box in json.loads(odd.boxes.read_text()).values()] == [word]
    detail = odd("GET", f"/sandboxes/{where}", status=200).json
    assert detail["network"] == {"allowOut": ["1.1.1.1", "example.com"], "denyOut": ["0.0.0.0/0"]}
    odd("DELETE", f"/sandboxes/{where}", status=204)


def test_who_asks_while_a_look_is_under_way_gets_no_older_answer(odd):
    """A question whether the sandbox lives is held at the provider; then it ends, and another client asks."""
    sandbox, answers = odd.create(), {}
    folder = odd.boxes.parent

    def ask(name):
        answers[name] = odd.data(sandbox, "GET", "/health").status
    threads = [threading.Thread(target=ask, args=[name]) for name in ("first", "second")]
    (folder / "hold").touch()
    try:
        threads[0].start()
        wait_for((folder / "held").exists)
        (folder / "hold").unlink()
        (folder / "gone").touch()
        threads[1].start()
        time.sleep(0.3)  # it is there by now; else this tells nothing
        odd("GET", f"/v2/sandboxes/{sandbox['sandboxID']}/logs")
        for thread in threads:
            thread.join(30)
        assert answers == {"first": 204, "second": 502}
    finally:
        for name in ("hold", "held", "gone"):
            (folder / name).unlink(missing_ok=True)
