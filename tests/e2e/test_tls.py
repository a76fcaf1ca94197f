"""TLS in a program that is linked as the released one is."""
import http.server
import os
import ssl
import subprocess
import threading

import pytest

from harness import HELPERS


@pytest.fixture
def server(tmp_path):
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *_):
            pass
    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    s.socket = context.wrap_socket(s.socket, server_side=True)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    yield f"https://localhost:{s.server_port}/", cert
    s.shutdown()
    s.server_close()


def get(url, certs):
    return subprocess.run([os.path.join(HELPERS, "tls_get"), url], capture_output=True, timeout=60,
                          env={**os.environ, "SSL_CERT_FILE": str(certs)})


def test_a_first_tls_connection(server):
    url, cert = server
    r = get(url, cert)
    assert r.returncode == 0 and r.stdout == b"200\nhello", r


def test_a_stranger_s_certificate(server, tmp_path):
    url, _ = server
    (tmp_path / "none.pem").write_text("")
    r = get(url, tmp_path / "none.pem")
    assert r.returncode == 1 and r.stdout == b"" and b"certificate" in r.stderr.lower(), r
