"""alicloud-express over abx's own door, with a proxy between that sees and harms what is sent; and what each wrong key, address and
region is told."""

import json
import signal
import socket
import stat

import pytest

from door import Door
from faults import Fault, FaultProxy, answer, page, redirect
from harness import Abx, count, wait_for

pytestmark = pytest.mark.once

ID = "alicloud-express"
V1 = "POST /sandboxes HTTP"


@pytest.fixture(scope="module")
def door():
    served = Abx(furnished=True)
    d = Door(served)
    yield d
    d.stop()
    served.close()


@pytest.fixture
def proxy(door):
    with FaultProxy(door.port) as p:
        yield p


@pytest.fixture
def cloud(abx, door, proxy):
    """The program, set up for the service at the proxy."""
    abx.env["ABX_PROVIDER"] = ID
    configure(abx, api_key=door.key, api_url=proxy.url, domain=f"localhost:{proxy.port}")
    yield abx
    proxy.clear()
    abx("kill", "--all", "--yes")
    abx.env["ABX_PROVIDER"] = "local"  # the proxy is closed before the program's home


def configure(abx, **values):
    file = abx.home / "config.toml"
    file.write_text(f"[providers.{ID}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in values.items()))
    file.chmod(0o600)
    abx.file = file


def heads(proxy, match):
    return [h for h in proxy.requests if match in h.split("\r\n")[0]]


# --- it works ------------------------------------------------------------------------------------------------------


def test_from_login_to_logout(abx, door):
    abx.env.pop("ABX_PROVIDER")
    args = ["provider", "login", "--api-url", door.url, "--domain", f"localhost:{door.port}"]
    r = abx(*args, input=b"e2b_00\n", code=4)
    assert "nothing was stored" in r.errors and not (abx.home / "config.toml").exists()
    abx(*args, input=door.key.encode() + b"\n", code=0)
    assert stat.S_IMODE((abx.home / "config.toml").stat().st_mode) == 0o600
    assert abx.ok("run", "--", "echo", "it works").text == "it works\n"
    c = abx.ok("context", "--json").json
    assert (c["provider"], c["source"], c["endpoint"]) == (ID, "default", door.url)
    assert c["account"].endswith("config.toml:4") and c["key"] == f"****{door.key[-4:]}"
    abx.ok("provider", "logout")
    r = abx("run", "--", "true", code=125)
    assert "no API key" in r.errors and "abx provider login alicloud-express" in r.errors
    assert "'--provider local'" in r.errors and "exitCode: 4" in r.errors


def test_the_life_of_a_sandbox(cloud, proxy):
    box = cloud.ok("create", "--name", "box", "-l", "team=blue", "-O", 'vpc={"vpcId":"vpc-1"}').text.strip()
    info = cloud.ok("info", "box", "--json").json
    assert (info["id"], info["state"], info["template"]) == (box, "running", "code-interpreter-v1")
    assert info["metadata"] == {"team": "blue", "fc.sandbox.network.vpc": '{"vpcId":"vpc-1"}'}
    assert [s["id"] for s in cloud.ok("ls", "--json", "-l", "team=blue").json["sandboxes"]] == [box]
    r = cloud("exec", "box", "--", "sh", "-c", "echo out; echo err >&2; exit 3", code=3)
    assert (r.out, r.err) == (b"out\n", b"err\n")
    data = bytes(range(256)) * 300
    assert cloud("exec", "box", "--", "cat", input=data, code=0).out == data
    cloud("files", "write", "box:/tmp/x", input=data, code=0)
    assert cloud.ok("files", "cat", "box:/tmp/x").out == data
    assert cloud.ok("code", "box", "-c", "x = 40\nx + 2").text == "42\n"
    cloud.ok("extend", "box", "1h")
    cloud.ok("pause", "box")
    assert cloud.ok("info", "box", "--json").json["state"] == "paused"
    cloud.ok("resume", "box")
    assert cloud.ok("exec", "box", "--", "echo", "again").text == "again\n"
    cloud.ok("kill", "box")
    assert cloud.ok("ls", "--json").json["sandboxes"] == []


def test_what_is_sent(cloud, proxy, door):
    """The old routes, JSON, a form for a file, no user unless asked; the key to the API only."""
    box = cloud.ok("create", "--name", "box").text.strip()
    cloud("files", "write", "box:/tmp/x", input=b"text", code=0)
    cloud.ok("exec", "box", "--", "true")
    cloud.ok("exec", "-u", "root", "box", "--", "true")
    assert heads(proxy, V1) and not heads(proxy, "/v2/sandboxes HTTP")
    inside = [h for h in proxy.requests if f"\r\nHost: 49983-{box}.localhost:{proxy.port}\r\n" in h]
    starts = [h for h in inside if "/process.Process/Start" in h]
    assert len(starts) == 2 and all("application/connect+json" in h for h in starts)
    assert [("Authorization: Basic" in h) for h in starts] == [False, True]
    upload = next(h for h in inside if h.startswith("POST /files"))
    assert "multipart/form-data" in upload and "username" not in upload
    assert not any("application/proto" in h or "connect+proto" in h for h in inside)
    for h in proxy.requests:
        assert (door.key in h) == (h not in inside), h
        assert h not in inside or "X-Access-Token: " in h


def test_a_route_that_is_gone_is_tried_the_new_way(cloud, proxy):
    proxy.add(Fault(V1, answer=answer(405, "", "text/plain")))
    box = cloud.ok("create").text.strip()
    assert heads(proxy, "POST /v2/sandboxes HTTP")
    cloud.ok("pause", box)
    proxy.add(Fault(f"POST /sandboxes/{box}/connect", answer=answer(404, "404 page not found", "text/plain")))
    cloud.ok("resume", box)
    assert heads(proxy, f"POST /v2/sandboxes/{box}/connect")


def test_what_needs_the_template_or_is_not_there_is_refused_before_anything_is_sent(cloud, proxy):
    for args in [["create", "--memory", "1g"], ["create", "--idle", "5m"], ["create", "--timeout", "none"],
                 ["create", "--on-timeout", "pause"], ["fork", "x"], ["create", "--network", "allow:a.example:443"]]:
        r = cloud(*args, code=3 if args[0] == "fork" else 6)
        assert args[0] == "fork" or "E8004" in r.errors
    assert not heads(proxy, V1)
    features = cloud.ok("provider", "info", "--json", ID, drop=["ABX_PROVIDER"]).json["features"]
    assert features["pause"] == features["code.contexts"] == features["pty"] == "native"
    assert features["fork"] == features["templates"] == features["process.replay"] == "unsupported"


# --- the gateway -----------------------------------------------------------------------------------------------------


def test_envd_may_come_later_than_the_sandbox(cloud, proxy, door):
    proxy.add(Fault("/health", answer=page(502, "502 Bad Gateway"), times=3))
    cloud.ok("create", "--name", "box")
    assert len(heads(proxy, "/health")) >= 4
    assert cloud.ok("exec", "box", "--", "echo", "there").text == "there\n"
    proxy.add(Fault("/health", answer=page(502, "502 Bad Gateway")))
    before = len(door("GET", "/v2/sandboxes").json)
    e = cloud("create", "--wait-timeout", "3s", "--json", code=8).error
    assert "was made, but cannot be reached" in e["message"] and "502" in e["message"]
    assert len(door("GET", "/v2/sandboxes").json) == before  # ended again


def test_a_create_that_hangs_says_why_that_may_be(cloud, proxy):
    proxy.add(Fault(V1, stall=True))
    e = cloud("create", "--template", "mine", "--wait-timeout", "2s", "--json", code=9).error
    assert e["code"] == "E5001" and "port 5000" in e["hint"] and "abx gc" in e["hint"]
    assert len(heads(proxy, V1)) == 1


@pytest.mark.parametrize("name", ["eco", "image", "envd", "interpreter"])
def test_failures_are_told_with_what_they_mean_here(cloud, proxy, name):
    box = cloud.ok("create").text.strip()
    fault, args, code, hint = {
        "eco": (Fault("/pause", answer=answer(403, {"code": 403, "message": "pause is not allowed"})), ["pause", box], 4,
                "Eco has no pause"),
        "image": (Fault("/process.Process/Start", answer=page(404, "404 Not Found openresty")), ["exec", box, "--", "true"],
                  125, "no proxy on port 5000"),
        "envd": (Fault("/process.Process/Start", answer=answer(502, {"code": 502, "message": "status 502"})),
                 ["exec", box, "--", "true"], 125, "envd does not run"),
        "interpreter": (Fault("/execute", answer=page(502, "502 Bad Gateway")), ["code", box, "-c", "1"], 125,
                        "code-interpreter-v1"),
    }[name]
    proxy.add(fault)
    r = cloud(*args, code=code)
    assert hint in r.errors, repr(r)
    assert "<html" not in r.errors


# --- wrong keys and addresses ----------------------------------------------------------------------------------------


def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def test_each_wrong_key_is_told_apart(cloud, proxy, door):
    e = cloud("ls", "--json", env={"ABX_API_KEY": "e2b_" + "0" * 48}, code=4).error
    assert e["code"] == "E2001" and "'****0000' comes from ABX_API_KEY" in e["hint"]
    assert "disabled, reset, expired" in e["hint"] and "begin with" not in e["hint"]
    e = cloud("ls", "--json", env={"ABX_API_KEY": "LTAI5tAccessKeyId00"}, code=4).error
    assert "begin with 'e2b_'" in e["hint"] and "AccessKey" not in e["hint"].replace("an AccessKey is", "")
    proxy.add(Fault("GET /v2/sandboxes", answer=answer(401, {"code": 401, "message": "the key is disabled"})))
    e = cloud("ls", "--json", code=4).error
    assert e["message"] == "the key is disabled" and f"comes from '{cloud.file}:2'" in e["hint"]
    assert "abx provider login alicloud-express" in e["hint"] and door.key not in json.dumps(e)
    configure(cloud, api_url=proxy.url)
    n = len(proxy.requests)
    e = cloud("create", "--json", code=4).error
    assert f"looked for api_key in ABX_API_KEY, E2B_API_KEY (beside an address of *.aliyuncs.com), [providers.{ID}] of '{cloud.file}', " \
        "'/etc/abx/config.toml'" in e["message"]
    assert "'--provider local'" in e["hint"] and len(proxy.requests) == n


def test_each_wrong_address_is_told_apart(cloud, proxy):
    def error(code, **env):
        return cloud("ls", "--json", env=env, code=code).error

    e = error(2, ABX_API_URL="api.example.com")
    assert "ABX_API_URL must be an address that begins with https:// or http://" in e["message"]
    e = error(8, ABX_API_URL=f"http://127.0.0.1:{closed_port()}")
    assert e["code"] == "E6001" and "connect" in e["message"] and "by ABX_API_URL" in e["hint"]
    e = error(8, ABX_API_URL=f"https://127.0.0.1:{proxy.port}")
    assert e["code"] == "E6001" and "api_url is 'https://127.0.0.1" in e["hint"]
    proxy.add(Fault("GET /v2/sandboxes", answer=page(200, "Welcome"), times=1))
    e = error(8)
    assert e["code"] == "E6003" and "'Welcome'" in e["message"] and f"by {cloud.file}:3" in e["hint"]
    proxy.add(Fault("GET /v2/sandboxes", answer=redirect("https://evil.example/"), times=1))
    e = error(8)
    assert "redirect" in e["message"] and not heads(proxy, "evil")
    proxy.add(Fault("GET /v2/sandboxes", answer=answer(404, "404 page not found", "text/plain"), times=2))
    assert "no route 'GET /v2/sandboxes'" in error(6)["message"]
    r = cloud("provider", "login", input=b"e2b_00\n", code=6)
    assert "nothing was stored" in r.errors and "--api-url" in r.errors


def test_each_wrong_region_is_told_apart(abx):
    abx.env.update(ABX_PROVIDER=ID, ABX_API_KEY="e2b_0123456789")

    def error(code, *args, **env):
        return abx("ls", "--json", *args, env=env, code=code).error

    e = error(2)
    assert "needs the region" in e["message"] and "cn-hangzhou" in e["hint"] and "ap-southeast-1" in e["hint"]
    assert "is no region" in error(2, "-O", "region=evil.com/")["message"]
    assert "one of fc, sandbox" in error(2, "-O", "region=cn-beijing", "-O", "family=x")["message"]
    fc, other = "cn-hangzhou.e2b.fc.aliyuncs.com", "cn-hangzhou.sandbox.aliyuncs.com"
    assert "of two families" in error(2, ABX_API_URL=f"https://api.{fc}", ABX_DOMAIN=other)["message"]
    assert "of two regions" in error(2, ABX_API_URL=f"https://api.{fc}", ABX_DOMAIN=fc.replace("hangzhou", "beijing"))["message"]
    e = error(2, "-O", "region=cn-beijing", ABX_DOMAIN=fc)
    assert "region 'cn-beijing' is not that of the address" in e["message"] and "unset" in e["hint"]
    for args, url in [(["-O", "region=cn-beijing"], "https://api.cn-beijing.e2b.fc.aliyuncs.com"),
                      (["-O", "region=us-east-1", "-O", "family=sandbox"], "https://api.us-east-1.sandbox.aliyuncs.com")]:
        assert abx.ok("context", "--json", *args).json["endpoint"] == url
    e = error(2, "-O", "region=cn-beijing", "-O", "vpc=[]")
    assert "'vpc' must be a JSON object" in e["message"]


def test_a_login_on_a_terminal_asks_for_the_region(abx, terminal):
    abx.env.pop("ABX_PROVIDER")
    t = terminal(abx, "provider", "login")
    seen = t.expect("): ")
    assert b"region (cn-beijing, cn-shanghai, cn-hangzhou" in seen
    t.write("no.region\n")
    t.expect("api_key of alicloud-express: ")
    t.write("e2b_0123456789\n")
    assert t.end() == 2 and b"is no region" in t.seen and t.is_restored()
    assert not (abx.home / "config.toml").exists()


def test_what_a_killed_create_made_is_found_and_ended(cloud, proxy, door):
    """Its id was never heard here: it is found by a label."""
    keep = cloud.ok("create").text.strip()
    proxy.add(Fault("/health", stall=True))
    made = set()
    for i in range(count(2, 40)):
        p = cloud.start("create")
        wait_for(lambda: len(heads(proxy, "/health")) > len(made) + 1)  # it is there
        p.kill()
        p.communicate()
        made = {s["sandboxID"] for s in door("GET", "/v2/sandboxes").json} - {keep}
        assert len(made) == i + 1
    proxy.clear()
    assert len(cloud.ok("ls", "--json").json["sandboxes"]) == len(made) + 1
    dry = cloud.ok("gc", "--dry-run", "--json").json
    assert {r["id"] for r in dry["removed"]} == made
    assert {r["id"] for r in cloud.ok("gc", "--json").json["removed"]} == made
    assert [s["id"] for s in cloud.ok("ls", "--json").json["sandboxes"]] == [keep]
    assert cloud.ok("gc", "--json").json["removed"] == []
    assert cloud.ok("exec", keep, "--", "echo", "kept").text == "kept\n"


def test_a_create_that_is_interrupted_leaves_no_sandbox(cloud, proxy, door):
    proxy.add(Fault("/health", answer=page(502)))
    p = cloud.start("create")
    wait_for(lambda: heads(proxy, "/health"))
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=60)
    assert p.returncode == 130
    assert door("GET", "/v2/sandboxes").json == []
