"""Files through the engine as raw bytes: ranges, sizes, broken and slow transfers in both directions."""

import http.client
import os
import select
import socket

import pytest

from engine_client import Engine, output
from harness import count, wait_for

pytestmark = pytest.mark.once
LITTLE = 12_000_000  # bytes that the engine may grow by, whatever goes through it


@pytest.fixture(scope="module")
def engine(shared):
    started = Engine(shared)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def box(engine):
    return engine.create(timeoutMs=900_000)


@pytest.mark.parametrize("size", [0, 1, 65_536, 3_000_001])
def test_what_goes_in_comes_out(engine, box, size):
    data = os.urandom(size)
    told = engine("PUT", engine.files(box, f"made/{size}"), data, status=200).json
    assert told == {"path": f"/home/user/made/{size}", "size": size}
    chunked = iter([data[i:i + 50_000] for i in range(0, size, 50_000)])
    assert engine("PUT", engine.files(box, "chunked"), chunked, status=200).json["size"] == size
    for path in (f"made/{size}", "chunked"):
        answer = engine("GET", engine.files(box, path), status=200)
        assert answer.body == data and answer.headers["Content-Length"] == str(size)
        assert answer.headers["Content-Type"] == "application/octet-stream" and "Last-Modified" in answer.headers


def test_parameters_of_a_write(engine, box):
    target = engine.files(box, "tool", mode=0o755, modifiedAt="2001-02-03T04:05:06Z", user="user")
    engine("PUT", target, b"#!/bin/sh\necho ran\n", status=200)
    assert output(engine.start(box, "./tool")) == b"ran\n"
    assert engine("GET", engine.files(box, "tool"), status=200).headers["Last-Modified"] == "Sat, 03 Feb 2001 04:05:06 GMT"
    assert engine("PUT", engine.files(box, "x", size=5), b"four", status=400).error["code"] == "E1001"
    assert engine("PUT", engine.files(box, "x", mode="rwx"), b"", status=400).error["code"] == "E1001"
    assert engine("PUT", engine.files(box, "x", colour="red"), b"", status=400).error["code"] == "E1001"
    assert engine("PUT", f"/v1/sandboxes/{box}/files", b"", status=400).error["code"] == "E1001"


def test_ranges(engine, box):
    target, data = engine.files(box, "digits"), b"0123456789" * 1000
    engine("PUT", target, data, status=200)

    def part(value, **more):
        return engine("GET", target, headers={"Range": value, **more})

    for value, want in (("bytes=0-0", data[:1]), ("bytes=9995-", data[9995:]), ("bytes=-3", data[-3:]), ("bytes=10-19", data[10:20])):
        answer = part(value)
        assert (answer.status, answer.body) == (206, want)
    assert part("bytes=10-19").headers["Content-Range"] == "bytes 10-19/10000"
    outside = part("bytes=10000-")
    assert outside.status == 416 and outside.headers["Content-Range"] == "bytes */10000" and outside.error["code"] == "E1001"
    assert part("bytes=9223372036854775806-").status == part("bytes=-0").status == 416
    for value in ("bytes=0-1,4-5", "lines=1-2", "bytes=5-1"):
        answer = part(value)
        assert (answer.status, answer.body) == (200, data)
    modified = engine("GET", target).headers["Last-Modified"]
    assert part("bytes=0-1", **{"If-Range": modified}).status == 206
    assert part("bytes=0-1", **{"If-Range": "Sat, 03 Feb 2001 04:05:06 GMT"}).status == 200


def test_a_part_by_parameters(engine, box):
    engine("PUT", engine.files(box, "digits"), b"0123456789", status=200)

    def part(status=200, headers=None, **params):
        return engine("GET", engine.files(box, "digits", **params), headers=headers or {}, status=status)

    for params, want in (({"offset": 3}, b"3456789"), ({"limit": 4}, b"0123"), ({"offset": 3, "limit": 4}, b"3456"), ({"limit": 0}, b""),
                         ({"offset": 10}, b""), ({"offset": 9223372036854775807, "limit": 9223372036854775807}, b"")):
        answer = part(**params)
        assert (answer.body, answer.headers["Content-Length"]) == (want, str(len(want)))
    inner = part(206, {"Range": "bytes=-2"}, offset=3, limit=4)
    assert (inner.body, inner.headers["Content-Range"]) == (b"56", "bytes 2-3/4")
    for wrong in (-1, "x", 9223372036854775808, 1.5):
        assert part(400, offset=wrong).error["code"] == part(400, limit=wrong).error["code"] == "E1001"
    assert engine("GET", engine.files(box, "none", offset=5), status=404).error["code"] == "E3002"
    list(engine.sh(box, "mkdir -p folder"))
    assert engine("GET", engine.files(box, "folder", offset=5), status=400).error["code"] == "E6005"


def test_the_end_of_a_file_that_nobody_could_read_whole(engine, box):
    """Eight terabytes of holes."""
    list(engine.sh(box, "truncate -s 8T holes && printf the-end >> holes"))
    answer = engine("GET", engine.files(box, "holes"), headers={"Range": "bytes=-7"}, status=206)
    assert answer.body == b"the-end" and answer.headers["Content-Range"].endswith(f"/{(8 << 40) + 7}")
    assert engine("GET", engine.files(box, "holes", offset=(8 << 40) - 2, limit=5), status=200).body == b"\0\0the"
    list(engine.sh(box, "rm holes"))


def test_what_is_no_plain_file(engine, box):
    list(engine.sh(box, "echo far > far; ln -s far near; mkdir folder; ln -s nowhere lost"))
    assert engine("GET", engine.files(box, "near"), status=200).body == b"far\n"
    made_up = engine("GET", engine.files(box, "/proc/self/status"), status=200)
    assert b"Name:" in made_up.body and "Content-Length" not in made_up.headers
    assert engine("GET", engine.files(box, "folder"), status=400).error["code"] == "E6005"
    assert engine("GET", engine.files(box, "lost"), status=404).error["code"] == "E3002"
    assert engine("PUT", engine.files(box, "folder"), b"x", status=400).error["code"] == "E6005"
    assert engine("GET", engine.files(box, "x", user="nobody-here"), status=400).error["code"] == "E1001"


def test_a_refusal_while_much_is_sent(engine, box):
    """The answer arrives although the body is still on its way."""
    list(engine.sh(box, "mkdir -p taken"))
    with socket.create_connection(("127.0.0.1", engine.port), timeout=60) as s:
        head = "".join(f"{k}: {v}\r\n" for k, v in engine.headers().items())
        s.sendall(f"PUT {engine.files(box, 'taken')} HTTP/1.1\r\nHost: localhost\r\n{head}Content-Length: 100000000000\r\n\r\n".encode())
        sent, said = 0, b""
        while not said and sent < 1_000_000_000:
            sent += s.send(bytes(100_000))
            if select.select([s], [], [], 0)[0]:
                said = s.recv(65536)
    assert said.startswith(b"HTTP/1.1 400 ") and b"E6005" in said


def test_continue_is_said_once_it_is_wanted(engine, box):
    with socket.create_connection(("127.0.0.1", engine.port), timeout=60) as s:
        head = "".join(f"{k}: {v}\r\n" for k, v in engine.headers().items())

        def put(path):
            s.sendall(f"PUT {engine.files(box, path)} HTTP/1.1\r\nHost: localhost\r\n{head}Expect: 100-continue\r\nContent-Length: 4\r\n\r\n".encode())
            return s.recv(65536)

        assert put("asked") == b"HTTP/1.1 100 Continue\r\n\r\n"
        s.sendall(b"data")
        assert s.recv(65536).startswith(b"HTTP/1.1 200 ")
    assert engine("GET", engine.files(box, "asked")).body == b"data"


def test_a_sender_that_breaks_off(engine, box):
    """With whole=true the old file stays until the new one is there with all its bytes."""
    before = engine.descriptors()
    engine("PUT", engine.files(box, "precious"), b"old", status=200)
    for _ in range(4):
        c = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=60)
        c.putrequest("PUT", engine.files(box, "precious", whole="true"))
        for name, value in {**engine.headers(), "Content-Length": "1000000"}.items():
            c.putheader(name, value)
        c.endheaders(b"new" * 1000)
        c.sock.shutdown(socket.SHUT_RDWR)
        c.close()
    wait_for(lambda: engine.descriptors() <= before + 2, "the transfers are gone")
    assert engine("GET", engine.files(box, "precious")).body == b"old"
    listed = engine("GET", f"/v1/sandboxes/{box}/files/list?path=.", status=200).json["files"]
    assert not [f["name"] for f in listed if "precious" in f["name"] and f["name"] != "precious"]


def test_a_reader_that_breaks_off(engine, box):
    before = engine.descriptors()
    list(engine.sh(box, "truncate -s 10G huge"))
    for _ in range(4):
        c, answer = engine.open("GET", engine.files(box, "huge"))
        assert answer.length == 10 * 2**30 and answer.read(100_000) == bytes(100_000)
        c.sock.shutdown(socket.SHUT_RDWR)
        c.close()
    wait_for(lambda: engine.descriptors() <= before + 2, "the transfers are gone")


def test_a_file_that_becomes_shorter(engine, box):
    """Its length was promised: what is missing is no end."""
    list(engine.sh(box, "truncate -s 100M shrinking"))
    c, answer = engine.open("GET", engine.files(box, "shrinking"))
    assert len(answer.read(1000)) == 1000
    list(engine.sh(box, "truncate -s 20M shrinking"))
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        answer.read()
    c.close()


def test_a_slow_reader(engine, box):
    """One that pauses in the middle: the engine holds next to nothing of what it waits for."""
    size = count(64_000_000, 10 * 2**30)
    list(engine.sh(box, f"truncate -s {size} zeros"))
    before = engine.memory()
    c, answer = engine.open("GET", engine.files(box, "zeros"))
    answer.read(1000)
    list(engine.sh(box, "sleep 0.5"))
    assert engine.memory() - before < LITTLE
    rest = sum(len(piece) for piece in iter(lambda: answer.read(1_000_000), b""))
    assert rest == size - 1000 and engine.memory() - before < LITTLE
    c.close()
