"""Attacks on the engine by who can connect to it but has no token, and by clients that lie about their requests."""

import base64
import http.client
import json
import os
import random
import resource
import socket

import pytest

from engine import Engine, connection, error_of
from harness import count, is_alive

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def engine(shared):
    e = Engine(shared)
    yield e
    assert is_alive(e.pid)
    e.stop()


def health(engine):
    return engine("GET", "/v1/health", connection=None, status=200).json["status"]


# --- who is let in --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("host", [
    "evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "a.localhost", "127.0.0.2", "127.1",
    "2130706433", "0x7f000001", "127.0.0.1:80:80", "127.0.0.1:x", "127.0.0.1 evil", "[::1]evil", "[::2]", "localhost.",
    "user@127.0.0.1", "127.0.0.1/", "", "::1:80:x", "[::ffff:127.0.0.1]", "127.0.0.1,evil.example", "127.0.0.1:123456",
])
def test_a_strangers_name_is_refused_before_the_token_is_looked_at(engine, host):
    for headers in (engine.headers(), {}):
        answer = engine.raw("GET", "/v1/health", headers={**headers, "X-Abx-Nonce": "n" * 32}, host=host)
        assert answer.status in (400, 403) and "X-Abx-Proof" not in answer.headers, repr(answer)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:1", "localhost", "LOCALHOST:65535", "[::1]", "[::1]:80", "::1"])
def test_names_of_this_machine_are_served(engine, host):
    assert engine.raw("GET", "/v1/health", headers=engine.headers(None), host=host).status == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1", "", "chrome-extension://x"])
@pytest.mark.parametrize("method,path", [("GET", "/v1/health"), ("OPTIONS", "/v1/sandboxes"), ("POST", "/v1/shutdown"),
                                         ("GET", "/v1/sandboxes/x/terminal")])
def test_no_page_is_answered(engine, origin, method, path):
    headers = {**engine.headers(), "Origin": origin, "Access-Control-Request-Method": "POST", "Upgrade": "websocket",
               "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg=="}
    answer = engine.raw(method, path, headers=headers)
    error_of(answer, 403, "E2002")
    assert not [h for h in answer.headers if h.lower().startswith("access-control")]


def test_nothing_but_the_token_is_the_token(engine):
    t = engine.token
    wrong = ["", t, f"Basic {t}", f"Bearer {t[:-1]}", f"Bearer {t}x", f"Bearer {t[1:]}", f"Bearer {t.swapcase()}", f"Bearer  {t}", f"Bearer {t} x",
             f"Bearer\t{t}", f"Bearer {t},Bearer {t}", f'Bearer "{t}"', "Bearer " + "A" * 32, "Bearer null", "Bearer", f"Bearer{t}"]
    wrong += [f"Bearer {t[:i]}{'A' if t[i] != 'A' else 'B'}{t[i + 1:]}" for i in range(len(t))]
    for value in wrong:
        answer = engine.raw("GET", "/v1/sandboxes", headers={"Authorization": value})
        error_of(answer, 401, "E2003")
        assert t.encode() not in answer.body
    twice = [("Authorization", f"Bearer {t}"), ("Authorization", f"Bearer {t}")]
    error_of(engine.raw("GET", "/v1/health", headers=twice), 401, "E2003")
    for path in ("/v1/health", "/v1/providers", "/v1/nope", "/", f"/v1/health?token={t}", f"/v1/health?access_token={t}"):
        error_of(engine.raw("GET", path), 401, "E2003")
    error_of(engine.raw("POST", "/v1/shutdown", b"{}"), 401, "E2003")
    error_of(engine.raw("GET", "/v1/sandboxes/x/terminal", headers={
        "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg==", "Sec-WebSocket-Protocol": t}), 401, "E2003")
    assert engine.raw("GET", "/v1/health", headers={"Authorization": f"bearer {t}"}).status == 200  # the scheme has no case


# --- one request, or two? ------------------------------------------------------------------------------------------------------
# Bytes that two parsers may read differently. SECOND stands where one of the two readings has a request of its own.
SMUGGLE = {
    "two lengths": "POST /v1/nope HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nContent-Length: {n}\r\n\r\n",
    "two equal lengths": "POST /v1/nope HTTP/1.1\r\nHost: localhost\r\nContent-Length: {n}\r\nContent-Length: {n}\r\n\r\n",
    "lengths in a list": "POST /v1/nope HTTP/1.1\r\nHost: localhost\r\nContent-Length: {n}, {n}\r\n\r\n",
    "length and chunked": "POST /v1/nope HTTP/1.1\r\nHost: localhost\r\nContent-Length: {n}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked and length": "POST /v1/nope HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: {n}\r\n\r\n0\r\n\r\n",
    "a sign": "POST /v1/nope HTTP/1.1\r\nHost: localhost\r\nContent-Length: +{n}\r\n\r\n",
    "a negative length": "POST /v1/nope HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    "a length in hexadecimal": "POST /v1/nope HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0x10\r\n\r\n",
    "a length that overflows": "POST /v1/nope HTTP/1.1\r\nHost: localhost\r\nContent-Length: 18446744073709551616\r\n\r\n",
    "a blank before the colon": "POST /v1/nope HTTP/1.1\r\nHost: localhost\r\nContent-Length : {n}\r\n\r\n",
    "te with a tab": "POST /v1/nope HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding:\tchunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    "te identity": "POST /v1/nope HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: identity\r\nContent-Length: 0\r\n\r\n",
    "te xchunked": "POST /v1/nope HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "te gzip, chunked": "POST /v1/nope HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "te twice": "POST /v1/nope HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "te with another end": "POST /v1/nope HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\x0b\r\n\r\n0\r\n\r\n",
    "a folded line": "POST /v1/nope HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding:\r\n chunked\r\nContent-Length: 0\r\n\r\n",
    "a line without cr": "POST /v1/nope HTTP/1.1\nHost: localhost\nContent-Length: 0\n\n",
    "a bare cr": "POST /v1/nope HTTP/1.1\r\nHost: localhost\r\nX: a\rContent-Length: {n}\r\n\r\n",
    "a nul in a value": "POST /v1/nope HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n",
    "a name with a blank": "POST /v1/nope HTTP/1.1\r\nHost: localhost\r\nX Y: a\r\nContent-Length: 0\r\n\r\n",
    "a line before the first header": "POST /v1/nope HTTP/1.1\r\n X: a\r\nHost: localhost\r\n\r\n",
    "a chunk without size": "POST /v1/nope HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n\r\n\r\n",
    "a chunk with a sign": "POST /v1/nope HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n-0\r\n\r\n",
    "a chunk in 0x": "POST /v1/nope HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n",
    "a chunk that overflows": "POST /v1/nope HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n\r\n",
    "a chunk longer than it says": "POST /v1/nope HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n",
    "two hosts": "GET /v1/nope HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
    "no host": "GET /v1/nope HTTP/1.1\r\n\r\n",
    "another version": "GET /v1/nope HTTP/2.0\r\nHost: localhost\r\n\r\n",
    "no version": "GET /v1/nope\r\n\r\n",
    "a whole url": "GET http://evil.example/v1/nope HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a blank in the path": "GET /v1/no pe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a method of nobody's": "g=t /v1/nope HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "the preface of http/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}
WHOLE = ("a whole url", "te with a tab")


@pytest.mark.parametrize("name", SMUGGLE)
def test_ambiguous_bytes_are_one_refused_request(engine, name):
    second = "GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    got = engine.bytes(SMUGGLE[name].format(n=len(second)).encode("latin-1") + second.encode())
    answers = got.count(b"HTTP/1.1 ")
    assert answers <= 1 or name in WHOLE, got  # the second was never looked at, unless the first was a whole request to everybody
    assert b"HTTP/1.1 200" not in got
    if got:
        head, _, body = got.partition(b"\r\n\r\n")
        status = int(head.split()[1])
        assert 400 <= status < 600, got
        if status != 401:
            assert json.loads(body[:int(dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])[b"Content-Length"])])["error"]["code"]
    assert health(engine) == "ok"


# --- too much ------------------------------------------------------------------------------------------------------------------------

def test_heads_that_are_too_large_are_refused_as_json(engine):
    auth = engine.headers(None)
    for headers in ({**auth, "X-Abx-Connection": "A" * (1 << 20)}, {**auth, "X": "a" * (1 << 20)},
                    {**auth, **{f"X-{i}": "a" for i in range(200)}}):
        head = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
        got = engine.bytes(f"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n{head}\r\n".encode())
        if got:  # else the reset came before the answer was read
            assert b" 431 " in got.split(b"\r\n")[0] and json.loads(got.split(b"\r\n\r\n", 1)[1])["error"]["code"] == "E4004"
    got = engine.bytes(b"GET /v1/health?" + b"a" * (1 << 20) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert not got or b" 431 " in got.split(b"\r\n")[0]
    assert health(engine) == "ok"


def test_a_body_that_is_too_large_is_refused_and_not_kept(engine):
    head = "".join(f"{k}: {v}\r\n" for k, v in engine.headers().items())
    start = f"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\n{head}"
    got = engine.bytes(f"{start}Content-Length: {1 << 40}\r\n\r\n".encode())
    assert b" 413 " in got.split(b"\r\n")[0] and b"E4004" in got
    s = socket.create_connection(("127.0.0.1", engine.port), timeout=60)
    s.sendall(f"{start}Transfer-Encoding: chunked\r\n\r\n".encode())
    chunk = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
    got = b""
    try:
        for _ in range(64):
            s.sendall(chunk)
        got = s.recv(65536)
    except OSError:  # a reset while we were sending
        pass
    s.close()
    assert not got or b" 413 " in got.split(b"\r\n")[0]
    # who has no token is not even listened to
    got = engine.bytes(f"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Length: {1 << 40}\r\n\r\n".encode())
    assert b" 401 " in got.split(b"\r\n")[0]
    assert health(engine) == "ok"


def test_json_bombs_and_broken_text_are_refused(engine):
    bombs = [b"[" * 100000, b'{"a":' * 100000, b'{"metadata":{"a":' + b'{"b":' * 40 + b"1" + b"}" * 42, b"\xff\xfe", b'{"name":"\xed\xa0\x80"}',
             b'{"name":"\\ud800"}', b'{"timeoutMs":1e999}', b'{"timeoutMs":-1}', b'{"timeoutMs":1.5}', b'{"timeoutMs":99999999999999999999}',
             b'{"name":"a"}{"name":"b"}', b"\xef\xbb\xbf{}", b'{"env":{"a\\u0000b":"c"}}']
    for bomb in bombs:
        error_of(engine("POST", "/v1/sandboxes", bomb), 400, "E1001")
    for deep in (b'{"provider":"local","options":' + b'{"a":' * 5000 + b"1" + b"}" * 5001, b"\xff", b'{"provider":"lo\xffcal"}'):
        header = base64.urlsafe_b64encode(deep).rstrip(b"=").decode()
        error_of(engine("GET", "/v1/sandboxes", connection=header), 400, "E1001")
    many = connection(provider="local", options={f"o{i}": "x" for i in range(1000)})
    assert engine("GET", "/v1/sandboxes", connection=many).status in (400, 422)


# --- bodies, all connections together ---------------------------------------------------------------------------------

def begin_body(engine, length, sent=b"", path="/v1/sandboxes"):
    """A connection on which a body of this length (None: chunked) has begun."""
    head = "".join(f"{k}: {v}\r\n" for k, v in engine.headers().items())
    how = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    s = socket.create_connection(("127.0.0.1", engine.port), timeout=60)
    s.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{head}{how}\r\n\r\n".encode() + sent)
    return s


def answered(s):
    answer = http.client.HTTPResponse(s)
    answer.begin()
    return answer.status, json.loads(answer.read()), answer.headers["Connection"]


def test_bodies_on_their_way_have_a_bound_together(engine):
    nobody = "/v1/sandboxes/" + "a" * 20 + "/timeout"
    small, rest = b'{"timeoutMs":1}', b" " * ((32 << 20) - 15)
    half = [begin_body(engine, 32 << 20, b"{", nobody) for _ in range(3)] + [begin_body(engine, None, b"1\r\n{\r\n", nobody)]
    assert health(engine) == "ok"
    waits = begin_body(engine, 32 << 20, small, nobody)  # there is no room for it
    error_of(engine("POST", nobody, {"timeoutMs": 1}), 404, "E3001")  # small ones do not wait for it
    waits.settimeout(0.5)
    with pytest.raises(TimeoutError):  # it is not read
        while True:
            waits.send(rest[:1 << 20])
    waits.close()
    half.pop().close()
    half.append(begin_body(engine, 32 << 20, small, nobody))  # has the room of the one that went
    slow = begin_body(engine, 100, b"{", nobody)  # a small one that never comes
    assert health(engine) == "ok"
    late = [begin_body(engine, 32 << 20, b"{", nobody)]
    assert health(engine) == "ok"
    late.append(begin_body(engine, None, b"1\r\n{\r\n", nobody))
    taken = half.pop()
    taken.sendall(rest)
    assert answered(taken)[0] == 404  # and this one let one of those in that waited
    taken.close()
    status, body, last = answered(late[1])
    assert (status, body["error"]["code"], body["error"]["retryable"], last) == (429, "E4002", True, "close")
    status, body, last = answered(slow)
    assert (status, body["error"]["code"], body["error"]["retryable"], last) == (408, "E5001", True, "close")
    for s in half + late + [slow]:
        s.close()
    whole = begin_body(engine, 32 << 20, small, nobody)  # all room is there again
    whole.sendall(rest)
    assert answered(whole)[0] == 404
    whole.close()


def test_a_body_of_millions_of_values_is_refused_before_they_are_made(engine):
    body = b'{"metadata":{},"allowWeaker":["a"' + b',""' * 600_000 + b"]}"
    assert "values" in error_of(engine("POST", "/v1/sandboxes", body), 413, "E4004")["message"]
    text = json.dumps({"metadata": {"k": '[{,"' * 200_000}, "nope": 1}).encode()  # in texts they do not count
    error_of(engine("POST", "/v1/sandboxes", text), 400, "E1001")


def test_a_flood_of_connections_under_other_names_stays_small(engine):
    """Each header opens a session at most; those that nobody uses make room."""
    for i in range(count(300, 6000)):
        engine("GET", "/v1/sandboxes/nobody", connection=connection(provider="nope", apiKey=f"key-{i}"), status=404)
    assert health(engine) == "ok"


def test_slow_heads_hold_up_nobody(engine):
    slow = []
    for i in range(count(200, 2000)):
        s = socket.create_connection(("127.0.0.1", engine.port), timeout=60)
        s.sendall(b"GET /v1/health HTTP/1.1\r\nHost: loc"[:random.randint(1, 36)])
        slow.append(s)
    for s in slow[::20]:
        s.sendall(b"X")
        assert health(engine) == "ok"
    for s in slow:
        s.close()


def test_thousands_of_idle_connections_hold_up_nobody(engine):
    wanted = count(1000, 10000)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limits[1], wanted + 1000), limits[1]))
    idle = []
    try:
        for _ in range(min(wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200)):
            idle.append(socket.create_connection(("127.0.0.1", engine.port), timeout=60))
        assert health(engine) == "ok"
        c = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=60)
        c.sock = idle[len(idle) // 2]
        c.request("GET", "/v1/health", headers=engine.headers(None))
        assert c.getresponse().status == 200
    finally:
        for s in idle:
            s.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert os.path.isdir(f"/proc/{engine.pid}") and health(engine) == "ok"
