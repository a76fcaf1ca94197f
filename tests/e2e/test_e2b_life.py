"""The E2B door as a server: one in a home, found, stopped, killed, idle; who may talk to it."""

import json
import os
import random
import re
import signal
import socket
import stat
import time

import pytest

from door import Door
from harness import count, descriptors, is_alive, wait_for
from test_schema import check_object


@pytest.fixture
def served(abx):
    """The program, whose server is ended after the test."""
    yield abx
    abx("e2b", "stop")


@pytest.fixture(scope="module")
def door(shared):
    d = Door(shared)
    yield d
    d.stop()


@pytest.fixture(scope="module")
def schema(shared):
    return shared.ok("schema").json


def test_its_url_and_state_are_told(door, shared, schema):
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", door.url)
    status = shared.ok("e2b", "status", "--json").json
    check_object(schema, "server", status, "e2b status")
    assert status["url"] == door.url and status["provider"] == "local" and status["running"]
    assert "key" not in status
    assert door.url in shared.ok("e2b", "status").text
    again = shared.ok("e2b", "serve", "--detach", "--json").json
    assert again == status


def test_the_variables_are_lines_for_a_shell_or_an_object(door, shared, schema):
    check_object(schema, "e2bVariables", door.env, "e2b env")
    assert re.fullmatch(r"e2b_[0-9a-f]{48}", door.key)
    assert door.env["E2B_API_URL"] == door.env["E2B_SANDBOX_URL"] == door.url
    lines = shared.ok("e2b", "env").text.splitlines()
    assert lines == [f"export {name}={value}" for name, value in door.env.items()]


def test_only_its_owner_can_read_its_files(door, shared):
    for name in ("e2b.json", "e2b.lock", "e2b.log", "e2b/key.json"):
        mode = stat.S_IMODE((shared.home / name).stat().st_mode)
        assert mode == 0o600, name


def test_without_the_key_nothing_but_health_is_answered(door):
    assert door.raw("GET", "/health").status == 200
    for headers in ({}, {"X-API-Key": "e2b_" + "0" * 48}, {"X-API-Key": door.key + "0"},
                    {"Authorization": "Bearer nonsense"}):
        answer = door.raw("GET", "/v2/sandboxes", headers=headers)
        assert answer.status == 401 and answer.json["code"] == 401, repr(answer)
        assert door.key not in answer.body.decode()
    assert door.raw("GET", "/v2/sandboxes", headers={"Authorization": f"Bearer {door.key}"}).status == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "api.evil.example", "127.0.0.1.evil.example"])
def test_the_control_plane_does_not_answer_under_a_strangers_name(door, host):
    answer = door.raw("GET", "/v2/sandboxes", headers={"X-API-Key": door.key}, host=host)
    assert answer.status == 403 and answer.json["code"] == 403, repr(answer)


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "a.localhost", "127.0.0.1", "[::1]:80", "10.1.2.3:4"])
def test_it_answers_under_names_of_this_machine(door, host):
    assert door.raw("GET", "/v2/sandboxes", headers={"X-API-Key": door.key}, host=host).status == 200


def test_a_page_of_any_origin_may_ask_but_needs_the_key(door):
    asked = door.raw("OPTIONS", "/v2/sandboxes", headers={"Origin": "https://x.example", "Access-Control-Request-Method": "POST",
                                                          "Access-Control-Request-Headers": "x-api-key"})
    assert asked.status == 204 and asked.headers["Access-Control-Allow-Origin"] == "*"
    assert "POST" in asked.headers["Access-Control-Allow-Methods"]
    assert door.raw("GET", "/v2/sandboxes", headers={"Origin": "https://x.example"}).status == 401


def test_a_second_one_in_the_foreground_is_told_of_the_first(door, shared):
    refused = shared("e2b", "serve", code=5)
    assert door.url in refused.errors
    other = shared("e2b", "serve", "--detach", "-P", "alicloud-express", code=5)
    assert "serves provider 'local'" in other.errors


def test_without_a_server_the_verbs_say_so(served):
    assert "no E2B server runs" in served("e2b", "status", code=10).errors
    assert "abx e2b serve --detach" in served("e2b", "env", code=10).errors
    assert served.ok("e2b", "stop", "--json").json == {"stopped": False}


def test_it_serves_in_the_foreground_until_a_signal(served, spawn):
    p = spawn(served, "e2b", "serve")
    url = p.stdout.readline().decode().strip()
    assert served.ok("e2b", "status", "--json").json["url"] == url
    p.send_signal(signal.SIGTERM)
    assert p.wait(timeout=30) == 0
    served("e2b", "status", code=10)
    assert not (served.home / "e2b.json").exists()


def test_key_and_port_stay_the_same_over_a_restart(served):
    first = Door(served)
    assert served.ok("e2b", "stop", "--json").json == {"stopped": True}
    second = Door(served)
    assert second.key == first.key and second.url == first.url and second.pid != first.pid


def test_env_starts_it(served):
    lines = served.ok("e2b", "env", "--start").text
    assert f"export E2B_API_URL={served.ok('e2b', 'status', '--json').json['url']}" in lines


def test_it_ends_when_nobody_uses_it(served):
    door = Door(served, "--idle", "1s")
    wait_for(lambda: not is_alive(door.pid), "it ends")
    served("e2b", "status", code=10)


def test_many_that_start_at_once_are_one(served, spawn):
    started = [spawn(served, "e2b", "serve", "--detach", "--json") for _ in range(20)]
    answers = [json.loads(p.communicate(timeout=60)[0]) for p in started]
    assert {p.returncode for p in started} == {0}
    assert len({a["pid"] for a in answers}) == 1 and len({a["url"] for a in answers}) == 1


def test_what_a_killed_one_leaves_stops_nobody(served):
    for _ in range(3):
        door = Door(served)
        os.kill(door.pid, signal.SIGKILL)
        wait_for(lambda: not is_alive(door.pid), "it is dead")
        assert (served.home / "e2b.json").exists()
        served("e2b", "status", code=10)


def test_files_that_others_could_read_are_refused(served):
    door = Door(served)
    (served.home / "e2b.json").chmod(0o644)
    assert "only its owner can read" in served("e2b", "env", code=2).errors
    (served.home / "e2b.json").chmod(0o600)
    text = (served.home / "e2b.json").read_text()
    for broken in ("{}", "[]", '{"pid": "x"}', "nonsense"):
        (served.home / "e2b.json").write_text(broken)
        assert "e2b.json" in served("e2b", "env", code=2).errors
    (served.home / "e2b.json").write_text(text)
    door.stop()
    key = served.home / "e2b" / "key.json"
    key.chmod(0o640)
    assert "could be read by others" in served("e2b", "serve", "--detach", code=2).errors
    key.chmod(0o600)
    key.write_text("{}")
    assert "holds no key" in served("e2b", "serve", "--detach", code=2).errors
    key.unlink()
    assert Door(served).key != door.key


def test_killed_at_any_moment_of_its_start_it_stops_nobody(served, spawn):
    for n in range(count(8, 200)):
        p = spawn(served, "e2b", "serve")
        time.sleep(random.uniform(0, 0.03) if n % 2 else 0)
        p.kill()
        p.wait(timeout=30)
    door = Door(served)
    assert door("GET", "/v2/sandboxes").json == []
    assert {path.name for path in (served.home / "e2b").iterdir()} <= {"key.json", "boxes"}


def test_a_sandbox_that_ended_by_itself_leaves_no_descriptors(served):
    door = Door(served)

    def live_and_end(n):
        boxes = [door.create(timeout=1) for _ in range(n)]
        for box in boxes:
            door.data(box, "GET", "/health")
            door.wait_gone(box)

    live_and_end(1)  # what is opened once
    before = descriptors(door.pid)
    live_and_end(3)
    wait_for(lambda: descriptors(door.pid) <= before, "the descriptors are given back")


def test_a_port_that_is_taken_is_told(served):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused = served("e2b", "serve", "--detach", "--port", str(taken.getsockname()[1]), code=5)
    assert "is in use" in refused.errors and "leave --port out" in refused.errors
    served("e2b", "status", code=10)


def test_the_port_of_last_time_may_be_taken(served):
    door = Door(served)
    door.stop()
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", door.port))
        taken.listen()
        assert Door(served).port != door.port


def test_in_the_background_it_holds_nothing_of_its_caller(served):
    ours, given = os.pipe()
    p = served.start("e2b", "serve", "--detach", pass_fds=[given])
    p.communicate(timeout=60)
    os.close(given)
    assert os.read(ours, 1) == b""  # end of file: nobody has the other end
    os.close(ours)
    pid = served.ok("e2b", "status", "--json").json["pid"]
    assert os.getsid(pid) == pid != os.getsid(0)
