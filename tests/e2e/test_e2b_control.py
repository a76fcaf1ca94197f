"""The control plane of the E2B door: what the SDKs and the command line of E2B send, and what they must get. The recorded requests of
the real clients are sent as they were; an answer may differ from the recorded one only where docs/e2b.md says why."""

import http.client
import json
import re
import threading
import time
import urllib.parse
from datetime import datetime, timedelta, timezone

import pytest

import recorded
from door import Answer, Door
from harness import HERE, wait_for

pytestmark = pytest.mark.once
TOKEN = re.compile(r"[0-9a-f]{64}")


@pytest.fixture(scope="module")
def door(shared):
    d = Door(shared)
    yield d
    d.stop()


@pytest.fixture
def made(door):
    """made(**body): a new sandbox, gone after the test."""
    ids = []

    def make(**body):
        sandbox = door.create(**body)
        ids.append(sandbox["sandboxID"])
        return sandbox

    yield make
    for one in ids:
        door("DELETE", f"/sandboxes/{one}")


def when(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def info(door, sandbox):
    return door("GET", f"/sandboxes/{sandbox['sandboxID']}", status=200).json


def is_refusal(answer, status, text=""):
    """E2B's shape of an error: JSON, code = status, a message."""
    assert answer.status == status, repr(answer)
    assert answer.headers["Content-Type"].startswith("application/json")
    assert answer.json["code"] == status and text in answer.json["message"], repr(answer)
    return True


# --- create and info ---------------------------------------------------------------------------------------


def test_a_sandbox_of_the_new_route_has_a_token_and_five_minutes(door, made):
    sandbox = made()
    assert re.fullmatch("[a-z0-9]{12,32}", sandbox["sandboxID"]) and TOKEN.fullmatch(sandbox["envdAccessToken"])
    assert sandbox["templateID"] == "base" and sandbox["clientID"] and sandbox["domain"] is None
    assert [int(n) for n in sandbox["envdVersion"].split(".")] >= [0, 6, 4]
    assert "trafficAccessToken" not in sandbox
    detail = info(door, sandbox)
    assert detail["state"] == "running" and detail["volumeMounts"] == [] and detail["metadata"] == {}
    life = when(detail["endAt"]) - when(detail["startedAt"])
    assert timedelta(seconds=290) < life < timedelta(seconds=310)
    assert detail["lifecycle"] == {"autoResume": False, "onTimeout": "kill"}
    for name in ("cpuCount", "memoryMB", "diskSizeMB"):
        assert isinstance(detail[name], int) and detail[name] > 0


def test_the_old_route_gives_a_token_only_when_asked(door):
    for body, secure in (({}, False), ({"secure": False}, False), ({"secure": True}, True)):
        sandbox = door("POST", "/sandboxes", {"templateID": "base", **body}, status=201).json
        assert ("envdAccessToken" in sandbox) == secure
        life = when(info(door, sandbox)["endAt"]) - when(info(door, sandbox)["startedAt"])
        assert timedelta(seconds=10) < life < timedelta(seconds=20)
        door("DELETE", f"/sandboxes/{sandbox['sandboxID']}", status=204)


def test_metadata_and_environment_are_kept(door, made, shared):
    sandbox = made(metadata={"a b": "c&d=é"}, envVars={"FOO": "bar"})
    assert info(door, sandbox)["metadata"] == {"a b": "c&d=é"}
    assert shared.ok("exec", sandbox["sandboxID"], "--", "sh", "-c", "echo $FOO").text == "bar\n"


@pytest.mark.parametrize("body, text", [
    ({}, "templateID"), ({"templateID": 3}, "templateID"),
    ({"templateID": "base", "timeout": 0}, "Timeout must be greater than 0"),
    ({"templateID": "base", "timeout": -5}, "Timeout must be greater than 0"),
    ({"templateID": "base", "timeout": "60"}, "timeout"),
    ({"templateID": "base", "metadata": {"a": 1}}, "metadata"),
    ({"templateID": "base", "envVars": []}, "envVars"),
    ({"templateID": "base", "autoPauseMemory": False}, "autoPauseMemory"),
    ({"templateID": "base", "autoPause": True, "autoPauseMemory": False, "autoResume": {"enabled": True}}, "autoPauseMemory"),
    ({"templateID": "base", "volumeMounts": [{"name": "a", "path": "/a"}]}, "volumes"),
    ({"templateID": "base", "iam": {"tokens": {}}}, "identity"),
    ({"templateID": "base", "network": {"allowOut": ["example.com"]}}, "allowOut"),
    ({"templateID": "base", "network": {"denyOut": "1.1.1.1"}}, "denyOut"),
    ({"templateID": "base", "network": 3}, "network"),
    ({"templateID": "base\0x"}, "NUL"), ({"templateID": "base", "metadata": {"a": "b\0c"}}, "NUL"),
    ({"templateID": "base", "network": {"maskRequestHost": "a\0b"}}, "NUL"),
])
def test_a_wrong_create_is_told(door, body, text):
    assert is_refusal(door("POST", "/v2/sandboxes", body), 400, text)


def test_a_body_that_is_no_object_is_told(door):
    headers = {"X-API-Key": door.key, "Content-Type": "application/json"}
    for body in (b"{", b"[]", b"3", b"\xff"):
        assert is_refusal(door.raw("POST", "/v2/sandboxes", body, headers), 400, "validation error")


def test_an_unknown_template_is_told_as_e2b_does(door):
    answer = door("POST", "/v2/sandboxes", {"templateID": "nosuch"})
    assert is_refusal(answer, 404) and answer.json["message"] == "template 'nosuch' not found"


@pytest.mark.parametrize("template", ["base", "code-interpreter-v1", " Base ", "base:default"])
def test_the_names_that_e2b_begins_with_are_the_default_template(made, template):
    assert made(templateID=template)["templateID"] == template


@pytest.mark.parametrize("network, code", [
    ({"denyOut": ["8.8.8.8"]}, "E8004"), ({"egressProxy": {"address": "a:1"}}, "E8004"), ({"rules": {"a.b": []}}, "E8004"),
    ({"allowOut": ["1.1.1.1"], "denyOut": ["0.0.0.0/0"]}, "E8004"),
])
def test_what_the_provider_cannot_do_has_our_code(door, network, code):
    answer = door("POST", "/v2/sandboxes", {"templateID": "base", "network": network})
    assert is_refusal(answer, 501, code) and answer.json["error_code"] == code


def test_a_sandbox_without_internet_says_so(door, made):
    sandbox = made(allow_internet_access=False)
    assert info(door, sandbox)["allowInternetAccess"] is False
    sandbox = made(network={"denyOut": ["0.0.0.0/0"]})
    assert info(door, sandbox)["network"] == {"denyOut": ["0.0.0.0/0"]}


def test_an_idempotency_key_gives_the_same_sandbox(door, made):
    first = made()
    headers = {"Idempotency-Key": "abc-1"}
    made_once = door("POST", "/v2/sandboxes", {"templateID": "base"}, headers=headers, status=201).json
    again = door("POST", "/v2/sandboxes", {"templateID": "base"}, headers=headers, status=201).json
    assert made_once == again and first["sandboxID"] != again["sandboxID"]
    door("DELETE", f"/sandboxes/{again['sandboxID']}", status=204)
    for key in ("A", "a" * 256, "a_b"):
        answer = door("POST", "/v2/sandboxes", {"templateID": "base"}, headers={"Idempotency-Key": key})
        assert is_refusal(answer, 400, "Idempotency-Key")


# --- unknown things ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["inone", "nonexistingsandbox", "i" * 300, "a%2Fb", "A-B-C", "..", "%00", "%ff", "i0123456789abcdefghij"])
def test_an_unknown_id_of_any_shape_is_not_found(door, word):
    for method, tail, body in (("GET", "", None), ("DELETE", "", None), ("POST", "/timeout", {"timeout": 5}),
                               ("POST", "/connect", {"timeout": 5}), ("POST", "/pause", {}), ("GET", "/metrics", None),
                               ("POST", "/fork", {}), ("POST", "/snapshots", {}), ("PUT", "/network", {}), ("GET", "/logs", None)):
        assert is_refusal(door(method, f"/sandboxes/{word}{tail}", body), 404)
    assert is_refusal(door("DELETE", f"/templates/{word}"), 404)


def test_what_is_not_there_is_told_in_e2bs_shape(door):
    assert is_refusal(door("GET", "/nothing"), 404)
    assert is_refusal(door("PATCH", "/v2/sandboxes"), 405)
    for path in ("/v3/templates", "/v2/templates", "/templates/x/builds/y", "/volumes", "/secrets", "/teams"):
        assert is_refusal(door("POST", path, {}), 501, "E8004")


# --- list -----------------------------------------------------------------------------------------------------


def listed(door, query=""):
    return door("GET", f"/v2/sandboxes{query}", status=200)


def ids_of(answer):
    return [one["sandboxID"] for one in answer.json]


def test_the_metadata_filter_is_decoded_as_the_sdks_encode_it(door, made):
    fits = made(metadata={"a b": "c&d=é", "x": "y"})
    made(metadata={"a b": "c&d=é"})
    js = "metadata=a%252520b%3Dc%252526d%25253D%2525C3%2525A9%26x%3Dy&state=running,paused&order=asc&limit=5"
    python = "metadata=a%252520b%3Dc%252526d%25253D%2525C3%2525A9%26x%3Dy&state=running%2Cpaused&order=asc&limit=5"
    for query in (js, python):
        assert ids_of(listed(door, f"?{query}")) == [fits["sandboxID"]]
    assert ids_of(listed(door, "?metadata=a%252520b%3Dc%252526d%25253D%2525C3%2525A9%26x%3Dz")) == []


def test_the_list_has_pages_in_either_order(door, made):
    mark = {"pages": "1"}
    made_ids = [made(metadata=mark)["sandboxID"] for _ in range(5)]
    whole = ids_of(listed(door, "?metadata=pages%3D1"))
    assert sorted(whole) == sorted(made_ids) and whole == made_ids[::-1]
    for order, expected in (("desc", whole), ("asc", whole[::-1])):
        seen, token = [], ""
        while token is not None:
            page = listed(door, f"?metadata=pages%3D1&limit=2&order={order}" + (f"&nextToken={token}" if token else ""))
            assert page.headers["X-Total-Running"] == "5"
            assert len(page.json) <= 2
            seen += ids_of(page)
            last, token = token, page.headers["X-Next-Token"]
            assert token != last
        assert seen == expected
    token = listed(door, "?metadata=pages%3D1&limit=2").headers["X-Next-Token"]
    assert is_refusal(door("GET", f"/v2/sandboxes?order=asc&nextToken={token}"), 400, "Invalid next token")
    for query in ("limit=0", "limit=101", "limit=x", "nextToken=%21", "nextToken=aGk", "order=up", "state=gone", "startedAfter=x",
                  "metadata=a", "template=base:v1"):
        assert is_refusal(door("GET", f"/v2/sandboxes?{query}"), 400)


def test_the_list_filters_by_start_template_and_state(door, made):
    sandbox = made(metadata={"filters": "1"})
    started = when(info(door, sandbox)["startedAt"])
    for after, there in ((started, True), (started - timedelta(seconds=1), True), (started + timedelta(microseconds=1), False),
                         (started + timedelta(seconds=1), False)):
        text = after.isoformat().replace("+", "%2B")
        assert (ids_of(listed(door, f"?metadata=filters%3D1&startedAfter={text}")) == [sandbox["sandboxID"]]) == there
    assert ids_of(listed(door, "?metadata=filters%3D1&template=base")) == [sandbox["sandboxID"]]
    assert listed(door, "?template=nosuch").json == []
    assert ids_of(listed(door, "?metadata=filters%3D1&state=paused")) == []
    door("POST", f"/sandboxes/{sandbox['sandboxID']}/pause", {}, status=204)
    paused = listed(door, "?metadata=filters%3D1&state=paused")
    assert ids_of(paused) == [sandbox["sandboxID"]] and paused.headers["X-Total-Running"] is None
    assert paused.json[0]["state"] == "paused"
    assert ids_of(listed(door, "?metadata=filters%3D1&state=running")) == []
    assert ids_of(door("GET", "/sandboxes?metadata=filters%3D1", status=200)) == []


# --- life --------------------------------------------------------------------------------------------------------


def test_a_timeout_ends_it_promptly_and_may_be_set_again(door, made):
    sandbox = made()
    door("POST", f"/sandboxes/{sandbox['sandboxID']}/timeout", {"timeout": 60}, status=204)
    assert when(info(door, sandbox)["endAt"]) < datetime.now(timezone.utc) + timedelta(seconds=61)
    door("POST", f"/sandboxes/{sandbox['sandboxID']}/timeout", {"timeout": 1}, status=204)
    assert door.is_running(sandbox)
    door.wait_gone(sandbox)
    assert is_refusal(door("GET", f"/sandboxes/{sandbox['sandboxID']}"), 404)
    assert sandbox["sandboxID"] not in ids_of(listed(door))
    other = made()
    door("POST", f"/sandboxes/{other['sandboxID']}/timeout", {"timeout": -3}, status=204)
    door.wait_gone(other)


def test_refreshes_only_lengthen(door, made):
    sandbox = made(timeout=100)
    before = info(door, sandbox)["endAt"]
    door("POST", f"/sandboxes/{sandbox['sandboxID']}/refreshes", {"duration": 20}, status=204)
    assert info(door, sandbox)["endAt"] == before
    door("POST", f"/sandboxes/{sandbox['sandboxID']}/refreshes", {"duration": 3000}, status=204)
    assert when(info(door, sandbox)["endAt"]) > when(before) + timedelta(seconds=2000)
    assert is_refusal(door("POST", f"/sandboxes/{sandbox['sandboxID']}/refreshes", {"duration": 3601}), 400)


def test_connect_never_shortens_a_life(door, made):
    sandbox = made(timeout=200)
    where, before = sandbox["sandboxID"], info(door, sandbox)["endAt"]
    for path, body in (("/sandboxes", {"timeout": 30}), ("/v2/sandboxes", {"timeout": 1}), ("/sandboxes", {"timeout": 0})):
        same = door("POST", f"{path}/{where}/connect", body, status=200).json
        assert same["sandboxID"] == where and same["envdAccessToken"] == sandbox["envdAccessToken"]
        assert info(door, sandbox)["endAt"] == before
    door("POST", f"/v2/sandboxes/{where}/connect", {}, status=200)
    assert when(info(door, sandbox)["endAt"]) > when(before) + timedelta(seconds=50)
    assert is_refusal(door("POST", f"/sandboxes/{where}/connect", {}), 400, "timeout")
    assert is_refusal(door("POST", f"/sandboxes/{where}/resume", {}), 409)


def test_what_ran_before_a_pause_of_files_alone_is_gone_when_it_goes_on(door, made, shared):
    """Nobody reaches the sandbox before the last of it has ended."""
    sandbox = made()
    where = sandbox["sandboxID"]
    for _ in range(8):
        shared.ok("exec", "--detach", where, "--", "sh", "-c", "trap '' TERM; sleep 1000")
    door("POST", f"/sandboxes/{where}/pause", {"memory": False}, status=204)
    door("POST", f"/v2/sandboxes/{where}/connect", {}, status=201)
    body = door.data(sandbox, "POST", "/process.Process/List", body=b"{}", headers={"Content-Type": "application/json"})
    assert body.status == 200 and not body.json.get("processes"), repr(body)


def test_pause_and_resume(door, made):
    sandbox = made()
    where = sandbox["sandboxID"]
    door("POST", f"/sandboxes/{where}/pause", {"memory": True}, status=204)
    assert not door.is_running(sandbox)
    assert is_refusal(door("POST", f"/sandboxes/{where}/pause", {}), 409, "already paused")
    assert info(door, sandbox)["state"] == "paused"
    assert is_refusal(door("POST", f"/sandboxes/{where}/timeout", {"timeout": 5}), 404)
    assert is_refusal(door("POST", f"/sandboxes/{where}/fork", {}), 409)
    started = when(info(door, sandbox)["startedAt"])
    woken = door("POST", f"/v2/sandboxes/{where}/connect", {"timeout": 60}, status=201).json
    assert woken == sandbox and door.is_running(sandbox)
    assert when(info(door, sandbox)["startedAt"]) > started
    assert when(info(door, sandbox)["endAt"]) < datetime.now(timezone.utc) + timedelta(seconds=61)
    door("POST", f"/sandboxes/{where}/pause", status=204)
    assert door("POST", f"/sandboxes/{where}/resume", {"timeout": 20}, status=201).json == sandbox


def test_a_pause_that_keeps_only_files_ends_what_runs(door, made, shared):
    sandbox = made()
    where = sandbox["sandboxID"]
    shared.ok("exec", "-d", where, "--", "sleep", "1000")
    shared.ok("exec", where, "--", "sh", "-c", "echo kept > f")
    door("POST", f"/sandboxes/{where}/pause", {"memory": False}, status=204)
    door("POST", f"/v2/sandboxes/{where}/connect", {}, status=201)
    assert "sleep" not in shared.ok("exec", where, "--", "sh", "-c", "cat /proc/[0-9]*/comm; cat f").text
    assert shared.ok("exec", where, "--", "cat", "f").text == "kept\n"
    shared.ok("exec", "-d", where, "--", "sleep", "1000")
    door("POST", f"/sandboxes/{where}/pause", {}, status=204)
    door("POST", f"/v2/sandboxes/{where}/connect", {}, status=201)
    assert "sleep" in shared.ok("exec", where, "--", "sh", "-c", "cat /proc/[0-9]*/comm").text


def test_at_the_end_of_its_time_it_may_be_paused_and_woken_by_traffic(door, made):
    kept = made(timeout=1, autoPause=True)
    woken = made(timeout=2, autoPause=True, autoResume={"enabled": True})
    wait_for(lambda: info(door, kept)["state"] == "paused" and info(door, woken)["state"] == "paused")
    assert info(door, woken)["lifecycle"] == {"autoResume": True, "onTimeout": "pause"}
    assert not door.is_running(kept)
    refused = door.data(woken["sandboxID"], "GET", "/health")
    assert refused.status == 403 and "can't be resumed" in refused.json["message"]
    assert info(door, woken)["state"] == "paused"
    assert door.is_running(woken)
    door("POST", f"/v2/sandboxes/{kept['sandboxID']}/connect", {}, status=201)
    assert door.is_running(kept)


def test_kill_is_told_once(door, made):
    sandbox = made()
    door("DELETE", f"/sandboxes/{sandbox['sandboxID']}", status=204)
    assert is_refusal(door("DELETE", f"/sandboxes/{sandbox['sandboxID']}"), 404)
    gone = door.data(sandbox, "GET", "/health")
    assert gone.status == 502
    assert gone.json == {"sandboxId": sandbox["sandboxID"], "message": "The sandbox was not found", "code": 502}
    paused = made()
    door("POST", f"/sandboxes/{paused['sandboxID']}/pause", {}, status=204)
    door("DELETE", f"/sandboxes/{paused['sandboxID']}", status=204)
    assert is_refusal(door("GET", f"/sandboxes/{paused['sandboxID']}"), 404)


def test_what_the_command_line_does_to_a_sandbox_is_seen(door, made, shared):
    sandbox = made()
    shared.ok("pause", sandbox["sandboxID"])
    assert info(door, sandbox)["state"] == "paused" and not door.is_running(sandbox)
    shared.ok("resume", sandbox["sandboxID"])
    assert door.is_running(sandbox)
    shared.ok("kill", sandbox["sandboxID"])
    assert sandbox["sandboxID"] not in ids_of(listed(door))
    assert is_refusal(door("GET", f"/sandboxes/{sandbox['sandboxID']}"), 404)


def test_a_sandbox_of_the_command_line_is_listed_and_reached(door, shared):
    box = shared.create("-l", "from=cli")
    assert ids_of(listed(door, "?metadata=from%3Dcli")) == [box]
    sandbox = door("POST", f"/v2/sandboxes/{box}/connect", {}, status=200).json
    assert sandbox["sandboxID"] == box and door.is_running(sandbox)
    door("DELETE", f"/sandboxes/{box}", status=204)
    assert box not in shared.sandboxes()


def test_what_belongs_to_a_sandbox_outlives_the_door(door, made, shared):
    sandbox = made(metadata={"k": "v"}, envVars={"A": "1"}, autoPause=True, autoResume={"enabled": True},
                   network={"allowPublicTraffic": False})
    assert TOKEN.fullmatch(sandbox["trafficAccessToken"])
    before = info(door, sandbox)
    other = shared.create()
    token = door("POST", f"/v2/sandboxes/{other}/connect", {}, status=200).json
    door.stop()
    door.__init__(shared)
    assert door.is_running(sandbox) and door.is_running(token)
    after = info(door, sandbox)
    for detail in (before, after):
        for name in ("cpuCount", "memoryMB", "diskSizeMB"):
            detail.pop(name)
    assert after == before
    assert door("POST", f"/v2/sandboxes/{sandbox['sandboxID']}/connect", {}, status=200).json == sandbox
    shared.ok("kill", other)


# --- who is let in -----------------------------------------------------------------------------------------------


def test_other_ports_ask_for_the_traffic_token_where_one_was_given(door, made):
    sandbox = made(network={"allowPublicTraffic": False})
    missing = door.data(sandbox, "GET", "/", port=8000)
    assert missing.status == 403 and missing.json["message"].endswith("is missing")
    wrong = door.data(sandbox, "GET", "/", port=8000, headers={"E2b-Traffic-Access-Token": "0" * 64})
    assert wrong.status == 403 and wrong.json["message"].endswith("is invalid")
    right = door.data(sandbox, "GET", "/", port=8000, headers={"E2b-Traffic-Access-Token": sandbox["trafficAccessToken"]})
    assert right.status == 502 and right.json["port"] == 8000
    reserved = door.data(sandbox, "POST", "/init")
    for answer in (missing, wrong, right, reserved):  # a page of any origin may read why
        assert answer.headers["Access-Control-Allow-Origin"] == "*", repr(answer)
    assert door.is_running(sandbox)
    old = door("POST", "/sandboxes", {"templateID": "base", "network": {"allowPublicTraffic": False}})
    assert is_refusal(old, 400, "allowPublicTraffic")


@pytest.mark.parametrize("text", ["", "nonsense", "{}", "[]", '{"publicTraffic": "x"}'])
def test_ports_that_were_closed_stay_so_when_their_notes_are_broken(door, made, shared, text):
    sandbox = made(network={"allowPublicTraffic": False})
    door.stop()
    (shared.home / "e2b" / "boxes" / f"{sandbox['sandboxID']}.json").write_text(text)
    door.__init__(shared)
    door("GET", f"/sandboxes/{sandbox['sandboxID']}", status=200)
    assert door.data(sandbox, "GET", "/", port=8000).status == 403


def test_a_sandbox_whose_closed_ports_cannot_be_noted_is_not_made(door, made, shared):
    """After a restart of the door its ports would be open to all."""
    source = made(network={"allowPublicTraffic": False})
    folder = shared.home / "e2b" / "boxes"
    folder.rename(folder.with_name("away"))
    folder.write_text("")
    before = len(door("GET", "/v2/sandboxes", status=200).json)
    try:
        closed = door("POST", "/v2/sandboxes", {"templateID": "base", "network": {"allowPublicTraffic": False}})
        assert is_refusal(closed, 500, "e2b/boxes")
        forks = door("POST", f"/sandboxes/{source['sandboxID']}/fork", {"count": 1}, status=201).json
        assert "e2b/boxes" in forks[0]["error"]["message"], forks
        open_one = made()  # nothing is lost with its notes that would let somebody in
        assert door.is_running(open_one)
        wait_for(lambda: len(door("GET", "/v2/sandboxes", status=200).json) == before + 1)
    finally:
        folder.unlink()
        folder.with_name("away").rename(folder)


def test_a_list_meanwhile_takes_nothing_of_a_new_sandbox(door, made):
    """What its creator said is kept, whoever sees the sandbox first."""
    done = threading.Event()

    def look():
        while not done.is_set():
            door("GET", "/v2/sandboxes", status=200)
    lookers = [threading.Thread(target=look) for _ in range(3)]
    for t in lookers:
        t.start()
    try:
        boxes = [made(envVars={"A": str(n)}, network={"allowPublicTraffic": False}) for n in range(8)]
    finally:
        done.set()
    for t in lookers:
        t.join()
    for box in boxes:
        assert TOKEN.fullmatch(box["trafficAccessToken"])
        assert door.data(box, "GET", "/", port=8000).status == 403


def test_code_is_run_for_who_has_the_token(door, made):
    sandbox = made()
    code = json.dumps({"code": "6*7"}).encode()
    for headers in ({}, {"X-Access-Token": "0" * 64}):
        assert door.data(sandbox["sandboxID"], "POST", "/execute", 49999, code, headers).status == 401
    assert b"end_of_execution" in door.data(sandbox, "POST", "/execute", 49999, code).body
    assert door.data(sandbox["sandboxID"], "GET", "/contexts", 49999).status == 200  # the SDKs send none here


def test_a_sandbox_is_named_by_headers_by_host_and_by_path(door, made):
    sandbox = made()
    where, token = sandbox["sandboxID"], {"X-Access-Token": sandbox["envdAccessToken"]}
    for host in (f"49983-{where}.e2b.local", f"49983-{where}.localhost:1234", f"49983-{where}-6532622b.anything.example"):
        assert door.raw("GET", "/health", headers=token, host=host).status == 204
    assert door.raw("GET", f"/sandbox/{where}/49983/health", headers=token).status == 204
    assert door.raw("GET", f"/sandbox/{where}/49983/health?x=1", headers=token).status == 204
    for headers in ({"E2b-Sandbox-Id": where}, {"E2b-Sandbox-Port": "49983"}, {"E2b-Sandbox-Id": where, "E2b-Sandbox-Port": "x"}):
        assert is_refusal(door.raw("GET", "/health", headers=headers), 400, "missing header")
    for word in ("inone", "i0123456789abcdefghij", "x" * 200):
        gone = door.raw("GET", "/health", headers={"E2b-Sandbox-Id": word, "E2b-Sandbox-Port": "49983"})
        assert gone.status == 502 and gone.json == {"sandboxId": word, "message": "The sandbox was not found", "code": 502}
    assert door.raw("GET", "/health", host="49983-inone.example.com").status == 502


def test_a_signed_url_without_a_name_finds_its_sandbox(door, made, shared):
    boxes = [made() for _ in range(3)]
    shared.ok("exec", boxes[1]["sandboxID"], "--", "sh", "-c", "echo signed > f")
    for expires, status in ((None, 200), (int(time.time()) + 100, 200), (1000, 401)):
        signature = urllib.parse.quote(recorded.sign("f", "read", "user", boxes[1]["envdAccessToken"], expires), safe="")
        target = f"/files?username=user&path=f&signature={signature}" + (f"&signature_expiration={expires}" if expires else "")
        answer = door.raw("GET", target)
        assert answer.status == status, repr(answer)
        assert answer.body == b"signed\n" if status == 200 else "expired" in answer.json["message"]
    wrong = door.raw("GET", "/files?username=user&path=g&signature=" + signature)
    assert wrong.status == 401 and wrong.json["message"] == "invalid signature"


# --- fork, snapshots, templates --------------------------------------------------------------------------------------


def test_forks_have_the_files_of_their_source(door, made, shared):
    sandbox = made(metadata={"of": "fork"}, envVars={"A": "1"})
    shared.ok("exec", sandbox["sandboxID"], "--", "sh", "-c", "echo kept > f")
    forks = [one["sandbox"] for one in door("POST", f"/sandboxes/{sandbox['sandboxID']}/fork", {"count": 2}, status=201).json]
    assert len({one["sandboxID"] for one in forks} | {sandbox["sandboxID"]}) == 3
    for one in forks:
        assert TOKEN.fullmatch(one["envdAccessToken"]) and one["templateID"] == "base"
        assert shared.ok("exec", one["sandboxID"], "--", "sh", "-c", "cat f; echo $A").text == "kept\n1\n"
        assert info(door, one)["metadata"] == {"of": "fork"}
        door("DELETE", f"/sandboxes/{one['sandboxID']}", status=204)
    for count in (0, 101, "1"):
        assert is_refusal(door("POST", f"/sandboxes/{sandbox['sandboxID']}/fork", {"count": count}), 400)


def test_snapshots_have_names_pages_and_filters(door, made, shared):
    first, second = made(), made()
    shared.ok("exec", first["sandboxID"], "--", "sh", "-c", "echo one > f")
    path = f"/sandboxes/{first['sandboxID']}/snapshots"
    plain = door("POST", path, {}, status=201).json
    named = door("POST", path, {"name": "Team/Snap:v1"}, status=201).json
    assert plain["names"] == [] and named["names"] == ["team/snap:v1"]
    other = door("POST", f"/sandboxes/{second['sandboxID']}/snapshots", {}, status=201).json
    all_ids = [one["snapshotID"] for one in door("GET", "/snapshots", status=200).json]
    assert sorted(all_ids) == sorted(one["snapshotID"] for one in (plain, named, other))
    of_first = door("GET", f"/snapshots?sandboxID={first['sandboxID']}", status=200).json
    assert [one["snapshotID"] for one in of_first] == [named["snapshotID"], plain["snapshotID"]]
    assert door("GET", "/snapshots?name=team%2Fsnap%3Av1", status=200).json == [named]
    page = door("GET", "/snapshots?limit=2", status=200)
    rest = door("GET", f"/snapshots?limit=2&nextToken={page.headers['X-Next-Token']}", status=200)
    assert [one["snapshotID"] for one in page.json + rest.json] == all_ids and rest.headers["X-Next-Token"] is None
    boxes = [made(templateID=named["snapshotID"]), made(templateID="team/snap:v1")]
    for box in boxes:
        assert shared.ok("exec", box["sandboxID"], "--", "cat", "f").text == "one\n"
    newer = door("POST", f"/sandboxes/{second['sandboxID']}/snapshots", {"name": "team/snap:v1"}, status=201).json
    assert door("GET", "/snapshots?name=team%2Fsnap%3Av1", status=200).json == [newer]
    door("DELETE", "/templates/team%2Fsnap%3Av1", status=204)
    assert is_refusal(door("DELETE", "/templates/team%2Fsnap%3Av1"), 404)
    for one in (plain, named, other):
        door("DELETE", f"/templates/{one['snapshotID'].replace(':', '%3A')}", status=204)
        assert is_refusal(door("DELETE", f"/templates/{one['snapshotID']}"), 404)
    assert door("GET", "/snapshots", status=200).json == []
    assert is_refusal(door("POST", path, {"name": "no name!"}), 400)


def test_templates_are_listed_and_found(door, made, shared, tmp_path):
    (tmp_path / "f").mkdir()
    (tmp_path / "f/hello").write_text("hi")
    shared.ok("template", "add", "mine", tmp_path / "f")
    listed_ids = {name for one in door("GET", "/templates", status=200).json for name in one["aliases"]}
    assert {"base", "mine"} <= listed_ids
    assert door("GET", "/templates/aliases/mine", status=200).json["public"] is True
    assert door("GET", "/templates/aliases/base", status=200).json["templateID"] == "base"
    assert is_refusal(door("GET", "/templates/aliases/nosuch"), 404)
    door("DELETE", "/templates/mine", status=204)
    assert is_refusal(door("DELETE", "/templates/mine"), 404)


# --- metrics and logs ---------------------------------------------------------------------------------------------------


def test_metrics_have_a_first_sample_and_a_range(door, made):
    sandbox = made()
    where = sandbox["sandboxID"]
    now = int(time.time())
    (sample, *_) = wait_for(lambda: door("GET", f"/sandboxes/{where}/metrics", status=200).json, "a first sample")
    assert set(sample) == {"timestamp", "timestampUnix", "cpuCount", "cpuUsedPct", "memUsed", "memTotal", "memCache", "diskUsed",
                           "diskTotal"}
    assert sample["memTotal"] > 0 and sample["cpuCount"] > 0 and abs(sample["timestampUnix"] - now) < 60
    assert door("GET", f"/sandboxes/{where}/metrics?start={now - 60}&end={now + 60}", status=200).json
    assert door("GET", f"/sandboxes/{where}/metrics?start=1000&end=2000", status=200).json == []
    assert is_refusal(door("GET", f"/sandboxes/{where}/metrics?start=x"), 400)
    many = door("GET", f"/sandboxes/metrics?sandbox_ids={where},inone", status=200).json
    assert list(many["sandboxes"]) == [where]
    assert info(door, sandbox)["memoryMB"] > 0


def test_logs_are_empty_and_a_network_that_cannot_change_is_told(door, made):
    where = made()["sandboxID"]
    assert door("GET", f"/sandboxes/{where}/logs", status=200).json == {"logs": [], "logEntries": []}
    assert door("GET", f"/v2/sandboxes/{where}/logs", status=200).json == {"logs": []}
    assert is_refusal(door("PUT", f"/sandboxes/{where}/network", {"denyOut": ["8.8.8.8"]}), 501, "E8004")


def test_many_that_ask_at_once_are_all_answered(door):
    answers = []

    def one(n):
        sandbox = door.create(metadata={"many": str(n)})
        answers.append(door.is_running(sandbox) and door("DELETE", f"/sandboxes/{sandbox['sandboxID']}").status)

    threads = [threading.Thread(target=one, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert answers == [204] * 8


# --- the recorded requests of the real clients ---------------------------------------------------------------------------

DOCS = (HERE.parents[1] / "docs/e2b.md").read_text() if (HERE.parents[1] / "docs/e2b.md").exists() else ""
# Recorded call → (status of ours, the line of docs/e2b.md that says why).
DIFFERENT = {
    "Sandbox.create('limit') with 429 Retry-After 1": (404, "no rate limits"),
    "Sandbox.create('limit') with 429 Retry-After 1, retries 1": (404, "no rate limits"),
    "Sandbox.create(network=..., lifecycle=..., secure=True)": (501, "`allowOut`"),
    "sandbox.update_network(...)": (501, "`updateNetwork`"),
    "Sandbox.connect(paused, on_resume='reboot')": (200, ""),
}
# Members whose values are a matter of the sandbox.
OWN = {"sandboxID", "envdAccessToken", "startedAt", "endAt", "cpuCount", "memoryMB", "diskSizeMB", "timestamp", "timestampUnix",
       "cpuUsedPct", "memUsed", "memTotal", "memCache", "diskUsed", "diskTotal", "snapshotID", "names", "sandboxId", "metadata"}


class Replay:
    """Sends the requests of a file; a recorded id is a sandbox of ours, made when it is first met."""

    def __init__(self, door):
        self.door, self.ids = door, {}

    def ours(self, text):
        for old in re.findall(r"irec\d{16}", text):
            if old not in self.ids:
                self.ids[old] = self.door.create()["sandboxID"]
            text = text.replace(old, self.ids[old])
        return text

    def send(self, e):
        c = http.client.HTTPConnection("127.0.0.1", self.door.port, timeout=60)
        c.putrequest(e.verb, self.ours(e.target), skip_host=True, skip_accept_encoding=True)
        chunked = e.request.get("framing") == "chunked"
        body = e.request.get("body", "").encode()
        for header in e.request["headers"]:
            name, _, value = header.partition(": ")
            if name.lower() == "x-api-key":
                value = self.door.key
            c.putheader(name, self.ours(value))
        if chunked and not any(h.lower().startswith("transfer-encoding") for h in e.request["headers"]):
            c.putheader("Transfer-Encoding", "chunked")
        if not chunked and body and not any(h.lower().startswith("content-length") for h in e.request["headers"]):
            c.putheader("Content-Length", str(len(body)))
        c.endheaders([body] if chunked else body or None, encode_chunked=chunked)
        r = c.getresponse()
        answer = Answer(r.status, r.headers, r.read())
        c.close()
        return answer


def same(recorded_value, our_value, where):
    if isinstance(recorded_value, dict):
        for name, value in recorded_value.items():
            assert name in our_value, f"{where}: no '{name}' in {our_value}"
            if name in OWN:
                assert type(our_value[name]) in (type(value), int, float), f"{where}: {name}"
            else:
                same(value, our_value[name], f"{where}.{name}")
    elif isinstance(recorded_value, list):
        assert isinstance(our_value, list), where
        for one in our_value[:1]:
            same(recorded_value[0] if recorded_value else one, one, where)
    else:
        assert recorded_value == our_value, where


def is_of_the_door(e):
    gone = " 502" in (e.response.get("line") or "")
    return e.line.get("plane") == "control" or (gone and e.response.get("from") == "stub")


@pytest.mark.parametrize("file", ["control-python", "control-js", "cli"])
def test_the_recorded_requests_get_the_recorded_answers(door, file):
    replay = Replay(door)
    for e in recorded.load(file):
        if not is_of_the_door(e):
            continue
        if "team%2Fsnap" in e.target:
            door("POST", replay.ours("/sandboxes/irec0000000000000005/snapshots"), {"name": "team/snap:v1"}, status=201)
        answer = replay.send(e)
        where = f"{e.where} {e.call}"
        status, why = DIFFERENT.get(e.call, (int(e.response["line"].split()[1]), ""))
        assert answer.status == status, f"{where}: {answer!r}"
        assert why in DOCS, where
        text = e.response.get("body") or ""
        if e.call not in DIFFERENT and text and "cut" not in e.response:
            theirs, mine = json.loads(text), answer.json
            if answer.status >= 400:
                for old, new in replay.ids.items():
                    text = text.replace(old, new)
                assert json.loads(text) == mine, where
            else:
                same(theirs, mine, where)
            assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
        if e.verb == "POST" and e.target.endswith("/sandboxes") and answer.status == 201:
            made = json.loads(text)
            replay.ids.setdefault(made["sandboxID"], answer.json["sandboxID"])
    for one in set(replay.ids.values()):
        door("DELETE", f"/sandboxes/{one}")
