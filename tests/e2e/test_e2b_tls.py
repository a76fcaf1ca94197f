"""https at the E2B door: its certificate authority, the names of its sandboxes, the variables for its clients.

The names are known to a resolver of the test's, in namespaces of the test's (names_lab.py)."""

import http.client
import json
import os
import re
import ssl
import stat
import subprocess
import sys
import time

import pytest

from harness import ABX, Abx, reap, wait_for
from names_lab import Names
from test_schema import check_object

DOMAIN = "boxes.test"
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"

# A client with nothing but its environment: the control plane by its name, a sandbox's port by its name.
CLIENT = """
import http.client, json, os, ssl, sys
domain, key = os.environ["E2B_DOMAIN"], os.environ["E2B_API_KEY"]
def ask(host, method, path, body=None, **headers):
    c = http.client.HTTPSConnection(*host.split(":"), timeout=60)
    c.request(method, path, body, {"X-API-Key": key, "Content-Type": "application/json", **headers})
    r = c.getresponse()
    text = r.read()
    c.close()
    return {"status": r.status, "body": json.loads(text) if text else None, "version": c.sock and 0 or r.version}
for line in sys.stdin:
    print(json.dumps(ask(**json.loads(line))), flush=True)
"""
SERVICE = """
import socket
listener = socket.create_server(("127.0.0.1", 8000))
while True:
    peer, _ = listener.accept()
    head = peer.recv(65536).decode().lower()
    host = [line.partition(": ")[2] for line in head.split("\\r\\n") if line.startswith("host:")][0]
    peer.sendall(b'HTTP/1.0 200 OK\\r\\n\\r\\n{"host": "%s"}' % host.encode())
    peer.close()
"""
MANIFEST = """schema = 1
id = "cloud"
name = "Cloud"
version = "1.0.0"
[runtime]
kind = "rest"
protocol = "e2b-rest/1"
features = ["process", "filesystem"]
[rest]
apiUrl = "{url}"
domain = "{domain}"
keyOption = "key"
[[options]]
name = "key"
type = "string"
secret = true
env = "CLOUD_KEY"
"""
NODE = """
const answer = await fetch(`https://api.${process.env.E2B_DOMAIN}/v2/sandboxes`, {headers: {"X-API-Key": process.env.E2B_API_KEY}})
console.log(answer.status, JSON.stringify(await answer.json()))
"""


class There(Abx):
    """The program where the names are known."""

    def __init__(self, names, **more):
        super().__init__(**more)
        self.names = names

    def start(self, *args, program=ABX, **more):
        words = [*self.names.enter, program, *args]
        return super().start(*words[1:], program=words[0], **more)


@pytest.fixture(scope="module")
def names():
    n = Names(DOMAIN)
    yield n
    n.close()


@pytest.fixture(scope="module")
def there(names):
    a = There(names, furnished=True)
    a.ok("e2b", "serve", "--detach", "--tls", "--domain", DOMAIN)
    yield a
    a("e2b", "stop")
    a.close()
    reap()


@pytest.fixture
def served(abx):
    yield abx
    abx("e2b", "stop")


@pytest.fixture(scope="module")
def schema(shared):
    return shared.ok("schema").json


def ask(there, *requests, **more):
    """Requests of CLIENT, its environment that of the server's variables."""
    env = there.ok("e2b", "env", "--json").json
    lines = "".join(json.dumps(r) + "\n" for r in requests)
    r = there("-c", CLIENT, program=sys.executable, env=env, input=lines.encode(), code=0, **more)
    return r.lines


def test_with_names_no_url_is_needed(there, schema):
    status = there.ok("e2b", "status", "--json").json
    check_object(schema, "server", status, "e2b status")
    assert status["domain"] == f"{DOMAIN}:{status['tlsPort']}"
    assert status["tlsUrl"] == f"https://api.{DOMAIN}:{status['tlsPort']}"
    r = there.ok("e2b", "env", "--json")
    check_object(schema, "e2bVariables", r.json, "e2b env")
    assert r.errors == "" and set(r.json) == {"E2B_API_KEY", "E2B_DOMAIN", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"}
    # a shell that has those of a server without TLS
    again = there.ok("e2b", "env", "--json", env={"E2B_API_URL": "http://x", "E2B_SANDBOX_URL": "http://x"}).json
    assert again["E2B_API_URL"] == again["E2B_SANDBOX_URL"] == ""


def test_both_planes_by_their_names(there):
    domain = there.ok("e2b", "status", "--json").json["domain"]
    made, listed, gone = ask(
        there,
        {"host": f"api.{domain}", "method": "POST", "path": "/v2/sandboxes", "body": json.dumps({"templateID": "base"})},
        {"host": domain, "method": "GET", "path": "/v2/sandboxes"},
        {"host": f"49983-0123456789abcdef.{domain}", "method": "GET", "path": "/health"})
    assert made["status"] == 201 and made["body"]["domain"] == domain and made["version"] == 11
    box = made["body"]["sandboxID"]
    assert [b["sandboxID"] for b in listed["body"]] == [box]
    assert gone["status"] == 502 and gone["body"]["message"] == "The sandbox was not found"
    there_is, killed = ask(
        there, {"host": f"49983-{box}.{domain}", "method": "GET", "path": "/health"},
        {"host": f"api.{domain}", "method": "DELETE", "path": f"/sandboxes/{box}"})
    assert there_is["status"] != 502 and killed["status"] == 204


def test_a_port_by_its_name(there):
    """Its service speaks HTTP/1.0: the answer ends when the service hangs up."""
    box = there.create()
    there.ok("exec", "--detach", box, "--", "python3", "-c", SERVICE)
    domain = there.ok("e2b", "status", "--json").json["domain"]
    ask(there, {"host": f"api.{domain}", "method": "GET", "path": "/v2/sandboxes"})  # the door sees it

    def answered():
        (r,) = ask(there, {"host": f"8000-{box}.{domain}", "method": "GET", "path": "/"})
        assert r["status"] in (200, 502), r
        return r["status"] == 200 and r["body"]
    assert wait_for(answered, "the service answers") == {"host": f"8000-{box}.{domain}"}
    there.ok("kill", box)


def test_a_provider_of_kind_rest_goes_there(there, names):
    """Our own client to our own server: trusted by SSL_CERT_FILE, else told why not."""
    status, env = (there.ok("e2b", verb, "--json").json for verb in ("status", "env"))
    plugin = there.work / "cloud"
    plugin.mkdir()
    (plugin / "abx-provider.toml").write_text(MANIFEST.format(url=status["tlsUrl"], domain=status["domain"]))
    caller = There(names)
    try:
        run = ["-P", str(plugin), "run", "--", "echo", "over", "https"]
        variables = {"CLOUD_KEY": env["E2B_API_KEY"], "SSL_CERT_FILE": env["NODE_EXTRA_CA_CERTS"]}
        r = caller.ok(*run, env=variables)
        assert r.text == "over https\n"
        variables["SSL_CERT_FILE"] = AUTHORITIES
        r = caller(*run, env=variables)
        assert r.code not in (0, None) and r.out == b"", repr(r)
        assert f"cannot trust 'https://api.{status['domain']}'" in r.errors, repr(r)
        assert "is by 'abx e2b authority" in r.errors and f"those in '{AUTHORITIES}'" in r.errors
        variables["SSL_CERT_FILE"] = "/no/such/file"
        r = caller(*run, env=variables)
        assert "'/no/such/file' (SSL_CERT_FILE)" in r.errors, repr(r)
        assert env["E2B_API_KEY"] not in r.errors
    finally:
        caller.close()


@pytest.mark.once
def test_node_trusts_it_by_its_own_variable(there):
    env = there.ok("e2b", "env", "--json").json
    env.pop("SSL_CERT_FILE")
    r = there("--input-type=module", "-e", NODE, program="node", env=env, code=0)
    assert r.text == "200 []\n"


@pytest.mark.once
def test_strangers_hosts_are_refused_on_it_too(there):
    domain = there.ok("e2b", "status", "--json").json["domain"]
    for host in ("evil.example", f"x{DOMAIN}", f"{DOMAIN}.evil.example"):
        (r,) = ask(there, {"host": f"api.{domain}", "method": "GET", "path": "/v2/sandboxes", "Host": host})
        assert r["status"] == 403, host


def test_without_names_it_is_the_plain_url(served, schema):
    served.ok("e2b", "serve", "--detach", "--tls")
    url = served.ok("e2b", "status", "--json").json["url"]
    r = served.ok("e2b", "env", env={"LOCALDOMAIN": "", "RES_OPTIONS": "timeout:1 attempts:1"})
    lines = dict(line.removeprefix("export ").split("=", 1) for line in r.text.splitlines())
    if "E2B_API_URL" not in lines:  # this machine resolves names below localhost
        assert r.errors == ""
        return
    assert lines["E2B_API_URL"] == lines["E2B_SANDBOX_URL"] == url
    assert re.fullmatch(r"abx\.localhost:\d+", lines["E2B_DOMAIN"])
    assert "do not lead to this machine" in r.errors and "libnss-myhostname" in r.errors


def test_doctor_looks_for_the_names(there, abx):
    found = [x for x in there("doctor", "--json").json["layers"] if x["name"] == "names"]
    assert found and found[0]["ok"] and f"'{DOMAIN}'" in found[0]["detail"]
    found = [x for x in abx("doctor", "--json").json["layers"] if x["name"] == "names"]
    assert found[0]["optional"] and (found[0]["ok"] or "libnss-myhostname" in found[0]["fix"])


def test_keys_are_for_their_owner_alone(served):
    served.ok("e2b", "serve", "--detach", "--tls")
    folder = served.home / "e2b"
    for name, mode in (("ca.key", 0o600), ("tls.key", 0o600), ("ca.pem", 0o644), ("tls.pem", 0o644)):
        assert stat.S_IMODE((folder / name).stat().st_mode) == mode, name
    key = "".join((folder / "ca.key").read_text().splitlines()[1:-1])
    assert key not in (served.home / "e2b.log").read_text() + (served.home / "e2b.json").read_text()
    served.ok("e2b", "stop")
    (folder / "ca.key").chmod(0o644)
    r = served("e2b", "serve", "--detach", "--tls")
    assert r.code != 0 and "holds a private key and could be read by others" in r.errors, repr(r)
    (folder / "ca.key").unlink()
    served.ok("e2b", "serve", "--detach", "--tls")


@pytest.mark.once
def test_the_authority_stays_until_the_domain_changes(served):
    folder = served.home / "e2b"

    def serve(*flags):
        served.ok("e2b", "serve", "--detach", "--tls", *flags)
        served.ok("e2b", "stop")
        return [(folder / name).read_text() for name in ("ca.pem", "tls.pem")]
    first = serve()
    assert serve() == first
    (folder / "tls.pem").write_text("nonsense")
    again = serve()
    assert again[0] == first[0] and again[1] != first[1]  # the certificate is made again, by the same authority
    other = serve("--domain", "other.test")
    assert other[0] != first[0]
    (folder / "ca.pem").write_text("")
    assert serve("--domain", "other.test")[0] != other[0]


def days_left(pem):
    done = subprocess.run(["openssl", "x509", "-noout", "-enddate"], input=pem, capture_output=True, text=True, check=True)
    return (ssl.cert_time_to_seconds(done.stdout.strip().partition("=")[2]) - time.time()) / 86400


@pytest.mark.once
def test_a_certificate_with_a_short_life_is_made_anew_while_the_door_runs(served):
    served.ok("e2b", "serve", "--detach", "--tls")
    folder, port = served.home / "e2b", served.ok("e2b", "status", "--json").json["tlsPort"]
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    first = ssl.get_server_certificate(("127.0.0.1", port))
    old = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=60)
    old.request("GET", "/health")
    assert old.getresponse().read() is not None
    names = folder / "names"
    names.write_text("subjectAltName=DNS:abx.localhost,DNS:*.abx.localhost,IP:127.0.0.1\n")
    run = {"cwd": folder, "check": True, "capture_output": True}
    subprocess.run(["openssl", "req", "-new", "-key", "tls.key", "-subj", "/CN=x", "-out", "request"], **run)
    subprocess.run(["openssl", "x509", "-req", "-in", "request", "-CA", "ca.pem", "-CAkey", "ca.key", "-set_serial", "7", "-days", "1",
                    "-extfile", "names", "-out", "short"], **run)
    short = (folder / "short").read_text()
    assert days_left(short) < 2
    (folder / "short").rename(folder / "tls.pem")
    wait_for(lambda: ssl.get_server_certificate(("127.0.0.1", port)) != first)
    shown = ssl.get_server_certificate(("127.0.0.1", port))
    assert days_left(shown) > 300 and shown.strip() in (folder / "tls.pem").read_text()
    new = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=60)
    for connection in (old, new):  # who is connected already stays so
        connection.request("GET", "/health")
        assert connection.getresponse().read() is not None
        connection.close()


@pytest.mark.once
def test_the_authority_vouches_for_its_domain_alone(served):
    """Whoever gets its key cannot be another site to a client that trusts it."""
    served.ok("e2b", "serve", "--detach", "--tls", "--domain", DOMAIN)
    folder = served.home / "e2b"

    def openssl(*words):
        return subprocess.run(["openssl", *words], cwd=served.work, capture_output=True, text=True)
    for name, good in ((f"x.{DOMAIN}", True), ("bank.example", False), (f"{DOMAIN}.example", False)):
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "k", "-out", "r",
                "-subj", "/CN=x", "-addext", f"subjectAltName=DNS:{name}")
        made = openssl("x509", "-req", "-in", "r", "-CA", str(folder / "ca.pem"), "-CAkey", str(folder / "ca.key"),
                       "-copy_extensions", "copy", "-out", "c")
        assert made.returncode == 0, made.stderr
        r = openssl("verify", "-CAfile", str(folder / "ca.pem"), "-verify_hostname", name, "c")
        assert (r.returncode == 0) == good, (name, r.stdout, r.stderr)


@pytest.mark.once
def test_other_https_still_works(served):
    """The bundle holds the authorities of this machine, or those of the caller, and ours once, however often it is asked for."""
    served.ok("e2b", "serve", "--detach", "--tls")
    mine = served.work / "mine.pem"
    mine.write_text((served.home / "e2b/tls.pem").read_text())

    def bundle(env):
        path = served.ok("e2b", "env", "--json", env=env).json["SSL_CERT_FILE"]
        return path, ssl.create_default_context(cafile=path).get_ca_certs(binary_form=True)
    usual = ssl.create_default_context(cafile=AUTHORITIES).get_ca_certs(binary_form=True)
    path, first = bundle({})
    assert set(usual) < set(first) and len(first) == len(usual) + 1
    assert bundle({"SSL_CERT_FILE": path}) == (path, first)
    assert len(bundle({"SSL_CERT_FILE": str(mine)})[1]) == 1  # a server's certificate is no authority
    assert open(path).read().count("BEGIN CERTIFICATE") == 2
    kept = open(path).read()
    bundle({"SSL_CERT_FILE": path})
    assert open(path).read() == kept
    os.unlink(path)
    assert bundle({"SSL_CERT_FILE": path})[1] == first


@pytest.mark.parametrize("flags, why", [
    (["--tls", "--domain", "nodot"], "wildcard"), (["--tls", "--domain", "Up.test"], "lower case"),
    (["--tls", "--domain", "-a.test"], "is no domain"), (["--tls", "--domain", "a..test"], "is no domain"),
    (["--tls", "--domain", "a" * 60 + "." + "b" * 60 + "." + "c" * 60 + "." + "d" * 60], "too long"),
    (["--domain", "a.test"], "are for '--tls'"), (["--tls-port", "1"], "are for '--tls'"),
    (["--tls", "--tls-port", "65536"], "'--tls-port' is at most 65535")])
@pytest.mark.once
def test_what_is_no_domain(abx, flags, why):
    r = abx("e2b", "serve", "--detach", *flags, code=2)
    assert why in r.errors


@pytest.mark.once
def test_a_server_without_tls_is_not_taken_for_one(served):
    served.ok("e2b", "serve", "--detach")
    r = served("e2b", "env", "--start", "--tls", code=5)
    assert "without TLS" in r.errors
