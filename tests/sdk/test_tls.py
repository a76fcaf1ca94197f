"""The official clients over https, told nothing but the domain: `abx e2b serve --tls`, with a resolver of the test's."""

import json
import subprocess
import sys

import pytest

import door as doors
from door import HERE, LIMIT, NAMES, command

sys.path.insert(0, str(HERE.parent / "e2e"))

from names_lab import Names  # noqa: E402

DOMAIN = "boxes.test"
PYTHON = {"host": True, "command": "over tls\n", "file": 3000000, "port": True, "version": "HTTP/1.1", "signed": "by a signed url",
          "websocket": "there and back", "running": True, "killed": False, "code": "42"}
JS = {"host": True, "command": "over tls\n", "file": 3000000, "port": "a port by its name", "sent": 200, "signed": "by a signed url",
      "event": "new", "running": True, "killed": False, "code": "42"}


class Door(doors.Door):
    """A door in the place where its names are known."""

    def __init__(self, names):
        self.names = names
        super().__init__("--tls", "--domain", DOMAIN)

    def run(self, *words, **more):
        return super().run(*self.names.enter, *words, **more)


@pytest.fixture(scope="module")
def there():
    names = Names(DOMAIN)
    one = Door(names)
    yield one
    one.close()
    names.close()


@pytest.mark.parametrize("client", NAMES)
def test_all_by_names(there, client):
    assert "E2B_API_URL" not in there.variables and "E2B_SANDBOX_URL" not in there.variables
    python = client.startswith("python")
    words, more, folder = command(client, "python_tls.py" if python else "tls.mjs")
    done = subprocess.run([*there.names.enter, "env", "-C", str(folder), *words], env=there.environment(**more), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=LIMIT)
    seen = {one["what"]: one["seen"] for one in map(json.loads, done.stdout.splitlines())}
    assert seen == (PYTHON if python else JS), done.stderr[-3000:]
