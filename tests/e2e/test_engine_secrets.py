"""What an engine's memory holds of a session's secrets when the session has ended: nothing, in whatever buffer of whatever library
they were."""

import base64
import contextlib
import re
import sys
import urllib.parse
from pathlib import Path

import pytest

from door import Door
from engine import Engine, connection
from faults import FaultProxy
from harness import ROOT, Abx, wait_for
from test_e2b_faults import certificate
from test_engine_life import install

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance"))
from providers import MANIFEST as REST  # noqa: E402

PIECE = 8


@pytest.fixture
def served(abx):
    """The program, whose engine is ended after the test."""
    yield abx
    abx("provider", "engine", "stop")


@pytest.fixture
def service(tmp_path):
    """A service over https: its proxy, its key."""
    other = Abx(furnished=True)
    door = Door(other, "--provider", "local")
    cert, key = certificate(tmp_path, "localhost")
    proxy = FaultProxy(door.port, cert=cert, key=key)
    proxy.certificate, proxy.secret = cert, door.key
    yield proxy
    proxy.close()
    door.stop()
    other.close()


def pieces_of(secret):
    """What would be left of it where the C library has written over its beginning: as it is, as part of an address, as base64."""
    forms = [secret.encode(), urllib.parse.quote(secret, safe="").encode()]
    for shift in range(3):
        coded = base64.b64encode(bytes(shift) + secret.encode())
        forms += [coded[4:-4], coded[4:-4].replace(b"+", b"-").replace(b"/", b"_")]
    return {form[i:i + PIECE] for form in forms for i in range(0, len(form) - PIECE + 1, PIECE)}


def found_in(pid, needles):
    """Which of these bytes the memory of a process holds."""
    found = set()
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            where, mode = line.split()[:2]
            if "r" not in mode or "[v" in line:
                continue
            low, high = (int(x, 16) for x in where.split("-"))
            memory.seek(low)
            with contextlib.suppress(OSError):
                held = memory.read(high - low)
                found |= {n for n in needles if n in held}
    return found


if ROOT:  # nobody else may look
    def test_the_secrets_of_a_session_end_with_it(served, service):
        """Of a program's session, of one over https with all that a sandbox is asked, of one whose key is refused."""
        boxes = install(served, "own", ["process"])
        cloud = served.folder / "cloud"
        cloud.mkdir()
        (cloud / "abx-provider.toml").write_text(REST, encoding="utf-8")
        served.ok("provider", "install", cloud, "--yes")
        engine = Engine(served, "--session-idle", "1s", env={"SSL_CERT_FILE": str(service.certificate)})
        secrets = ["only-this-test-knows-it", service.secret, "wr0ng/key+with&signs=in?it#%-and-more-of-it"]
        own = connection(provider="own", options={"boxes": boxes, "who": secrets[0]})
        rest, refused = (connection(provider="cloud", options={"url": f"https://localhost:{service.port}", "token": token})
                         for token in secrets[1:])
        for header in (own, rest):
            box = engine.create(header)
            engine("GET", f"/v1/sandboxes/{box}/processes", None, header, status=200)
            if header == rest:
                path = f"/v1/sandboxes/{box}"
                engine("PUT", f"{path}/files?path=a", bytes(100000), header, status=200)
                assert engine("GET", f"{path}/files?path=a", None, header, status=200).body == bytes(100000)
                ran = engine("POST", f"{path}/processes", {"cmd": ["echo", "hello"]}, header, status=200)
                assert b'"hello\\n"' in ran.body
                engine("GET", f"{path}/ports/8080", None, header, status=200)
                engine("GET", f"{path}/files?path=none", None, header, status=404)
            engine.kill(box, header)
        engine("GET", "/v1/sandboxes", None, refused, status=401)
        asked = "".join(service.requests)
        tokens = set(re.findall("(?i)x-access-token: ([^\r]+)", asked))
        assert len(tokens) == 1 and all(s in asked for s in secrets[1:])
        needles = set().union(*map(pieces_of, [*secrets, *tokens])) | {h.encode()[-60:] for h in (own, rest, refused)}
        token = engine.token.encode()
        # what is looked for can be found
        assert {token, secrets[1][16:].encode()} <= found_in(engine.pid, [token, secrets[1][16:].encode()])
        wait_for(lambda: served.ok("provider", "engine", "logs").text.count("' closed") == 3, "the sessions are closed", 60)
        wait_for(lambda: found_in(engine.pid, needles) == set(), "they are gone", 30)
        # the head of a request goes when its answer has gone out, whoever it was from
        engine("GET", "/v1/sandboxes", None, connection(provider="nosuch", apiKey="another-that-is-known-here"))
        gone = {*pieces_of("another-that-is-known-here")}
        wait_for(lambda: found_in(engine.pid, gone) == set(), "heads of requests are overwritten", 30)
