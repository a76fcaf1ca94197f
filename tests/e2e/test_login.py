"""provider login and logout: a key is read without echo, tried, stored whole or not at all, and never shown."""

import os
import signal
import stat
import sys
import time

import pytest

from harness import ROOT, count, wait_for

PROGRAM = f"""#!{sys.executable}
import json, sys

def say(message):
    print(json.dumps(dict(message, jsonrpc="2.0")), flush=True)

for line in sys.stdin:
    request = json.loads(line)
    answer = {{"result": {{}}}}
    if request["method"] == "initialize":
        given = request["params"]
        answer = {{"result": {{"protocol": "epp/1", "features": FEATURES}}}}
    elif request["method"] == "sandbox.list":
        key = given["core"].get("apiKey", "")
        if key.startswith("slow"):
            continue
        code = "E2001" if not key.startswith("good") else "E6001" if key.endswith("lost") else ""
        if code:
            answer = {{"error": {{"code": -32000, "message": "the service says no", "data": {{"code": code}}}}}}
        else:
            answer = {{"result": {{"sandboxes": []}}}}
    say(dict(answer, id=request["id"]))
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
features = FEATURES
[connection]
inherit = ["apiKey", "apiUrl"]
[[options]]
name = "region"
type = "enum"
choices = ["eu", "us"]
"""
PIN = '[[options]]\nname = "pin"\ntype = "string"\nsecret = true\n'
KEY = "good-0123456789"


def install(abx, features='["list"]', more="", inherit="apiKey,apiUrl"):
    folder = abx.folder / "demo"
    folder.mkdir(exist_ok=True)
    (folder / "abx-provider.toml").write_text(MANIFEST.replace("FEATURES", features) + more)
    (folder / "plugin").write_text(PROGRAM.replace("FEATURES", features))
    (folder / "plugin").chmod(0o755)
    abx.ok("provider", "install", str(folder), "--yes", "--inherit", inherit)
    abx.env["ABX_PROVIDER"] = "demo"
    abx.file = abx.home / "config.toml"
    return abx


@pytest.fixture
def demo(abx):
    return install(abx)


def stored(abx):
    return abx.file.read_text() if abx.file.exists() else ""


def login(abx, key, *args, **more):
    return abx("provider", "login", *args, input=key.encode() + b"\n", **more)


# --- what is stored ------------------------------------------------------------------------------------------------


def test_a_key_that_works_is_stored_for_its_owner_only(demo):
    r = login(demo, KEY, "demo", "--json", "-vv", code=0)
    assert r.json == {"provider": "demo", "keys": ["api_key"], "file": str(demo.file), "tested": True}
    assert KEY.encode() not in r.out + r.err
    assert stored(demo) == f'[providers.demo]\napi_key = "{KEY}"\n'
    assert stat.S_IMODE(demo.file.stat().st_mode) == 0o600 and stat.S_IMODE(demo.home.stat().st_mode) == 0o700
    demo.ok("ls")
    shown = demo.ok("config", "list").text
    assert "****6789" in shown and KEY not in shown


@pytest.mark.once
def test_options_go_with_the_key_and_comments_stay(demo):
    demo.file.write_text('# mine\noutput = "table" # why\n')
    demo.file.chmod(0o600)
    login(demo, KEY, "--api-url", "https://api.example", "-O", "region=us", code=0)
    text = stored(demo)
    assert '# mine\noutput = "table" # why\n' in text
    for line in (f'api_key = "{KEY}"', 'api_url = "https://api.example"', 'region = "us"'):
        assert line in text
    login(demo, "good-other-9876", "--region", "eu", code=0)
    assert "good-other-9876" in stored(demo) and KEY not in stored(demo) and 'region = "eu"' in stored(demo)


@pytest.mark.once
def test_a_key_that_is_refused_changes_nothing(demo):
    login(demo, KEY, code=0)
    before = demo.file.read_bytes()
    r = login(demo, "bad-key-1234", "--json", code=4)
    assert r.error["code"] == "E2001" and r.error["hint"].startswith("nothing was stored")
    r = login(demo, "good-but-lost", code=8)
    assert "nothing was stored" in r.errors and "config set providers.demo.api_key -" in r.errors
    for args, text in [(["-O", "region=asia"], "one of eu, us"), (["--api-url", "ftp://x"], "https://"),
                       (["-O", "regoin=eu"], "no such option"), (["--domain", "x"], "takes no domain")]:
        r = login(demo, KEY, *args, code=2)
        assert text in r.errors, repr(r)
    assert demo.file.read_bytes() == before


@pytest.mark.once
def test_what_is_no_key(demo):
    for key, code in [("", 2), ("   ", 2), ("good key", 4), ("good\x1b[2J", 4), ("goodé", 4)]:
        r = login(demo, key, code=code)
        assert "good" not in r.errors
    demo("provider", "login", code=2)  # nothing on standard input
    assert "demo" not in stored(demo)
    login(demo, f"  {KEY}\t\r", code=0)  # as it was copied
    assert f'"{KEY}"' in stored(demo)


@pytest.mark.once
def test_a_reference_is_tried_and_stored_as_such(demo):
    login(demo, "env:MY_KEY", env={"MY_KEY": "bad"}, code=4)
    login(demo, "env:MY_KEY", code=2)  # no such variable
    login(demo, "env:MY_KEY", env={"MY_KEY": KEY}, code=0)
    assert 'api_key = "env:MY_KEY"' in stored(demo)
    (demo.home / "key").write_text(KEY + "\n")
    (demo.home / "key").chmod(0o600)
    login(demo, f"file:{demo.home}/key", code=0)
    assert f'api_key = "file:{demo.home}/key"' in stored(demo)
    demo.ok("ls")


@pytest.mark.once
def test_a_profile_has_keys_of_its_own(demo):
    demo.ok("config", "set", "profiles.work.provider", "demo")
    login(demo, KEY, code=0)
    r = login(demo, "good-at-work", "--profile", "work", "--json", code=0)
    assert r.json["profile"] == "work"
    assert f'[providers.demo]\napi_key = "{KEY}"' in stored(demo)
    assert '[profiles.work.providers.demo]\napi_key = "good-at-work"' in stored(demo)
    r = demo("provider", "logout", "--profile", "work", "--json", code=0)
    assert r.json["removed"] == ["profiles.work.providers.demo.api_key"]
    assert r.json["remaining"] == [{"key": "api_key", "where": f"{demo.file}:2"}] or KEY in stored(demo)
    assert "good-at-work" not in stored(demo) and KEY in stored(demo)


@pytest.mark.once
def test_what_comes_before_the_file_is_told(demo):
    r = login(demo, KEY, env={"ABX_API_KEY": "good-of-variable", "ABX_PROVIDER": "local"}, code=2)
    assert "takes no key" in r.errors
    r = login(demo, KEY, "demo", env={"ABX_API_KEY": "good-of-variable", "ABX_PROVIDER": "local"}, code=0)
    assert "that of ABX_API_KEY" in r.errors and "abx provider use demo" in r.errors
    r = demo("provider", "logout", "demo", env={"ABX_API_KEY": "good-of-variable"}, code=0)
    assert "still has api_key: that of ABX_API_KEY" in r.errors
    assert "of-variable" not in r.errors and KEY not in stored(demo)


@pytest.mark.once
def test_several_keys_come_a_line_each(abx):
    install(abx, more=PIN)
    login(abx, f"{KEY}\npin-0123456789", code=0)
    assert f'api_key = "{KEY}"' in stored(abx) and 'pin = "pin-0123456789"' in stored(abx)
    login(abx, "pin-other", "--setting", "pin", code=0)
    assert f'api_key = "{KEY}"' in stored(abx) and 'pin = "pin-other"' in stored(abx)
    r = login(abx, KEY, "-O", "pin=of-the-line", code=2)
    assert "does not belong on a command line" in r.errors
    login(abx, KEY, "--setting", "region", code=2)
    abx("provider", "logout", code=0)
    assert "pin" not in stored(abx) and "api_key" not in stored(abx)


@pytest.mark.once
def test_providers_that_cannot_be_asked_and_that_may_not_see(abx):
    install(abx, features='["process"]')
    r = login(abx, "whatever", "--json", code=0)
    assert r.json["tested"] is False and "not tested" in r.errors
    abx.ok("provider", "remove", "demo")
    r = abx("provider", "logout", code=0)  # what is not installed any more leaves no key behind
    assert "no longer" in r.errors and "whatever" not in stored(abx)
    install(abx, inherit="none")
    r = login(abx, KEY, code=2)
    assert "takes no key" in r.errors and "--inherit apiKey" in r.errors
    login(abx, KEY, "nosuch", code=3)
    abx("provider", "logout", "nosuch", code=3)


@pytest.mark.once
def test_a_dry_run_asks_for_no_key(demo):
    r = demo("provider", "login", "--dry-run", "--json", "--region", "eu", code=0)
    assert r.json["actions"][0]["params"]["keys"] == ["region", "api_key"]
    login(demo, KEY, code=0)
    before = demo.file.read_bytes()
    r = demo("provider", "logout", "--dry-run", "--json", code=0)
    assert r.json["actions"][0]["params"]["removed"] == ["providers.demo.api_key"]
    assert demo.file.read_bytes() == before
    r = demo("provider", "logout", code=0)
    assert "no longer" in r.errors and "good" not in stored(demo)
    r = demo("provider", "logout", code=0)  # again: nothing to do
    assert "no key" in r.errors


# --- on a terminal -------------------------------------------------------------------------------------------------


def test_nothing_is_echoed_and_the_terminal_is_restored(demo, terminal):
    t = terminal(demo, "provider", "login", "demo")
    seen = t.expect("api_key of demo: ")
    if not ROOT:  # the memory of the process is closed: its files in /proc are not ours
        assert os.stat(f"/proc/{t.process.pid}/environ").st_uid == 0
    t.write(KEY + "\n")
    assert t.end() == 0
    assert t.is_restored()
    assert KEY.encode() not in seen + t.seen and b"stored in" in t.seen
    assert KEY in stored(demo)


@pytest.mark.parametrize("how", ["ctrl-c", "term", "hangup", "late"])
def test_an_interrupt_leaves_all_as_it_was(demo, terminal, how):
    t = terminal(demo, "provider", "login", "demo")
    t.expect("api_key of demo: ")
    if how == "late":  # while the provider is asked
        t.write("slow-key\n")
        t.read(0.3)
        wait_for(t.is_restored)
        time.sleep(0.3)
    else:
        t.write("half a ke")
    if how in ("ctrl-c", "late"):
        t.write("\x03")
    else:
        t.process.send_signal(signal.SIGTERM if how == "term" else signal.SIGHUP)
    code = t.end()
    assert code == {"term": 143, "hangup": 129}.get(how, 130), t.seen
    assert t.is_restored() and "demo" not in stored(demo)


@pytest.mark.once
def test_nobody_is_asked_who_must_not_be(demo, terminal):
    t = terminal(demo, "provider", "login", "--no-input")
    assert t.end() == 2
    t = terminal(demo, "provider", "login", "--no-input", "--api-key-stdin")
    wait_for(lambda: not t.is_restored())
    t.write(KEY + "\n")
    assert t.end() == 0 and b"api_key of" not in t.seen
    login(demo, KEY, "--no-input", code=0)


@pytest.mark.once
def test_killed_at_any_moment_the_file_is_whole(demo):
    old = '# mine\n[providers.demo]\napi_key = "good-old"\nregion = "eu"\n'
    new = old.replace("good-old", KEY).replace('"eu"', '"us"')
    for i in range(count(8, 800)):
        demo.file.write_text(old)
        demo.file.chmod(0o600)
        p = demo.start("provider", "login", "--region", "us", stdin=-1)
        p.stdin.write(KEY.encode() + b"\n")
        p.stdin.close()
        time.sleep(0.005 * (i % 24))
        p.kill()
        p.wait()
        p.stdout.close()
        p.stderr.close()
        assert stored(demo) in (old, new)


# --- who is told what ----------------------------------------------------------------------------------------------


@pytest.mark.once
def test_errors_say_where_the_key_was_looked_for(demo):
    e = demo("ls", "--json", code=4).error
    assert f"looked for api_key in ABX_API_KEY, [providers.demo] of '{demo.file}', '/etc/abx/config.toml'" in e["message"]
    assert "abx provider login demo" in e["hint"]
    e = demo("ls", "--json", env={"ABX_API_KEY": "bad-0123456789"}, code=4).error
    assert e["message"] == "the service says no" and "api_key '****6789' comes from ABX_API_KEY" in e["hint"]
    assert "export another" in e["hint"]
    demo.file.write_text('[providers.demo]\napi_key = "bad-0123456789"\n[profiles.p.providers.demo]\napi_key = "env:K"\n')
    demo.file.chmod(0o600)
    e = demo("ls", "--json", code=4).error
    assert f"api_key '****6789' comes from '{demo.file}:2'" in e["hint"] and "abx provider login demo" in e["hint"]
    e = demo("ls", "--json", "--profile", "p", env={"K": "bad"}, code=4).error
    assert f"api_key 'env:K' comes from '{demo.file}:4'" in e["hint"]
    e = demo("ls", "--json", "--profile", "p", code=2).error
    assert "variable 'K'" in e["message"]
    demo.file.write_text('[profiles.p]\noutput = "wide"\n')
    e = demo("ls", "--json", "--profile", "p", code=4).error
    assert f"[profiles.p.providers.demo] and [providers.demo] of '{demo.file}'" in e["message"]


@pytest.mark.once
def test_errors_say_where_an_address_comes_from(demo):
    demo.file.write_text('[providers.demo]\napi_key = "good-lost"\napi_url = "https://api.example"\n')
    demo.file.chmod(0o600)
    e = demo("ls", "--json", code=8).error
    assert f"api_url is 'https://api.example' by {demo.file}:3" in e["hint"] and "abx config set providers.demo." in e["hint"]
    e = demo("ls", "--json", env={"ABX_API_URL": "https://other.example"}, code=8).error
    assert "api_url is 'https://other.example' by ABX_API_URL" in e["hint"]
    e = demo("ls", "--json", env={"ABX_API_URL": "other.example"}, code=2).error
    assert "ABX_API_URL must be an address that begins with https:// or http://" in e["message"]


@pytest.mark.once
def test_a_service_by_manifest_is_told_the_same(abx):
    folder = abx.folder / "cloud"
    folder.mkdir()
    (folder / "abx-provider.toml").write_text("""schema = 1
id = "cloud"
name = "Cloud"
version = "1.0.0"
[runtime]
kind = "rest"
protocol = "e2b-rest/1"
features = ["list"]
[connection]
inherit = ["apiKey", "apiUrl", "domain"]
[rest]
apiUrl = "http://127.0.0.1:1"
""")
    abx.env["ABX_PROVIDER"] = "cloud"
    abx.ok("provider", "install", str(folder), "--yes", "--inherit", "none")
    e = abx("ls", "--json", code=4).error
    assert e["hint"].count("--inherit apiKey") == 1
    abx.ok("provider", "install", str(folder), "--yes", "--inherit", "apiKey,apiUrl,domain")
    e = abx("ls", "--json", code=4).error
    assert "looked for api_key in ABX_API_KEY, [providers.cloud] of" in e["message"]
    assert e["hint"].count("abx provider login cloud") == 1
    e = abx("ls", "--json", env={"ABX_API_KEY": KEY}, code=8).error
    assert "'http://127.0.0.1:1' is what its manifest says" in e["hint"] and "providers.cloud" in e["hint"]
    e = abx("ls", "--json", env={"ABX_API_KEY": KEY, "ABX_DOMAIN": "a b"}, code=2).error
    assert "its domain 'a b' is no name of a host" in e["message"]
    r = login(abx, KEY, "--api-url", "http://127.0.0.1:1", code=8)
    assert "nothing was stored" in r.errors
