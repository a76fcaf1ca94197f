"""fetch() of modules: what goes over the wire, streams both ways, redirects, abort, errors, and the lock around it."""

import http.server
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
from pathlib import Path

import pytest

from harness import HELPERS

pytestmark = pytest.mark.once

NET = Path(__file__).resolve().parents[1] / "plugins" / "net"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def say(self, value):
        self.answer(200, json.dumps(value).encode(), [("Content-Type", "application/json")])

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        out = b""
        while size := int(self.rfile.readline(), 16):
            out += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return out

    def big(self, size):
        server = self.server
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        server.streams += 1
        server.sent = 0
        try:
            while server.sent < size:
                n = min(65536, size - server.sent)
                self.wfile.write(b"x" * n)
                server.sent += n
        except OSError:
            self.close_connection = True
        server.streams -= 1

    def do_GET(self):
        body, server = self.body(), self.server
        path, _, rest = re.sub("^http://[^/]*", "", self.path)[1:].partition("/")
        if path.startswith("echo"):
            self.say({"method": self.command, "path": self.path, "body": body.decode(),
                      "headers": {k.lower(): v for k, v in self.headers.items()}})
        elif path == "bytes":
            self.big(int(rest))
        elif path == "sent":
            self.say(server.sent)
        elif path == "open":
            self.say(server.streams)
        elif path == "count":
            self.say({"size": len(body), "kind": self.headers.get("Transfer-Encoding")})
        elif path == "missing":
            self.answer(404, b"nothing", [("Content-Type", "text/plain"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")])
        elif path == "move":
            status, _, target = rest.partition("/")
            self.answer(int(status), b"moved", [("Location", target.replace("OTHER", server.other) or "/echo")])
        elif path == "round":
            self.answer(302, b"", [("Location", "/round")])
        elif path == "cut":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
            self.close_connection = True
        elif path == "hang":
            if rest == "body":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
            server.released.wait(20)
            self.close_connection = True
        else:
            self.answer(200, b"")

    do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = do_GET


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 500
    daemon_threads = True


def serve(tls=None):
    server = Server(("127.0.0.1", 0), Handler)
    server.streams = server.sent = 0
    server.released = threading.Event()
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    server.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}"
    return server


@pytest.fixture
def server():
    one, other = serve(), serve()
    one.other = other.url
    yield one
    for each in (one, other):
        each.released.set()
        each.shutdown()
        each.server_close()


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    done = run(folder, "provider", "install", str(NET), "--yes")
    assert done.returncode == 0, done.stderr
    return folder


def run(home, *words, env=None, under=()):
    abx = Path(os.environ["ABX_BUILD"]) / "abx"
    environment = {"PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", "/"), "ABX_HOME": str(home), **(env or {})}
    return subprocess.run([*under, abx, *words], env=environment, capture_output=True, text=True, timeout=120)


def ask(home, word, *args, env=None, under=()):
    """What the word answered: JSON, or the text of its error."""
    done = run(home, "-P", "net", "run", "--", word, *map(str, args), env=env, under=under)
    assert done.returncode == 0, done.stderr
    try:
        return json.loads(done.stdout)
    except ValueError:
        return done.stdout


def test_requests_and_answers(home, server):
    r = ask(home, "get", server.url, "/missing")
    assert (r["status"], r["ok"], r["words"], r["type"], r["text"]) == (404, False, "Not Found", "text/plain", "nothing")
    r = ask(home, "echo", server.url, "POST", "grüß")
    assert (r["method"], r["body"], r["headers"]["x-one"], r["headers"]["content-type"]) == ("POST", "grüß", "a", "text/x")
    assert r["headers"]["content-length"] == "6"
    assert ask(home, "echo", server.url, "delete", "")["method"] == "DELETE"
    assert "no body" in ask(home, "echo", server.url, "GET", "x")
    assert "no method" in ask(home, "echo", server.url, "a b", "")
    assert ask(home, "bytes", server.url, 5_000_000) == 5_000_000
    assert ask(home, "many", server.url) is True
    assert "TypeError" in ask(home, "twice", server.url)


def test_a_slow_reader_holds_the_server_up(home, server):
    r = ask(home, "slow", server.url, 60_000_000)
    assert r["n"] == 60_000_000
    assert r["sent"] < 20_000_000, r


def test_a_body_by_pieces(home, server):
    assert ask(home, "upload", server.url, 64, 100_000) == {"size": 6_400_000, "kind": "chunked"}


def test_redirects(home, server):
    r = ask(home, "redirect", server.url, "/move/302//echo", "follow")
    seen = json.loads(r["body"])
    assert (r["status"], r["moved"], r["url"]) == (200, True, f"{server.url}/echo")
    assert seen["headers"]["authorization"] == "secret"
    # a POST becomes a GET, but not with 307
    seen = json.loads(ask(home, "redirect", server.url, "/move/303//echo", "follow", "POST")["body"])
    assert (seen["method"], seen["body"], "content-type" in seen["headers"]) == ("GET", "", False)
    seen = json.loads(ask(home, "redirect", server.url, "/move/307//echo", "follow", "POST")["body"])
    assert (seen["method"], seen["body"]) == ("POST", "body")
    # what names the user does not go to another host
    seen = json.loads(ask(home, "redirect", server.url, "/move/302/OTHER/echo", "follow")["body"])
    assert "authorization" not in seen["headers"] and "cookie" not in seen["headers"] and seen["headers"]["x-kept"] == "1"
    r = ask(home, "redirect", server.url, "/move/302//echo", "manual")
    assert (r["status"], r["moved"], r["body"]) == (302, False, "moved")
    assert "unexpected redirect" in ask(home, "redirect", server.url, "/move/302//echo", "error")
    assert "redirect count exceeded" in ask(home, "redirect", server.url, "/round", "follow")
    assert "fetch failed" in ask(home, "redirect", server.url, "/move/302/file:///etc/passwd", "follow")


def test_abort(home, server):
    assert ask(home, "abort", server.url, "before").startswith("AbortError")
    assert ask(home, "abort", server.url, "head") == "Error: enough"
    assert ask(home, "abort", server.url, "body") == "Error: enough"
    assert ask(home, "timeout", server.url).startswith("TimeoutError")


def test_what_nobody_reads_holds_no_connection(home, server):
    assert ask(home, "drop", server.url) == 0
    assert ask(home, "cancel", server.url) == 0


def test_errors_have_causes_with_codes(home, server):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        free = s.getsockname()[1]
        assert ask(home, "get", f"http://127.0.0.1:{free}", "/") == "TypeError: fetch failed <- ECONNREFUSED"
    assert ask(home, "get", "http://nowhere.invalid", "/") == "TypeError: fetch failed <- ENOTFOUND"
    assert ask(home, "cut", server.url) == "TypeError: terminated <- UND_ERR_SOCKET"
    assert "fetch failed" in ask(home, "get", "ftp://a.example", "/")
    assert "user or a password" in ask(home, "get", server.url.replace("//", "//u:p@"), "/")
    assert ask(home, "get", f"http://localhost:{server.server_address[1]}", "/echo")["status"] == 200


def test_far_too_many_requests_end_their_own_call(home, server):
    done = run(home, "-P", "net", "run", "--", "million", server.url)
    assert re.search("requests are open|out of memory|giving way", done.stdout + done.stderr), done.stderr
    assert ask(home, "bytes", server.url, 10) == 10


@pytest.fixture
def certificate(tmp_path):
    for program in ("openssl",):
        assert shutil.which(program)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", tmp_path / "key.pem",
                    "-out", tmp_path / "cert.pem"], check=True, capture_output=True)
    return tmp_path / "cert.pem", tmp_path / "key.pem"


def test_tls_with_the_authorities_of_this_machine(home, certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server = serve(context)
    assert ask(home, "get", server.url, "/echo").startswith("TypeError: fetch failed <- ERR_TLS_CERT")
    assert ask(home, "get", server.url, "/echo", env={"SSL_CERT_FILE": str(certificate[0])})["status"] == 200
    server.shutdown()
    server.server_close()


def test_tls_without_landlock(home, certificate, tmp_path):
    """An old kernel: no file can be opened once the module runs, so the bundle of authorities is open before. Twice, since each client reads it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server, old = serve(context), [HELPERS / "deny_userns", "landlock"]
    try:
        assert ask(home, "get", server.url, "/echo", env={"SSL_CERT_FILE": str(certificate[0])}, under=old)["status"] == 200
        assert ask(home, "get", server.url, "/echo", under=old).startswith("TypeError: fetch failed <- ERR_TLS_CERT")
        (tmp_path / "hashed").mkdir()
        failed = ask(home, "get", server.url, "/echo", env={"SSL_CERT_DIR": str(tmp_path / "hashed"), "SSL_CERT_FILE": ""}, under=old)
        assert failed.startswith("TypeError: fetch failed")  # a folder is out of reach; no server is trusted unseen
    finally:
        server.shutdown()
        server.server_close()


def test_a_proxy_of_the_environment_is_used(home, server):
    r = ask(home, "get", "http://far.invalid", "/echo", env={"http_proxy": server.url})
    assert r["status"] == 200 and json.loads(r["text"])["path"] == "http://far.invalid/echo"
