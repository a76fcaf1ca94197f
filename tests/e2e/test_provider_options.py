"""Options and keys on their way to a plugin: which source counts, what is refused before anything runs, who sees a secret."""

import json
import os
import resource
import signal
import sys

import pytest

from harness import ABX, wait_for

PROGRAM = f"""#!{sys.executable}
import json, os, sys

def say(message):
    print(json.dumps(dict(message, jsonrpc="2.0")), flush=True)

with open(os.environ["DEMO_SEEN"], "a") as seen:
    seen.write("started\\n")
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "initialize":
        given = request["params"]
        with open(os.environ["DEMO_SEEN"], "a") as seen:
            seen.write(json.dumps(given) + "\\n")
        say({{"id": request["id"], "result": {{"protocol": "epp/1", "features": ["list"]}}}})
    elif request["method"] == "sandbox.list" and os.environ.get("DEMO_SILENT"):
        pass
    elif request["method"] == "sandbox.list":
        say({{"id": request["id"], "error": {{"code": -32000, "message": "denied for " + given["options"].get("pin", "nobody"),
             "data": {{"code": "E2001"}}}}}} if os.environ.get("DEMO_DENY") else {{"id": request["id"], "result": {{"sandboxes": []}}}})
    else:
        say({{"id": request["id"], "result": {{}}}})
        if request["method"] == "shutdown":
            break
"""

MANIFEST = """schema = 1
id = "demo"
name = "Demo"
version = "1.0.0"
[runtime]
kind = "exec"
protocol = "epp/1"
command = ["./plugin"]
env = ["DEMO_SEEN", "DEMO_DENY", "DEMO_SILENT"]
features = ["list"]
[connection]
inherit = ["apiKey", "domain"]
[[options]]
name = "region"
type = "enum"
choices = ["eu", "us"]
default = "eu"
env = ["DEMO_REGION", "REGION"]
[[options]]
name = "size"
type = "int"
min = 1
max = 9
[[options]]
name = "fast"
type = "bool"
env = "DEMO_FAST"
[[options]]
name = "site"
type = "url"
[[options]]
name = "pin"
type = "string"
secret = true
required = true
env = "DEMO_PIN"
"""


class Demo:
    def __init__(self, abx):
        self.abx = abx
        self.seen = abx.folder / "seen"
        folder = abx.work / "demo"
        folder.mkdir()
        (folder / "abx-provider.toml").write_text(MANIFEST)
        (folder / "plugin").write_text(PROGRAM)
        (folder / "plugin").chmod(0o755)
        abx.env.update(ABX_PROVIDER="demo", DEMO_SEEN=str(self.seen), DEMO_PIN="pin-0123456789")

    def install(self, *flags):
        self.abx.ok("provider", "install", "./demo", "--yes", *flags)

    def given(self, *args, **more):
        """What the plugin was given when `ls` opened it."""
        self.seen.unlink(missing_ok=True)
        self.abx.ok(*args, "ls", **more)
        return json.loads(self.seen.read_text().splitlines()[-1])

    def options(self, *args, **more):
        return self.given(*args, **more)["options"]

    def refused(self, *args, code=2, drop=(), env=None):
        """The error of `ls`, which must not have started the plugin."""
        self.seen.unlink(missing_ok=True)
        r = self.abx(*args, "--json", "ls", code=code, drop=drop, env=env)
        assert not self.seen.exists(), "it was started"
        return r.error


@pytest.fixture
def demo(abx):
    d = Demo(abx)
    d.install()
    return d


def test_each_source_beats_the_next(demo):
    pin = {"pin": "pin-0123456789"}
    assert demo.options() == {"region": "eu", **pin}
    (demo.abx.home / "config.toml").write_text(
        '[providers.demo]\nregion = "us"\nsize = 3\nfast = true\n[profiles.p.providers.demo]\nsize = 4\n')
    (demo.abx.home / "config.toml").chmod(0o600)
    assert demo.options() == {"region": "us", "size": 3, "fast": True, **pin}
    assert demo.options("--profile", "p")["size"] == 4
    assert demo.options(env={"REGION": "eu", "DEMO_FAST": "off"}) == {"region": "eu", "size": 3, "fast": False, **pin}
    got = demo.options("-O", "region=us", "-O", "size=5", "-O", "size=6", "-O", "site=http://x", env={"REGION": "eu"})
    assert got == {"region": "us", "size": 6, "fast": True, "site": "http://x", **pin}


def test_nothing_runs_with_a_wrong_value(demo):
    e = demo.refused("-O", "size=10")
    assert e["code"] == "E1001" and "--option size must be a whole number from 1 up to 9, found '10'" in e["message"]
    e = demo.refused("-O", "sise=1")
    assert "has no option 'sise'" in e["message"] and "'size'" in e["hint"]
    e = demo.refused(env={"DEMO_FAST": "perhaps"})
    assert e["type"] == "ProviderConfigError" and "DEMO_FAST must be true or false" in e["message"]
    (demo.abx.home / "config.toml").write_text('[providers.demo]\nregion = "asia"\n')
    (demo.abx.home / "config.toml").chmod(0o600)
    e = demo.refused()
    assert e["type"] == "ProviderConfigError" and "config.toml:2" in e["message"] and "one of eu, us" in e["message"]
    (demo.abx.home / "config.toml").write_text('[providers.demo]\nregoin = "eu"\n')
    assert "unknown key 'providers.demo.regoin'" in demo.refused()["message"]


def test_a_missing_one_names_every_way(demo):
    e = demo.refused(drop=["DEMO_PIN"])
    assert e["code"] == "E1003" and e["message"] == "provider 'demo' needs the option 'pin', which is not set"
    assert "export DEMO_PIN=…" in e["hint"] and "abx config set providers.demo.pin -" in e["hint"] and "-O pin" not in e["hint"]


def test_secrets_by_reference_but_never_on_the_command_line(demo):
    e = demo.refused("-O", "pin=pin-9876543210")
    assert e["code"] == "E1001" and "does not belong on a command line" in e["message"]
    assert "9876" not in json.dumps(e)
    assert demo.options("-O", "pin=env:OTHER", env={"OTHER": "by variable"})["pin"] == "by variable"
    secret = demo.abx.home / "pin"
    secret.write_text("from a file\n")
    secret.chmod(0o600)
    demo.abx.ok("config", "set", "providers.demo.pin", "file:pin")
    assert demo.options(drop=["DEMO_PIN"])["pin"] == "from a file"
    secret.chmod(0o644)
    assert "chmod 600" in demo.refused(drop=["DEMO_PIN"])["hint"]


def test_common_keys_need_consent(demo):
    keys = {"ABX_API_KEY": "key-0123456789", "ABX_DOMAIN": "x.y", "ABX_ACCESS_KEY_SECRET": "never-asked-for"}
    given = demo.given(env=keys)
    assert given["core"] == {} and "key-0123456789" not in json.dumps(given)
    assert given["secretKeys"] == ["pin"]
    demo.install("--inherit", "apiKey")
    given = demo.given(env=keys)
    assert given["core"] == {"apiKey": "key-0123456789"} and set(given["secretKeys"]) == {"pin", "apiKey"}


def test_a_secret_in_an_answer_is_blanked(demo):
    for flags in (["-vv"], ["-vv", "--json"], []):
        r = demo.abx(*flags, "ls", code=4, env={"DEMO_DENY": "1", "ABX_LOG": "trace"})
        assert "pin-012345" not in r.errors and "denied for" in r.errors


def test_no_core_file_once_a_secret_of_a_plugin_is_loaded(demo):
    demo.seen.unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
        os.chdir(demo.abx.work)
        os.dup2(os.open("/dev/null", os.O_RDWR), 2)
        os.execve(ABX, [ABX, "ls"], demo.abx.environment({"DEMO_SILENT": "1"}))
    wait_for(lambda: demo.seen.exists() and "options" in demo.seen.read_text())
    os.kill(pid, signal.SIGSEGV)
    status = os.waitpid(pid, 0)[1]
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSEGV and not os.WCOREDUMP(status)
    assert [f for f in os.listdir(demo.abx.work) if f.startswith("core")] == []


def test_a_listing_of_all_providers_asks_it(demo):
    demo.seen.unlink(missing_ok=True)
    assert demo.abx.ok("ls", "--all-providers", "--json").json["sandboxes"] == []
    assert "initialize" not in demo.seen.read_text() and "demo" in demo.seen.read_text()
    e = demo.abx("-P", "deno", "--json", "ls", code=3).error
    assert e["type"] == "ProviderNotFoundError" and "'demo'" in e["hint"]
    folder = demo.abx.work / "demo"
    (folder / "abx-provider.toml").write_text(MANIFEST.replace('features = ["list"]', "features = []"))
    demo.abx.ok("provider", "install", "./demo", "--yes")
    r = demo.abx.ok("ls", "--all-providers")
    assert "nothing of 'demo' is listed" in r.errors
