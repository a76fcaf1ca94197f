"""Streams of events of the engine: output exact and numbered, resumed after a loss, slow and broken clients, failures before and after the
beginning; input that comes as a body; code; watching. Nothing of a stream is left when its client has gone."""

import hashlib
import http.client
import json
import os
import resource
import socket
import struct
import threading

import pytest

from engine_client import Engine, Events, output
from harness import count, tell, wait_for

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def engine(shared):
    started = Engine(shared)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def box(engine):
    return engine.create(timeoutMs=900_000)


def places(events):
    """The id of each event, checked against the bytes that came: stdout.stderr up to and including it."""
    at = {"stdout": 0, "stderr": 0}
    for event in events:
        if event.name in at:
            at[event.name] += len(event.bytes)
        elif event.name == "gap":
            at[event.data["stream"]] += event.data["bytes"]
        assert event.id == f"{at['stdout']}.{at['stderr']}", (event, at)
    return at


def stdin_of(box, process, **query):
    return f"/v1/sandboxes/{box}/processes/{process}/stdin" + "".join(f"?{k}={v}" for k, v in query.items())


# --- output -----------------------------------------------------------------------------------------------


def test_events_of_a_process(engine, box):
    events = list(engine.sh(box, "printf out; printf err >&2; exit 3"))
    assert [e.name for e in events] == ["started", "stdout", "stderr", "exit"]
    assert events[0].id == "0.0" and set(events[0].data) == {"id", "pid"}
    assert events[-1].data == {"exitCode": 3} and events[-1].id == "3.3"
    places(events)
    ended = list(engine.sh(box, "kill -SEGV $$"))
    assert ended[-1].data == {"signal": "SIGSEGV"}


def test_bytes_are_exact(engine, box):
    """What is UTF-8 is text, never cut inside a character; what is not comes as base64."""
    script = r"printf 'a\xe2'; read x; printf '\x82'; read x; printf '\xac z'; read x; printf '\xff\xfe\x00'; read x; printf 'e\xe2\x82'"
    stream = engine.start(box, "bash", "-c", script, stdin="stream")
    events = stream.until("stdout")
    go = stdin_of(box, events[0].data["id"])
    engine("POST", go, b"\n\n", status=200)
    while not output(events).endswith(b"z"):
        events.append(next(stream))
    engine("POST", go, b"\n", status=200)
    events.append(next(stream))
    engine("POST", go, b"\n", status=200)
    events += stream
    assert stream.whole and output(events) == b"a\xe2\x82\xac z\xff\xfe\x00e\xe2\x82"
    places(events)
    assert "".join(e.data.get("text", "|") for e in events if e.name == "stdout") == "a€ z|e|"


def test_output_at_size(engine, box):
    size = count(3_000_000, 300_000_000)
    stream = engine.sh(box, f"head -c {size} /dev/urandom | tee /dev/stderr; sha256sum < /dev/null >/dev/null")
    digests, sizes = {"stdout": hashlib.sha256(), "stderr": hashlib.sha256()}, {"stdout": 0, "stderr": 0}
    for event in stream:
        if event.name in digests:
            digests[event.name].update(event.bytes)
            sizes[event.name] += len(event.bytes)
            assert event.id == f"{sizes['stdout']}.{sizes['stderr']}"
    assert sizes == {"stdout": size, "stderr": size}
    assert digests["stdout"].digest() == digests["stderr"].digest()


# --- before and after the beginning -----------------------------------------------------------------------


def test_an_error_before_the_stream(engine, box):
    target = f"/v1/sandboxes/{box}/processes"
    answer = engine("POST", target, {"cmd": ["/no/such/program"]}, status=400)
    assert answer.error["code"] == "E6006" and answer.headers["Content-Type"] == "application/json"
    assert engine("POST", "/v1/sandboxes/nosuchsandbox12/processes", {"cmd": ["true"]}, status=404).error["code"] == "E3001"
    assert engine("POST", target, {"cmd": "true"}, status=400).error["code"] == "E1001"
    assert engine("POST", target, {"cmd": ["true"], "colour": 1}, status=400).error["code"] == "E1001"
    assert engine("GET", f"{target}/p99999/stream", status=404).error["code"] == "E3003"
    assert engine("GET", f"{target}/p1/stream?from=1.x", status=400).error["code"] == "E1001"
    assert engine("GET", f"{target}/p1/stream", headers={"Last-Event-ID": "-1.0"}, status=400).error["code"] == "E1001"
    assert engine("POST", target, {"cmd": ["true"]}, headers={"X-Abx-Timeout-Ms": "soon"}, status=400).error["code"] == "E1001"


def test_an_error_after_the_beginning(engine, box):
    c, answer = engine.open("POST", f"/v1/sandboxes/{box}/processes", {"cmd": ["sh", "-c", "echo here; exec sleep 1000"]},
                            {"X-Abx-Timeout-Ms": "700"})
    stream = Events(c, answer)
    events = list(stream)
    assert stream.whole and [e.name for e in events] == ["started", "stdout", "error"]
    assert events[-1].data["error"]["code"] == "E5001" and events[-1].data["error"]["retryable"] is True
    engine.wait_idle(box)


def test_the_end_of_the_sandbox_in_the_middle(engine):
    mine = engine.create()
    stream = engine.sh(mine, "echo here; exec sleep 1000")
    stream.until("stdout")
    engine.kill(mine)
    events = list(stream)
    assert stream.whole and events[-1].name in ("error", "exit"), events
    assert engine("GET", f"/v1/sandboxes/{mine}/processes", status=404).error["code"] == "E3001"


# --- background, resume --------------------------------------------------------------------------------------


def test_a_background_process(engine, box):
    job = engine.background(box, "echo kept; echo twice >&2; exit 7")
    assert set(job) == {"id", "pid"}
    events = list(engine.events("GET", f"/v1/sandboxes/{box}/processes/{job['id']}/stream?from=0.0"))
    assert output(events) == b"kept\n" and output(events, "stderr") == b"twice\n"
    assert events[-1].name == "exit" and events[-1].data["exitCode"] == 7
    places(events)


def test_a_lost_connection_is_resumed(engine, box):
    """Dropped again and again in the middle: no byte is missing, none comes twice."""
    size, seen, last, lost = count(600_000, 60_000_000), bytearray(), "0.0", 0
    job = engine.background(box, f"seq 1 9999999 | head -c {size}")
    target = f"/v1/sandboxes/{box}/processes/{job['id']}/stream"
    while True:
        stream = engine.events("GET", target, headers={"Last-Event-ID": last})
        ended, came = False, 0
        for event in stream:
            assert event.name != "gap"
            last, ended = event.id, event.name == "exit"
            if event.name == "stdout":
                seen += event.bytes
                came += len(event.bytes)
            if came > size // 6 and not ended:
                stream.drop()
                lost += 1
                break
        if ended:
            break
    want = "".join(f"{i}\n" for i in range(1, size)).encode()[:size] if size < 1_000_000 else None
    assert lost >= 2 and len(seen) == size and (want is None or bytes(seen) == want)


def test_the_place_stands_before_the_query(engine, box):
    job = engine.background(box, "printf 0123456789")
    target = f"/v1/sandboxes/{box}/processes/{job['id']}/stream"
    assert output(engine.events("GET", target + "?from=0.0")) == b"0123456789"
    assert output(engine.events("GET", target + "?from=0.0", headers={"Last-Event-ID": "7.0"})) == b"789"
    offset = "%7B%22stdout%22%3A4%2C%22stderr%22%3A0%7D"
    assert output(engine.events("GET", target + f"?fromOffset={offset}")) == b"456789"
    assert engine("GET", target + f"?fromOffset={offset}&from=0.0", status=400).error["code"] == "E1001"


def test_what_is_gone_is_told_as_a_gap(engine, box):
    """A process of the foreground that outlives its client keeps no output meanwhile: the next one hears how much it missed."""
    go, said = f"/tmp/go-{os.getpid()}", f"/tmp/said-{os.getpid()}"
    stream = engine.sh(box, f"printf first; while [ ! -e {go} ]; do sleep 0.05; done; printf second; touch {said}; while [ ! -e {go}2 ]; do sleep 0.05; done; printf third",
                       onDisconnect="detach")
    events = stream.until("stdout")
    process = events[0].data["id"]
    stream.drop()
    list(engine.sh(box, f"sleep 0.3; touch {go}; while [ ! -e {said} ]; do sleep 0.05; done"))
    again = engine.events("GET", f"/v1/sandboxes/{box}/processes/{process}/stream", headers={"Last-Event-ID": events[-1].id})
    assert next(again).name == "started"
    list(engine.sh(box, f"touch {go}2"))
    rest = list(again)
    assert rest[-1].name == "exit"
    missed = sum(e.data["bytes"] for e in rest if e.name == "gap")
    assert missed + len(output(rest)) == len("secondthird") and (b"second" + b"third").endswith(output(rest)), rest
    assert rest[-1].id == f"{len('firstsecondthird')}.0", rest


def test_ids_of_one_who_comes_late(engine, box):
    """Who attaches without a place hears only what is new, and gets ids that count from the beginning."""
    go = f"/tmp/late-{os.getpid()}"
    job = engine.background(box, f"printf 12345; while [ ! -e {go} ]; do sleep 0.05; done; printf 678")
    target = f"/v1/sandboxes/{box}/processes/{job['id']}/stream"
    first = engine.events("GET", target + "?from=0.0")
    first.until("stdout")
    late = engine.events("GET", target)
    begun = next(late)
    assert begun.name == "started" and begun.id == "5.0"
    list(engine.sh(box, f"touch {go}"))
    assert [(e.name, e.id) for e in late] == [("stdout", "8.0"), ("exit", "8.0")]


def test_what_is_kept_and_no_more(engine, box):
    job = engine.background(box, "printf here; exec sleep 1000")
    target = f"/v1/sandboxes/{box}/processes/{job['id']}"

    def kept():
        stream = engine.events("GET", target + "/stream?from=0.0&follow=false")
        events = list(stream)
        assert stream.whole and events[-1].name == "end"
        return output(events) == b"here"

    wait_for(kept, "its output is there")
    engine("POST", target + "/signal", {"signal": "KILL"}, status=200)


# --- clients that go, stall, or half-close --------------------------------------------------------------------


def test_a_client_that_goes_ends_its_process(engine, box):
    before = engine.descriptors()
    for _ in range(count(3, 30)):
        for stream in [engine.sh(box, "echo here; exec sleep 1000") for _ in range(4)]:
            stream.until("stdout")
            stream.drop()
    engine.wait_idle(box)
    wait_for(lambda: engine.descriptors() <= before + 4, "the connections are closed")


def test_a_client_that_breaks_off_ends_its_process(engine, box):
    """A reset instead of a farewell, while output flows."""
    stream = engine.sh(box, "exec yes")
    stream.until("stdout")
    sock = stream.connection.sock
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.answer.close()
    stream.connection.close()
    engine.wait_idle(box)


def test_who_detaches_leaves_it_running(engine, box):
    stream = engine.sh(box, "echo here; exec sleep 1000", onDisconnect="detach")
    process = stream.until("stdout")[0].data["id"]
    stream.drop()
    list(engine.sh(box, "sleep 0.3"))
    assert process in engine.running(box)
    engine("POST", f"/v1/sandboxes/{box}/processes/{process}/signal", {"signal": "KILL"}, status=200)
    engine.wait_idle(box)


def test_a_slow_reader_stops_the_process(engine, box):
    """Nothing is dropped, and the engine does not hold it either."""
    size = 48_000_000
    list(engine.sh(box, "true"))
    before = engine.memory()
    c, answer = engine.open("POST", f"/v1/sandboxes/{box}/processes", {"cmd": ["sh", "-c", f"head -c {size} /dev/zero; echo done >&2"]})
    told = []

    def position():
        info = list(engine.sh(box, "cat /proc/$(pgrep -n head)/io | grep wchar"))
        told.append(output(info))
        return len(told) > 2 and told[-1] and told[-1] == told[-2] == told[-3]

    wait_for(position, "the writer stands still", 60)
    assert engine.memory() - before < 12_000_000
    events = Events(c, answer)
    assert sum(len(e.bytes) for e in events if e.name == "stdout") == size
    assert events.whole and engine.memory() - before < 12_000_000


def test_a_client_that_has_nothing_more_to_say(engine, box):
    """Half-closed behind the request: the whole answer comes, however long it takes."""
    body = json.dumps({"cmd": ["sh", "-c", "echo a; sleep 0.5; echo b"]}).encode()
    head = "".join(f"{k}: {v}\r\n" for k, v in engine.headers().items())
    with socket.create_connection(("127.0.0.1", engine.port)) as s:
        s.sendall(f"POST /v1/sandboxes/{box}/processes HTTP/1.1\r\nHost: localhost\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        s.shutdown(socket.SHUT_WR)
        answer = http.client.HTTPResponse(s)
        answer.begin()
        events = list(Events(type("C", (), {"sock": s, "close": s.close}), answer))
    assert output(events) == b"a\nb\n" and events[-1].data == {"exitCode": 0}


def test_a_client_that_goes_before_the_stream_began(engine, box):
    """Gone while nothing has come yet: what runs ends all the same."""
    head = "".join(f"{k}: {v}\r\n" for k, v in engine.headers().items())
    body = json.dumps({"code": "import time\ntime.sleep(1000)"}).encode()
    with socket.create_connection(("127.0.0.1", engine.port)) as s:
        s.sendall(f"POST /v1/sandboxes/{box}/code HTTP/1.1\r\nHost: localhost\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    events = list(engine.events("POST", f"/v1/sandboxes/{box}/code", {"code": "40 + 2"}))
    assert [e.data["text"] for e in events if e.name == "result"] == ["42"]


def test_many_streams(engine):
    """Each of many followers gets all; soak: 9,000 at once, at most 32 KB of memory each."""
    n, hard = count(60, 9000), resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    boxes = [engine.create() for _ in range(count(1, 3))]
    jobs = [engine.background(box, "while [ ! -e go ]; do sleep 0.1; done; echo all; exit 5")["id"] for box in boxes]
    before = engine.memory()
    streams = []
    for i in range(n):
        box, job = boxes[i % len(boxes)], jobs[i % len(boxes)]
        streams.append(engine.events("GET", f"/v1/sandboxes/{box}/processes/{job}/stream"))
    for stream in streams:
        assert next(stream).name == "started"
    tell(f"engine: {n} open streams, {(engine.memory() - before) / n / 1024:.1f} KB each")
    if n >= 1000:
        assert (engine.memory() - before) / n <= 32 * 1024
    for box in boxes:
        list(engine.sh(box, "touch go"))
    for stream in streams:
        events = list(stream)
        assert stream.whole and output(events) == b"all\n" and events[-1].data["exitCode"] == 5
        stream.close()
    for box in boxes:
        engine.kill(box)


# --- input -----------------------------------------------------------------------------------------------------


def test_input_in_pieces(engine, box):
    stream = engine.start(box, "cat", stdin="stream")
    process = next(stream).data["id"]
    data = os.urandom(300_000)
    engine("POST", stdin_of(box, process), b"first", status=200)
    engine("POST", stdin_of(box, process), iter([b"-", data, b"-"]), status=200)  # chunked
    engine("POST", stdin_of(box, process), b"", status=200)
    engine("DELETE", stdin_of(box, process), status=200)
    assert output(stream) == b"first-" + data + b"-"
    stream = engine.start(box, "cat", stdin="stream")
    process = next(stream).data["id"]
    engine("POST", stdin_of(box, process, close="true"), b"last", status=200)
    assert output(stream) == b"last"
    assert engine("POST", stdin_of(box, process), b"late").status in (404, 409)


def test_a_sender_that_breaks_off(engine, box):
    """What it has sent is there; the input stays open, and the next one goes on."""
    stream = engine.start(box, "cat", stdin="stream")
    process = next(stream).data["id"]
    c = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=60)
    c.putrequest("POST", stdin_of(box, process, close="true"))
    for name, value in {**engine.headers(), "Content-Length": "1000"}.items():
        c.putheader(name, value)
    c.endheaders(b"half")
    assert next(stream).bytes == b"half"
    c.sock.shutdown(socket.SHUT_RDWR)
    c.close()
    wait_for(lambda: engine("POST", stdin_of(box, process), b"on").status == 200, "the next one is taken")
    engine("DELETE", stdin_of(box, process), status=200)
    assert output(stream) == b"on"


def test_a_process_that_does_not_read(engine, box):
    """The sender waits; the engine holds no more than a little of it."""
    stream = engine.sh(box, "read -r line; cat | wc -c", stdin="stream")
    process = next(stream).data["id"]
    before, size = engine.memory(), 24_000_000
    done = []

    def send():
        done.append(engine("POST", stdin_of(box, process, close="true"), b"\n" + bytes(size)).status)

    held = engine.sh(box, f"kill -STOP {next(iter([e['pid'] for e in engine.running(box).values() if e['id'] == process]))}")
    list(held)
    thread = threading.Thread(target=send)
    thread.start()
    list(engine.sh(box, "sleep 1"))
    assert not done and engine.memory() - before < 12_000_000
    engine("POST", f"/v1/sandboxes/{box}/processes/{process}/signal", {"signal": "CONT"}, status=200)
    assert output(stream).split() == [str(size).encode()]
    thread.join(60)
    assert done == [200]


# --- code, watching ------------------------------------------------------------------------------------------------


def test_code(engine, box):
    events = list(engine.events("POST", f"/v1/sandboxes/{box}/code", {"code": "import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7"}))
    assert [e.name for e in events if e.name != "started"] == ["stdout", "stderr", "result", "end"]
    assert [e.id for e in events] == [str(i + 1) for i in range(len(events))]
    failed = list(engine.events("POST", f"/v1/sandboxes/{box}/code", {"code": "1 / 0"}))
    error = next(e for e in failed if e.name == "error")
    assert error.data["name"] == "ZeroDivisionError" and "error" not in error.data and failed[-1].name == "end"


def test_watching(engine, box):
    list(engine.sh(box, "mkdir -p /home/user/watched"))
    stream = engine.events("GET", f"/v1/sandboxes/{box}/files/watch?path=/home/user/watched&recursive=true")
    assert next(stream).name == "started"
    list(engine.sh(box, "touch /home/user/watched/new"))
    change = next(stream)
    assert (change.name, change.data["kind"], change.data["name"]) == ("change", "create", "new")
    stream.drop()
    assert engine("GET", f"/v1/sandboxes/{box}/files/watch?path=/nowhere", status=404).error["code"] == "E3002"


def test_a_quiet_stream_is_kept_alive(engine, box):
    stream = engine.start(box, "sleep", "16")
    assert next(stream).name == "started"
    assert next(stream).name == "exit" and stream.comments == 1
