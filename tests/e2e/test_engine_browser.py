"""A page that somebody opens in a real browser while an engine runs: whatever it tries, it learns nothing and moves nothing."""

import contextlib
import http.client
import http.server
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import threading
import urllib.parse

import pytest

from harness import remove_tree, wait_for

pytestmark = pytest.mark.once

# What the page tries; each ends with a word. TARGET is the engine's address under one of its names.
PAGE = """<!doctype html><meta charset=utf-8><body><script>
const target = location.hash.slice(1) || location.origin;
const seen = {};
async function attempt(name, work) {
  try { seen[name] = String(await Promise.race([work(), new Promise((r) => setTimeout(r, 8000, 'silence'))])); }
  catch (error) { seen[name] = 'refused'; }
}
const told = (r) => r.type === 'opaque' ? 'opaque' : `${r.status} ${r.headers.get('access-control-allow-origin')}`;
const socket = (protocols) => new Promise((resolve) => {
  const s = new WebSocket(target.replace('http', 'ws') + '/v1/sandboxes/x/terminal', protocols);
  s.onopen = () => resolve('OPEN'); s.onmessage = (e) => resolve('MESSAGE ' + e.data); s.onerror = () => resolve('refused');
});
const frame = (fill) => new Promise((resolve) => {
  const f = document.createElement('iframe'); f.name = 'f' + Math.random();
  f.onload = () => { let text = 'opaque'; try { text = f.contentDocument ? f.contentDocument.body.innerText : 'opaque'; } catch (e) {} if (text) resolve(text); };
  document.body.append(f); fill(f);
});
(async () => {
  const body = JSON.stringify({name: 'from-a-page'});
  const key = {Authorization: 'Bearer guess', 'X-Abx-Connection': 'eyJwcm92aWRlciI6ImxvY2FsIn0'};
  await attempt('read', () => fetch(target + '/v1/health').then(told));
  await attempt('read with a guess', () => fetch(target + '/v1/sandboxes', {headers: key}).then(told));
  await attempt('json', () => fetch(target + '/v1/sandboxes', {method: 'POST', headers: {...key, 'Content-Type': 'application/json'}, body}).then(told));
  await attempt('plain text', () => fetch(target + '/v1/sandboxes', {method: 'POST', mode: 'no-cors', headers: {'Content-Type': 'text/plain'}, body}).then(told));
  await attempt('beacon', () => navigator.sendBeacon(target + '/v1/shutdown', body));
  await attempt('image', () => new Promise((r) => { const i = new Image(); i.onload = () => r('LOADED'); i.onerror = () => r('refused'); i.src = target + '/v1/health'; }));
  await attempt('script', () => new Promise((r) => { const s = document.createElement('script'); s.onload = () => r('LOADED'); s.onerror = () => r('refused'); s.src = target + '/v1/providers'; document.head.append(s); }));
  await attempt('events', () => new Promise((r) => { const s = new EventSource(target + '/v1/sandboxes/x/processes/1/stream'); s.onopen = () => r('OPEN'); s.onerror = () => { s.close(); r('refused'); }; }));
  await attempt('socket', () => socket([]));
  await attempt('socket with a protocol', () => socket(['Bearer', 'guess']));
  await attempt('form', () => frame((f) => {
    const form = document.createElement('form'); form.target = f.name; form.method = 'POST'; form.action = target + '/v1/shutdown'; form.enctype = 'text/plain';
    const input = document.createElement('input'); input.name = '{"a":"'; input.value = '"}'; form.append(input); document.body.append(form); form.submit();
  }));
  await attempt('frame', () => frame((f) => { f.src = target + '/v1/providers'; }));
  await fetch('/report', {method: 'POST', body: JSON.stringify(seen)});
})();
</script>"""


class Site(http.server.ThreadingHTTPServer):
    """Where the page comes from, and where it reports to. As a proxy it is what a name server does that first says the site's
    address and then 127.0.0.1: the page is its own, all else of that name goes to the engine."""

    daemon_threads = True
    engine_port = 0

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.reports = []
        self.forwarded = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.place() == "/favicon.ico":
            self.send_error(404)
            return
        if self.place() != "/":
            self.forward()
            return
        text = PAGE.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self):
        if self.place() != "/report":
            self.forward()
            return
        self.server.reports.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def place(self):
        return urllib.parse.urlsplit(self.path).path

    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.forwarded += 1
        c = http.client.HTTPConnection("127.0.0.1", self.server.engine_port, timeout=30)
        c.putrequest(self.command, self.place(), skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            c.putheader(name, value)
        c.endheaders(body)
        answer = c.getresponse()
        text = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
        c.close()

    def do_CONNECT(self):
        """A WebSocket: bytes both ways."""
        self.server.forwarded += 1
        s = socket.create_connection(("127.0.0.1", self.server.engine_port))
        self.send_response(200)
        self.end_headers()

        def back():
            with contextlib.suppress(OSError):
                while data := s.recv(65536):
                    self.connection.sendall(data)
            self.connection.close()

        threading.Thread(target=back, daemon=True).start()
        with contextlib.suppress(OSError):
            while data := self.connection.recv(65536):
                s.sendall(data)
        s.close()
        self.close_connection = True

    def log_message(self, *_):
        pass


@pytest.fixture
def site():
    s = Site()
    yield s
    s.shutdown()
    s.server_close()


@pytest.fixture
def engine(fresh):
    """The home and the port of an engine that runs."""
    fresh.ok("provider", "engine", "serve", "--detach")
    about = json.loads((fresh.home / "engine.json").read_text())
    yield fresh, about
    fresh("provider", "engine", "stop")


def visit(url, *flags):
    """A browser that opens this page; to be ended."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="abx-browser."))
    process = subprocess.Popen(
        ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests,PrivateNetworkAccessSendPreflights",
         f"--user-data-dir={folder}", "--remote-debugging-port=0", *flags, url],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        env={**os.environ, "HOME": str(folder)})
    return process, folder


@pytest.fixture
def browse():
    open_ones = []

    def go(url, *flags):
        open_ones.append(visit(url, *flags))

    yield go
    for process, folder in open_ones:
        os.killpg(process.pid, 9)
        process.wait()
        remove_tree(folder)


def nothing_happened(engine):
    abx, about = engine
    assert json.loads((abx.home / "engine.json").read_text()) == about
    assert abx.ok("provider", "engine", "status", "--json").json["pid"] == about["pid"]
    assert abx.ok("-P", "local", "ls", "--json").json == {"sandboxes": []}


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_page_of_another_site(engine, site, browse, name):
    """It gets what any address of the world gives: an error, an answer that cannot be read, silence."""
    browse(f"http://127.0.0.1:{site.server_port}/#http://{name}:{engine[1]['port']}", "--no-proxy-server")
    wait_for(lambda: site.reports, seconds=90)
    seen = site.reports[0]
    assert seen.pop("beacon") in ("true", "false")
    assert set(seen.values()) <= {"refused", "opaque", "silence"}, seen
    nothing_happened(engine)


def test_a_name_that_turns_to_this_machine(engine, site, browse):
    """DNS rebinding: to the browser the engine is the page's own site, so it may read the answers: they are refusals."""
    site.engine_port = engine[1]["port"]
    browse(f"http://rebound.test:{site.engine_port}/", f"--proxy-server=127.0.0.1:{site.server_port}")
    wait_for(lambda: site.reports, seconds=90)
    seen = site.reports[0]
    assert site.forwarded >= 10
    assert seen.pop("beacon") in ("true", "false")
    for name in ("read", "read with a guess", "json", "plain text"):
        assert seen.pop(name) == "403 null", (name, seen)
    for name in ("form", "frame"):
        assert json.loads(seen.pop(name))["error"]["code"]
    assert set(seen.values()) <= {"refused", "silence"}, seen
    nothing_happened(engine)
