"""Settings: verbs, order of the sources, project files and trust, files that are wrong."""

import os
import re

import pytest


def setting(abx, key, **more):
    """(value, source) of a setting."""
    for s in abx.ok("config", "list", "--json", **more).json["settings"]:
        if s["key"] == key:
            return s.get("value"), s["source"]
    return None, None


def write(path, text, mode=0o600):
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_text(text)
    path.chmod(mode)


def test_set_get_unset(abx):
    abx.ok("config", "set", "provider", "local", drop=["ABX_PROVIDER"])
    assert abx.ok("config", "get", "provider", drop=["ABX_PROVIDER"]).text == "local\n"
    got = abx.ok("config", "get", "--json", "provider", drop=["ABX_PROVIDER"]).json
    assert got["value"] == "local" and got["source"] == "user" and "config.toml" in got["where"]
    file = abx.home / "config.toml"
    assert file.stat().st_mode & 0o777 == 0o600
    assert abx.home.stat().st_mode & 0o777 == 0o700
    abx.ok("run", "--", "true", drop=["ABX_PROVIDER"])
    abx.ok("config", "unset", "provider", drop=["ABX_PROVIDER"])
    assert setting(abx, "provider", drop=["ABX_PROVIDER"]) == ("alicloud-express", "default")


def test_comments_and_order_are_kept(abx):
    file = abx.home / "config.toml"
    write(file, "# mine\nprovider = \"local\" # why\n\n[providers.local]\n# option\nids = \"single\"\n")
    abx.ok("config", "set", "timeout", "2h")
    abx.ok("config", "set", "provider", "alicloud-express")
    text = file.read_text()
    assert "# mine" in text and "# why" in text and "# option" in text
    assert text.index("# mine") < text.index("provider") < text.index("[providers.local]")
    assert re.search(r"^timeout = ", text, re.M) and text.index("timeout") < text.index("[providers.local]")


def test_order_of_the_sources(abx):
    project = abx.work / "abx.toml"
    d = ["ABX_PROVIDER", "ABX_TIMEOUT"]
    assert setting(abx, "timeout", drop=d)[1] in ("default", None)
    write(abx.home / "config.toml", "timeout = \"1h\"\n[profiles.p]\ntimeout = \"3h\"\n")
    assert setting(abx, "timeout", drop=d) == ("1h", "user")
    write(project, "timeout = \"2h\"\n")
    assert setting(abx, "timeout", drop=d) == ("2h", "project")
    assert setting(abx, "timeout", drop=d, env={"ABX_PROFILE": "p"}) == ("3h", "profile")
    assert setting(abx, "timeout", drop=["ABX_PROVIDER"], env={"ABX_PROFILE": "p", "ABX_TIMEOUT": "4h"}) == ("4h", "env")
    (abx.work / ".git").mkdir()  # outside of a repository and of the home only the folder itself counts
    sub = abx.work / "sub" / "deeper"
    sub.mkdir(parents=True)
    assert setting(abx, "timeout", drop=d, cwd=sub) == ("2h", "project")


def test_a_flag_beats_all(abx):
    c = abx.ok("context", "--json", "-P", "local", env={"ABX_PROVIDER": "alicloud-express"}).json
    assert c["provider"] == "local" and "flag" in c["source"]
    c = abx.ok("context", "--json").json
    assert c["provider"] == "local" and "ABX_PROVIDER" in c["source"] or c["source"] == "env"
    assert "local" in abx.ok("context").text


def test_a_named_file(abx, tmp_path):
    other = tmp_path / "other.toml"
    write(other, "timeout = \"5h\"\n")
    assert setting(abx, "timeout", env={"ABX_CONFIG": str(other)})[0] == "5h"
    got = abx.ok("--config", other, "config", "get", "timeout")
    assert got.text == "5h\n"
    r = abx("--config", tmp_path / "none.toml", "config", "list", code=2)
    assert "none.toml" in r.errors
    abx("ls", env={"ABX_CONFIG": str(tmp_path / "none.toml")}, code=2)


def test_a_profile_that_is_not_there_locks_nobody_out(abx):
    assert "profiles.work" in abx("config", "set", "profile", "work", code=2).errors
    abx.ok("config", "set", "profiles.work.provider", "local")
    abx.ok("config", "set", "profile", "work")
    assert abx.ok("context", "--json").json["profile"] == "work"
    config = abx.home / "config.toml"
    config.write_text('profile = "gone"\n')
    abx("ls", code=2)
    abx.ok("config", "path")
    abx.ok("config", "unset", "profile")
    abx.ok("ls")


def test_an_unknown_profile(abx):
    r = abx("context", "--profile", "nosuch")
    assert r.code in (2, 3) and "nosuch" in r.errors


BAD = {
    "unknown key": ("provider = \"local\"\nprovder = \"x\"\n", 2, "provider"),
    "wrong type": ("\nprovider = 5\n", 2, None),
    "duplicate": ("provider = \"a\"\nprovider = \"b\"\n", 2, None),
    "wrong value": ("output = \"xml\"\n", 1, "json"),
    "no toml": ("provider = \n", 1, None),
    "unclosed": ("provider = \"local\n", 1, None),
    "unknown option": ("[providers.local]\nidz = \"single\"\n", 2, "ids"),
    "bad duration": ("timeout = \"5 parsecs\"\n", 1, None),
    "binary": ("\x00\x01\n", 1, None),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_names_file_line_and_key(abx, name):
    text, line, nearest = BAD[name]
    file = abx.home / "config.toml"
    write(file, text)
    for args in [["ls"], ["context"], ["create"]]:
        r = abx(*args, code=2)
        assert re.search(rf"'{re.escape(str(file))}', line {line}\b|{re.escape(str(file))}:{line}\b", r.errors), repr(r)
        if nearest:
            assert f"'{nearest}'" in r.errors or nearest in r.errors
    r = abx("run", "--", "true", code=125)
    assert "exitCode: 2" in r.errors


def test_a_refused_set_leaves_the_file(abx):
    abx.ok("config", "set", "timeout", "1h")
    before = (abx.home / "config.toml").read_bytes()
    for key, value in [("nosuch", "x"), ("timeout", "abc"), ("output", "xml"), ("providers.local.nosuch", "x"),
                       ("provider", "")]:
        abx("config", "set", key, value, code=2)
    abx("config", "get", "nosuch", code=2)
    assert (abx.home / "config.toml").read_bytes() == before


def test_secrets_are_not_shown(abx):
    r = abx("config", "set", "providers.alicloud-express.api_key", "sk-very-secret-9876", code=2)
    assert b"very-secret" not in r.err and "providers.alicloud-express.api_key -" in r.errors
    abx.ok("config", "set", "providers.alicloud-express.api_key", "env:MY_KEY")
    abx.ok("config", "set", "providers.alicloud-express.api_key", "-", input=b"sk-very-secret-9876\n")
    assert "sk-very-secret-9876" in (abx.home / "config.toml").read_text()
    for args in [["config", "list"], ["config", "list", "--json"], ["config", "get", "providers.alicloud-express.api_key"],
                 ["context", "-P", "alicloud-express"], ["create", "-P", "alicloud-express", "-vv"]]:
        r = abx(*args)
        assert b"very-secret" not in r.out + r.err, repr(r)
    r = abx("config", "list", env={"ABX_API_KEY": "sk-other-secret-1234"})
    assert b"other-secret" not in r.out


def test_a_secret_in_a_wide_file_is_refused(abx):
    file = abx.home / "config.toml"
    write(file, "[providers.alicloud-express]\napi_key = \"sk-very-secret-9876\"\n", 0o644)
    r = abx("ls", code=2)
    assert re.search(rf"chmod 600 '?{re.escape(str(file))}", r.errors)
    assert b"very-secret" not in r.err


def test_sandboxes_work_beside_a_secret(abx):
    """With a secret in its memory the program must not fork the sandbox itself, and still makes it."""
    write(abx.home / "config.toml", "[providers.alicloud-express]\napi_key = \"sk-very-secret-9876\"\n")
    a = abx.create()
    pid = abx.info(a)["pid"]
    if os.geteuid() == 0:
        found = False
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
            for line in maps:
                span, flags = line.split()[:2]
                if "r" not in flags or "[v" in line:
                    continue
                start, end = (int(x, 16) for x in span.split("-"))
                try:
                    mem.seek(start)
                    found |= b"very-secret-9876" in mem.read(end - start)
                except (OSError, OverflowError, ValueError):
                    pass
        assert not found
    assert abx.sh(a, "echo alive", code=0).text == "alive\n"
    assert abx("run", "--", "echo", "hi", code=0).out == b"hi\n"


def test_a_project_file_may_not_set_everything(abx):
    project = abx.work / "abx.toml"
    write(project, "[providers.alicloud-express]\napi_url = \"http://evil.example\"\n")
    r = abx("ls", code=2)
    assert re.search(r"abx\.toml(:2|', line 2)\b", r.errors) and "abx config trust" in r.errors
    abx.ok("config", "trust")
    abx.ok("ls")
    p = abx.ok("config", "path", "--json").json
    assert p["project"].endswith("abx.toml") and p["trusted"] is True
    assert p["user"] == str(abx.home / "config.toml") and p["home"] == str(abx.home)
    write(project, "[providers.alicloud-express]\napi_url = \"http://evil.example/2\"\n")
    r = abx("ls", code=2)
    assert "abx config trust" in r.errors


def test_a_project_file_may_choose(abx):
    write(abx.work / "abx.toml", "provider = \"local\"\n")
    abx.ok("run", "--", "true", drop=["ABX_PROVIDER"])
    assert abx.ok("config", "path").text.strip() == str(abx.home / "config.toml")


def test_the_search_for_a_project_file_stops(abx):
    """At the repository's root, and it is never taken from above it."""
    write(abx.folder / "abx.toml", "timeout = \"7h\"\n")
    (abx.work / ".git").mkdir()
    assert setting(abx, "timeout")[0] != "7h"


def test_variables_of_flags(abx):
    abx("ls", env={"ABX_OUTPUT": "xml"}, code=2)
    assert abx.ok("ls", env={"ABX_OUTPUT": "json"}).json == {"sandboxes": []}
    abx("create", env={"ABX_TIMEOUT": "abc"}, code=2)
    abx("ls", env={"ABX_LOG": "debug"}, code=0)
    r = abx("ls", "-o", "table", env={"ABX_OUTPUT": "json"})
    assert not r.out.startswith(b"{")


def test_options_of_the_provider(abx):
    r = abx("create", "-O", "nosuch=1", code=2)
    assert "nosuch" in r.errors and "ids" in r.errors
    abx("create", "-O", "ids=five", code=2)
    abx.ok("create", "-O", "ids=single")
