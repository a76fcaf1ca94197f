"""What the clients of a sandbox see when it ends or is paused: their streams are reset, not closed; then 502, and nothing else breaks."""

import json
import socket
import struct
import threading

import pytest

from door import Door
from harness import wait_for

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def door(shared):
    d = Door(shared)
    yield d
    d.stop()


class Stream:
    """Start of `sleep 1000` as the SDKs send it; open until the server ends it."""

    def __init__(self, door, sandbox):
        message = json.dumps({"process": {"cmd": "/bin/sleep", "args": ["1000"]}, "stdin": False}).encode()
        body = b"\0" + struct.pack(">I", len(message)) + message
        head = (f"POST /process.Process/Start HTTP/1.1\r\nHost: 127.0.0.1:{door.port}\r\nConnect-Protocol-Version: 1\r\n"
                f"Content-Type: application/connect+json\r\nE2b-Sandbox-Id: {sandbox['sandboxID']}\r\nE2b-Sandbox-Port: 49983\r\n"
                f"X-Access-Token: {sandbox['envdAccessToken']}\r\nContent-Length: {len(body)}\r\n\r\n")
        self.socket = socket.create_connection(("127.0.0.1", door.port), timeout=60)
        self.socket.sendall(head.encode() + body)
        self.seen = b""
        while b'"start"' not in self.seen:
            got = self.socket.recv(65536)
            assert got, self.seen
            self.seen += got

    def end(self):
        """"reset", or what came instead."""
        try:
            while True:
                got = self.socket.recv(65536)
                if not got:
                    return "closed"
                self.seen += got
        except ConnectionResetError:
            return "reset"
        finally:
            self.socket.close()


def check_reset(stream):
    assert stream.end() == "reset", stream.seen
    assert b'"end"' not in stream.seen and b"0\r\n\r\n" not in stream.seen, stream.seen


ENDS = {
    "killed at the door": lambda door, shared, where: door("DELETE", f"/sandboxes/{where}", status=204),
    "killed by the command line": lambda door, shared, where: shared.ok("kill", where),
    "at the end of its time": lambda door, shared, where: door("POST", f"/sandboxes/{where}/timeout", {"timeout": 1}, status=204),
}


@pytest.mark.parametrize("how", ENDS)
def test_streams_of_a_sandbox_that_ends_are_reset(door, shared, how):
    sandbox, other = door.create(), door.create()
    streams = [Stream(door, sandbox) for _ in range(3)]
    kept = Stream(door, other)
    ENDS[how](door, shared, sandbox["sandboxID"])
    for stream in streams:
        check_reset(stream)
    door.wait_gone(sandbox)
    for path in ("/process.Process/List", "/files?path=x", "/anything"):
        gone = door.data(sandbox, "POST", path, body=b"{}")
        assert gone.status == 502 and gone.json["message"] == "The sandbox was not found"
    # the other one has noticed nothing
    assert door.is_running(other)
    kept.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        kept.socket.recv(1)
    kept.socket.close()
    door("DELETE", f"/sandboxes/{other['sandboxID']}", status=204)


@pytest.mark.parametrize("how", ["door", "cli"])
def test_streams_of_a_sandbox_that_is_paused_are_reset_and_its_processes_go_on(door, shared, how):
    sandbox = door.create()
    where = sandbox["sandboxID"]
    stream = Stream(door, sandbox)
    if how == "door":
        door("POST", f"/sandboxes/{where}/pause", {}, status=204)
    else:
        shared.ok("pause", where)
        assert not door.is_running(sandbox)
    check_reset(stream)
    assert not door.is_running(sandbox)
    door("POST", f"/v2/sandboxes/{where}/connect", {}, status=201)
    listed = door.data(sandbox, "POST", "/process.Process/List", body=b"{}", headers={"Content-Type": "application/json"})
    assert [p["config"]["args"] for p in listed.json["processes"]] == [["1000"]]
    door("DELETE", f"/sandboxes/{where}", status=204)


def test_a_stop_lets_short_requests_end_and_cuts_long_ones(shared, door):
    sandbox = door.create()
    stream = Stream(door, sandbox)
    assert shared.ok("e2b", "stop", "--json").json == {"stopped": True}
    assert stream.end() in ("reset", "closed")
    shared("e2b", "status", code=10)
    door.__init__(shared)
    wait_for(lambda: door.is_running(sandbox), "the sandbox outlives the door")
    listed = door.data(sandbox, "POST", "/process.Process/List", body=b"{}", headers={"Content-Type": "application/json"})
    assert [p["config"]["args"] for p in listed.json["processes"]] == [["1000"]]
    door("DELETE", f"/sandboxes/{sandbox['sandboxID']}", status=204)


@pytest.mark.parametrize("how", ENDS)
def test_who_asks_whether_it_lives_always_gets_an_answer(door, shared, how):
    sandbox = door.create()
    answers, stop = [], threading.Event()

    def ask():
        while not stop.is_set():
            try:
                answers.append(door.is_running(sandbox))
            except OSError as e:
                answers.append(e)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for t in threads:
        t.start()
    wait_for(lambda: len(answers) > 8)
    ENDS[how](door, shared, sandbox["sandboxID"])
    wait_for(lambda: answers[-1] is not True, "its end is seen")
    stop.set()
    for t in threads:
        t.join()
    assert {type(a) for a in answers} == {bool} and answers[-1] is False, answers[-10:]
