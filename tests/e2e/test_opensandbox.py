"""The provider `opensandbox` of the catalog, run by abx itself, over the double of that service in tests/opensandbox; then what
real servers do wrong, one by one."""

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from harness import Abx, wait_for

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "opensandbox"))
from server import Server  # noqa: E402

pytestmark = pytest.mark.once


class Cloud(Abx):
    """A home with the provider, and a server that its requests go to."""

    def __init__(self):
        super().__init__()
        self.backend = Abx(furnished=True)
        self.server = Server(self.backend)
        self.env.update(OPEN_SANDBOX_DOMAIN=self.server.domain, OPEN_SANDBOX_API_KEY=self.server.key, ABX_PROVIDER="opensandbox")
        self.ok("provider", "install", "opensandbox", "--yes")

    def close(self):
        self.server.close()
        super().close()
        self.backend.close()


@pytest.fixture(scope="module")
def cloud():
    one = Cloud()
    yield one
    one.close()


@pytest.fixture(autouse=True)
def well(cloud):
    yield
    cloud.server.faults.clear()
    cloud.server.execd_faults.clear()
    cloud.server.version = "A"
    cloud.server.kernels = "python,bash"


@pytest.fixture()
def box(cloud):
    """A sandbox; its execd has the faults that were switched on before."""
    made = []

    def make(*faults, **more):
        cloud.server.execd_faults[:] = faults
        made.append(cloud.ok("create", **more).text.strip())
        return made[-1]

    yield make
    for one in made:
        cloud("kill", one)


def test_the_suite(cloud):
    found = cloud("provider", "test", "opensandbox", "-O", "code-timeout=3", "--json", timeout=300).json
    assert [(c["name"], c["why"]) for c in found["cases"] if c["outcome"] == "failed"] == []
    assert found["summary"]["passed"] > 185 and found["features"]["pty"] == "native"


def test_a_part_of_a_file(cloud, box):
    one = box()
    assert cloud("provider", "caps", "opensandbox", "--json").json["providers"][0]["features"]["filesystem.range"] == "native"
    for name in ("/tmp/part", "/tmp/a$b"):  # the second one goes by a command
        cloud.ok("files", "write", f"{one}:{name}", input=b"0123456789")
        for offset, limit, part in ((3, 4, b"3456"), (8, 100, b"89"), (10, 1, b""), (1 << 49, 1, b""), (0, 0, b""), (9, 1 << 49, b"9")):
            assert cloud.ok("files", "cat", "--offset", str(offset), "--limit", str(limit), f"{one}:{name}").out == part
    assert cloud.ok("files", "cat", "--offset", "1", "--limit", "4", f"{one}:/proc/version").out == b"inux"


def test_a_command_in_a_sandbox_of_its_own(cloud):
    assert cloud("run", "--", "sh", "-c", "cat; echo there >&2; exit 3", input=b"in\0\xff", code=3).out == b"in\0\xff"
    assert cloud.ok("ls", "-q", "--all").text == ""


def test_without_a_key_and_with_a_wrong_one(cloud):
    assert cloud("ls", "--json", drop=["OPEN_SANDBOX_API_KEY"], code=4).error["code"] == "E2001"
    r = cloud("ls", "--json", env={"OPEN_SANDBOX_API_KEY": "wrong-key-1234"}, code=4)
    assert r.error["code"] == "E2001" and "wrong-key-1234" not in r.errors


def test_login(cloud):
    home = Abx()
    try:
        home.ok("provider", "install", "opensandbox", "--yes")
        home.env["OPEN_SANDBOX_DOMAIN"] = cloud.server.domain
        r = home("provider", "login", "opensandbox", "--json", input=b"wrong-key-1234\n", code=4)
        assert r.error["code"] == "E2001" and "wrong-key-1234" not in r.errors and not (home.home / "config.toml").exists()
        assert home("provider", "login", "opensandbox", "--json", input=cloud.server.key.encode() + b"\n", code=0).json["tested"] is True
        assert cloud.server.key in (home.home / "config.toml").read_text()
        assert home.ok("ls", "-P", "opensandbox", "--json", "--all").json["sandboxes"] == []
    finally:
        home.close()


def test_no_server(cloud):
    assert cloud("ls", "--json", env={"OPEN_SANDBOX_DOMAIN": "127.0.0.1:1"}, code=8).error["code"] == "E6001"
    assert cloud("ls", "--json", env={"OPEN_SANDBOX_DOMAIN": "a b"}, code=2).error["code"] == "E1003"


def test_options_reach_the_server(cloud):
    r = cloud("create", "-O", 'volumes=[{"name":"v","mountPath":"/v","host":{"path":"/etc"}}]', "--json")
    assert r.code and "'/etc' is not allowed" in r.error["message"], repr(r)
    assert cloud("create", "-O", "resources=[]", "--json", code=2).error["code"] == "E1003"
    r = cloud("create", "--template", "missing:1", "--json", code=3)
    assert r.error["code"] == "E3005"
    assert cloud("create", "--network", "none", "--json", code=6).error["code"] == "E8004"


def test_more_options_reach_the_server(cloud):
    volumes = [{"name": "data", "mountPath": "/data", "readOnly": True, "pvc": {"claimName": "claim-1"}}]
    words = {"volumes": json.dumps(volumes), "resources": '{"cpu":"500m","memory":"300Mi","gpu":"1"}', "extensions": '{"access.renew.extend.seconds":"1800"}',
             "platform": "linux/amd64", "image": "private/image:2", "image-user": "me", "timeout": "900", "entrypoint": '["sleep","1000"]'}
    one = cloud.ok("create", *[w for k, v in words.items() for w in ("-O", f"{k}={v}")], env={"OPEN_SANDBOX_PROTOCOL": "http"}).text.strip()
    asked = cloud.server.boxes[one].asked
    cloud.ok("kill", one)
    assert asked["volumes"] == volumes and asked["resourceLimits"] == {"cpu": "500m", "memory": "300Mi", "gpu": "1"}
    assert asked["extensions"] == {"access.renew.extend.seconds": "1800"} and asked["platform"] == {"os": "linux", "arch": "amd64"}
    assert asked["image"] == {"uri": "private/image:2", "auth": {"username": "me", "password": ""}}
    assert asked["timeout"] == 900 and asked["entrypoint"] == ["sleep", "1000"]


def test_networks(cloud, box):
    """With a sidecar: a policy at the making, and later another; limited and unlimited ones cannot change into each other."""
    cloud.server.faults["egress"] = True
    one = cloud.ok("create", "-O", "egress=true", "--network", "allow:a.example,allow:*.b.example").text.strip()
    policy = cloud.server.boxes[one].egress["policy"]
    try:
        assert policy == {"defaultAction": "deny", "egress": [{"action": "allow", "target": "a.example"}, {"action": "allow", "target": "*.b.example"}]}
        cloud.ok("network", one, "allow:c.example,allow:a.example", "-O", "egress=true")
        assert {r["target"] for r in policy["egress"]} == {"a.example", "c.example"} and policy["defaultAction"] == "deny"
        cloud.ok("network", one, "none", "-O", "egress=true")
        assert policy["egress"] == []
        assert cloud("network", one, "internet", "-O", "egress=true", "--json", code=6).error["code"] == "E8004"
        assert cloud("network", one, "allow:a.example:443", "-O", "egress=true", "--json", code=6).error["code"] == "E8004"
        r = cloud("network", box(), "none", "-O", "egress=true", "--json")  # made without a policy: nothing stands beside it
        assert r.code and "E8008" not in r.errors, repr(r)
    finally:
        cloud("kill", one)
    one = cloud.ok("create", "-O", 'network-policy={"defaultAction":"allow","egress":[{"action":"deny","target":"x.example"}]}').text.strip()
    assert cloud.server.boxes[one].asked["networkPolicy"]["egress"] == [{"action": "deny", "target": "x.example"}]
    cloud.ok("kill", one)


def test_an_entrypoint_that_ends_is_told_with_its_code(cloud):
    r = cloud("create", "-O", 'entrypoint=["sh","-c","exit 7"]', "--json")
    assert r.error["code"] == "E6004" and "exited with code 7" in r.error["message"], repr(r)
    assert cloud.server.boxes == {}


def test_through_the_server(cloud, box):
    cloud.env["OPEN_SANDBOX_USE_SERVER_PROXY"] = "true"
    try:
        for cloud.server.version in ("A", "D"):
            one = box()
            cloud.server.faults["refuse"] = 2
            assert cloud.ok("exec", one, "--", "echo", "hi").text == "hi\n"
            cloud.ok("files", "write", f"{one}:x", input=b"x" * 3000000)
            assert cloud.ok("files", "cat", f"{one}:x").out == b"x" * 3000000
    finally:
        del cloud.env["OPEN_SANDBOX_USE_SERVER_PROXY"]


def test_a_server_that_is_busy_or_behind_a_gateway_that_fails(cloud):
    page = b"<html><body><h1>502 Bad Gateway</h1>nginx</body></html>"
    faults = [{"path": "GET /v1/sandboxes$", "times": 1, "status": 429, "headers": {"Retry-After": "0.2"}, "body": {"code": "X", "message": "slow"}},
              {"path": "GET /v1/sandboxes$", "times": 1, "status": 502, "body": page}]
    cloud.server.faults["status"] = [dict(f) for f in faults]
    assert cloud.ok("ls", "--json", "--all").json["sandboxes"] == []
    cloud.server.faults["status"] = [{**faults[1], "times": 100}]
    r = cloud("ls", "--json", "--all")
    assert "502 Bad Gateway nginx" in r.errors + r.text and "<h1>" not in r.errors, repr(r)
    cloud.server.faults["status"] = [{"path": "POST /v1/sandboxes$", "times": 1, "status": 500, "body": {"detail": "broken"}}]
    r = cloud("create", "--json")
    assert r.error["code"] == "E6002" and "broken" in r.error["message"]


def test_a_sandbox_that_is_not_ready_at_once(cloud, box):
    cloud.server.faults.update(pending=3, createDelay=0.5)
    assert cloud.ok("exec", box(), "--", "echo", "on").text == "on\n"


def test_headers_of_an_endpoint(cloud, box):
    cloud.server.faults["endpointHeaders"] = {"X-EXECD-ACCESS-TOKEN": "tok-of-execd"}
    one = cloud.ok("create", "-e", "EXECD_ACCESS_TOKEN=tok-of-execd").text.strip()
    try:
        assert cloud.ok("exec", one, "--", "echo", "in").text == "in\n"
    finally:
        cloud("kill", one)


STREAMS = ["latePing", "dataPrefix", "split", "tracebackNull", "cutBeforeEnd"]


@pytest.mark.parametrize("fault", STREAMS)
def test_streams_as_other_servers_send_them(cloud, box, fault):
    one = box(fault)
    assert cloud("exec", one, "--", "sh", "-c", "printf 'a\\n\\n\\377b'; exit 5", code=5).out == b"a\n\n\xffb"


def test_a_command_that_execd_fails_at(cloud, box):
    r = cloud("exec", box("bareError"), "--json", "--", "true", code=125)
    assert "something broke" in r.errors


def test_an_old_execd(cloud, box):
    one = box("old")
    cloud.ok("files", "write", f"{one}:d/x y", input=b"1")
    assert [f["name"] for f in cloud.ok("files", "ls", "--json", f"{one}:d").json["files"]] == ["x y"]
    assert cloud("files", "cat", f"{one}:none", "--json", code=3).error["code"] == "E3002"


def test_a_download_that_breaks_goes_on_where_it_was(cloud, box):
    one, data = box("cutDownload"), bytes(range(256)) * 40
    cloud.ok("files", "write", f"{one}:x", input=data)
    assert cloud.ok("files", "cat", f"{one}:x").out == data


def test_connections_that_are_cut(cloud, box):
    """Each connection to the sandbox brings so many bytes and no more: what can be asked again is, and nothing is told twice or left out."""
    one, data = box(), bytes(range(256)) * 200
    cloud.ok("files", "write", f"{one}:x", input=data)
    cloud.server.faults["cutAfter"] = 20000
    assert cloud.ok("files", "cat", f"{one}:x").out == data
    r = cloud("exec", one, "--", "sh", "-c", "seq 1 20000; exit 3")
    assert r.code == 3 and r.text == "".join(f"{n}\n" for n in range(1, 20001)), repr(r)[:2000]


def test_a_terminal_whose_tail_is_lost(cloud, box, terminal):
    """execd tells the end before the last of the output: what a program wrote last is seen nevertheless."""
    one = box("lostTail")
    for _ in range(3):
        t = terminal(cloud, "exec", "-it", one, "--", "sh", "-c", "seq 1 3000; echo the last words; exit 4")
        assert t.end() == 4
        assert b"3000\r\nthe last words\r\n" in t.seen, t.seen[-300:]


COOKIES = """import http.server as h, sys
class H(h.BaseHTTPRequestHandler):
    def do_GET(s):
        s.send_response(200); s.send_header('Set-Cookie', 'session=of-a-user'); s.end_headers(); s.wfile.write(str(s.headers.get('Cookie')).encode())
h.HTTPServer(('127.0.0.1', 3000), H).serve_forever()"""


def test_cookies_that_the_server_replays(cloud, box):
    """The server's proxy keeps cookies of one caller for all: the provider neither sends nor minds them."""
    cloud.env["OPEN_SANDBOX_USE_SERVER_PROXY"] = "true"
    try:
        one = box()
        cloud.ok("exec", "-d", one, "--", "python3", "-c", COOKIES)
        url = cloud.ok("port", one, "3000", "--json").json["url"]

        def get():
            try:
                return urllib.request.urlopen(url, timeout=20).read()
            except urllib.error.URLError:
                return None
        assert wait_for(get) == b"None"
        assert get() == b"session=of-a-user"  # which nobody sent
        assert cloud.server.boxes[one].jar
        assert cloud.ok("exec", one, "--", "echo", "on").text == "on\n"
        cloud.ok("files", "write", f"{one}:x", input=b"x" * 100000)
        assert cloud.ok("files", "cat", f"{one}:x").out == b"x" * 100000
    finally:
        del cloud.env["OPEN_SANDBOX_USE_SERVER_PROXY"]


def test_code_whose_end_comes_before_its_output(cloud, box):
    one = box("earlyComplete")
    code = "import time\nfor k in range(3):\n    print(k, flush=True); time.sleep(0.1)\n40 + 2"
    assert cloud.ok("code", one, "-c", code).text == "0\n1\n2\n42\n"


@pytest.mark.parametrize("fault", ["proxyCuts", "abortsAfterError", "lostEnd"])
def test_code_as_real_execd_fails_at_it(cloud, fault):
    """Streams that break on execd's way to itself, kernels that throw away what comes right behind an error, an interrupt whose end is lost."""
    cloud.server.execd_faults[:] = [fault]
    for name in ["code.interrupt"] if fault == "lostEnd" else ["code.error", "code.interrupt"]:
        found = cloud("provider", "test", "opensandbox", "--case", name, "--json").json
        assert [(c["outcome"], c.get("why")) for c in found["cases"]] == [("passed", None)], found


def test_code_without_kernels_and_without_an_end(cloud, box):
    cloud.server.kernels = ""
    r = cloud("code", box(), "--json", "-c", "1", code=125)
    assert "E8004" in r.errors and "not configured" in r.errors
    cloud.server.kernels = "python"
    one = box("noKernel")
    r = cloud("code", one, "-O", "code-timeout=1", "--json", "--language", "bash", "-c", "1", code=125)
    assert "E8004" in r.errors
    r = cloud("code", box("noTerminal"), "--json", "-c", "print(1)", code=125)
    assert "E6003" in r.errors


def test_a_pause_keeps_the_life_that_was_left(cloud, box):
    one = box()
    cloud.ok("extend", one, "90s")
    cloud.ok("pause", one)
    assert "expiresAt" not in cloud.ok("info", "--json", one).json
    r = cloud("exec", one, "--json", "--", "true", code=125)
    assert "E4001" in r.errors and f"abx resume {one}" in r.errors
    cloud.ok("resume", one)
    info = cloud.ok("info", "--json", one).json
    assert info["state"] == "running" and info["metadata"] == {}
    box_of_server = cloud.server.boxes[one]
    assert 30 < (box_of_server.expires - box_of_server.created).total_seconds() < 200


def test_labels_that_the_server_would_refuse(cloud):
    one = cloud.ok("create", "-l", "url=https://a.example/x y", "-l", "team=blue").text.strip()
    try:
        assert cloud.ok("info", "--json", one).json["metadata"] == {"url": "https://a.example/x y", "team": "blue"}
        assert cloud.server.boxes[one].metadata["team"] == "blue"
        assert [b["id"] for b in cloud.ok("ls", "--json", "--all", "-l", "url=https://a.example/x y").json["sandboxes"]] == [one]
    finally:
        cloud("kill", one)


def test_the_key_is_not_sent_to_sandboxes(cloud, box):
    one = box()
    server = "import http.server as h, sys\nclass H(h.BaseHTTPRequestHandler):\n def do_GET(s): s.send_response(200); s.end_headers(); s.wfile.write(str(s.headers).encode())\nh.HTTPServer(('127.0.0.1', 3000), H).serve_forever()"
    cloud.ok("exec", "-d", one, "--", "python3", "-c", server)
    port = cloud.ok("port", one, "3000", "--json").json
    assert port["url"].startswith("http://127.0.0.1:") and port["url"].endswith("/proxy/3000")
    wait_for(lambda: "3000" in cloud.ok("port", one).text)
    assert cloud.server.key not in json.dumps(port)


def test_a_lost_sandbox_is_told(cloud, box):
    one = box()
    p = cloud.start("exec", one, "--json", "--", "sh", "-c", "echo on; exec sleep 1000")
    assert b'"started"' in p.stdout.readline()
    cloud.server.boxes.pop(one).close()
    _, errors = p.communicate(timeout=60)
    assert p.returncode == 125 and (b"E3001" in errors or b"E6004" in errors), errors
