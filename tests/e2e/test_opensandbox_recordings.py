"""Exchanges that were recorded with a real execd and a real lifecycle server of OpenSandbox, played to the double in
tests/opensandbox: what the provider's tests stand on answers as the original does."""

import base64
import http.client
import json
import re
import sys
import time
from pathlib import Path

import pytest

from harness import Abx, wait_for

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "opensandbox"))
from server import Server  # noqa: E402

pytestmark = pytest.mark.once

FOLDER = Path(__file__).resolve().parents[1] / "data/recordings/execd"
ID = re.compile(r"\b[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\b")
PLACE = ("/workspace", "/tmp/workspace")  # there, and here

# What is not played, or not compared, with the reason.
ROOT = "execd ran as root there"
TIME = "seconds of waiting"
OTHER = "the folder or the file is another one here"
WORLD = "needs a file system that is full or read-only"
LEFT = {
    "background": {OTHER: ["logs-stdin"], "its request is too long to be recorded": ["start-too-long", "status-too-long"]},
    "session": {"what is wrong there is right here": ["values-read", "swallowed", "kept"], OTHER: ["default-cwd"],
                "two at once": ["overlap-1", "overlap-2", "overlap-after", "deleted-while-running", "interrupted"]},
    "files": {ROOT: ["upload-owner", "info-owner", "upload-owner-only", "info-owner-only", "chown", "mkdir-owner", "info-mkdir-owner", "info-relative"],
              WORLD: ["mv-cross-fs", "upload-disk-full", "info-disk-full", "upload-read-only-fs"],
              "what is sent is no whole answer, there and here": ["range-reversed", "range-bad", "range-unit", "range-space", "range-bad-direct"],
              "what lay there is not in the recording": [
                  "info-two", "info-types", "info-over-owned", "info-through-link", "download-binary", "download-unicode-name",
                  "download-quote-name", "info-empty", "info-trailing-slash", "search-default", "search-pattern-empty", "search-star",
                  "search-class", "search-doublestar", "list", "list-depth-2"]},
    "command": {ROOT: ["uid", "uid-only", "uid-0", "uid-unnamed", "uid-negative", "uid-cwd-forbidden"],
                "a race, or the number of a process": ["timeout-1", "child-killed"],
                TIME: ["ping-every-3s", "timeout-children", "partial-line", "slow-cr-progress", "grandchild-output", "setsid-holds"],
                OTHER: ["cwd-home", "cwd-relative", "cwd-default", "cwd-var", "env-all", "envs-file", "envs-over-file", "envs", "shell"]},
}


def records(file):
    return [json.loads(line) for line in (FOLDER / f"{file}.jsonl").read_text(encoding="utf-8").splitlines()]


class Player:
    """Sends the requests of a recording, with the ids that were told here instead of those that were told there."""

    def __init__(self, address):
        self.address, self.ids = address, {}

    def here(self, text):
        text = text.replace(*PLACE)
        return ID.sub(lambda found: self.ids.get(found[0], found[0]), text)

    def body(self, request):
        body = request.get("body")
        if body is None:
            return None
        if isinstance(body, dict):
            return base64.b64decode(body["b64"]).replace(*(p.encode() for p in PLACE))
        return self.here(body).encode()

    def send(self, record):
        method, target, _ = record["request"]["line"].split(" ", 2)
        headers = {name: value for name, value in record["request"].get("headers", []) if name.lower() not in ("content-length", "host")}
        data = self.body(record["request"])
        if data is not None and not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = "application/json"
        connection = http.client.HTTPConnection(*self.address, timeout=20)
        try:
            connection.request(method, self.here(target), data, headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def learn(self, there, here):
        for old, new in zip(ID.findall(there), ID.findall(here)):
            self.ids.setdefault(old, new)


def events_of(text):
    """What a stream tells, in its order on each channel; without pings, times and ids."""
    told = {}
    for line in filter(None, text.split("\n")):
        event = json.loads(line)
        kind = event.get("type", "bare")
        if kind not in ("ping", "init"):
            told.setdefault(kind, []).append(event.get("text") or (event.get("error") or {}).get("evalue") or "")
    return told


def shape_of(text):
    """JSON without what is each time another: times, sizes of folders, owners, messages."""
    try:
        value = json.loads(text)
    except ValueError:
        return text.strip()

    def plain(one):
        if isinstance(one, dict):
            left = {k: plain(v) for k, v in one.items() if not re.search(r"_at$|At$|^(message|owner|group|msg|input|ctx|reason|id|session_id|metadata|content)$", k)}
            if left.get("type") in ("directory", "symlink", "other"):
                left.pop("size", None)
            return left
        return [plain(v) for v in one] if isinstance(one, list) else one

    return plain(value)


def compare(player, record):
    response = record.get("response") or {}
    status = int(response["line"].split()[1])
    chunks = response.get("chunks")
    there = "".join(part for _, part in chunks) if chunks is not None else response.get("body") or ""
    there = base64.b64decode(there["b64"]) if isinstance(there, dict) else there
    got, data = player.send(record)
    here = data.decode(errors="replace").replace(PLACE[1], PLACE[0])
    assert got == status, f"{record['name']}: {got} instead of {status}: {here[:300]}"
    if isinstance(there, bytes):
        assert data == there
        return
    player.learn(there, here)
    if chunks is not None:
        assert events_of(here) == events_of(there), record["name"]
    else:
        assert shape_of(here) == shape_of(there), record["name"]


@pytest.fixture(scope="module")
def execd():
    abx = Abx(furnished=True)
    server = Server(abx)
    connection = http.client.HTTPConnection(server.domain)

    def ask(method, path, body=None):
        headers = {"OPEN-SANDBOX-API-KEY": server.key, "Content-Type": "application/json"}
        connection.request(method, path, body and json.dumps(body), headers)
        return json.loads(connection.getresponse().read() or b"null")

    made = ask("POST", "/v1/sandboxes", {"image": {"uri": "debian:12"}, "entrypoint": ["tail", "-f", "/dev/null"], "resourceLimits": {},
                                         "env": {"FROM_CREATE": "yes"}})
    place = ask("GET", f"/v1/sandboxes/{made['id']}/endpoints/44772")["endpoint"]
    host, port = place.split("/")[0].split(":")

    def listens():
        try:
            probe = http.client.HTTPConnection(host, int(port), timeout=5)
            probe.request("GET", "/ping")
            return probe.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False

    wait_for(listens)
    yield host, int(port)
    server.close()
    abx.close()


# What lay there before the files were recorded.
BEFORE = """mkdir -p /tmp/workspace/f/s/x/.hid && cd /tmp/workspace/f && printf 0123456789 >d.txt && touch -d 2026-01-02T03:04:05Z d.txt
ln -s a.txt link; ln -s nope dangling; ln -s /etc dirlink; mkfifo fifo; : >empty; printf 'foo bar foo' >r.txt; chmod 640 r.txt
mkdir -p deep/er; cd s; touch .e.py a.py b.txt x/c.py; ln -s x lnk"""


def play(address, file):
    if file == "files":
        connection = http.client.HTTPConnection(*address, timeout=20)
        connection.request("POST", "/command", json.dumps({"command": BEFORE}))
        assert b'"execution_complete"' in connection.getresponse().read()
    left = {name for names in LEFT.get(file, {}).values() for name in names}
    player, failed, count = Player(address), [], 0
    for record in records(file):
        if record["name"] == "disconnect":  # from here on two clients at once
            break
        if record["name"] in left or "line" not in (record.get("response") or {}) or record.get("frames") or "…[" in repr(record):
            continue
        count += 1
        why = None
        for _ in range(40 if file == "background" and record["request"]["line"].startswith("GET") else 1):  # what is asked for may need its time
            try:
                why = compare(player, record)
                break
            except (AssertionError, OSError, http.client.HTTPException) as e:
                why = f"{record['name']}: {str(e)[:400]}"
                time.sleep(0.2)
        if why:
            failed.append(why)
    return failed, count


@pytest.mark.parametrize("file,least", [("command", 40), ("background", 20), ("session", 30), ("files", 120)])
def test_execd(execd, file, least):
    failed, count = play(execd, file)
    assert not failed, "\n".join(failed)
    assert count >= least
