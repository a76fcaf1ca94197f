"""The E2B door over a provider's program as `abx provider new` writes it, whose processes cannot live on without their call."""

import base64

import pytest

from door import Door
from harness import wait_for
from test_e2b_data import connect, head, read_until, rpc, start

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def door(shared):
    shared("provider", "new", "plain", "--lang", "python")
    d = Door(shared, "-P", "./plain")
    yield d
    d.stop()


@pytest.fixture(scope="module")
def box(door):
    made = door.create()
    yield made
    door("DELETE", f"/sandboxes/{made['sandboxID']}")


def test_commands_run_and_live_on_without_who_started_them(door, box):
    for n in range(2):  # the first one learns that the provider has no onDisconnect
        s = start(door, box, "/bin/sh", "-c", f"echo out{n}; echo err{n} >&2; exit 3")
        seen = read_until(s, b'"exitCode":3')
        assert b"exit status 3" in seen
    s = start(door, box, "/bin/sh", "-c", "sleep 0.3; echo done > lived; sleep 100", tag="long")
    read_until(s, b'"pid"')
    s.close()
    again = connect(door)
    body = b'\0' + len(b'{"process":{"tag":"long"}}').to_bytes(4, "big") + b'{"process":{"tag":"long"}}'
    again.sendall(head(door, box, "/process.Process/Connect", Content_Type="application/connect+json",
                       Content_Length=len(body)) + body)
    read_until(again, b'"pid"')
    wait_for(lambda: door.data(box, "GET", "/files?path=lived").body == b"done\n")
    rpc(door, box, "/process.Process/SendSignal", {"process": {"tag": "long"}, "signal": "SIGNAL_SIGKILL"})
    read_until(again, b"signal: killed")


def test_without_signals_a_kill_ends_the_call_that_runs_the_process(abx):
    abx("provider", "new", "bare", "--lang", "bash")
    door = Door(abx, "-P", "./bare")
    try:
        box = door.create()
        s = start(door, box, "/bin/sh", "-c", "echo runs; sleep 1000", tag="long")
        read_until(s, base64.b64encode(b"runs\n"))
        rpc(door, box, "/process.Process/SendSignal", {"process": {"tag": "long"}, "signal": "SIGNAL_SIGTERM"}, status=501)
        rpc(door, box, "/process.Process/SendSignal", {"process": {"tag": "long"}, "signal": "SIGNAL_SIGKILL"})
        read_until(s, b"signal: killed")
        assert rpc(door, box, "/process.Process/List", {}) == {}
        rpc(door, box, "/process.Process/SendSignal", {"process": {"tag": "long"}, "signal": "SIGNAL_SIGKILL"}, status=404)
        door("DELETE", f"/sandboxes/{box['sandboxID']}", status=204)
    finally:
        door.stop()
