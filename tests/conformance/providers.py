"""How each provider of the conformance table is started: the one place that knows it, for the table and for the tests.

    with providers.start("rest") as provider:      # its service, its double, its program
        with provider.home() as place:             # a home of its own with the provider in it
            place.home                             # an Abx whose environment has all that the command line needs
            place.connection                       # all that the engine, the C library and the Python SDK need

`place.bare` is that environment without what is said of the provider: who passes the connection is told nothing else."""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/e2e"), str(ROOT / "tests/opensandbox")]

from door import Door  # noqa: E402
from faults import Fault, FaultProxy, answer  # noqa: E402
from harness import Abx, become_subreaper, reap, remove_tree  # noqa: E402

# A service of E2B's shape, described by a manifest alone.
FEATURES = ["connect", "list", "timeout", "pause", "metrics", "logs", "network", "process", "process.stdin", "filesystem",
            "filesystem.watch", "pty", "code", "code.contexts", "snapshot", "fork", "templates", "ports"]
MANIFEST = """schema = 1
id = "cloud"
name = "Cloud"
version = "0.1.0"
[runtime]
kind = "rest"
protocol = "e2b-rest/1"
features = FEATURES
[[options]]
name = "url"
type = "url"
env = "CLOUD_URL"
[[options]]
name = "token"
type = "string"
secret = true
env = "CLOUD_KEY"
[rest]
apiUrl = "{url}"
keyOption = "token"
dataPlaneUrl = "{api}"
""".replace("FEATURES", json.dumps(FEATURES))

EXEC_LANGUAGES = ["python", "node", "go", "bash", "c"]
BUILT = {"go": ["make", "-s"], "c": ["make", "-s"]}
PATH = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/local/go/bin"

MISSING = answer(404, "404 page not found", "text/plain")


class Front(FaultProxy):
    """A service of the dialects of the catalog: no newer routes, and the addresses of alicloud-container's private protocol."""

    def __init__(self, port):
        super().__init__(port)
        self.add_missing()

    def add_missing(self):
        self.add(Fault("POST /v2/sandboxes HTTP", answer=answer(405, "", "text/plain")),
                 Fault("POST /v2/sandboxes/", answer=MISSING), Fault("POST /kruise/api/v2/", answer=MISSING))

    def pass_on(self, client, head, rest, fault):
        head = re.sub(rb"^(\w+) /kruise/", rb"\1 /sandbox/", head.replace(b" /kruise/api/", b" /", 1))
        if b" /sandbox/" in head.split(b"\r\n")[0]:  # the path decides
            head = re.sub(rb"(?i)e2b-sandbox-(id|port):[^\r]*\r\n", b"", head)
        super().pass_on(client, head, rest, fault)


# --- services and doubles ----------------------------------------------------------------------------------


@contextlib.contextmanager
def backend():
    """A home that a service keeps its sandboxes in."""
    home = Abx(furnished=True)
    try:
        yield home
    finally:
        home.close()
        reap()


@contextlib.contextmanager
def e2b_service():
    """A service of E2B's shape: the E2B door of another home, over local."""
    with backend() as home:
        door = Door(home, "--provider", "local")
        try:
            yield door
        finally:
            door.stop()


@contextlib.contextmanager
def front_service():
    """The same behind a Front: (front, door)."""
    with e2b_service() as door, Front(door.port) as front:
        yield front, door


@contextlib.contextmanager
def opensandbox_service():
    from server import Server

    with backend() as home:
        server = Server(home)
        try:
            yield server
        finally:
            server.close()


# --- what a home and a connection need to say --------------------------------------------------------------


class Place:
    def __init__(self, home, variables, connection):
        self.home, self.connection = home, connection
        self.bare = home.environment()
        self.bare.pop("ABX_PROVIDER", None)
        home.env.update(variables, ABX_PROVIDER=connection["provider"])


class Provider:
    """One that is started. furnish(home): puts it into a home → (variables, connection)."""

    def __init__(self, name, furnish, service=None):
        self.name, self.furnish, self.service = name, furnish, service

    @contextlib.contextmanager
    def home(self):
        home = Abx(furnished=self.name == "local")
        try:
            yield Place(home, *self.furnish(home))
        finally:
            home("provider", "engine", "stop")
            home("e2b", "stop")
            home.close()
            reap()


def install(home, what):
    home.ok("provider", "install", what, "--yes")


@contextlib.contextmanager
def local(name):
    yield Provider(name, lambda home: ({}, {"provider": "local"}))


@contextlib.contextmanager
def rest(name):
    with e2b_service() as door:

        def furnish(home):
            folder = home.folder / "cloud"
            folder.mkdir()
            (folder / "abx-provider.toml").write_text(MANIFEST, encoding="utf-8")
            install(home, folder)
            return {"CLOUD_URL": door.url, "CLOUD_KEY": door.key}, {"provider": "cloud", "options": {"url": door.url, "token": door.key}}

        yield Provider(name, furnish, door)


@contextlib.contextmanager
def program(name):
    """What `abx provider new` writes in a language, built. Its sandboxes are folders that all homes see: the id is of this process alone, since
    whoever closes a home ends all that its provider lists."""
    id, language = f"{name}-{os.getpid()}", name.partition("-")[2]
    with backend() as source:
        folder = source.folder / id
        source.ok("provider", "new", id, "--lang", language, "--dir", folder)
        if language in BUILT:
            subprocess.run(BUILT[language], cwd=folder, check=True, timeout=300, stdin=subprocess.DEVNULL, env={**os.environ, "PATH": PATH})

        def furnish(home):
            home.env["PATH"] = PATH
            install(home, folder)
            return {}, {"provider": id}

        yield Provider(name, furnish)
        remove_tree(Path(tempfile.gettempdir()) / f"abx-{id}-{os.geteuid()}")


def e2b(front, door):
    return {"E2B_API_URL": door.url, "E2B_SANDBOX_URL": door.url, "E2B_API_KEY": door.key}, \
        {"api": door.url, "sandboxes": door.url, "key": door.key}


def cubesandbox(front, door):
    return {"CUBE_API_URL": front.url, "CUBE_API_KEY": door.key, "CUBE_TEMPLATE_ID": "base"}, \
        {"url": front.url, "key": door.key, "template": "base", "proxy": front.url}


def alicloud_container(front, door):
    domain = front.url.split("//")[1]
    return {"E2B_DOMAIN": domain, "E2B_API_KEY": door.key}, {"gateway-domain": domain, "key": door.key, "scheme": "http", "template": "base"}


# What there is a variable for, and all that there is an option for.
DIALECTS = {"e2b": e2b, "cubesandbox": cubesandbox, "alicloud-container": alicloud_container}
# Options without a variable: the configuration of a home has them.
CONFIGURED = {"cubesandbox": ["proxy"], "alicloud-container": ["scheme", "template"], "opensandbox": ["code-timeout"]}


def furnish_from_catalog(home, name, variables, options):
    """A provider of the program's own catalog, installed and set."""
    install(home, name)
    for option in CONFIGURED.get(name, []):
        home.ok("config", "set", f"providers.{name}.{option}", str(options[option]))
    return variables, {"provider": name, "options": options}


@contextlib.contextmanager
def dialect(name):
    with front_service() as (front, door):
        yield Provider(name, lambda home: furnish_from_catalog(home, name, *DIALECTS[name](front, door)), (front, door))


@contextlib.contextmanager
def opensandbox(name):
    with opensandbox_service() as server:
        variables = {"OPEN_SANDBOX_DOMAIN": server.domain, "OPEN_SANDBOX_API_KEY": server.key}
        options = {"server": server.domain, "key": server.key, "code-timeout": 3}
        yield Provider(name, lambda home: furnish_from_catalog(home, name, variables, options), server)


@contextlib.contextmanager
def express(name):
    with e2b_service() as door:
        said = {"apiKey": door.key, "apiUrl": door.url, "domain": f"localhost:{door.port}"}
        variables = {"ABX_API_KEY": door.key, "ABX_API_URL": door.url, "ABX_DOMAIN": said["domain"]}
        yield Provider(name, lambda home: (variables, {"provider": name, **said}), door)


STARTS = {"local": local, "rest": rest, **{f"exec-{language}": program for language in EXEC_LANGUAGES},
          **dict.fromkeys(DIALECTS, dialect), "opensandbox": opensandbox, "alicloud-express": express}


def start(name):
    return STARTS[name](name)
