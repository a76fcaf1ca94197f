"""The example client in Perl, written from docs/engine-api.md alone: examples/perl."""

import os
import subprocess
from pathlib import Path

import pytest

from harness import ABX

pytestmark = pytest.mark.once
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "perl"


@pytest.fixture
def perl(abx):
    def run(*words, **more):
        env = abx.environment({"ABX_BIN": f"'{ABX}'"})
        return subprocess.run(["perl", EXAMPLE / "run.pl", *words], env=env, capture_output=True, timeout=100, **more)

    yield run
    abx("provider", "engine", "stop")


def test_a_command_with_files(abx, perl):
    """No engine runs: it starts one. Bytes are exact in both directions."""
    data = os.urandom(500_000)
    done = perl("local", "sh", "-c", "sha256sum < input >&2; cat input; tac input > /dev/null; head -c 70000 input > output; exit 3", input=data)
    assert (done.returncode, done.stdout) == (3, data + data[:70000]), done.stderr[-500:]
    assert done.stderr.endswith(b"  -\n")
    again = perl("local", "sh", "-c", "sort -rn input | head -n 2; wc -l < input > output", input="".join(f"{i}\n" for i in range(1, 1001)).encode())
    assert (again.returncode, again.stdout) == (0, b"1000\n999\n1000\n"), again.stderr
    assert abx.ok("ls", "-q", "--all").text == ""


def test_failures_have_their_code(abx, perl):
    done = perl("local", "/no/such/program", input=b"")
    assert done.returncode == 255 or done.returncode > 0
    assert done.stderr.startswith(b"E6006: ")
    assert perl("nope", "true", input=b"").stderr.startswith(b"E3004: ")
    assert abx.ok("ls", "-q", "--all").text == ""
    (abx.home / "engine.json").chmod(0o644)
    assert b"can be read by others" in perl("local", "true", input=b"").stderr
    (abx.home / "engine.json").chmod(0o600)


def test_a_stranger_on_the_port_gets_no_token(abx, perl):
    """A file of an engine that was killed: whoever listens there cannot prove itself."""
    import http.server
    import json
    import threading

    heard = []

    class Stranger(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            heard.append(dict(self.headers))
            self.send_response(401)
            self.send_header("X-Abx-Proof", "A" * 43)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Stranger)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    abx.home.mkdir(mode=0o700, exist_ok=True)
    path = abx.home / "engine.json"
    path.write_text(json.dumps({"protocol": "abx-engine/1", "port": server.server_port, "token": "t" * 32, "pid": 1, "version": "0", "startedAt": ""}))
    path.chmod(0o600)
    done = perl("local", "echo", "fine", input=b"")
    assert (done.returncode, done.stdout) == (0, b"fine\n"), done.stderr
    assert heard and not [h for h in heard if "Authorization" in h]
    server.shutdown()
    server.server_close()


def test_a_stream_that_fails(abx, perl):
    """The sandbox ends under its command: the error of the stream is the client's."""
    p = subprocess.Popen(["perl", EXAMPLE / "run.pl", "local", "sh", "-c", "echo here; exec sleep 1000"], env=abx.environment({"ABX_BIN": ABX}),
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert p.stdout.readline() == b"here\n"
    abx.ok("kill", "--all", "--yes")
    out, err = p.communicate(timeout=100)
    assert p.returncode > 0 and err, (out, err)
