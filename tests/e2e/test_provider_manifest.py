"""Manifests and options of plugins: validate, list, info, caps, use; what the configuration knows of them."""

import json

from test_schema import check_object

MANIFEST = """schema = 1
id = "demo"
name = "Demo"
version = "1.2.3"
description = "for tests"

[runtime]
kind = "exec"
protocol = "epp/1"
command = ["./plugin"]
env = ["DEMO_TRACE"]
features = ["list", "process", "process.attach"]

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
name = "pin"
type = "string"
secret = true
env = "DEMO_PIN"

[limits]
callTimeoutMs = 5000
"""


def plugin(abx, manifest=MANIFEST, name="demo", program="#!/bin/sh\nexit 3\n"):
    """A folder of a plugin."""
    folder = abx.work / name
    folder.mkdir(exist_ok=True)
    (folder / "abx-provider.toml").write_text(manifest)
    if program is not None:
        (folder / "plugin").write_text(program)
        (folder / "plugin").chmod(0o755)
    return folder


# --- validate -------------------------------------------------------------------------------------------------


def test_a_good_folder(abx):
    r = abx.ok("provider", "validate", plugin(abx))
    assert r.text == "demo 1.2.3 (exec, epp/1): no mistakes\n" and r.err == b""
    assert abx.ok("provider", "validate", "-q", "demo").out == b""
    got = abx.ok("provider", "validate", "--json", "demo").json
    assert got == {"valid": True, "id": "demo", "version": "1.2.3", "kind": "exec", "errors": 0, "warnings": 0, "problems": []}


def test_all_mistakes_at_once(abx):
    text = MANIFEST.replace('"1.2.3"', '"1.2"').replace("name = \"Demo\"", "nmae = \"Demo\"").replace('"int"', '"number"')
    text = text.replace('"list", ', '"teleport", ')
    plugin(abx, text)
    r = abx("provider", "validate", "demo", code=12)
    lines = r.text.splitlines()
    assert lines[0] == "demo/abx-provider.toml:1:1: error: 'name' is missing: it must be text: a name for people"
    assert "demo/abx-provider.toml:3:1: error: unknown key 'nmae', the nearest known one is 'name'" in lines
    assert any(line.startswith("demo/abx-provider.toml:4:1: error: 'version' must be a version such as") for line in lines)
    assert any(":12:13: warning: 'runtime.features[0]' is \"teleport\"" in line for line in lines)
    assert any(":26:1: error: 'options[1].type' must be one of" in line for line in lines)
    assert r.err == b""
    got = abx("provider", "validate", "--json", "demo", code=12).json
    assert got["valid"] is False and (got["errors"], got["warnings"]) == (4, 1)
    one = next(p for p in got["problems"] if p["key"] == "version")
    assert (one["severity"], one["line"], one["column"], one["found"]) == ("error", 4, 1, '"1.2"')
    assert one["code"] == "E8006" and "1.2.3" in one["expected"]
    places = [(p["line"], p["column"]) for p in got["problems"]]
    assert places == sorted(places)


def test_program_and_entry_are_looked_for(abx):
    folder = plugin(abx, program=None)
    r = abx("provider", "validate", folder, code=12)
    assert ":10:12: error: 'runtime.command[0]' is \"./plugin\": there is no such file in the folder" in r.text
    (folder / "plugin").symlink_to("/bin/sh")
    assert "it leaves the folder" in abx("provider", "validate", folder, code=12).text
    (folder / "plugin").unlink()
    (folder / "plugin").write_text("x")
    (folder / "plugin").chmod(0o644)
    assert "cannot be executed (mode 0644)" in abx("provider", "validate", folder, code=12).text
    plugin(abx, MANIFEST.replace("./plugin", "no-such-program-here"), program=None)
    r = abx.ok("provider", "validate", folder)
    assert "warning" in r.text and "neither in the folder nor on PATH" in r.text and "no mistakes" in r.text
    node = MANIFEST.replace('"exec"', '"node"').replace('"epp/1"', '"node/1"').replace('command = ["./plugin"]\n', "")
    plugin(abx, node.replace('env = ["DEMO_TRACE"]\n', ""))
    assert "'runtime.entry' is \"provider.mjs\": there is no such file" in abx("provider", "validate", folder, code=12).text


def test_files_that_are_no_manifest(abx):
    assert abx("provider", "validate", "--json", "nowhere", code=3).error["type"] == "ProviderNotFoundError"
    folder = abx.work / "demo"
    folder.mkdir()
    assert "there is no such file" in abx("provider", "validate", folder, code=12).text
    (folder / "abx-provider.toml").mkdir()
    assert "no ordinary file" in abx("provider", "validate", folder, code=12).text
    (folder / "abx-provider.toml").rmdir()
    (folder / "abx-provider.toml").symlink_to("/etc/passwd")
    assert "link that leaves the folder" in abx("provider", "validate", folder, code=12).text
    (folder / "abx-provider.toml").unlink()
    (folder / "abx-provider.toml").write_text("#" * 70000)
    assert "over 64 KiB" in abx("provider", "validate", folder, code=12).text
    (folder / "abx-provider.toml").write_bytes(b"schema = \xff\n")
    assert abx("provider", "validate", folder, code=12).text.startswith(str(folder))
    (folder / "abx-provider.toml").write_text("x = 1\n" + "".join(f"k{i} = 1\n" for i in range(300)))
    r = abx("provider", "validate", "--json", folder, code=12).json
    assert len(r["problems"]) == 100 and r["errors"] > 300


def test_python_and_a_newer_schema(abx):
    plugin(abx, MANIFEST.replace('kind = "exec"', 'kind = "python"'))
    got = abx("provider", "validate", "--json", "demo", code=12).json["problems"]
    assert [p["code"] for p in got] == ["E8002"] and 'command = ["python3", "provider.py"]' in got[0]["hint"]
    e = abx("provider", "info", "--json", "./demo", code=12).error
    assert (e["code"], e["type"]) == ("E8002", "ProviderKindError")
    plugin(abx, "schema = 7\nwhatever = true\n")
    got = abx("provider", "validate", "--json", "demo", code=12).json["problems"]
    assert [(p["key"], p["found"], p["expected"]) for p in got] == [("schema", "7", "1")]


# --- list, info, caps, use ---------------------------------------------------------------------------------------


def test_list_and_use(abx):
    drop = ["ABX_PROVIDER"]
    rows = {p["id"]: p for p in abx.ok("provider", "list", "--json", drop=drop).json["providers"]}
    assert rows["alicloud-express"]["chosen"] and rows["local"]["trust"] == "builtin"
    abx.ok("provider", "use", "local", "--dry-run", drop=drop)
    assert not (abx.home / "config.toml").exists()
    r = abx.ok("provider", "use", "local", drop=drop)
    assert r.out == b"" and r.err == b""
    assert abx.ok("config", "get", "provider", drop=drop).text == "local\n"
    rows = {p["id"]: p for p in abx.ok("provider", "list", "--json", drop=drop).json["providers"]}
    assert rows["local"]["chosen"] and not rows["alicloud-express"]["chosen"]
    e = abx("provider", "use", "lcoal", "--json", code=3).error
    assert e["code"] == "E3004" and "'local'" in e["hint"]
    r = abx.ok("provider", "use", "alicloud-express")  # ABX_PROVIDER is set
    assert "ABX_PROVIDER sets it" in r.errors
    table = abx.ok("provider", "list").text.splitlines()
    assert table[0].split() == ["ID", "VERSION", "KIND", "TRUST", "USED", "NAME"]
    assert abx.ok("provider", "list", "-q").text.split() == ["local", "alicloud-express"]


def test_info_of_a_folder(abx):
    plugin(abx)
    info = abx.ok("provider", "info", "--json", "./demo").json
    assert (info["id"], info["kind"], info["trust"], info["protocol"]) == ("demo", "exec", "folder", "epp/1")
    assert info["command"] == ["./plugin"] and info["env"] == ["DEMO_TRACE"] and info["callTimeoutMs"] == 5000
    assert info["inherit"] == ["apiKey", "domain"]
    options = {o["name"]: o for o in info["options"]}
    assert options["region"]["choices"] == ["eu", "us"] and options["region"]["default"] == "eu"
    assert options["size"]["min"] == 1 and options["pin"]["secret"] is True
    assert info["features"]["process"] == "native" and info["features"]["process.attach"] == "native"
    assert info["features"]["pty"] == "unsupported"
    text = abx.ok("provider", "info", "demo").text  # no such id: the folder of that name
    assert "options.region:" in text and "enum eu|us, default \"eu\", env DEMO_REGION|REGION" in text
    assert "features.pty" not in text
    assert abx("provider", "info", "nothing", code=3).errors.startswith("error: there is no provider 'nothing'")


def test_caps_side_by_side(abx):
    plugin(abx)
    got = abx.ok("provider", "caps", "--json", "local", "./demo").json["providers"]
    assert [p["id"] for p in got] == ["local", "demo"]
    assert got[0]["features"]["pty"] == "native" and got[1]["features"]["pty"] == "unsupported"
    lines = abx.ok("provider", "caps", "local", "./demo").text.splitlines()
    assert lines[0].split() == ["FEATURE", "local", "demo"]
    assert ["pty", "native", "unsupported"] in [line.split() for line in lines]
    assert ["process.attach", "-", "native"] in [line.split() for line in lines]
    everything = abx.ok("provider", "caps", "--json").json["providers"]
    assert {p["id"] for p in everything} >= {"local", "alicloud-express"}
    abx("provider", "caps", "nothing", code=3)


def test_output_has_the_fields_of_the_schema(abx):
    schema = abx.ok("schema").json
    plugin(abx)
    plugin(abx, MANIFEST.replace('"demo"', '"broken"').replace('"1.2.3"', '"1"').replace('"list"', '"x"'), name="broken")
    abx.ok("provider", "install", "./demo", "--yes")
    runs = [["list"], ["info", "demo"], ["info", "local"], ["info", "./demo"], ["caps"], ["use", "demo"], ["validate", "demo"]]
    for args, code in [(r, 0) for r in runs] + [(["validate", "broken"], 12)]:
        verb = next(v for v in schema["verbs"] if v["name"] == f"provider {args[0]}")
        r = abx("provider", *args, "--json", code=code, env={"DEMO_PIN": "0123456789"})
        assert r.out.count(b"\n") == 1
        check_object(schema, verb["output"]["object"], r.json, args)


# --- settings ------------------------------------------------------------------------------------------------------


def test_an_installed_plugin(abx):
    plugin(abx)
    abx.ok("provider", "install", "./demo", "--yes", "--inherit", "apiKey")
    rows = {p["id"]: p for p in abx.ok("provider", "list", "--json").json["providers"]}
    assert (rows["demo"]["version"], rows["demo"]["kind"], rows["demo"]["trust"]) == ("1.2.3", "exec", "local")
    abx.ok("config", "set", "providers.demo.pin", "-", input=b"hush-hush-9876\n")
    env = {"DEMO_REGION": "us"}
    info = abx.ok("provider", "info", "--json", "demo", env=env).json
    assert info["consent"] == ["apiKey"] and info["inherit"] == ["apiKey", "domain"]
    assert info["source"] == str(abx.work / "demo") and len(info["treeSha256"]) == 64
    options = {o["name"]: o for o in info["options"]}
    assert (options["region"]["value"], options["region"]["set"]) == ("us", "DEMO_REGION")
    assert options["pin"]["value"] == "****9876" and "config.toml" in options["pin"]["set"]
    assert "value" not in options["size"]
    assert info["features"]["process.stdin"] in ("emulated", "unsupported")
    text = abx.ok("provider", "info", "demo", env=env).text + abx.ok("config", "list", env={"ABX_PROVIDER": "demo"}).text
    assert "hush" not in text and "****9876" in text
    assert "demo" in abx.ok("provider", "caps").text.splitlines()[0]
    assert "missing" not in info
    abx.ok("provider", "use", "demo", drop=["ABX_PROVIDER"])
    assert abx.ok("provider", "list", drop=["ABX_PROVIDER"]).text.splitlines()[-1].split()[4] == "*"


def test_settings_of_an_installed_plugin(abx):
    plugin(abx)
    abx.ok("provider", "install", "./demo", "--yes")
    e = abx("config", "set", "--json", "providers.demo.sise", "1", code=2).error
    assert "'providers.demo.size'" in e["hint"]
    assert "from 1 up to 9" in abx("config", "set", "--json", "providers.demo.size", "0", code=2).error["message"]
    abx.ok("config", "set", "providers.demo.size", "5")
    assert "size = 5\n" in (abx.home / "config.toml").read_text()
    e = abx("config", "set", "--json", "providers.demo.pin", "hush-hush", code=2).error
    assert "no word of a command line" in e["message"]
    abx.ok("config", "set", "providers.demo.pin", "env:MY_PIN")
    assert abx.ok("config", "get", "providers.demo.pin").text == "env:MY_PIN\n"
    words = abx.ok("__complete", "--", "config", "set", "providers.demo.").text
    assert "providers.demo.region" in words and "providers.demo.api_key" in words
    assert "demo" in abx.ok("__complete", "--", "provider", "use", "de").text
    assert "demo" in abx.ok("__complete", "--", "-P", "de").text
    plugin(abx, MANIFEST.replace("secret = true", "secret = true\nrequired = true").replace("1.2.3", "1.2.4"))
    abx.ok("provider", "install", "./demo", "--yes")
    assert "missing" not in abx.ok("provider", "info", "--json", "demo").json
    abx.ok("config", "unset", "providers.demo.pin")
    assert abx.ok("provider", "info", "--json", "demo").json["missing"] == ["pin"]
    plugin(abx, MANIFEST.replace('"size"', '"width"').replace("1.2.3", "1.2.5"))  # what it does not know any more
    abx.ok("provider", "install", "./demo", "--yes")
    assert "providers.demo.size" in abx.ok("config", "list").text
    e = abx("-P", "demo", "--json", "ls", code=2).error
    assert "unknown key 'providers.demo.size'" in e["message"]
    abx.ok("config", "unset", "providers.demo.size")
    assert "size" not in (abx.home / "config.toml").read_text()


def test_a_link_whose_folder_is_gone_breaks_nothing(abx):
    folder = plugin(abx)
    abx.ok("provider", "link", "./demo", "--yes")
    assert abx.ok("provider", "info", "--json", "demo").json["trust"] == "link"
    folder.rename(abx.work / "elsewhere")
    abx.ok("provider", "list")
    caps = {p["id"]: p for p in abx.ok("provider", "caps", "--json").json["providers"]}
    assert "problem" in caps["demo"] and "features" in caps["local"]
    assert abx("provider", "info", "demo").code in (3, 12)
    abx.ok("config", "list", env={"ABX_PROVIDER": "demo"})
    abx.ok("run", "--", "true")


def test_a_plugin_that_is_not_installed_breaks_nothing(abx):
    abx.ok("config", "set", "providers.foo.whatever", "5")
    abx.ok("config", "set", "providers.foo.token", "-", input=b"abcdefghij\n")
    text = abx.ok("config", "list").text
    assert "providers.foo.whatever" in text and "abcdef" not in text and "****ghij" in text
    abx.ok("run", "--", "true")
    abx.ok("provider", "list")
    e = abx("create", "-P", "foo", "--json", code=3).error
    assert e["type"] == "ProviderNotFoundError"


def test_errors_as_json_have_code_and_hint(abx):
    plugin(abx, MANIFEST.replace("schema = 1", "schema = true"))
    e = abx("provider", "info", "./demo", "--json", code=12).error
    assert (e["code"], e["type"]) == ("E8006", "ProviderManifestError")
    assert "line 1, column 1" in e["message"] and "provider validate" in e["hint"]
    assert json.dumps(e)
