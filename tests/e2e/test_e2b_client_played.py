"""What takes several requests, played with the answers of the recordings (tests/data/recordings/envd): watchers that are asked, runs
of code, contexts. Single requests are played in tests/unit/test_e2b_client_recordings.c."""

import json

import pytest

from envd_calls import call, calls
from faults import Fault, FaultProxy, answer
from recorded import load

pytestmark = pytest.mark.once


@pytest.fixture
def fake():
    with FaultProxy() as p:
        yield p


def played(fake, file, path):
    """The recorded answers to this path, each once, in their order."""
    found = [e for e in load(file) if e.line.get("plane") != "control" and path in e.request["line"]]
    for e in found:
        body = (e.response.get("body") or "").encode()
        fake.add(Fault(path, answer(int(e.response["line"].split()[1]), body), times=1))
    return found


@pytest.mark.parametrize("file", ["code-interpreter-python", "code-interpreter-js"])
def test_code(fake, file):
    runs = played(fake, file, "POST /execute")
    assert len(runs) == 2
    for e in runs:
        asked = json.loads(e.request["body"])
        params = {"code": asked["code"]}
        params.update({"language": asked["language"], "env": asked["env_vars"]} if asked.get("language") else {})
        r = call({"baseUrl": fake.url}, "code.run", params)
        lines = [json.loads(t) for t in e.response["body"].splitlines()]
        assert r.result == {"executionCount": lines[0]["execution_count"]}
        assert r.chunks == {"stdout": b"hi\n"}
        assert r.events == [("started", {"executionCount": 1}), ("result", {"isMainResult": True, "text": "2"})]
        head = fake.requests[-1].lower()
        assert "e2b-sandbox-port: 49999" in head and "content-type: application/json" in head
    for path in ("POST /contexts HTTP", "GET /contexts", "POST /contexts/c1/restart", "DELETE /contexts/c1"):
        assert len(played(fake, file, path)) == 1, path
    made, listed, again, gone = calls({"baseUrl": fake.url}, "code.context_create", {"cwd": "/tmp"}, "code.context_list", {},
                                      "code.context_restart", {"contextId": "c1"}, "code.context_remove", {"contextId": "c1"})
    context = {"id": "c1", "language": "python", "cwd": "/home/user"}
    assert made.result == context and listed.result == {"contexts": [context]}
    assert again.result == {} and gone.result == {}


@pytest.mark.parametrize("file", ["watch", "files-python"])
def test_watchers(fake, file):
    """Every watcher of the recordings: what is asked for after it comes out as changes."""
    exchanges = [e for e in load(file) if "Watcher" in e.target and "cut" not in e.response]
    kinds = {"CREATE": "create", "WRITE": "write", "REMOVE": "remove", "RENAME": "rename", "CHMOD": "chmod"}
    made = [e for e in exchanges if e.target.endswith("/CreateWatcher")]
    assert made
    for e in made:
        reply = json.loads(e.response["body"])
        fake.clear()
        fake.add(Fault("/CreateWatcher", answer(int(e.response["line"].split()[1]), reply)),
                 Fault("/RemoveWatcher", answer(200, {})))
        wanted = []
        for asked in exchanges:
            if asked.target.endswith("/GetWatcherEvents") and reply.get("watcherId", "-") in asked.request["body"]:
                body = json.loads(asked.response["body"])
                fake.add(Fault("/GetWatcherEvents", answer(int(asked.response["line"].split()[1]), body), times=1))
                wanted += [(kinds[c["type"][11:]], c["name"]) for c in body.get("events", [])]
        fake.add(Fault("/GetWatcherEvents", answer(404, {"code": "not_found", "message": "no more"})))
        sent = json.loads(e.request["body"])
        r = call({"baseUrl": fake.url, "pollWatch": True}, "fs.watch",
                 {"path": sent["path"], "recursive": sent.get("recursive", False)})
        assert [(c["kind"], c["name"]) for t, c in r.events if t == "change"] == wanted
        assert r.text == (reply["message"] if "message" in reply else "no more")
        assert bool(r.events) == ("watcherId" in reply)
