"""The provider `opensandbox`, run by abx itself, against answers that a real server and a real execd once gave."""

import re
import sys
from pathlib import Path

import pytest

from harness import Abx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "opensandbox"))
from tape import Tape, records  # noqa: E402

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def cloud():
    """A home with the provider, and the tape that it speaks to."""
    home = Abx()
    home.tape = Tape("lifecycle-errors", "endpoints-proxy", "auth", "metrics", "ttl", "pty", "code", "lifecycle")
    home.ok("provider", "install", "opensandbox", "--yes")
    home.env.update(OPEN_SANDBOX_DOMAIN=home.tape.domain, OPEN_SANDBOX_API_KEY="key-0123456789", ABX_PROVIDER="opensandbox")
    yield home
    home.tape.close()
    home.close()


@pytest.fixture(autouse=True)
def well(cloud):
    usual(cloud)


def usual(cloud):
    """A sandbox that lives and can be reached."""
    cloud.tape.clear()
    cloud.tape.play("POST /v1/sandboxes$", "create")
    cloud.tape.play("GET /v1/sandboxes/[^/]+$", "get")
    cloud.tape.play("GET /v1/sandboxes/[^/]+/endpoints/44772", "endpoint-44772")
    cloud.tape.play("GET /proxy/44772/ping", "proxy-ping-right")
    cloud.tape.play("POST /v1/sandboxes/[^/]+/renew-expiration", "renew")
    cloud.tape.play("DELETE /v1/sandboxes/[^/]+$", "delete")


@pytest.fixture
def box(cloud):
    """Its entry in the ledger; made anew where a test has ended it."""
    one = cloud.tape["create"].json["id"]
    if not cloud.ledger():
        assert cloud.ok("create").text.strip() == one
    cloud.tape.requests.clear()
    return one


def lines(cloud):
    return [line.rsplit(" ", 1)[0] for line, _, _ in cloud.tape.requests]


# --- lifecycle


def test_it_is_made_looked_at_and_ended(cloud):
    made = cloud.ok("create", "--json").json
    there = cloud.tape["create"].json
    assert (made["id"], made["createdAt"][:19]) == (there["id"], there["createdAt"][:19])
    assert all(h["open-sandbox-api-key"] == "key-0123456789" for line, h, _ in cloud.tape.requests if "/v1/" in line)
    assert not any("open-sandbox-api-key" in h for line, h, _ in cloud.tape.requests if "/v1/" not in line)
    info = cloud.ok("info", "--json", made["id"]).json
    there = cloud.tape["get"].json
    assert info["state"] == "running" and info["template"] == there["image"]["uri"] and info["metadata"] == there["metadata"]
    cloud.ok("kill", made["id"])
    cloud.tape.play("GET /v1/sandboxes/[^/]+$", "get-deleted")  # no longer known here: the service is asked
    assert cloud("info", "--json", made["id"], code=3).error["code"] == "E3001"


@pytest.mark.parametrize("record, state", [("get", "running"), ("get-no-timeout", "running"), ("get-paused", "paused"), ("get-from-snapshot", "running"),
                                           ("get-terminated", None), ("get-failed", None), ("get-unknown", None), ("get-deleted", None), ("get-after", None)])
def test_states(cloud, box, record, state):
    cloud.tape.play("GET /v1/sandboxes/[^/]+$", record)
    r = cloud("info", "--json", box)
    if state:
        assert r.json["state"] == state
    else:
        assert r.code == 3 and r.error["code"] == "E3001", repr(r)


@pytest.mark.parametrize("record", ["list-page-beyond", "list-metadata", "list-metadata-none", "list-state-unknown"])
def test_lists(cloud, record):
    cloud.tape.play(r"GET /v1/sandboxes\?", record)
    living = [b["id"] for b in cloud.tape[record].json["items"] if b["status"]["state"] in ("Running", "Paused")]
    assert {b["id"] for b in cloud.ok("ls", "--json", "--all").json["sandboxes"]} == set(living)


def test_pages_are_followed_to_their_end(cloud):
    assert cloud.tape["list-state"].json["pagination"]["hasNextPage"]
    cloud.tape.play(r"GET /v1/sandboxes\?", "list-state", "list-page-beyond")
    cloud.ok("ls", "--json", "--all")
    assert [re.search(r"page=(\d+)", line)[1] for line in lines(cloud)] == ["1", "2"]


def test_pause_and_resume(cloud, box):
    cloud.tape.play("PATCH /v1/sandboxes/[^/]+/metadata", "patch-metadata")
    cloud.tape.play("POST /v1/sandboxes/[^/]+/pause", "pause")
    cloud.tape.play("GET /v1/sandboxes/[^/]+$", "get", "get-paused")
    cloud.ok("pause", box)
    assert [x for x in lines(cloud) if "/pause" in x]
    cloud.tape.play("POST /v1/sandboxes/[^/]+/resume", "resume")
    cloud.tape.play("GET /v1/sandboxes/[^/]+$", "get-paused", "get")
    cloud.ok("resume", box)
    cloud.tape.play("POST /v1/sandboxes/[^/]+/resume", "resume-twice")  # somebody else was faster
    cloud.tape.play("GET /v1/sandboxes/[^/]+$", "get-paused", "get")
    cloud.ok("resume", box)


@pytest.mark.parametrize("record", ["pause-twice", "pause-failed-one"])
def test_a_pause_that_the_server_refuses(cloud, box, record):
    cloud.tape.play("PATCH /v1/sandboxes/[^/]+/metadata", "patch-metadata")
    cloud.tape.play("POST /v1/sandboxes/[^/]+/pause", record)
    assert cloud("pause", "--json", box).error["code"] == "E6002"
    assert lines(cloud)[-1].endswith("/renew-expiration")  # its life is as long as before
    cloud.tape.play("GET /v1/sandboxes/[^/]+$", "get", "get-paused")  # another one's pause
    cloud.ok("pause", box)


@pytest.mark.parametrize("record, code", [("renew", None), ("renew-far-future", None), ("renew-no-ttl", "E8004"), ("renew-unknown", "E3001"),
                                          ("renew-after", "E3001"), ("renew-past", "E1001")])
def test_time_limits(cloud, box, record, code):
    cloud.tape.play("POST /v1/sandboxes/[^/]+/renew-expiration", record)
    r = cloud("extend", "--json", box, "5m")
    assert r.code == 0 if code is None else r.error["code"] == code, repr(r)


def test_the_end_of_one_that_is_gone(cloud, box):
    cloud.tape.play("DELETE /v1/sandboxes/[^/]+$", "delete-twice")
    assert cloud.ok("kill", box, "--json").json == {"killed": []}


def test_snapshots(cloud, box):
    cloud.tape.play("POST /v1/sandboxes/[^/]+/snapshots", "snapshot-create")
    cloud.tape.play("GET /v1/snapshots/[^/]+$", "snapshot-get-creating", "snapshot-get")
    cloud.tape.play(r"GET /v1/snapshots(\?|$)", "snapshot-list")
    made = cloud.ok("snapshot", "create", box, "--json").json
    assert made["id"] == cloud.tape["snapshot-create"].json["id"]
    assert made["id"] in cloud.ok("snapshot", "ls", "--json").text
    cloud.tape.play("DELETE /v1/snapshots/", "snapshot-delete")
    cloud.ok("snapshot", "rm", made["id"])
    cloud.tape.play("DELETE /v1/snapshots/", "snapshot-delete-creating")
    r = cloud("snapshot", "rm", made["id"], "--json")
    assert r.code and "E8008" not in r.errors
    cloud.tape.play("POST /v1/sandboxes/[^/]+/snapshots", "snapshot-unknown-sandbox")
    assert cloud("snapshot", "create", box, "--json", code=3).error["code"] == "E3001"


def test_logs(cloud, box):
    cloud.tape.play("GET /v1/sandboxes/[^/]+/diagnostics/logs", "diag-logs")
    shown = cloud.ok("logs", "--sandbox", box, "--json").text
    assert shown.strip()
    cloud.tape.play("GET /v1/sandboxes/[^/]+/diagnostics/logs", "diag-unknown")
    assert cloud("logs", "--sandbox", box, "--json").code == 3


def refusals():
    found = {}
    for file in ("lifecycle", "lifecycle-errors"):
        for one in records(file).values():
            if one.request["line"].startswith("POST /v1/sandboxes HTTP") and one.status and one.status >= 400:
                found[f"{file}:{one.name}"] = one
    return found


@pytest.mark.parametrize("record", list(refusals()))
def test_a_create_that_is_refused_says_why(cloud, record):
    one = refusals()[record]
    cloud.tape.play("POST /v1/sandboxes$", record)
    r = cloud("create", "--json")
    assert r.code and r.error["code"] not in ("E8008", "E9001"), repr(r)
    wanted = {401: "E2001", 404: "E3", 409: "E4", 422: "E", 400: "E", 500: ("E6", "E3")}[one.status]
    assert r.error["code"].startswith(wanted), repr(r)
    said = one.json.get("message") or one.json["detail"]
    said = said if isinstance(said, str) else said["message"] if isinstance(said, dict) else said[0]["msg"]
    assert said.split("'")[0][:40] in r.error["message"], (said, r.error["message"])


# --- endpoints, tokens


@pytest.mark.parametrize("record, port", [("endpoint-8080", 8080), ("endpoint-3000", 3000), ("endpoint-8080-proxy", 8080), ("endpoint-18080", 18080)])
def test_endpoints(cloud, box, record, port):
    proxied = record.endswith("-proxy")
    cloud.tape.play(f"GET /v1/sandboxes/[^/]+/endpoints/{port}", record)
    said = cloud.ok("port", box, str(port), "--json", env={"OPEN_SANDBOX_USE_SERVER_PROXY": str(proxied).lower()}).json
    place = re.sub(r"127\.0\.0\.1:\d+", cloud.tape.domain, cloud.tape[record].json["endpoint"])
    assert said["url"] == f"http://{place}"
    assert lines(cloud)[-1].endswith(f"use_server_proxy={str(proxied).lower()}")


@pytest.mark.parametrize("record, code", [("endpoint-unknown-sandbox", "E3001"), ("endpoint-after", "E3001"), ("endpoint-port-70000", "E1001")])
def test_endpoints_that_are_not_there(cloud, box, record, code):
    cloud.tape.play("GET /v1/sandboxes/[^/]+/endpoints/8080", record)
    assert cloud("port", box, "8080", "--json").error["code"] == code


def test_a_token_that_execd_wants_and_the_server_does_not_tell(cloud, box):
    cloud.tape.play("GET /proxy/44772/metrics", "proxy-ping-none")
    r = cloud("stats", box, "--json")
    assert "401" in r.errors and "X-EXECD-ACCESS-TOKEN" in r.errors and "E8008" not in r.errors
    assert len([x for x in lines(cloud) if "/metrics" in x]) == 2  # the address, which tells the token, was asked for again


def test_metrics(cloud, box):
    cloud.tape.play("GET /proxy/44772/metrics", "metrics")
    there, here = cloud.tape["metrics"].json, cloud.ok("stats", box, "--json").text
    assert str(round(there["mem_used_mib"] * 1048576)) in here and str(round(there["mem_total_mib"] * 1048576)) in here


# --- code


def played(cloud, box, record, **more):
    cloud.tape.play("POST /proxy/44772/code$", record)
    return cloud("code", box, "-c", "the code of the recording", **more)


def code_records():
    return {n: r for n, r in records("code").items() if r.chunks and r.is_whole and r.request["line"].startswith("POST /proxy/44772/code HTTP")}


# What is no whole run of its own: a context that is busy, which is waited for; one whose client went away.
NOT_WHOLE = {"busy", "disconnect-busy", "disconnect", "kernel-dies", "kernel-died-run-again", "interrupted"}


@pytest.mark.parametrize("record", sorted(set(code_records()) - NOT_WHOLE))
def test_runs_of_code(cloud, box, record):
    r = played(cloud, box, record)
    events = code_records()[record].events
    out = "".join(e["text"] for e in events if e.get("type") == "stdout")
    failed = [e["error"] for e in events if e.get("type") == "error"]
    assert "E8008" not in r.errors and "E6003" not in r.errors, repr(r)
    assert out.replace("\r", "") in r.text.replace("\r", ""), (r.text, out)
    for e in events:
        if e.get("type") == "result" and "text/plain" in e.get("results", {}):
            assert e["results"]["text/plain"] in r.text, (e, r.text)
        if e.get("type") == "stderr":
            assert e["text"] in r.errors
    assert (r.code != 0) == bool(failed), repr(r)
    if failed:
        assert failed[0]["ename"] in r.errors or (failed[0]["traceback"] and failed[0]["traceback"][-1] in r.errors), repr(r)


def test_a_context_that_is_busy_is_waited_for(cloud, box):
    for record in ("busy", "disconnect-busy"):
        cloud.tape.play("POST /proxy/44772/code$", record, record, "unicode")
        r = cloud("code", box, "-c", "1", code=0)
        assert "é漢<&>" in r.text
        assert len([x for x in lines(cloud) if x == "POST /proxy/44772/code"]) == 3
        cloud.tape.requests.clear()


def test_a_kernel_that_dies(cloud, box):
    r = played(cloud, box, "kernel-dies", timeout=60)
    assert r.code and "E8008" not in r.errors, repr(r)


@pytest.mark.parametrize("record, code", [("no-jupyter-run", "E8004"), ("language-bad", "E8004"), ("id-unknown", "E3007"), ("code:bad-json", "E6002")])
def test_code_that_execd_refuses(cloud, box, record, code):
    r = played(cloud, box, record)
    assert code in r.errors, repr(r)


def test_code_without_an_answer(cloud, box):
    cloud.tape.play("POST /proxy/44772/code$", "language-no-kernel")
    r = cloud("code", box, "-O", "code-timeout=1", "-c", "1", code=125)
    assert "E8004" in r.errors


def test_contexts(cloud, box):
    cloud.tape.play("GET /proxy/44772/code/contexts$", "contexts")
    assert [c["id"] for c in cloud.ok("code", "--contexts", box, "--json").json["contexts"]] == [c["id"] for c in cloud.tape["contexts"].json]


# --- terminals


@pytest.mark.parametrize("record, word", [("pty-command", ""), ("second-client-409", "409"), ("ws-unknown", "404"), ("create-cwd-impossible", "work directory")])
def test_terminals_that_do_not_begin(cloud, box, terminal, record, word):
    cloud.tape.play("POST /proxy/44772/files/upload", "proxy-ping-right")
    cloud.tape.play("POST /proxy/44772/directories", "proxy-ping-right")
    cloud.tape.play("POST /proxy/44772/command", "proxy-command")
    cloud.tape.play("DELETE /proxy/44772/pty/", "delete-while-attached")
    cloud.tape.play("POST /proxy/44772/pty$", record if record.startswith("create") else "create-command-pty")
    cloud.tape.play("GET /proxy/44772/pty/[^/]+/ws", record)
    t = terminal(cloud, "shell", box)
    assert t.end() != 0, t.seen
    assert t.is_restored() and b"E8008" not in t.seen and word in t.seen.decode(), t.seen
