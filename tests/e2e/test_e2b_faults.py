"""The client of envd before servers and proxies that fail: every failure is an error with its own words, none is a hang, and none
passes for a good end."""

import subprocess

import pytest

import faults
from envd_calls import call, calls
from faults import END, EXITED, STARTED, Fault, FaultProxy, answer, envelope, page, redirect, stream
from harness import wait_for
from recorded import TOKEN, Envd

pytestmark = pytest.mark.once

TIMEOUT, NETWORK, ANSWER, ENDED = "E5001", "E6001", "E6003", "E6004"

ECHO = {"cmd": ["/bin/echo", "hello"]}
OUT = {"event": {"data": {"stdout": "aGVsbG8K"}}}


@pytest.fixture(scope="module")
def envd():
    e = Envd()
    yield e
    e.close()


@pytest.fixture
def proxy(envd):
    with FaultProxy(envd.port) as p:
        yield p


@pytest.fixture
def fake():
    with FaultProxy() as p:
        yield p


def to(proxy, **more):
    return {"baseUrl": proxy.url, "token": TOKEN, **more}


def test_without_a_fault(proxy):
    start, read = calls(to(proxy), "process.start", ECHO, "fs.read", {"path": "/etc/passwd"})
    assert start.chunks == {"stdout": b"hello\n"} and start.result["exitCode"] == 0
    assert read.chunks["body"].startswith(b"root:") and read.bytes == len(read.chunks["body"])


# --- streams ---------------------------------------------------------------------------------------------

WHOLE = stream(STARTED, OUT, EXITED, END)
HEAD = WHOLE.index(b"\r\n\r\n") + 4


def test_a_stream_cut_at_any_byte(fake):
    """Between the head and the last byte but the end mark's, closed and reset."""
    good = call(to(fake.add(Fault("/Start", WHOLE))), "process.start", ECHO)
    assert good.result == {"id": "4242", "pid": 4242, "exitCode": 0}, good
    ends = WHOLE.index(END)
    for at in [*range(0, HEAD, 29), *range(HEAD, ends, 17), ends + len(END) - 1]:
        fake.clear()
        fake.add(Fault("/Start", WHOLE, cut=at, end="reset" if at % 2 else "close"), Fault("/health", answer(204)))
        r = call(to(fake), "process.start", ECHO)
        assert r.code in (NETWORK, ANSWER), (at, r)
        assert "cut in the middle" in r.text or "without its end mark" in r.text or at <= HEAD, (at, r)


STREAMS = {
    "no end frame": (stream(STARTED, OUT, EXITED), "without its end mark"),
    "nothing at all": (stream(), "without its end mark"),
    "only the end frame": (stream(END), "ended without a result"),
    "no end event": (stream(STARTED, OUT, END), "ended without a result"),
    "two end frames": (stream(STARTED, EXITED, END, END), "behind the end"),
    "garbage behind the end": (stream(STARTED, EXITED, END, b"garbage"), "behind the end"),
    "two starts": (stream(STARTED, STARTED, END), "started twice"),
    "output before the start": (stream(OUT, EXITED, END), "out of order"),
    "an unknown flag": (stream(STARTED, envelope(EXITED, 0x40), END), "flags 0x40"),
    "a compressed message": (stream(STARTED, envelope(b"\x1f\x8b", 1), END), "compressed"),
    "a message larger than any": (stream(STARTED, envelope(b"", 0, 1 << 31)), "2147483648 bytes"),
    "no JSON": (stream(STARTED, envelope(b"{broken"), END), "StartResponse is no valid JSON"),
    "an end frame that is no JSON": (stream(STARTED, EXITED, envelope(b"}", 2)), "end of the stream"),
    "an error frame": (stream(STARTED, envelope({"error": {"code": "internal", "message": "it broke"}}, 2)), "it broke"),
    "another type": (stream(STARTED, EXITED, END, kind="application/json"), "application/json"),
    "gzip": (stream(STARTED, EXITED, END, headers=["Content-Encoding: gzip"]), "'gzip', which was not offered"),
    "a broken chunk": (WHOLE[:HEAD] + b"zz\r\nx", "broke|unusable"),
}


@pytest.mark.parametrize("name", STREAMS)
def test_streams_that_do_not_fit(fake, name):
    raw, words = STREAMS[name]
    fake.add(Fault("/Start", raw), Fault("/health", answer(204)))
    r = call(to(fake), "process.start", ECHO)
    assert r.error, r
    assert any(w in r.text for w in words.split("|")), r


def test_the_sandbox_is_gone_while_a_process_runs(fake):
    fake.add(Fault("/Start", stream(STARTED, OUT, last=False), end="reset"), Fault("/health", faults.gone()))
    r = call(to(fake), "process.start", ECHO)
    assert r.code == ENDED and r.chunks == {"stdout": b"hello\n"}, r


def test_bytes_one_by_one(proxy):
    proxy.add(Fault(slow=(1, 0)))
    start, listed = calls(to(proxy), "process.start", ECHO, "fs.list", {"path": "/home"})
    assert start.result["exitCode"] == 0 and start.chunks == {"stdout": b"hello\n"}
    assert [f["name"] for f in listed.result["files"]] == ["user"]


# --- answers ---------------------------------------------------------------------------------------------

STAT = ("fs.stat", {"path": "/etc/passwd"})
READ = ("fs.read", {"path": "/etc/passwd"})
START = ("process.start", ECHO)
LIST = ("code.context_list", {})
ANSWERS = {
    "a web page": (page(200), "a web page came instead of an answer (status 200): 'Bad Gateway'"),
    "a web page of a proxy": (page(502, "openresty"), "(status 502): 'openresty'"),
    "a redirect": (redirect("http://127.0.0.1:1/"), "redirect (status 302), which is not followed"),
    "gone": (faults.gone(), "The sandbox was not found"),
    "a closed port": (faults.port_closed(), "port is not open"),
    "no word": (answer(500, "", "text/plain"), "status 500"),
    "too many": (answer(429, {"code": 429, "message": "slow down"}, headers=["Retry-After: 86400"]), "slow down"),
    "a huge head": (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200000 + b"\r\n\r\n", "head of the answer"),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n", "HTTP"),
    "no length that is a number": (b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nx", "Content-Length"),
    "nothing": (b"", "127.0.0.1"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_of_another_kind(fake, name):
    raw, words = ANSWERS[name]
    for method, params in (STAT, READ, START, LIST):
        fake.clear()
        fake.add(Fault("POST", raw), Fault("GET /files?", raw), Fault("GET /contexts", raw), Fault("/health", answer(204)))
        r = call(to(fake), method, params)
        assert r.error and r.result is None, (method, r)
        assert words in r.text, (method, r)


def test_a_token_goes_to_no_other_host(fake):
    with FaultProxy() as other:
        fake.add(Fault("", redirect(other.url + "/")))
        for status in (301, 302, 303, 307, 308):
            fake.clear()
            fake.add(Fault("", redirect(other.url + "/x", status)))
            assert call(to(fake), *STAT).code == ANSWER
            assert call(to(fake), *READ).code == ANSWER
        assert other.requests == []


def test_a_body_shorter_than_announced(fake):
    body = b'{"entry":{"name":"x","path":"/x"}}'
    fake.add(Fault("/Stat", answer(200, body, length=len(body) + 5)), Fault("/files?", answer(200, b"12345", length=9)),
             Fault("/health", answer(204)))
    assert call(to(fake), *STAT).code == ANSWER
    r = call(to(fake), *READ)
    assert r.code == ANSWER and r.chunks == {"body": b"12345"}, r


def test_a_body_longer_than_announced(fake):
    body = b'{"entry":{"name":"x","path":"/x"}}'
    fake.add(Fault("/Stat", answer(200, body, length=len(body) - 5)), Fault("/health", answer(204)))
    assert call(to(fake), *STAT).code == ANSWER


def test_a_server_that_is_silent(fake):
    fake.add(Fault("", stall=True))
    for method, params in (STAT, READ, START, LIST):
        r = call(to(fake), method, {**params, "_deadlineMs": 300})
        assert r.code == TIMEOUT, (method, r)


def test_a_silent_stream_ends_with_the_deadline(fake):
    fake.add(Fault("/Start", stream(STARTED, OUT, last=False), end="stall"), Fault("/SendSignal", answer(200, {})))
    r = call(to(fake), "process.start", {**ECHO, "_deadlineMs": 500})
    assert r.code == TIMEOUT and r.chunks == {"stdout": b"hello\n"}, r
    assert "/SendSignal" in fake.requests[-1]


def test_nobody_listens(fake):
    fake.close()
    r = call(to(fake), *STAT)
    assert r.code == NETWORK and "cannot reach" in r.text, r


# --- once more -------------------------------------------------------------------------------------------

BUSY = answer(503, {"message": "later"})
LATER = answer(429, {"code": 429, "message": "slow down"}, headers=["Retry-After: 1"])


def count(proxy, text):
    return sum(text in r.split("\r\n")[0] for r in proxy.requests)


@pytest.mark.parametrize("fault", [dict(answer=BUSY), dict(cut=0, end="reset")])
def test_what_only_looks_is_asked_again(proxy, fault):
    for (method, params), path in ((STAT, "/Stat"), (READ, "GET /files?")):
        proxy.clear()
        proxy.add(Fault(path, **fault, times=2))
        assert call(to(proxy), method, params).result, fault
        assert count(proxy, path) == 3
        proxy.clear()
        proxy.add(Fault(path, **fault))
        assert call(to(proxy), method, params).error
        assert count(proxy, path) == 3


def test_what_does_something_is_not(proxy, envd):
    for fault in (dict(answer=BUSY), dict(cut=0), dict(cut=0, end="reset")):
        for method, params, path in (("process.start", ECHO, "/Start"), ("fs.make_dir", {"path": "once"}, "/MakeDir"),
                                     ("fs.write", {"path": "once", "_input": "x"}, "POST /files?")):
            proxy.clear()
            proxy.add(Fault(path, **fault))
            assert call(to(proxy), method, params).error
            assert count(proxy, path) == 1
    envd.run("rm -rf once")


def test_words_that_end_it(fake):
    for raw in (faults.gone(), faults.port_closed(), answer(404, {"code": "not_found", "message": "no"}),
                answer(500, "broken"), answer(429, {"code": 429, "message": "no word of when"})):
        fake.clear()
        fake.add(Fault("/Stat", raw))
        assert call(to(fake), *STAT).error
        assert count(fake, "/Stat") == 1


def test_who_is_told_to_come_back_does(proxy):
    for method, params, path in ((*STAT, "/Stat"), (*START, "/Start")):
        proxy.clear()
        proxy.add(Fault(path, LATER, times=1))
        assert call(to(proxy), method, params).result
        assert count(proxy, path) == 2
        proxy.clear()
        proxy.add(Fault(path, LATER))
        r = call(to(proxy), method, {**params, "_deadlineMs": 900})  # it would come too late
        assert "slow down" in r.text and count(proxy, path) == 1, r


def test_a_wait_ends_with_its_caller(fake):
    fake.add(Fault("", answer(429, {}, headers=["Retry-After: 9"])))
    r = call(to(fake), "fs.stat", {**STAT[1], "_cancelAfterMs": 200})
    assert r.code == "E5002" and count(fake, "/Stat") == 1, r


# --- files -----------------------------------------------------------------------------------------------


def written(path):
    return answer(200, [{"path": path, "name": "x", "type": "file"}])


def test_an_upload_that_is_cut_leaves_the_old_file(proxy, envd):
    envd.run("echo old > kept.txt; chmod 644 kept.txt")
    params = {"path": "kept.txt", "whole": True, "_inputBytes": 5000000}
    for fault in (Fault("POST /files?", take=100000, end="reset"), Fault("POST /files?", cut=0),
                  Fault("POST /files?", answer(507, {"code": 507, "message": "full"})), Fault("/Move", answer(500, "no"))):
        proxy.clear()
        proxy.add(fault)
        r = call(to(proxy), "fs.write", params)
        assert r.error, r
        assert envd.run('test "$(cat kept.txt)" = old') == 0, (fault.match, fault.end)
        wait_for(lambda: envd.run('test "$(ls -A)" = kept.txt') == 0, "the end of what was begun")
    proxy.clear()
    assert call(to(proxy), "fs.write", params).result == {"path": "/home/user/kept.txt", "size": 5000000}
    assert envd.run('test $(stat -c %s kept.txt) = 5000000 && test "$(ls -A)" = kept.txt') == 0
    envd.run("rm kept.txt")


def test_a_download_that_is_cut(proxy, envd):
    envd.run("head -c 3000000 /dev/urandom > big")
    for fault in (Fault("/files?", cut_body=1000000), Fault("/files?", cut_body=1000000, end="reset"),
                  Fault("/files?", cut_body=0)):
        proxy.clear()
        proxy.add(fault)
        r = call(to(proxy), "fs.read", {"path": "big", "_quiet": True})
        assert r.code in (NETWORK, ANSWER) and r.result is None, r
    proxy.clear()
    assert call(to(proxy), "fs.read", {"path": "big", "_quiet": True}).result == {"size": 3000000}
    envd.run("rm big")


def test_the_end_of_a_large_file_moves_few_bytes(proxy, envd):
    envd.run("truncate -s 20G holes && printf the-end >> holes")
    size = (20 << 30) + 7
    r = call(to(proxy), "fs.read", {"path": "holes", "offset": size - 7})
    assert r.chunks == {"body": b"the-end"} and r.result == {"size": 7}
    r = call(to(proxy), "fs.read", {"path": "holes", "offset": size - 9, "limit": 4})
    assert r.chunks == {"body": b"\0\0th"} and r.result == {"size": 4}
    assert call(to(proxy), "fs.read", {"path": "holes", "offset": size}).result == {"size": 0}
    assert proxy.sent < 10000
    envd.run("rm holes")


def test_a_server_without_ranges_is_left_once_the_part_is_there(fake):
    fake.add(Fault("/files?", answer(200, b"0123456789", "text/plain", length=1 << 40), end="stall"))
    r = call(to(fake), "fs.read", {"path": "x", "offset": 2, "limit": 5})
    assert r.chunks == {"body": b"23456"} and r.result == {"size": 5}


# --- TLS -------------------------------------------------------------------------------------------------


def certificate(folder, name, days=2):
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", str(days), "-subj", f"/CN={name}",
                    "-addext", f"subjectAltName=DNS:{name}", "-keyout", key, "-out", cert], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return cert, key


def test_certificates(tmp_path, envd):
    """A name that is connected to elsewhere is the name that the certificate must fit, and the one in Host."""
    cert, key = certificate(tmp_path, "49983-sb1.test")
    env = {"SSL_CERT_FILE": str(cert)}
    with FaultProxy(envd.port, cert=cert, key=key) as p:
        place = {"connectTo": f"127.0.0.1:{p.port}", "token": TOKEN}
        r = call({"baseUrl": "https://49983-sb1.test", **place}, "process.start", ECHO, env=env)
        assert r.result and r.chunks == {"stdout": b"hello\n"}, r
        assert "\r\nHost: 49983-sb1.test\r\n" in p.requests[0]
        seen = len(p.requests)
        for url, certs in (("https://49983-sb2.test", cert), ("https://49983-sb1.test", tmp_path / "none")):
            (tmp_path / "none").write_text("")
            r = call({"baseUrl": url, **place}, "process.start", ECHO, env={"SSL_CERT_FILE": str(certs)})
            assert r.code == NETWORK and ("certificate" in r.text or "trust anchors" in r.text), r
        r = call({"baseUrl": p.url.replace("https", "http"), "token": TOKEN}, *STAT)
        assert r.error, r
        assert len(p.requests) == seen
    with FaultProxy(envd.port) as plain:
        r = call({"baseUrl": plain.url.replace("http", "https"), "token": TOKEN}, *STAT, env=env)
        assert r.code == NETWORK and plain.requests == [], r
