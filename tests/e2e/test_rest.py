"""Providers of kind rest, both ends against each other: a manifest → a service of E2B's shape (the E2B door of another home, over local).
Failures of the service are made by a proxy in between."""

import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from door import Door
from faults import Fault, FaultProxy, answer, page, redirect
from harness import Abx, wait_for

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance"))
import differences  # noqa: E402
from providers import MANIFEST  # noqa: E402


@pytest.fixture(scope="module")
def cloud():
    """A home with the provider installed and chosen, and the service that it speaks to."""
    backend, home = Abx(furnished=True), Abx()
    service = Door(backend, "--provider", "local")
    folder = home.folder / "cloud"
    folder.mkdir()
    (folder / "abx-provider.toml").write_text(MANIFEST, encoding="utf-8")
    home.env.update(CLOUD_URL=service.url, CLOUD_KEY=service.key, ABX_PROVIDER="cloud")
    home.ok("provider", "install", folder, "--yes")
    home.service, home.plugin = service, folder
    yield home
    service.stop()
    for one in (home, backend):
        one.close()


@pytest.fixture()
def box(cloud):
    made = cloud.ok("create").text.strip()
    yield made
    cloud("kill", made)


def test_a_command_in_a_sandbox_of_its_own(cloud):
    assert cloud("run", "--", "sh", "-c", "cat; echo there >&2; exit 3", input=b"in", code=3).out == b"in"
    assert cloud.ok("ls", "-q", "--all").text == ""


def test_what_a_sandbox_is(cloud):
    box = cloud.ok("create", "--name", "mine", "-l", "team=blue", "--timeout", "10m").text.strip()
    try:
        info = cloud.ok("info", "--json", "mine").json
        assert (info["id"], info["name"], info["state"], info["provider"]) == (box, "mine", "running", "cloud")
        assert info["metadata"] == {"team": "blue"} and info["createdAt"] < info["expiresAt"]
        assert info["features"]["sandbox.host"] == "native" if "sandbox.host" in info["features"] else True
        assert info["features"]["process.replay"] == "unsupported"
        assert [b["id"] for b in cloud.ok("ls", "--json", "-l", "team=blue").json["sandboxes"]] == [box]
        assert cloud.ok("ls", "--json", "-l", "team=red").json["sandboxes"] == []
        assert cloud.ok("extend", "mine", "20m", "--json").json["expiresAt"] > info["expiresAt"]
        assert cloud("extend", "mine", "none", "--json", code=6).error["code"] == "E8004"
    finally:
        cloud.ok("kill", "mine")
    assert cloud("info", box, "--json", code=3).error["code"] == "E3001"


def test_files_and_bytes(cloud, box, tmp_path):
    data = bytes(range(256)) * 4096
    cloud.ok("files", "write", f"{box}:a/b", input=data)
    assert cloud.ok("files", "cat", f"{box}:a/b").out == data
    (tmp_path / "d").mkdir()
    (tmp_path / "d/x").write_bytes(data)
    cloud.ok("cp", tmp_path / "d", f"{box}:d")
    cloud.ok("cp", f"{box}:d", tmp_path / "back")
    assert (tmp_path / "back/x").read_bytes() == data
    assert cloud("files", "cat", f"{box}:nothing", "--json", code=3).error["code"] == "E3002"


def test_pause_and_resume(cloud, box):
    cloud.ok("pause", box)
    r = cloud("exec", box, "--json", "--", "true", code=125)
    assert r.error["code"] == "E4001" and f"abx resume {box}" in r.error["hint"]
    info = cloud.ok("info", "--json", box).json
    assert info["state"] == "paused" and "expiresAt" not in info
    cloud.ok("resume", box)
    assert cloud.ok("exec", box, "--", "echo", "on").text == "on\n"


def test_states_that_are_kept(cloud, box):
    cloud.ok("files", "write", f"{box}:kept", input=b"kept")
    snapshot = cloud.ok("snapshot", "create", box, "--name", "ready").text.strip()
    assert snapshot in [s["id"] for s in cloud.ok("snapshot", "ls", "--json").json["snapshots"]]
    other = cloud.ok("create", "--snapshot", snapshot).text.strip()
    fork = cloud.ok("fork", box).text.strip()
    assert cloud.ok("files", "cat", f"{other}:kept").text == cloud.ok("files", "cat", f"{fork}:kept").text == "kept"
    cloud.ok("kill", other, fork)
    cloud.ok("snapshot", "rm", snapshot)
    assert cloud("create", "--snapshot", snapshot, "--json", code=3).error["code"] == "E3006"
    assert cloud.ok("template", "ls", "--json").json["templates"]


def test_the_address_of_a_port(cloud, box):
    server = ("import http.server; http.server.test(http.server.SimpleHTTPRequestHandler, port=8000)")
    cloud.ok("exec", "-d", box, "--", "python3", "-c", server)
    host = cloud.ok("port", box, "8000", "--json").json
    assert host["url"] == cloud.service.url and host["headers"]["E2b-Sandbox-Port"] == "8000"
    assert cloud.ok("port", box, "8000").text == host["url"] + "\n"

    def answers():
        try:
            return urllib.request.urlopen(urllib.request.Request(host["url"] + "/", headers=host["headers"])).status == 200
        except (urllib.error.HTTPError, OSError):
            return False

    wait_for(answers, "the server in the sandbox answers")


def test_metrics_logs_and_network(cloud, box):
    cloud.ok("stats", box, "--json") if cloud("stats", box, "--json").code == 0 else None
    assert cloud("network", box, "none", "--json", code=6).error["code"] == "E8004"  # the door's local has no such change
    r = cloud("logs", "--sandbox", box, "--json")
    assert r.code == 0 or r.error["code"] == "E8004", repr(r)


def test_a_created_sandbox_whose_client_was_killed(cloud):
    """The answer of a create is lost: the sandbox is found by its label and ended."""
    with FaultProxy(cloud.service.port) as proxy:
        proxy.add(Fault("POST /v2/sandboxes", cut=0, end="reset", times=1))
        r = cloud("create", "--json", env={"CLOUD_URL": proxy.url}, code=8)
        assert r.error["code"] == "E6001"
        assert len([h for h in proxy.requests if "POST /v2/sandboxes" in str(h)]) == 1  # sent once
    left = cloud.ok("ls", "-q", "--all").text.split()
    assert len(left) == 1
    cloud.ok("kill", *left)


FAILURES = [
    ("a page", page(502), 8, "E6001", "a web page came instead of an answer (status 502)"),
    ("a redirect", redirect("https://elsewhere.example.com/"), 8, "E6003", "which is not followed"),
    ("no key", answer(401, '{"code":401,"message":"Invalid API key"}'), 4, "E2001", "Invalid API key"),
    ("too fast", answer(429, '{"code":429,"message":"slow down"}'), 7, "E4002", "slow down"),
    ("broken", answer(500, '{"code":500,"message":"oops"}'), 1, "E6002", "oops"),
    ("nonsense", answer(201, '{"sandboxID":7}'), 8, "E6003", "'POST /v2/sandboxes' does not fit: 'sandboxID'"),
]


@pytest.mark.once
@pytest.mark.parametrize("said,code,error,text", [f[1:] for f in FAILURES], ids=[f[0] for f in FAILURES])
def test_failures_of_the_service(cloud, said, code, error, text):
    with FaultProxy(cloud.service.port) as proxy:
        proxy.add(Fault("POST /v2/sandboxes", answer=said))
        r = cloud("create", "--json", env={"CLOUD_URL": proxy.url}, code=code)
    assert r.error["code"] == error and text in r.error["message"]
    assert cloud.service.key not in r.errors


@pytest.mark.once
def test_a_read_that_broke_is_asked_again(cloud, box):
    with FaultProxy(cloud.service.port) as proxy:
        proxy.add(Fault("GET /sandboxes/", answer=answer(503, '{"code":503,"message":"busy"}'), times=1))
        proxy.add(Fault("GET /sandboxes/", cut=20, times=1))
        assert cloud.ok("info", "--json", box, env={"CLOUD_URL": proxy.url}).json["id"] == box


def test_keys_and_addresses_that_are_missing(cloud):
    r = cloud("create", "--json", drop=["CLOUD_URL"], code=2)
    assert r.error["code"] == "E1003" and "option 'url'" in r.error["message"]
    r = cloud("create", "--json", drop=["CLOUD_KEY"], code=4)
    assert r.error["code"] == "E2001" and "CLOUD_KEY" in r.error["hint"]
    r = cloud("create", "--json", env={"CLOUD_KEY": "e2b_0000"}, code=4)
    assert r.error["code"] == "E2001" and "e2b_0000" not in r.errors
    r = cloud("create", "--json", env={"CLOUD_URL": "http://127.0.0.1:1"}, code=8)
    assert r.error["code"] == "E6001" and "http://127.0.0.1:1" in r.error["message"]
    r = cloud("create", "--memory", "1g", "--json", code=6)
    assert r.error["code"] == "E8004" and "memoryBytes" in r.error["message"]


@pytest.mark.once
def test_conformance(cloud):
    report = cloud("provider", "test", "cloud", "--json", timeout=300).json
    bad = {c["name"]: c.get("why") for c in report["cases"] if c["outcome"] == "failed"}
    assert set(bad) <= set(differences.known("rest", "suite")), bad
    assert report["summary"]["passed"] >= 165
    assert cloud.ok("ls", "-q", "--all").text == ""


@pytest.mark.once
def test_a_manifest_to_begin_with(cloud, tmp_path):
    folder = tmp_path / "mine"
    report = cloud.ok("provider", "new", "mine", "--lang", "rest", "--dir", folder, "--json").json
    assert set(report["files"]) == {"abx-provider.toml", "README.md"}
    assert cloud.ok("provider", "validate", folder, "--json").json["warnings"] == 0
    env = {"E2B_API_URL": cloud.service.url, "E2B_API_KEY": cloud.service.key}
    text = (folder / "abx-provider.toml").read_text(encoding="utf-8")
    (folder / "abx-provider.toml").write_text(text + 'dataPlaneUrl = "{api}"\n', encoding="utf-8")
    assert cloud.ok("-P", folder, "run", "--", "echo", "hi", env=env).text == "hi\n"
