"""The program is one file: it needs nothing of the machine that it runs on, also no C library."""

import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from harness import ABX

pytestmark = pytest.mark.once


def test_alone_in_an_empty_machine(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    shutil.copy(ABX, root / "abx")
    inside = ["bwrap", "--bind", str(root), "/", "--proc", "/proc", "--dev", "/dev", "--clearenv", "--setenv", "ABX_HOME", "/home", "--"]
    p = subprocess.run([*inside, "/abx", "--version"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert p.returncode == 0 and p.stdout.startswith("abx "), p
    p = subprocess.run([*inside, "/abx", "provider", "list", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert p.returncode == 0 and '"local"' in p.stdout, p


@pytest.fixture
def service():
    """A control plane without sandboxes."""
    class Service(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"[]")

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


MANIFEST = """schema = 1
id = "cloud"
name = "Cloud"
version = "0.1.0"
[runtime]
kind = "rest"
protocol = "e2b-rest/1"
features = ["list"]
[[options]]
name = "url"
type = "url"
env = "CLOUD_URL"
[rest]
apiUrl = "{url}"
needsKey = false
dataPlaneUrl = "{api}"
"""


def test_names_are_looked_up_without_modules_of_the_machine(abx, service, tmp_path):
    (tmp_path / "cloud").mkdir()
    (tmp_path / "cloud" / "abx-provider.toml").write_text(MANIFEST)
    abx.ok("provider", "install", tmp_path / "cloud", "--yes")
    (tmp_path / "hosts").write_text("127.0.0.1 control.example\n")
    (tmp_path / "nsswitch").write_text("hosts: nothing_of_this_name\n")
    here = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(tmp_path / "hosts"), "/etc/hosts",
            "--ro-bind", str(tmp_path / "nsswitch"), "/etc/nsswitch.conf", "--"]
    assert subprocess.run([*here, "getent", "ahostsv4", "control.example"], stdout=subprocess.DEVNULL).returncode != 0
    env = abx.environment({"CLOUD_URL": f"http://control.example:{service}"})
    p = subprocess.run([*here, ABX, "-P", "cloud", "ls", "--all", "--json"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert p.returncode == 0, p
