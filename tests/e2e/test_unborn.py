"""A create that is killed before it heard of its sandbox, at a service that gives the ids itself: `gc` finds by its label what it made.
Killed at each of its requests, before the service saw it and behind the service's answer."""

import json
import sys
import threading
from pathlib import Path

import pytest

from door import Door
from faults import Fault, FaultProxy
from harness import Abx, count, wait_for

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / folder) for folder in ("opensandbox", "conformance")]
from providers import DIALECTS, Front, furnish_from_catalog  # noqa: E402
from server import Server  # noqa: E402

pytestmark = pytest.mark.once

# A provider that gives ids of its own and does not know the filter of a list.
EXEC = """schema = 1
id = "odd"
name = "Odd"
version = "0.1.0"
[runtime]
kind = "exec"
protocol = "epp/1"
command = ["python3", "plugin.py"]
features = ["list"]
"""
PLUGIN = r"""
import json, os, sys, time
FILE = "boxes.json"
for line in sys.stdin:
    boxes = json.load(open(FILE)) if os.path.exists(FILE) else {}
    m = json.loads(line)
    if "id" not in m: continue
    method, p, answer, error = m["method"], m.get("params", {}), {}, None
    if method == "initialize":
        answer = {"protocol": "epp/1", "features": ["list"]}
    elif method == "sandbox.create":
        id = "box-%d" % (len(boxes) + 1)
        boxes[id] = answer = {"id": id, "state": "running", "createdAt": "2026-01-01T00:00:00Z", "metadata": p.get("metadata", {})}
    elif method == "sandbox.list":
        answer = {"sandboxes": list(boxes.values())}
    elif p.get("sandboxId") not in boxes:
        error = {"code": "E3001", "type": "SandboxNotFoundError", "message": "no such sandbox"}
    elif method == "sandbox.info":
        answer = boxes[p["sandboxId"]]
    elif method == "sandbox.kill":
        del boxes[p["sandboxId"]]
    json.dump(boxes, open(FILE + ".new", "w"))
    os.rename(FILE + ".new", FILE)
    while method == "sandbox.create" and os.path.exists("hold"): time.sleep(0.01)
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32000, "message": error["message"], "data": error}} if error
        else {"jsonrpc": "2.0", "id": m["id"], "result": answer}), flush=True)
"""


class OverTheDoor:
    """The provider alicloud-container, of the kit's classes, over the E2B door of another home."""

    def __init__(self):
        self.backend, self.home = Abx(furnished=True), Abx()
        self.door = Door(self.backend, "--provider", "local")
        self.front = Front(self.door.port)
        name = "alicloud-container"
        variables, _ = furnish_from_catalog(self.home, name, *DIALECTS[name](self.front, self.door))
        self.home.env.update(variables, ABX_PROVIDER=name)

    def clear(self):
        self.front.clear()
        self.front.add_missing()

    def living(self):
        return {s["sandboxID"]: s["metadata"] for s in self.door("GET", "/v2/sandboxes").json}

    def close(self):
        self.front.close()
        self.door.stop()
        self.home.close()
        self.backend.close()


class OverTheDouble:
    """The provider opensandbox over the double of its service."""

    def __init__(self):
        self.backend, self.home = Abx(furnished=True), Abx()
        self.server = Server(self.backend)
        self.front = FaultProxy(int(self.server.domain.rsplit(":", 1)[1]))
        self.home.ok("provider", "install", "opensandbox", "--yes")
        self.home.env.update(OPEN_SANDBOX_DOMAIN=f"127.0.0.1:{self.front.port}", OPEN_SANDBOX_API_KEY=self.server.key,
                             ABX_PROVIDER="opensandbox")

    def clear(self):
        self.front.clear()

    def living(self):
        return {id: box.metadata for id, box in dict(self.server.boxes).items()}

    def close(self):
        self.front.close()
        self.server.close()
        self.home.close()
        self.backend.close()


@pytest.fixture(scope="module", params=[OverTheDoor, OverTheDouble])
def cloud(request):
    one = request.param()
    yield one
    one.close()


class Withheld:
    """The service's answer is here and goes no further."""

    def __init__(self):
        self.came, self.over = threading.Event(), threading.Event()

    def __call__(self, data):
        self.came.set()
        self.over.wait(60)
        return b""


def killed_at(cloud, n, withheld):
    """Kill a create at its n-th request; withheld: when the service has answered it. False: it does not have so many."""
    cloud.clear()
    last = Fault(alter=withheld) if withheld else Fault(stall=True)
    missing = list(cloud.front.faults)
    cloud.front.faults[:] = [Counted(n, last, missing)]
    p = cloud.home.start("create")
    try:
        wait_for(lambda: p.poll() is not None or (withheld.came.is_set() if withheld else len(cloud.front.requests) >= n))
        return p.poll() is None
    finally:
        p.kill()
        p.communicate()
        if withheld:
            withheld.over.set()
        cloud.clear()


class Counted(Fault):
    """Stands for others: those of the service until the n-th request, which meets `last`."""

    def __init__(self, n, last, others):
        super().__init__()
        self.left, self.last, self.others = n, last, others


def choose(front, line):
    fault = FaultProxy.find(front, line)
    if not isinstance(fault, Counted):
        return fault
    with front.lock:
        fault.left -= 1
        if fault.left == 0:
            return fault.last
        return next((f for f in fault.others if f.match in line.split("\r\n")[0]), Fault())


@pytest.fixture(autouse=True)
def counted(request, monkeypatch):
    if "cloud" in request.fixturenames:
        front = request.getfixturevalue("cloud").front
        monkeypatch.setattr(front, "find", lambda line: choose(front, line))


def end_all(cloud):
    """gc, and what it ended."""
    before = cloud.living()
    dry = cloud.home.ok("gc", "--dry-run", "--json").json["removed"]
    removed = cloud.home.ok("gc", "--json").json["removed"]
    assert {r["id"] for r in dry} == {r["id"] for r in removed} == set(before), (dry, removed, before)
    wait_for(lambda: not cloud.living())
    assert cloud.home.ok("gc", "--json").json["removed"] == []
    return before


def age(home):
    """Entries of creates that were made long ago."""
    for name in home.ledger():
        path = home.home / "ledger" / name
        entry = json.loads(path.read_text())
        path.write_text(json.dumps({**entry, "createdMs": entry["createdMs"] - 3_600_000}))


def test_a_create_that_is_killed_at_each_step(cloud):
    keep = cloud.home.ok("create", "--json").json
    assert cloud.living()[keep["id"]]["abx-key"]
    told = [keep, cloud.home.ok("info", "--json", keep["id"]).json, *cloud.home.ok("ls", "--json", "--all").json["sandboxes"]]
    assert len(told) == 3 and not any("abx-key" in s["metadata"] for s in told)
    cloud.home.ok("kill", keep["id"])
    made = steps = 0
    while killed_at(cloud, steps + 1, None):
        made += bool(end_all(cloud))
        steps += 1
        if not killed_at(cloud, steps, Withheld()):
            break
        made += bool(end_all(cloud))
    cloud.home.ok("kill", "--all", "--yes")  # the one that came to its end
    assert steps >= 1 and made >= 1
    age(cloud.home)
    cloud.home.ok("gc")
    assert cloud.home.ledger() == []


def test_its_name_is_free_again(cloud):
    """Who makes one of the same name ends what the killed create made."""
    for _ in range(count(1, 10)):
        cloud.clear()
        withheld = Withheld()
        posts = [f for f in cloud.front.faults]
        cloud.front.faults[:] = [*posts, Fault("POST ", alter=withheld, times=1)]
        p = cloud.home.start("create", "--name", "box")
        wait_for(withheld.came.is_set)
        p.kill()
        p.communicate()
        withheld.over.set()
        cloud.clear()
        left = list(cloud.living())
        assert len(left) == 1
        again = cloud.home.ok("create", "--name", "box").text.strip()
        assert list(cloud.living()) == [again] and again not in left
        cloud.home.ok("kill", "box")


@pytest.fixture
def odd(abx):
    folder = abx.work / "odd"
    folder.mkdir(mode=0o755)
    (folder / "abx-provider.toml").write_text(EXEC)
    (folder / "plugin.py").write_text(PLUGIN)
    return folder


def test_a_program_that_gives_its_own_ids(abx, odd):
    boxes = lambda: json.loads((odd / "boxes.json").read_text())  # noqa: E731
    keep = abx.ok("create", "-P", "./odd", "--json", "-l", "a=b").json
    assert keep["id"] == "box-1" and keep["metadata"] == {"a": "b"} and len(boxes()["box-1"]["metadata"]) == 2
    (odd / "hold").touch()
    p = abx.start("create", "-P", "./odd")
    wait_for(lambda: len(boxes()) == 2)
    p.kill()
    p.communicate()
    (odd / "hold").unlink()
    assert [s["metadata"] for s in abx.ok("ls", "-P", "./odd", "--json", "--all").json["sandboxes"]] == [{"a": "b"}, {}]
    assert [(r["id"], r["what"]) for r in abx.ok("gc", "-P", "./odd", "--json").json["removed"]] == [("box-2", "sandbox that its maker never saw")]
    assert list(boxes()) == ["box-1"]
    abx.ok("kill", "-P", "./odd", "box-1")


def test_a_program_without_labels_gets_none(abx, odd):
    (odd / "abx-provider.toml").write_text(EXEC + "labels = false\n")
    abx.ok("create", "-P", "./odd", "--json")
    assert json.loads((odd / "boxes.json").read_text())["box-1"]["metadata"] == {}
    abx.ok("kill", "-P", "./odd", "box-1")
