"""TLS in a program that is linked as the released one is."""
import http.server
import os
import ssl
import subprocess
import threading
from pathlib import Path

import pytest

from harness import HELPERS


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("server")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                    "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert],
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
    env = {k: v for k, v in os.environ.items() if not k.startswith("SSL_CERT_")}
    return subprocess.run([os.path.join(HELPERS, "tls_get"), url], capture_output=True, timeout=60,
                          env={**env, "SSL_CERT_FILE": str(certs)})


def test_a_first_tls_connection(server):
    url, cert = server
    r = get(url, cert)
    assert r.returncode == 0 and r.stdout == b"200\nhello", r


def test_an_authority_among_many(server, tmp_path):
    """In a bundle of other authorities, it is found though only this one is parsed."""
    url, cert = server
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(Path("/etc/ssl/certs/ca-certificates.crt").read_text() + cert.read_text())
    r = get(url, bundle)
    assert r.returncode == 0 and r.stdout == b"200\nhello", r


@pytest.mark.parametrize("text, why", [("", b"holds no certificate"), (None, b"No such file")])
def test_a_bundle_that_holds_nothing(server, tmp_path, text, why):
    url, _ = server
    if text is not None:
        (tmp_path / "none.pem").write_text(text)
    r = get(url, tmp_path / "none.pem")
    assert r.returncode == 2 and r.stdout == b"" and why in r.stderr and b"none.pem' (SSL_CERT_FILE)" in r.stderr, r


def test_a_stranger_s_certificate(server):
    url, _ = server
    r = get(url, "/etc/ssl/certs/ca-certificates.crt")
    assert r.returncode == 1 and r.stdout == b"", r
    assert b"its certificate is signed by itself" in r.stderr, r


def test_a_server_without_tls(server):
    plain = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    threading.Thread(target=plain.serve_forever, daemon=True).start()
    r = get(f"https://localhost:{plain.server_port}/", server[1])
    plain.shutdown()
    plain.server_close()
    assert r.returncode == 1 and b"it does not speak TLS" in r.stderr, r


def test_the_machine_s_configuration_is_not_read(server, tmp_path):
    """OpenSSL's configuration may load modules from anywhere; a broken one would end each start."""
    (tmp_path / "openssl.cnf").write_text("openssl_conf = nowhere\n[nowhere]\nproviders = none\n")
    os.environ["OPENSSL_CONF"] = str(tmp_path / "openssl.cnf")
    try:
        r = get(*server)
    finally:
        del os.environ["OPENSSL_CONF"]
    assert r.returncode == 0 and r.stdout == b"200\nhello", r
