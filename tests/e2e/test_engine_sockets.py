"""WebSockets of the engine: terminals, tunnels, and frames that nobody should send."""

import json
import struct
import urllib.parse

import pytest

from engine_client import Engine, output, websocket
from harness import count, wait_for

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def engine(shared):
    started = Engine(shared)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def box(engine):
    return engine.create(timeoutMs=900_000)


def terminal(engine, box, script=None, **query):
    pairs = [("cmd", word) for word in ("sh", "-c", script)] if script else []
    return engine.socket(f"/v1/sandboxes/{box}/terminal?" + urllib.parse.urlencode([*pairs, *query.items()]))


def started(ws):
    return json.loads(ws.receive())["started"]["id"]


def until(ws, text):
    seen = b""
    while text not in seen:
        message = ws.receive()
        assert isinstance(message, bytes), (message, seen, ws.closed)
        seen += message
    return seen


def the_rest(ws):
    """(bytes, the text frames) up to the close."""
    data, texts = b"", []
    for message in iter(ws.receive, None):
        if isinstance(message, bytes):
            data += message
        else:
            texts.append(json.loads(message))
    return data, texts


# --- terminals ------------------------------------------------------------------------------------------------


def test_a_terminal(engine, box):
    ws = terminal(engine, box, "stty size; echo $TERM $WHAT; pwd; read -r line; echo got $line; exit 7", cols=91, rows=33, term="vt100", env="WHAT=a=b", cwd="/tmp")
    assert started(ws)
    assert until(ws, b"/tmp\r\n") == b"33 91\r\nvt100 a=b\r\n/tmp\r\n"
    ws.send(b"he")
    ws.send(b"llo\n")
    data, texts = the_rest(ws)
    assert b"got hello\r\n" in data and texts == [{"exit": {"exitCode": 7}}] and ws.closed == 1000


def test_a_shell_and_its_size(engine, box):
    ws = terminal(engine, box)
    started(ws)
    for cols in range(40, 60):
        ws.send(json.dumps({"resize": {"cols": cols, "rows": 20}}))
    ws.send(b"echo $((40 + 2)) answer\n")
    until(ws, b"42 answer")
    wait_for(lambda: ws.send(b"stty size; echo asked\n") or b"20 59" in until(ws, b"asked\r\n"), "the last size is there")
    ws.send(b"kill -KILL $$\n")
    assert the_rest(ws)[1] == [{"exit": {"signal": "SIGKILL"}}]


def test_much_goes_both_ways(engine, box):
    """More than any buffer holds: a paste that is read late, an output that is taken late."""
    size = count(2_000_000, 100_000_000)
    ws = terminal(engine, box, f"stty raw -echo; echo ready; sleep 0.5; head -c {size} | sha256sum; head -c {size} /dev/zero; echo over")
    started(ws)
    until(ws, b"ready\n")
    for _ in range(size // 100_000):
        ws.send(b"x" * 100_000)
    data, texts = the_rest(ws)
    assert data.count(b"\0") == size and data.endswith(b"over\n") and texts == [{"exit": {"exitCode": 0}}]


def test_an_error_before_the_upgrade(engine, box):
    def refused(target):
        with pytest.raises(websocket.Refused) as e:
            engine.socket(target)
        return e.value.status, json.loads(e.value.body)["error"]["code"]

    target = f"/v1/sandboxes/{box}/terminal"
    assert refused("/v1/sandboxes/nosuchsandbox12/terminal") == (404, "E3001")
    assert refused(target + "?cmd=/no/such/program") == (400, "E6006")
    assert refused(target + "?cols=many") == (400, "E1001")
    assert refused(target + "?colour=red") == (400, "E1001")
    assert refused(target + "?pty=p9999") == (404, "E3003")
    assert refused(f"/v1/sandboxes/{box}/ports/99999/tunnel") == (400, "E1001")
    plain = engine("GET", target, status=400)
    assert plain.error["code"] == "E1001" and "WebSocket" in plain.error["message"]


def test_a_client_that_goes_ends_its_terminal(engine, box):
    for leave in ("close", "drop"):
        ws = terminal(engine, box, "echo here; exec sleep 1000")
        started(ws)
        until(ws, b"here")
        getattr(ws, leave)()
        engine.wait_idle(box)


def test_leaving_and_coming_back(engine, box):
    ws = terminal(engine, box, "stty -echo; echo here; while read -r line; do echo $line; done", onDisconnect="detach")
    process = started(ws)
    until(ws, b"here")
    ws.drop()
    list(engine.sh(box, "sleep 0.3"))
    assert process in engine.running(box)
    again = terminal(engine, box, pty=process)
    assert started(again) == process
    again.send(b"back\n")
    until(again, b"back\r\n")
    second = terminal(engine, box, pty=process)  # both of them
    started(second)
    again.send(b"both\n")
    until(again, b"both\r\n")
    until(second, b"both\r\n")
    engine("POST", f"/v1/sandboxes/{box}/processes/{process}/signal", {"signal": "KILL"}, status=200)
    for one in (again, second):
        assert the_rest(one)[1] == [{"exit": {"signal": "SIGKILL"}}] and one.closed == 1000


# --- frames ------------------------------------------------------------------------------------------------------


def test_a_message_in_pieces(engine, box):
    ws = terminal(engine, box, "stty -echo; echo ready; read -r line; echo got $line")
    started(ws)
    until(ws, b"ready")
    ws.frame(websocket.BINARY, b"one ", last=False)
    ws.frame(websocket.PING, b"between")
    ws.frame(0, b"two ", last=False)
    ws.frame(0, b"three\n")
    assert b"got one two three" in the_rest(ws)[0]


@pytest.mark.parametrize("what,code", [("unmasked", 1002), ("reserved bit", 1002), ("unknown opcode", 1002), ("long ping", 1002), ("end without begin", 1002),
                                       ("two begins", 1002), ("broken text", 1007), ("too large", 1009), ("too large in pieces", 1009)])
def test_frames_that_break_the_protocol(engine, box, what, code):
    """The connection ends with the code that says why, and its process with it."""
    ws = terminal(engine, box, "echo ready; exec sleep 1000")
    started(ws)
    until(ws, b"ready")
    large = bytes(1024 * 1024 + 1)
    try:
        {
            "unmasked": lambda: ws.frame(websocket.BINARY, b"x", masked=False),
            "reserved bit": lambda: ws.frame(websocket.BINARY, b"x", reserved=4),
            "unknown opcode": lambda: ws.frame(5, b"x"),
            "long ping": lambda: ws.frame(websocket.PING, bytes(126)),
            "end without begin": lambda: ws.frame(0, b"x"),
            "two begins": lambda: (ws.frame(websocket.BINARY, b"x", last=False), ws.frame(websocket.BINARY, b"y")),
            "broken text": lambda: ws.frame(websocket.TEXT, b"\xff\xfe"),
            "too large": lambda: ws.frame(websocket.BINARY, large),
            "too large in pieces": lambda: [ws.frame(websocket.BINARY if i == 0 else 0, large[:300_000], last=False) for i in range(5)],
        }[what]()
    except OSError:
        pass  # it has closed already
    the_rest(ws)
    reset = what.startswith("too large") or what == "long ping"  # what it has not read may take its last words with it
    assert ws.closed == code or (reset and ws.closed == 1006), ws.closed
    engine.wait_idle(box)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"resize":{"cols":0,"rows":1}}', '{"resize":{"cols":80}}', '{"resize":{"cols":80,"rows":24},"more":1}',
                                  '{"colour":"red"}', '{"end":{}}', "[" * 5000])
def test_words_that_mean_nothing(engine, box, text):
    ws = terminal(engine, box, "echo ready; exec sleep 1000")
    started(ws)
    until(ws, b"ready")
    ws.send(text)
    data, texts = the_rest(ws)
    assert ws.closed == 1011 and [t["error"]["code"] for t in texts] == ["E1001"], (texts, ws.closed)
    engine.wait_idle(box)


def test_a_length_that_is_not_meant(engine, box):
    """A frame that announces more than there is memory for."""
    for n in (2**63, 2**40):
        ws = terminal(engine, box, "echo ready; exec sleep 1000")
        started(ws)
        ws.socket.sendall(struct.pack("!BBQ", 0x82, 0xFF, n) + b"keys" + b"some of it")
        the_rest(ws)
        assert ws.closed in (1002, 1009, 1006)
    engine.wait_idle(box)


# --- tunnels -------------------------------------------------------------------------------------------------------

ECHO = """
import socket
s = socket.create_server(("127.0.0.1", 7000))
print("listens", flush=True)
while True:
    c, _ = s.accept()
    while data := c.recv(65536):
        c.sendall(data)
    c.sendall(b"|over")
    c.close()
"""


def test_a_tunnel(engine, box):
    server = engine.start(box, "python3", "-c", ECHO)
    server.until("stdout")
    for size in (0, 5, count(1_000_000, 100_000_000)):
        ws = engine.socket(f"/v1/sandboxes/{box}/ports/7000/tunnel")
        assert json.loads(ws.receive()) == {"started": {}}
        for at in range(0, size, 100_000):
            ws.send(bytes(min(100_000, size - at)))
        ws.send('{"end":{}}')
        data, texts = the_rest(ws)
        assert data == bytes(size) + b"|over" and texts == [{"end": {}}] and ws.closed == 1000
    ws = engine.socket(f"/v1/sandboxes/{box}/ports/7000/tunnel")
    ws.receive()
    ws.send('{"resize":{"cols":1,"rows":1}}')
    assert the_rest(ws)[1][0]["error"]["code"] == "E1001" and ws.closed == 1011
    server.drop()
    engine.wait_idle(box)
    with pytest.raises(websocket.Refused) as e:
        engine.socket(f"/v1/sandboxes/{box}/ports/7000/tunnel")
    assert json.loads(e.value.body)["error"]["code"].startswith("E")


def test_nothing_is_left(engine, box):
    """After all of this module: no process, and no descriptor but what a fresh engine with a session has."""
    engine.wait_idle(box)
    assert output(engine.sh(box, "echo fine")) == b"fine\n"
    wait_for(lambda: engine.descriptors() < 40, "the connections are closed")
